"""Episodes of a task: a world, what the task remembers, and both clocks in one state, on any engine.

The first three functions are of one world and batched by `vmap`. `begin_option` and `step_option` are of a batch in
which some episodes may be over: those wait where they ended. The caller steps the engine.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from wanderlust.downstream.tasks import Task
from wanderlust.envs import World, WorldState
from wanderlust.envs.base import Truncating, sane
from wanderlust.train.autoreset import where_worlds


class Episode(NamedTuple):
    """Where one episode stands."""

    body: WorldState
    task: Any
    age: Int[Array, ""]
    """Control steps so far."""
    key: Key[Array, ""]
    """All that the task draws in this episode comes from it."""


class StepResult(NamedTuple):
    """The result of a control step, or of several in a row."""

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


def advance(world: World, task: Task[Any], before: Episode, after: WorldState) -> tuple[Episode, StepResult]:
    """Go on with an episode whose world an engine has stepped to `after`. A fall ends it, and takes no reward away."""
    broken = ~sane(after)
    age = before.age + 1
    remembered, score = task.step(before.task, world.measure(after), age, jax.random.fold_in(before.key, age))
    fell = world.terminated(after) & ~broken
    cut = world.truncated(after) if isinstance(world, Truncating) else False
    terminated = (score.terminated | fell) & ~broken
    result = StepResult(
        reward=jnp.where(broken, 0.0, score.reward),
        terminated=terminated,
        truncated=(score.truncated | broken | cut) & ~terminated,
        fell=fell,
        broken=broken,
    )
    return where_worlds(broken, before, Episode(after, remembered, age, before.key)), result


def observe(world: World, task: Task[Any], episode: Episode) -> Float[Array, " obs+entries"]:
    """What the world observes, and then the task's own entries; raw."""
    own = task.observe(episode.task, world.measure(episode.body))
    return jnp.concatenate([world.observe(episode.body), own])


# --- batches ---------------------------------------------------------------------------------------------------------


class OptionState(NamedTuple):
    """A batch of episodes within an option, which takes several control steps."""

    episode: Episode
    running: Bool[Array, " worlds"]
    result: StepResult
    """Of all steps of the option so far: rewards are summed."""
    steps: Int[Array, " worlds"]
    """Control steps made."""


def begin_option(episode: Episode, running: Bool[Array, " worlds"]) -> OptionState:
    """Before the first step of an option; episodes that are not running stay where they are."""
    no = jnp.zeros(running.shape, bool)
    nothing = StepResult(jnp.zeros(running.shape), no, no, no, no)
    return OptionState(episode, running, nothing, jnp.zeros(running.shape, jnp.int32))


def step_option(world: World, task: Task[Any], so_far: OptionState, after: WorldState) -> OptionState:
    """Count one control step, which an engine has made to `after`."""
    episode, result = jax.vmap(lambda e, a: advance(world, task, e, a))(so_far.episode, after)
    running, total = so_far.running, so_far.result
    marks = [old | (new & running) for old, new in zip(total[1:], result[1:], strict=True)]
    return OptionState(
        episode=where_worlds(running, episode, so_far.episode),
        running=running & ~(result.terminated | result.truncated),
        result=StepResult(total.reward + jnp.where(running, result.reward, 0.0), *marks),
        steps=so_far.steps + running,
    )
