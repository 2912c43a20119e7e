"""Episodes over many worlds: skills, resets and time limits, whatever engine moves them.

A step of a batch is cut in three so that both drivers share it: the caller acts, an engine moves the physical
states, and `settle` turns before and after into transitions and starts the episodes that are due.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from wanderlust.envs.base import Physical, World
from wanderlust.envs.physics import Engine
from wanderlust.skills import SkillSpace
from wanderlust.types import Rollout, Transition

T = TypeVar("T")
Act = Callable[
    [Float[Array, "worlds obs"], Float[Array, "worlds skill"], Key[Array, ""]], Float[Array, "worlds action"]
]
"""Actions of a batch of worlds from what they observe, their skills and a key."""


class Worlds(NamedTuple):
    """Where a batch of worlds stands between two steps."""

    state: Physical
    skill: Float[Array, "worlds skill"]
    age: Int[Array, " worlds"]


def begin(world: World, skills: SkillSpace, key: Key[Array, ""], count: int) -> Worlds:
    """Start `count` episodes, each with a skill of its own."""
    start, draw = jax.random.split(key)
    return Worlds(
        state=jax.vmap(world.initial)(jax.random.split(start, count)),
        skill=jax.vmap(skills.sample)(jax.random.split(draw, count)),
        age=jnp.zeros(count, jnp.int32),
    )


def settle(
    world: World,
    skills: SkillSpace,
    before: Worlds,
    action: Float[Array, "seeds worlds action"],
    after: Physical,
    keys: Key[Array, " seeds"],
) -> tuple[Worlds, Transition]:
    """Record the step from `before` to `after`, and put fresh episodes where one has ended.

    Arrays lead with a seed axis. Fresh episodes are drawn only in steps in which some episode ends: drawing them is
    dearer than moving small worlds.
    """
    terminated = jax.vmap(jax.vmap(world.terminated))(after)
    age = before.age + 1
    truncated = (age >= world.spec.episode_length) & ~terminated
    observe = jax.vmap(jax.vmap(world.observe))
    transition = Transition(
        obs=observe(before.state),
        action=action,
        next_obs=observe(after),
        skill=before.skill,
        terminated=terminated,
        truncated=truncated,
    )

    def restart(worlds: Worlds) -> Worlds:
        fresh = jax.vmap(lambda key: begin(world, skills, key, done.shape[1]))(keys)
        return _where(done, fresh, worlds)

    done = terminated | truncated
    ongoing = Worlds(after, before.skill, age)
    return jax.lax.cond(jnp.any(done), restart, lambda worlds: worlds, ongoing), transition


def play(
    world: World, engine: Engine, act: Act, skill: Float[Array, "worlds skill"], key: Key[Array, ""], steps: int
) -> Rollout:
    """One episode per given skill, `steps` long; a world that terminates stays where it ended."""
    count = skill.shape[0]
    start_key, step_key = jax.random.split(key)
    start = jax.vmap(world.initial)(jax.random.split(start_key, count))

    def step(
        carry: tuple[Physical, Bool[Array, " worlds"]], key: Key[Array, ""]
    ) -> tuple[tuple[Physical, Bool[Array, " worlds"]], tuple[Array, Array, Array]]:
        state, alive = carry
        action = act(jax.vmap(world.observe)(state), skill, key)
        state = _where(alive, engine.step(state, action), state)
        alive = alive & ~jax.vmap(world.terminated)(state)
        return (state, alive), (jax.vmap(world.observe)(state), action, alive)

    alive = jnp.ones(count, bool)
    _, (obs, action, later) = jax.lax.scan(step, (start, alive), jax.random.split(step_key, steps))
    first = jax.vmap(world.observe)(start)
    return Rollout(
        obs=jnp.concatenate([first[None], obs]),
        action=action,
        skill=skill,
        alive=jnp.concatenate([alive[None], later]),
    )


def _where(mask: Bool[Array, "*worlds"], yes: T, no: T) -> T:
    """Pick whole worlds from one of two batches."""
    return jax.tree.map(lambda y, n: jnp.where(mask.reshape(mask.shape + (1,) * (y.ndim - mask.ndim)), y, n), yes, no)
