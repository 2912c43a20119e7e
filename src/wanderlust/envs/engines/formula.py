"""The engine `jax`: worlds whose dynamics are a formula."""

import dataclasses

import jax
from jaxtyping import Array, Float

from wanderlust.config import EngineName
from wanderlust.envs.base import SelfStepping, WorldState


@dataclasses.dataclass(frozen=True)
class JaxEngine:
    """Worlds that step themselves by a formula."""

    world: SelfStepping
    compiles: bool = True
    name: EngineName = "jax"

    def step(self, state: WorldState, action: Float[Array, "worlds action"]) -> WorldState:
        return jax.vmap(self.world.step)(state, action)

    def for_callers(self, count: int) -> "JaxEngine":
        return self

    def check(self) -> None:
        pass
