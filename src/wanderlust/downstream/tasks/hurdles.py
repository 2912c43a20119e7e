"""CheetahHurdle (the paper's appendix): run forward over bars.

A bar is passed when the back foot is beyond it, and pays 1; going back over it costs 1. Only bars ahead of the start
count, so an episode pays at most 7. The bars are part of the model (`envs/models.py`), so passing means getting over.
Their places, the observation and the rule are those of public code that follows the paper.
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from wanderlust.config import BodyConfig
from wanderlust.downstream.tasks.base import Score
from wanderlust.envs import World
from wanderlust.envs.locomotion import Body
from wanderlust.envs.models import load_model

BARS = (-15.0, -13.0, -9.0, -5.0, -1.0, 3.0, 7.0, 11.0, 15.0, 19.0, 23.0, 27.0)
AFTER_THE_LAST = 15.0
"""What is observed as the next bar beyond the last one."""


class HurdleState(NamedTuple):
    """How many bars are still to be passed, and how many steps have been made."""

    remaining: Int[Array, ""]
    age: Int[Array, ""]


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
        if not isinstance(world, Body):
            raise TypeError(f"no bars can be laid across the way of {type(world).__name__}")
        return world.from_origin().with_bars(BARS)

    def begin(self, obs: Float[Array, " obs"], key: Key[Array, ""]) -> HurdleState:
        return HurdleState(_remaining(obs), jnp.zeros((), jnp.int32))

    def step(self, state: HurdleState, obs: Float[Array, " obs"], key: Key[Array, ""]) -> tuple[HurdleState, Score]:
        remaining, age = _remaining(obs), state.age + 1
        passed = (state.remaining - remaining).astype(jnp.float32)
        return HurdleState(remaining, age), Score(self.reward * passed, jnp.zeros((), bool), age >= self.horizon)

    def observe(self, state: HurdleState, obs: Float[Array, " obs"]) -> Float[Array, "2"]:
        foot, bars = back_foot_x(obs), jnp.array(BARS)
        ahead = bars >= foot
        following = jnp.where(jnp.any(ahead), jnp.min(jnp.where(ahead, bars, jnp.inf)), AFTER_THE_LAST)
        return jnp.array([following, jnp.abs(following - foot)])


def _remaining(obs: Float[Array, " obs"]) -> Int[Array, ""]:
    bars = jnp.array(BARS)
    return jnp.sum((bars >= 0) & (bars >= back_foot_x(obs)), dtype=jnp.int32)


def back_foot_x(obs: Float[Array, " obs"]) -> Float[Array, ""]:
    """The x of HalfCheetah's back foot (the origin of its body): down the chain from torso to thigh, shin and foot.

    All joints turn about y, so that angles add up along the chain.
    """
    x, angle = obs[0], obs[2]
    for (forward, up), joint in zip(_back_leg(), (3, 4, 5), strict=True):
        x = x + jnp.cos(angle) * forward + jnp.sin(angle) * up
        angle = angle + obs[joint]
    return x


@functools.cache
def _back_leg() -> tuple[tuple[float, float], ...]:
    """(x, z) of each part of the back leg in the frame of the one before, as the model has them."""
    model = load_model(BodyConfig("half-cheetah"))
    places = [model.body(name).pos for name in ("bthigh", "bshin", "bfoot")]
    return tuple((float(place[0]), float(place[2])) for place in places)
