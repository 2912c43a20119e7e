"""What a skill-discovery method is: a reward computed from a learned network, and how that network learns.

Every method is a frozen dataclass of pure functions in a file of its own, in the same order of sections: state,
reward, loss, update, what it offers downstream. Observations arrive as the method's view shows them (`views.py`).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import jax
from jaxtyping import Array, Bool, Float, Key

from wanderlust.config import StageConfig
from wanderlust.envs.spec import Transition
from wanderlust.errors import UserError
from wanderlust.methods.skills import DiscreteSkills, SkillSpace, along
from wanderlust.rl.nets import MLP

Metrics = dict[str, Float[Array, ""]]
GoalRule = Literal["direction", "goal", "own"] | None
"""How a method picks a skill for a goal: along phi(goal) - phi(obs), equation 12 of the LSD paper; by what phi says of
the goal alone; by a rule of its own; None: it cannot."""


class Trajectories(NamedTuple):
    """Whole episodes as an upper level sees them: a state and a goal for each of its decisions."""

    obs: Float[Array, "episodes time obs"]
    goal: Float[Array, "episodes time goal"]
    parameter: Float[Array, "episodes skill"]
    """The skill by which the sampling policy made the episode."""
    valid: Bool[Array, "episodes time"]
    """False once the episode is over."""


class Method(Protocol):
    """Pure functions over a state that only the method understands. Methods inherit what they do not define."""

    skills: SkillSpace

    @property
    def block(self) -> int:
        """Steps over which transitions carry how far they led (`Transition.drift`); 0: they do not."""
        return 0

    @property
    def hold(self) -> int | None:
        """Steps after which training draws another skill or sets another goal; None: `schedule.hold` says."""
        return None

    @property
    def upper(self) -> "UpperLevel | None":
        """The method itself if it sets goals for the frozen policy of an earlier stage."""
        return None

    def init(self, key: Key[Array, ""], obs_dim: int) -> Any:
        """A fresh state for observations of `obs_dim` entries."""
        ...

    def reward(self, state: Any, batch: Transition) -> Float[Array, " batch"]:
        """The intrinsic reward of a batch under the current state."""
        ...

    def update(self, state: Any, batch: Transition) -> tuple[Any, Metrics]:
        """One gradient step of the method's own network."""
        ...

    # --- downstream --------------------------------------------------------------------------------------------

    kept: ClassVar[tuple[str, ...]] = ("encoder",)
    """Fields of the state that use needs; what `load` reads and the zoo stores beside the policy."""
    plans: ClassVar[bool] = False
    """Whether it has skill dynamics, `predict`, over which a skill for a goal can be planned."""

    @property
    def goal_rule(self) -> GoalRule:
        """How `towards` picks a skill."""
        return "own"

    def restored(self, kept: Mapping[str, Any]) -> Any:
        """The state as far as use goes, made of the fields that are kept; compiled."""
        ...

    def network(self, state: Any) -> MLP | None:
        """The network behind phi, as it is used; None for methods without a map of states."""
        network: MLP = state.encoder
        return network

    def represent(self, state: Any, obs: Float[Array, "batch obs"]) -> Float[Array, "batch code"]:
        """phi of a batch of observations."""
        network = self.network(state)
        if network is None:
            raise NotImplementedError("a method without a network says itself how it represents states")
        return jax.vmap(network)(obs)

    def towards(
        self, state: Any, obs: Float[Array, "batch obs"], goal: Float[Array, "batch obs"]
    ) -> Float[Array, "batch skill"]:
        """The skill that leads from each observation to its goal, with no further training; by default that of
        `goal_rule`. Discrete skills: the one whose code points there best.
        """
        there = self.represent(state, goal)
        return along(self.skills, there - self.represent(state, obs) if self.goal_rule == "direction" else there)

    def predict(
        self, state: Any, obs: Float[Array, "batch obs"], skill: Float[Array, "batch skill"]
    ) -> Float[Array, "batch obs"]:
        """The mean change s' - s under a skill, of methods that plan."""
        raise NotImplementedError("this method has no skill dynamics")


class UpperLevel(Method, Protocol):
    """A method that acts every `hold` steps by setting a goal for a policy that learns no more.

    It learns from trajectories: no step has a reward.
    """

    @property
    def lower(self) -> StageConfig:
        """The stage whose policy follows the goals."""
        ...

    def lead_sampling(self, state: Any) -> Any:
        """What sets goals while trajectories to learn from are collected."""
        ...

    def lead_skills(self, state: Any) -> Any:
        """What sets goals when skills are used."""
        ...

    def goal(
        self, lead: Any, obs: Float[Array, " obs"], skill: Float[Array, " skill"], key: Key[Array, ""] | None
    ) -> Float[Array, " goal"]:
        """The goal set in a state: the likeliest, or one that is drawn if there is a key."""
        ...

    def learn(self, state: Any, batch: Trajectories, key: Key[Array, ""]) -> tuple[Any, Metrics]:
        """One gradient step."""
        ...

    def follow(self, state: Any, batch: Trajectories) -> Any:
        """Move observation statistics, after an epoch's last gradient step."""
        ...


def discrete_only(method: str, skills: SkillSpace, usual: int) -> None:
    """Refuse continuous skills for a method that has none."""
    if not isinstance(skills, DiscreteSkills):
        raise UserError(f"{method} has discrete skills only; say how many with --discrete {usual}")
