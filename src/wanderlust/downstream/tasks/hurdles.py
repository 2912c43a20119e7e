"""CheetahHurdle (the paper's appendix): run forward over bars.

A bar is passed when the back foot is beyond it, and pays 1; going back over it costs 1. Only bars ahead of the start
count, so an episode pays at most 7. The bars are part of the model (`envs/worlds/half_cheetah.py`), so passing means
getting over, and so is the sensor that reads where the foot is.
Their places, the observation and the rule are those of public code that follows the paper.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from wanderlust.downstream.tasks.base import Score
from wanderlust.envs import World
from wanderlust.envs.worlds.half_cheetah import HalfCheetah

BARS = (-15.0, -13.0, -9.0, -5.0, -1.0, 3.0, 7.0, 11.0, 15.0, 19.0, 23.0, 27.0)
AFTER_THE_LAST = 15.0
"""What is observed as the next bar beyond the last one."""


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class HurdleTask:
    """Pass bars; observed are the next one's x and how far the back foot is from it."""

    name: str = "cheetah-hurdle"
    env: str = "half-cheetah"
    horizon: int = 200
    reward: float = 1.0
    entries: int = 2

    @property
    def most(self) -> float:
        return self.reward * sum(bar >= 0 for bar in BARS)

    def arrange(self, world: World) -> World:
        if not isinstance(world, HalfCheetah):
            raise TypeError(f"no bars can be laid across the way of {type(world).__name__}")
        return world.with_bars(BARS)

    def begin(self, obs: Float[Array, " obs"], key: Key[Array, ""]) -> Int[Array, ""]:
        """How many bars are still to be passed."""
        bars = jnp.array(BARS)
        return jnp.sum((bars >= 0) & (bars >= back_foot_x(obs)), dtype=jnp.int32)

    def step(
        self, state: Int[Array, ""], obs: Float[Array, " obs"], age: Int[Array, ""], key: Key[Array, ""]
    ) -> tuple[Int[Array, ""], Score]:
        remaining = self.begin(obs, key)
        passed = (state - remaining).astype(jnp.float32)
        return remaining, Score(self.reward * passed, jnp.zeros((), bool), age >= self.horizon)

    def observe(self, state: Int[Array, ""], obs: Float[Array, " obs"]) -> Float[Array, "2"]:
        foot, bars = back_foot_x(obs), jnp.array(BARS)
        ahead = bars >= foot
        following = jnp.where(jnp.any(ahead), jnp.min(jnp.where(ahead, bars, jnp.inf)), AFTER_THE_LAST)
        return jnp.array([following, jnp.abs(following - foot)])


def back_foot_x(obs: Float[Array, " obs"]) -> Float[Array, ""]:
    """The x of HalfCheetah's back foot: what the sensor behind the observation reads."""
    return obs[-3]
