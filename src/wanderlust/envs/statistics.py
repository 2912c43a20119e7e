"""Statistics of a random policy, by which networks see a world: the recipe behind the published ones, for any world."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from wanderlust.envs.base import World, WorldState
from wanderlust.envs.engines.base import Engine
from wanderlust.envs.unroll import RolloutStep, make_unroll
from wanderlust.errors import UserError

Statistics = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation of every entry of an observation."""

WORLDS = 1_000
"""The most worlds that are stepped at a time."""


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
    means, variances = (np.concatenate(moments) for moments in zip(*found, strict=True))
    if not np.all(np.isfinite(variances)):
        raise UserError(f"a random policy led {name} to where its state is not finite; try other seeds")
    mean = means.mean(axis=0)
    std = np.sqrt((variances + (means - mean) ** 2).mean(axis=0))  # all batches and steps weigh the same
    std[std == 0.0] = 1.0
    return tuple(mean.tolist()), tuple(std.tolist())


def check_amounts(rollouts: int, steps: int, seed: int) -> None:
    """Refuse numbers of rollouts and steps, and seeds, that cannot be."""
    for name, value in (("rollouts", rollouts), ("steps", steps), ("seed", seed)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise UserError(f"{name} is {value!r}; it must be a whole number")
    if not -(2**63) <= seed < 2**63:
        raise UserError(f"seed is {seed}; it must be below 2^63")
    if rollouts < 2:
        raise UserError(f"rollouts is {rollouts}; a standard deviation needs at least 2")
    if steps < 1:
        raise UserError(f"steps is {steps}; it must be at least 1")


def _random_rollouts(
    world: World, engine: Engine, action_dim: int, worlds: int, steps: int
) -> Callable[[Key[Array, ""]], tuple[Any, Any]]:
    """Rollouts with random actions: mean and variance of every entry over a batch of worlds, after each step."""

    def act(_: Any, state: WorldState, key: Key[Array, ""]) -> tuple[WorldState, WorldState, Array]:
        return state, state, jax.random.uniform(key, (worlds, action_dim), jnp.float32, -1.0, 1.0)

    def record(_: Any, before: Any, action: Any, after: WorldState, key: Any) -> tuple[WorldState, Array]:
        return after, jax.vmap(world.observe)(after)

    begin = jax.jit(lambda key: jax.vmap(world.initial)(jax.random.split(key, worlds)))
    unroll = make_unroll(engine, RolloutStep(act, record), on_host=not engine.compiles)
    unroll = jax.jit(unroll) if engine.compiles else unroll

    def roll_out(key: Key[Array, ""]) -> tuple[Any, Any]:
        start, draw = jax.random.split(key)
        obs = np.asarray(unroll((), begin(start), jax.random.split(draw, steps))[1], np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # the caller reports what is not finite
            return obs.mean(axis=1), obs.var(axis=1)

    return roll_out
