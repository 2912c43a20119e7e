"""What a skill-discovery method is: a reward computed from a learned network, and how that network learns.

Every method is a frozen dataclass of pure functions in a file of its own, in the same order of sections: state,
reward, loss, update, what it offers downstream. Observations arrive as the method's view shows them (`views.py`).
"""

from typing import Any, ClassVar, NamedTuple, Protocol

from jaxtyping import Array, Bool, Float, Key

from wanderlust.config import StageConfig
from wanderlust.envs.spec import Transition
from wanderlust.errors import UserError
from wanderlust.methods.skills import DiscreteSkills, SkillSpace

Metrics = dict[str, Float[Array, ""]]


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

    learns_network: ClassVar[bool] = True
    """Whether `update` trains a network; without one, only the policy learns."""

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

    def represent(self, state: Any, obs: Float[Array, "batch obs"]) -> Float[Array, "batch code"]:
        """phi of a batch of observations."""
        ...

    def towards(
        self, state: Any, obs: Float[Array, "batch obs"], goal: Float[Array, "batch obs"]
    ) -> Float[Array, "batch skill"]:
        """The skill that leads from each observation to its goal, with no further training."""
        ...


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
