"""The engine `jax`: worlds whose dynamics are a formula."""

import dataclasses

import jax
from jaxtyping import Array, Float

from wanderlust.config import EngineName
from wanderlust.envs.base import SelfStepping, WorldState
from wanderlust.envs.engines.base import Engine


@dataclasses.dataclass(frozen=True)
class JaxEngine(Engine):
    """Worlds that step themselves by a formula."""

    world: SelfStepping
    compiles: bool = True
    name: EngineName = "jax"

    def step(self, state: WorldState, action: Float[Array, "worlds action"]) -> WorldState:
        return jax.vmap(self.world.step)(state, action)
