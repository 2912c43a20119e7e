"""Statistics of a random policy, by which networks see a world: the recipe behind the published ones, for any world."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from wanderlust.envs.base import World, WorldState
from wanderlust.envs.engines.base import Engine
from wanderlust.errors import UserError

Statistics = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation of every entry of an observation."""

WORLDS = 1_000
"""The most worlds that are stepped at a time. No state is kept, so this bounds the memory."""


def random_statistics(
    world: World, engine: Engine, rollouts: int = 10_000, steps: int = 50, seed: int = 0
) -> Statistics:
    """Mean and standard deviation of every entry of the observation while actions are uniform in [-1, 1].

    Over the states after each step; the ones episodes start from do not count, and no episode ends early. Rollouts are
    rounded up to whole batches. An entry that never changes gets the deviation 1, so that it can be divided by.
    """
    check_amounts(rollouts, steps, seed)
    return measure_statistics(world, engine, world.spec.name, world.spec.action_dim, rollouts, steps, seed)


def measure_statistics(
    world: World, engine: Engine, name: str, action_dim: int, rollouts: int, steps: int = 50, seed: int = 0
) -> Statistics:
    """The same for a world whose `spec` waits for these numbers."""
    batches = -(-rollouts // WORLDS)
    worlds = -(-rollouts // batches)
    roll_out = _random_rollouts(world, engine, action_dim, worlds, steps)
    found = [roll_out(jax.random.fold_in(jax.random.key(seed), i)) for i in range(batches)]
    engine.check()
    means, variances = (np.concatenate(moments, dtype=np.float64) for moments in zip(*found, strict=True))
    if not np.all(np.isfinite(variances)):
        raise UserError(f"a random policy moved {name} to where its state is not finite; try other seeds")
    mean = means.mean(axis=0)
    std = np.sqrt((variances + (means - mean) ** 2).mean(axis=0))  # all batches and steps weigh the same
    std[std == 0.0] = 1.0
    return tuple(mean.tolist()), tuple(std.tolist())


def check_amounts(rollouts: int, steps: int, seed: int) -> None:
    """Refuse numbers of rollouts and steps, and seeds, that cannot be."""
    for name, value in (("rollouts", rollouts), ("steps", steps), ("seed", seed)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise UserError(f"{name} is {value!r}; it must be a whole number")
    if rollouts < 2:
        raise UserError(f"rollouts is {rollouts}; a standard deviation needs at least 2")
    if steps < 1:
        raise UserError(f"steps is {steps}; it must be at least 1")


def _random_rollouts(
    world: World, engine: Engine, action_dim: int, worlds: int, steps: int
) -> Callable[[Key[Array, ""]], tuple[Any, Any]]:
    """Rollouts of a batch of worlds with random actions: mean and variance of every entry over them, after each step.

    They are one compiled program, or where the engine cannot be compiled a loop with the same draws.
    """

    def begin(key: Key[Array, ""]) -> WorldState:
        return jax.vmap(world.initial)(jax.random.split(key, worlds))

    def act(key: Key[Array, ""]) -> Float[Array, "worlds action"]:
        return jax.random.uniform(key, (worlds, action_dim), jnp.float32, -1.0, 1.0)

    def scanned(key: Key[Array, ""]) -> tuple[Any, Any]:
        def step(state: WorldState, key: Key[Array, ""]) -> tuple[WorldState, tuple[Array, Array]]:
            state = engine.step(state, act(key))
            obs = jax.vmap(world.observe)(state)
            return state, (obs.mean(axis=0), obs.var(axis=0))

        start, play = jax.random.split(key)
        return jax.lax.scan(step, begin(start), jax.random.split(play, steps))[1]

    if engine.compiles:
        return jax.jit(scanned)
    draw_start, draw_action, observe = jax.jit(begin), jax.jit(act), jax.jit(jax.vmap(world.observe))

    def looped(key: Key[Array, ""]) -> tuple[Any, Any]:
        start, play = jax.random.split(key)
        state: WorldState = jax.device_get(draw_start(start))
        means, variances = [], []
        for step_key in jax.random.split(play, steps):
            state = engine.step(state, jax.device_get(draw_action(step_key)))
            obs = np.asarray(observe(state), np.float64)
            means.append(obs.mean(axis=0))
            variances.append(obs.var(axis=0))
        return np.stack(means), np.stack(variances)

    return looped
