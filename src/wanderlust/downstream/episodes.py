"""Episodes of a task: a world, what the task remembers, and both clocks in one state, on any engine.

The first three functions are of one world and batched by `vmap`. `settle` and `hold` are of a batch in which some
episodes may be over: those wait where they ended. What moves the bodies is the caller's: `hold` does it in a compiled
program, the Gymnasium environments step by step around the engine `c`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from wanderlust.downstream.tasks import Task
from wanderlust.envs import Engine, World, WorldState
from wanderlust.envs.base import sane
from wanderlust.train.autoreset import where_worlds


class Episode(NamedTuple):
    """Where one episode stands."""

    body: WorldState
    task: Any
    age: Int[Array, ""]
    """Control steps so far."""
    key: Key[Array, ""]
    """All that the task draws in this episode comes from it."""


class Outcome(NamedTuple):
    """What a control step brought, or several in a row."""

    reward: Float[Array, "*batch"]
    terminated: Bool[Array, "*batch"]
    truncated: Bool[Array, "*batch"]
    fell: Bool[Array, "*batch"]
    """The world ended the episode, not the task."""
    broken: Bool[Array, "*batch"]
    """The physics broke down; the episode is truncated at the last state that was a number."""


def begin(world: World, task: Task[Any], key: Key[Array, ""]) -> Episode:
    """Start an episode. The body starts as `world.initial` has it for this key."""
    body, own = world.initial(key), jax.random.fold_in(key, 1)
    remembered = task.begin(world.measure(body), jax.random.fold_in(own, 0))
    return Episode(body, remembered, jnp.zeros((), jnp.int32), own)


def advance(world: World, task: Task[Any], before: Episode, after: WorldState) -> tuple[Episode, Outcome]:
    """Go on with an episode whose body an engine has moved to `after`. A fall ends it, and takes no reward away."""
    broken = ~sane(after)
    age = before.age + 1
    remembered, score = task.step(before.task, world.measure(after), jax.random.fold_in(before.key, age))
    fell = world.terminated(after) & ~broken
    terminated = (score.terminated | fell) & ~broken
    outcome = Outcome(
        reward=jnp.where(broken, 0.0, score.reward),
        terminated=terminated,
        truncated=(score.truncated | broken) & ~terminated,
        fell=fell,
        broken=broken,
    )
    return where_worlds(broken, before, Episode(after, remembered, age, before.key)), outcome


def observe(world: World, task: Task[Any], episode: Episode) -> Float[Array, " obs+entries"]:
    """What the world observes, and then the task's own entries; raw."""
    own = task.observe(episode.task, world.measure(episode.body))
    return jnp.concatenate([world.observe(episode.body), own])


# --- batches ---------------------------------------------------------------------------------------------------------


class Held(NamedTuple):
    """A batch of episodes in the midst of something that takes several control steps, such as a skill that is held."""

    episode: Episode
    running: Bool[Array, " worlds"]
    outcome: Outcome
    """Of all steps so far: rewards are summed."""
    steps: Int[Array, " worlds"]
    """Control steps made."""


def held(episode: Episode, running: Bool[Array, " worlds"]) -> Held:
    """Before the first of these steps; episodes that are not running stay where they are."""
    no = jnp.zeros(running.shape, bool)
    return Held(
        episode, running, Outcome(jnp.zeros(running.shape), no, no, no, no), jnp.zeros(running.shape, jnp.int32)
    )


def settle(world: World, task: Task[Any], so_far: Held, after: WorldState) -> Held:
    """Count one control step, which has led the bodies to `after`."""
    episode, outcome = jax.vmap(lambda e, a: advance(world, task, e, a))(so_far.episode, after)
    running, total = so_far.running, so_far.outcome
    marks = [old | (new & running) for old, new in zip(total[1:], outcome[1:], strict=True)]
    return Held(
        episode=where_worlds(running, episode, so_far.episode),
        running=running & ~(outcome.terminated | outcome.truncated),
        outcome=Outcome(total.reward + jnp.where(running, outcome.reward, 0.0), *marks),
        steps=so_far.steps + running,
    )


def hold(
    world: World,
    task: Task[Any],
    engine: Engine,
    act: Callable[[Float[Array, "worlds obs"]], Float[Array, "worlds action"]],
    so_far: Held,
    steps: int,
) -> Held:
    """Let `act` choose the bodies' actions for some control steps, in a program of an engine that compiles."""

    def step(now: Held, _: None) -> tuple[Held, None]:
        obs = jax.vmap(world.observe)(now.episode.body)
        return settle(world, task, now, engine.step(now.episode.body, act(obs))), None

    return jax.lax.scan(step, so_far, None, length=steps)[0]
