"""A world without a task: nothing is rewarded, and who learns there brings a reward."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from wanderlust.downstream.tasks.base import Score
from wanderlust.envs import World


@dataclasses.dataclass(frozen=True)
class FreeTask:
    """Episodes as the world has them, and a reward of zero."""

    env: str
    horizon: int
    most: float = 0.0
    entries: int = 0

    @property
    def name(self) -> str:
        return f"{self.env} without a task"

    def arrange(self, world: World) -> World:
        return world

    def begin(self, obs: Float[Array, " obs"], key: Key[Array, ""]) -> tuple[()]:
        return ()

    def step(
        self, state: tuple[()], obs: Float[Array, " obs"], age: Int[Array, ""], key: Key[Array, ""]
    ) -> tuple[tuple[()], Score]:
        return (), Score(jnp.zeros(()), jnp.zeros((), bool), age >= self.horizon)

    def observe(self, state: tuple[()], obs: Float[Array, " obs"]) -> Float[Array, " entries"]:
        return jnp.zeros(0)
