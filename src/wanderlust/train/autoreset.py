"""Episodes over many environments: skills, autoreset and time limits, whatever engine steps them."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from wanderlust.envs.base import Truncating, World, WorldState, sane
from wanderlust.envs.spec import Transition

T = TypeVar("T")


class EnvState(NamedTuple):
    """A batch of environments between two steps."""

    state: WorldState
    skill: Float[Array, "worlds skill"]
    age: Int[Array, " worlds"]
    start: Float[Array, "worlds obs"] | tuple[()] = ()
    """What was observed when the episode began, if that is to be kept (`Transition.start`)."""


def start_episodes(
    world: World, sample: Callable[[Key[Array, ""]], Array], key: Key[Array, ""], count: int, keeps_start: bool = False
) -> EnvState:
    """Start `count` episodes, each with a skill of its own, or the command of one."""
    start, draw = jax.random.split(key)
    state = jax.vmap(world.initial)(jax.random.split(start, count))
    return EnvState(
        state=state,
        skill=jax.vmap(sample)(jax.random.split(draw, count)),
        age=jnp.zeros(count, jnp.int32),
        start=jax.vmap(world.observe)(state) if keeps_start else (),
    )


def autoreset(
    world: World, stepped: EnvState, done: Bool[Array, "*worlds"], fresh: Callable[[], EnvState] | None
) -> EnvState:
    """Environments after a step that led to these states; their age is still that before the step.

    Arrays lead with a seed axis. `done` marks episodes that the step ended. `fresh` draws new ones, and only in steps
    in which one ends: drawing costs more than stepping small environments. Without it, an environment whose episode has
    ended waits: its age stays at the episode's length.
    """
    ongoing = stepped._replace(age=stepped.age + 1)
    if fresh is None:
        over = done | (stepped.age >= world.spec.episode_length)
        return ongoing._replace(age=jnp.where(over, world.spec.episode_length, ongoing.age))
    return cast(EnvState, jax.lax.cond(jnp.any(done), lambda w: where_worlds(done, fresh(), w), lambda w: w, ongoing))


def transitions(world: World, before: EnvState, action: Float[Array, "*batch action"], after: WorldState) -> Transition:
    """The transitions of a step; arrays lead with two axes."""
    terminated = jax.vmap(jax.vmap(world.terminated))(after)
    cut = before.age + 1 >= world.spec.episode_length
    if isinstance(world, Truncating):
        cut = cut | jax.vmap(jax.vmap(world.truncated))(after)
    observe = jax.vmap(jax.vmap(world.observe))
    return Transition(
        obs=observe(before.state),
        action=action,
        next_obs=observe(after),
        skill=before.skill,
        terminated=terminated,
        truncated=cut & ~terminated,
        start=before.start,
    )


def drift(collected: Transition, age: Int[Array, "steps *worlds"], block: int) -> Float[Array, "steps *worlds obs"]:
    """The change of the observation per step over the block of steps that each step of a collection belongs to.

    An episode is cut into blocks of `block` steps by its age. A block that its episode ends is short, and counts as if
    the rest of it had changed nothing. One of which the collection holds a piece is judged by that piece.
    """
    steps = age.shape[0]
    at = jnp.broadcast_to(jnp.arange(steps).reshape(-1, *[1] * (age.ndim - 1)), age.shape)
    whole_from = age % block == 0
    whole_to = ((age + 1) % block == 0) | collected.terminated | collected.truncated
    first = jax.lax.cummax(jnp.where(whole_from, at, 0), axis=0)
    last = jax.lax.cummin(jnp.where(whole_to, at, steps - 1), axis=0, reverse=True)

    def pick(x: Array, index: Array) -> Array:
        return jnp.take_along_axis(x, index.reshape(index.shape + (1,) * (x.ndim - index.ndim)), axis=0)

    whole = pick(whole_from, first) & pick(whole_to, last)
    length = jnp.where(whole, block, last - first + 1)
    return (pick(collected.next_obs, last) - pick(collected.obs, first)) / length[..., None]


class Diverged(NamedTuple):
    """NaN guard: the first environment of each seed whose physics broke down, and what led there."""

    found: Bool[Array, " seeds"]
    before: WorldState
    action: Float[Array, "seeds action"]


def no_divergence(world: World) -> Diverged:
    """The record of one seed before anything went wrong."""
    state = jax.eval_shape(world.initial, jax.random.key(0))
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), state)
    return Diverged(jnp.zeros((), bool), zeros, jnp.zeros(world.spec.action_dim))


def nan_guard(
    so_far: Diverged,
    before: WorldState,
    action: Float[Array, "seeds worlds action"],
    after: WorldState,
    running: Bool[Array, "seeds worlds"],
) -> Diverged:
    """Keep the first environment whose physics broke down in this step, of those whose episode was running."""
    bad = running & ~sane(after)
    which = jnp.arange(len(bad)), jnp.argmax(bad, axis=1)
    here = Diverged(bad.any(axis=1), jax.tree.map(lambda x: x[which], before), action[which])
    return where_worlds(here.found & ~so_far.found, here, so_far)


def where_worlds(mask: Bool[Array, "*worlds"], yes: T, no: T) -> T:
    """Pick whole worlds from one of two batches."""
    return jax.tree.map(lambda y, n: jnp.where(mask.reshape(mask.shape + (1,) * (y.ndim - mask.ndim)), y, n), yes, no)
