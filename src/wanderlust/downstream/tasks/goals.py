"""Goal tasks: reach places.

One rule covers both kinds of the paper's appendix: up to X goals, each with Y steps of its own; reaching a goal (its
distance is at most the radius) pays the reward and calls the next one, running out of steps calls it too. `-Goal` is
X = 1 with a goal around the origin, `-MultiGoals` draws each goal around the body. A reach in the very first step of
an episode is not paid, as in the released code. The goal is observed in absolute coordinates.
"""

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from wanderlust.downstream.tasks.base import Score
from wanderlust.envs import World


class GoalState(NamedTuple):
    """The current goal and the clock."""

    goal: Float[Array, " xy"]
    clock: Int[Array, ""]
    """Steps used so far; a goal that is reached early uses up its whole slot."""


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["goal_range", "radius", "reward"],
    meta_fields=["name", "env", "goals", "slot", "position_dims"],
)
@dataclasses.dataclass(frozen=True)
class GoalTask:
    """Follow `goals` goals drawn within `goal_range` of where the body is, `slot` steps each.

    Ranges, radius and reward are data to a compiled program: one serves all tasks of the same form.
    """

    name: str
    env: str
    goals: int
    slot: int
    goal_range: float
    radius: float
    reward: float
    position_dims: tuple[int, ...] = (0, 1)
    """Which entries of the observation say where the body is."""

    @property
    def horizon(self) -> int:
        """The most steps an episode can take."""
        return self.goals * self.slot

    @property
    def most(self) -> float:
        return self.reward * self.goals

    @property
    def entries(self) -> int:
        return len(self.position_dims)

    def arrange(self, world: World) -> World:
        return world.from_origin()

    def begin(self, obs: Float[Array, " obs"], key: Key[Array, ""]) -> GoalState:
        """The first goal."""
        return GoalState(self.draw(obs, key), jnp.zeros((), jnp.int32))

    def step(
        self, state: GoalState, obs: Float[Array, " obs"], age: Int[Array, ""], key: Key[Array, ""]
    ) -> tuple[GoalState, Score]:
        near = jnp.linalg.norm(self.position(obs) - state.goal) <= self.radius
        reached = near & (age > 1)
        clock = state.clock + 1
        next_slot = (clock + self.slot - 1) // self.slot * self.slot
        clock = jnp.where(reached, next_slot, clock)
        over = clock >= self.horizon
        called = (clock % self.slot == 0) & ~over  # the last goal stays: there is no X + 1st
        goal = jnp.where(called, self.draw(obs, key), state.goal)
        reward = jnp.where(reached, self.reward, 0.0)
        return GoalState(goal, clock), Score(reward, over & reached, over & ~reached)

    def observe(self, state: GoalState, obs: Float[Array, " obs"]) -> Float[Array, " xy"]:
        return state.goal

    def position(self, obs: Float[Array, " obs"]) -> Float[Array, " xy"]:
        """Where the body is, or whatever shall reach the goal."""
        return obs[jnp.array(self.position_dims)]

    def draw(self, obs: Float[Array, " obs"], key: Key[Array, ""]) -> Float[Array, " xy"]:
        """A goal. `-Goal` tasks draw it around the origin, which is where bodies start."""
        position = self.position(obs)
        centre = jnp.zeros_like(position) if self.goals == 1 else position
        return centre + jax.random.uniform(key, centre.shape, minval=-self.goal_range, maxval=self.goal_range)

    def away(self, world: World, key: Key[Array, ""]) -> Float[Array, " xy"]:
        """From the start of an episode to its first goal; bodies start at the origin, but for some noise."""
        return self.draw(jnp.zeros(1 + max(self.position_dims)), key)


# --- the paper's -----------------------------------------------------------------------------------------------------

GOAL_TASKS = (
    GoalTask("ant-goal", "ant", goals=1, slot=200, goal_range=50.0, radius=3.0, reward=10.0),
    GoalTask("ant-multi-goals", "ant", goals=4, slot=50, goal_range=15.0, radius=3.0, reward=2.5),
    GoalTask("humanoid-goal", "humanoid", goals=1, slot=1000, goal_range=20.0, radius=3.0, reward=10.0),
    GoalTask("humanoid-multi-goals", "humanoid", goals=4, slot=250, goal_range=7.5, radius=3.0, reward=2.5),
)

POINT_TASKS = (
    GoalTask("point-goal", "point", goals=1, slot=100, goal_range=10.0, radius=3.0, reward=1.0),
    GoalTask("point-multi-goals", "point", goals=4, slot=100, goal_range=10.0, radius=3.0, reward=1.0),
)
"""The paper has several ranges; these are the smallest. It gives no reach radius: 3 is that of Ant and Humanoid."""
