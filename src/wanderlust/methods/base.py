"""What a skill-discovery method is: a reward computed from a learned network, and how that network learns.

A method is a frozen dataclass of pure functions in a file of its own. The same file describes it: its configuration,
the skills it takes, what its transitions must carry, its stages. One line of `registry.py` makes it known; a package of
your own calls `wanderlust.register_method` or has an entry point. Observations arrive as the method's view shows them
(`views.py`).
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from wanderlust.config import MethodConfig, RunConfig, SkillConfig, StageConfig, StagedConfig
from wanderlust.envs.spec import EnvSpec, Transition
from wanderlust.errors import UserError
from wanderlust.methods.skills import SkillKind, SkillSpace, along
from wanderlust.rl.nets import MLP, Policy
from wanderlust.rl.nets import Metrics as Metrics  # what `update` returns beside the state
from wanderlust.rl.sac import SacState

GoalRule = Literal["direction", "goal", "own"] | None
"""How a method picks a skill for a goal: along phi(goal) - phi(obs), equation 12 of the LSD paper; by what phi says of
the goal alone; by a rule of its own; None: it cannot."""
NOTHING: Any = ()
"""In a state that was loaded for use, what only learning needs."""


@dataclasses.dataclass(frozen=True)
class Method(abc.ABC):
    """Pure functions over a state that only the method understands."""

    config: MethodConfig
    skills: SkillSpace

    # --- what it says of itself --------------------------------------------------------------------------------

    Config: ClassVar[type[MethodConfig]] = MethodConfig
    """A subclass for a method with numbers of its own."""
    State: ClassVar[type[Any]]
    """The class of its state; fields that use does not need (`kept`) have defaults. Or `restored` is its own."""
    summary: ClassVar[str] = ""
    """One line for `wanderlust list`; those of ours are in `registry.py`."""
    takes: ClassVar[tuple[SkillKind, ...]] = ("continuous", "discrete")
    """The skills it can learn."""
    usual_skills: ClassVar[SkillConfig] = SkillConfig()
    """The skills it learns by default."""
    entropy: ClassVar[float | None] = 1.0
    """SAC's alpha as a multiple of LSD's in the same recipe; None lets SAC adjust it."""
    in_units: ClassVar[bool] = False
    """Whether its reward is a distance in what its network sees, which grows with how far a body gets."""
    keeps_start: ClassVar[bool] = False
    """Whether transitions carry the first observation of their episode (`Transition.start`)."""
    sees: ClassVar[tuple[str, ...]] = ()
    """Groups of the observation that its network sees, raw, whatever the world's focus and the variant are."""
    adds: ClassVar[bool] = False
    """Whether its reward may be added to that of another method (`--with`)."""
    learns_network: ClassVar[bool] = True
    """Whether `update` trains a network; without one, only the policy learns."""
    stages: ClassVar[tuple[str, ...]] = ()
    """Names of all stages, in order, of a method that learns in several. Its configuration is then a `StagedConfig`."""

    @classmethod
    def adapt(cls, config: RunConfig) -> RunConfig:
        """A recipe's configuration with what this method cannot do without."""
        return config

    def __post_init__(self) -> None:
        if self.skills.kind not in self.takes:
            usual = self.usual_skills
            number = f"say how many with --discrete {usual.size}"
            advice = number if usual.kind == "discrete" else "leave --discrete out"
            raise UserError(
                f"{self.config.name} takes {' or '.join(self.takes)} skills, not {self.skills.kind} ones; {advice}"
            )

    @property
    def block(self) -> int:
        """Steps over which transitions carry how far they led (`Transition.drift`); 0: they do not."""
        return 0

    @property
    def hold(self) -> int | None:
        """Steps after which training draws another skill or subgoal; None: `schedule.hold` says."""
        return None

    @property
    def episodes(self) -> int:
        """Whole episodes that `update` reads at a time, as a batch [episodes, steps]; 0: it reads transitions."""
        return 0

    def for_world(self, spec: EnvSpec) -> "Method":
        """The same with what it must know of a world; one that lacks a group it looks at is refused."""
        if missing := [name for name in self.sees if name not in spec.groups]:
            raise UserError(
                f"{self.config.name} looks at the groups {' and '.join(self.sees)} of the observation, and {spec.name} "
                f"has no group {' and no group '.join(missing)} (it has {', '.join(spec.groups)})"
            )
        return self

    @property
    def high_level(self) -> "HighLevelMethod | None":
        """The method itself if it sets subgoals for the frozen policy of an earlier stage."""
        return None

    # --- learning ----------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def init(self, key: Key[Array, ""], obs_dim: int) -> Any:
        """A fresh state for observations of `obs_dim` entries."""

    @abc.abstractmethod
    def reward(self, state: Any, batch: Transition) -> Float[Array, " batch"]:
        """The intrinsic reward of a batch under the current state; learning multiplies it by `config.reward_scale`."""

    @abc.abstractmethod
    def update(self, state: Any, batch: Transition) -> tuple[Any, Metrics]:
        """One gradient step of the method's own network."""

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.config.learning_rate)

    def start_last_stage(self, first: "FirstStage") -> "LastStageStart | None":
        """What the last stage starts from, made of what the first has learned; None if it was interrupted."""
        raise NotImplementedError(f"{self.config.name} has one stage")

    # --- use ---------------------------------------------------------------------------------------------------

    kept: ClassVar[tuple[str, ...]] = ("encoder",)
    """Fields of the state that use needs; what `load` reads and the zoo stores beside the policy."""
    plans: ClassVar[bool] = False
    """Whether it has skill dynamics, `predict`, over which a skill for a goal can be planned."""

    @property
    def goal_rule(self) -> GoalRule:
        """How `towards` picks a skill; a class attribute in methods that have one rule."""
        return "own"

    def restored(self, kept: Mapping[str, Any]) -> Any:
        """The state as far as use goes, made of the fields that are kept; compiled."""
        return self.State(**kept)

    def network(self, state: Any) -> MLP | None:
        """The network behind phi, as it is used; None for methods without a map of states."""
        network: MLP | None = getattr(state, "encoder", None)
        return network

    def represent(self, state: Any, obs: Float[Array, "batch obs"]) -> Float[Array, "batch code"]:
        """phi of a batch of observations; NaN where there is no map of states, and so nothing to measure on it."""
        network = self.network(state)
        return jnp.full((len(obs), self.skills.size), jnp.nan) if network is None else jax.vmap(network)(obs)

    def towards(
        self, state: Any, obs: Float[Array, "batch obs"], goal: Float[Array, "batch obs"]
    ) -> Float[Array, "batch skill"]:
        """The skill that leads from each observation to its goal, with no further training.

        "direction" is equation 12 of the LSD paper: along phi(g) - phi(s), at the usual length; of discrete skills the
        one whose code points there best. "goal" is the likeliest skill at the goal, along phi(g).
        """
        network = self.network(state)
        if network is None or self.goal_rule not in ("direction", "goal"):
            planned = "it plans: wanderlust downstream RUN --task TASK --controller mppi; " if self.plans else ""
            raise UserError(f"{self.config.name} cannot choose a skill for a goal; {planned}lsd, metra and diayn can")
        there = jax.vmap(network)(goal)
        return along(self.skills, there - jax.vmap(network)(obs) if self.goal_rule == "direction" else there)

    def predict(
        self, state: Any, obs: Float[Array, "batch obs"], skill: Float[Array, "batch skill"]
    ) -> Float[Array, "batch obs"]:
        """The mean change s' - s under a skill, of methods that plan."""
        raise TypeError(f"{self.config.name} has no skill dynamics")


# --- methods of two levels -------------------------------------------------------------------------------------


class Trajectories(NamedTuple):
    """Whole episodes as a high-level policy sees them: a state and a subgoal for each of its decisions."""

    obs: Float[Array, "episodes time obs"]
    goal: Float[Array, "episodes time goal"]
    parameter: Float[Array, "episodes skill"]
    """The skill by which the sampling policy made the episode."""
    valid: Bool[Array, "episodes time"]
    """False once the episode is over."""


class HighLevelMethod(Method):
    """A method that acts every `hold` steps by setting a subgoal for a frozen policy.

    It learns from trajectories: no step has a reward.
    """

    config: StagedConfig

    @property
    def high_level(self) -> "HighLevelMethod":
        return self

    @property
    def lower(self) -> StageConfig:
        """The stage whose policy follows the subgoals."""
        return self.config.first

    @abc.abstractmethod
    def goal_policy(self, state: Any, collecting: bool) -> Any:
        """What sets subgoals: when skills are used, or while trajectories to learn from are collected."""

    @abc.abstractmethod
    def goal(
        self, policy: Any, obs: Float[Array, " obs"], skill: Float[Array, " skill"], key: Key[Array, ""] | None
    ) -> Float[Array, " goal"]:
        """The subgoal set in a state: the likeliest, or one that is drawn if there is a key."""

    @abc.abstractmethod
    def learn(self, state: Any, batch: Trajectories, key: Key[Array, ""]) -> tuple[Any, Metrics]:
        """One gradient step."""

    @abc.abstractmethod
    def update_statistics(self, state: Any, batch: Trajectories) -> Any:
        """Move observation statistics, after an epoch's last gradient step."""

    def reward(self, state: Any, batch: Transition) -> Float[Array, " batch"]:
        raise TypeError(f"{self.config.name} learns from trajectories; steps have no reward")

    def update(self, state: Any, batch: Transition) -> tuple[Any, Metrics]:
        raise TypeError(f"{self.config.name} learns from trajectories: `learn`")


# --- methods of several stages ---------------------------------------------------------------------------------


class ProgressLine(Protocol):
    """The line that shows how far a long computation is."""

    def update(self, done: int, facts: str) -> None: ...


@dataclasses.dataclass(frozen=True)
class FirstStage:
    """What an earlier stage leaves to the method that builds on it; arrays lead with the seed axis."""

    policy: Callable[[], Policy]
    states: Callable[[], tuple[int, Float[Array, "seeds room obs"], Int[Array, " seeds"]]]
    """The epoch of its newest checkpoint, the states in its replay as the method sees them, and how many there are."""
    folder: Path
    """Of the run that is being trained; the method may keep files there."""
    seeds: range
    obs_dim: int
    """Entries of what the method sees."""
    each_seed: Callable[[Callable[..., Any]], Callable[..., Any]]
    """Maps a function over the seed axis."""
    progress: Callable[[int, str], AbstractContextManager[ProgressLine]]
    """Shows how far it is: (total, unit)."""
    say: Callable[[str], None]
    interrupted: Callable[[], bool]
    """Whether Ctrl-C has been pressed; long computations ask now and then, and stop."""


class LastStageStart(NamedTuple):
    """What a last stage starts from; what is None starts fresh."""

    sac: SacState | None = None
    method: Any = None
