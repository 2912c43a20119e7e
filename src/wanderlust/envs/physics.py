"""The engines that move worlds: the only file that knows them. One signature, a batch of worlds per call.

`jax` runs worlds whose dynamics are a formula, inside or outside a compiled program. MuJoCo's engines join here.
"""

import dataclasses
from typing import Protocol

import jax
from jaxtyping import Array, Float

from wanderlust.envs.base import Physical, SelfStepping, World


class Engine(Protocol):
    """Moves a batch of worlds by one control step."""

    @property
    def compiles(self) -> bool:
        """Whether `step` may be called inside jit; if not, only the `split` driver can use the engine."""
        ...

    def step(self, state: Physical, action: Float[Array, "worlds action"]) -> Physical: ...


@dataclasses.dataclass(frozen=True)
class JaxEngine:
    """Worlds that step themselves by a formula."""

    world: SelfStepping
    compiles: bool = True

    def step(self, state: Physical, action: Float[Array, "worlds action"]) -> Physical:
        return jax.vmap(self.world.step)(state, action)


def make_engine(world: World) -> Engine:
    """The engine for a world."""
    if isinstance(world, SelfStepping):
        return JaxEngine(world)
    raise TypeError(f"no engine moves {type(world).__name__}: it has no step of its own")
