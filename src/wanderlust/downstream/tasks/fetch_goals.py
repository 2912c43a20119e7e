"""FetchPushGoal, FetchSlideGoal and FetchPickAndPlaceGoal: bring the object to a place, which may be in the air.

Goals, their ranges and the radius are those of the original environments. The paper pays 1 and ends the episode where
the object reaches the goal. As in the other tasks that is never in the first step: an object that starts at its goal
is paid in the second.
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from wanderlust.downstream.tasks.goals import GoalTask
from wanderlust.envs import World
from wanderlust.envs.worlds.fetch import Fetch, FetchPickAndPlace, FetchPush, FetchSlide

HIGHEST = 0.45
"""Metres above the table up to which goals in the air are drawn."""


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["goal_range", "radius", "reward", "offset", "highest"],
    meta_fields=["name", "env", "slot", "position_dims"],
)
@dataclasses.dataclass(frozen=True)
class FetchGoalTask(GoalTask):
    """Bring the object to one goal, drawn around the hand at the height at which the object starts, or above it."""

    goals: int = dataclasses.field(default=1, init=False)
    position_dims: tuple[int, ...] = Fetch.groups["object"]
    offset: float = 0.0
    """Of the square in which goals are drawn, along x from the hand."""
    highest: float = 0.0
    """Half of the goals are drawn up to so far above the table; 0 for none."""

    def draw(self, obs: Float[Array, " obs"], key: Key[Array, ""]) -> Float[Array, "3"]:
        place, half, height = jax.random.split(key, 3)
        hand, table = obs[jnp.array(Fetch.groups["agent"])], obs[self.position_dims[2]]
        centre = hand[:2] + jnp.stack([jnp.asarray(self.offset, jnp.float32), jnp.zeros(())])
        xy = centre + jax.random.uniform(place, (2,), minval=-self.goal_range, maxval=self.goal_range)
        up = jnp.where(jax.random.bernoulli(half), self.highest * jax.random.uniform(height), 0.0)
        return jnp.append(xy, table + up)

    def away(self, world: World, key: Key[Array, ""]) -> Float[Array, "3"]:
        start, goal = jax.random.split(key)
        obs = world.measure(world.initial(start))
        return self.draw(obs, goal) - self.position(obs)


def _task_of(env: str, world: type[Fetch]) -> FetchGoalTask:
    own = world.setting
    return FetchGoalTask(
        f"{env}-goal",
        env,
        slot=world.episode_length,
        goal_range=own.goal_range,
        radius=world.goal_radius,
        reward=1.0,
        offset=own.goal_offset,
        highest=HIGHEST if own.airborne else 0.0,
    )


FETCH_TASKS = (
    _task_of("fetch-push", FetchPush),
    _task_of("fetch-slide", FetchSlide),
    _task_of("fetch-pick-and-place", FetchPickAndPlace),
)
