"""What a skill-discovery method is: a reward computed from a learned network, and how that network learns.

Every method is a frozen dataclass of pure functions in a file of its own, in the same order of sections: state,
reward, loss, update, what it offers downstream. Observations arrive as the method's view shows them (`views.py`).
"""

from typing import Any, Protocol

from jaxtyping import Array, Float, Key

from wanderlust.errors import UserError
from wanderlust.skills import DiscreteSkills, SkillSpace
from wanderlust.types import Transition

Metrics = dict[str, Float[Array, ""]]


class Method(Protocol):
    """Pure functions over a state that only the method understands."""

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


def discrete_only(method: str, skills: SkillSpace, usual: int) -> None:
    """Refuse continuous skills for a method that has none."""
    if not isinstance(skills, DiscreteSkills):
        raise UserError(f"{method} has discrete skills only; say how many with --discrete {usual}")
