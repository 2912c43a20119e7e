"""Episodes over many worlds: skills, resets and time limits, whatever engine moves them.

A step of a batch is cut in three so that both drivers share it: the caller acts, an engine moves the physical
states, and `settle` turns before and after into transitions and starts the episodes that are due.
"""

import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from wanderlust.envs.base import Physical, World, sane
from wanderlust.envs.physics import Engine
from wanderlust.skills import SkillSpace
from wanderlust.types import Rollout, Transition

T = TypeVar("T")
Act = Callable[
    [Float[Array, "worlds obs"], Float[Array, "worlds skill"], Key[Array, ""]], Float[Array, "worlds action"]
]
"""Actions of a batch of worlds from what they observe, their skills and a key."""
Renew = Callable[
    [Float[Array, "worlds obs"], Float[Array, "worlds skill"], Key[Array, ""]], Float[Array, "worlds skill"]
]
"""Other skills for a batch of worlds, from the same."""


class Worlds(NamedTuple):
    """Where a batch of worlds stands between two steps."""

    state: Physical
    skill: Float[Array, "worlds skill"]
    age: Int[Array, " worlds"]
    start: Float[Array, "worlds obs"] | tuple[()] = ()
    """What was observed when the episode began, if that is to be kept (`Transition.start`)."""


def begin(world: World, skills: SkillSpace, key: Key[Array, ""], count: int, keeps_start: bool = False) -> Worlds:
    """Start `count` episodes, each with a skill of its own."""
    start, draw = jax.random.split(key)
    state = jax.vmap(world.initial)(jax.random.split(start, count))
    return Worlds(
        state=state,
        skill=jax.vmap(skills.sample)(jax.random.split(draw, count)),
        age=jnp.zeros(count, jnp.int32),
        start=jax.vmap(world.observe)(state) if keeps_start else (),
    )


def begin_all(
    world: World, skills: SkillSpace, keys: Key[Array, " seeds"], count: int, keeps_start: bool = False
) -> Worlds:
    """Start `count` episodes of every seed."""
    return jax.vmap(lambda key: begin(world, skills, key, count, keeps_start))(keys)


def settle(
    world: World,
    before: Worlds,
    action: Float[Array, "seeds worlds action"],
    after: Physical,
    fresh: Callable[[], Worlds] | None,
) -> tuple[Worlds, Transition]:
    """Record the step from `before` to `after`, and put fresh episodes where one has ended. See `go_on`."""
    return go_on(world, before._replace(state=after), fresh), record(world, before, action, after)


def go_on(world: World, led: Worlds, fresh: Worlds | Callable[[], Worlds] | None) -> Worlds:
    """Where worlds stand that a step has led to these states; their age is still that before the step.

    Arrays lead with a seed axis. Fresh episodes that are not at hand are drawn only in steps in which some episode
    ends: drawing them is dearer than moving small worlds. Without `fresh`, a world whose episode has ended waits: its
    age stays at the episode's length.
    """
    terminated, truncated = _ends(world, led.age, led.state)
    done = terminated | truncated
    ongoing = led._replace(age=led.age + 1)
    if fresh is None:
        over = done | (led.age >= world.spec.episode_length)
        return ongoing._replace(age=jnp.where(over, world.spec.episode_length, ongoing.age))
    if isinstance(fresh, Worlds):
        return where_worlds(done, fresh, ongoing)
    return cast(Worlds, jax.lax.cond(jnp.any(done), lambda w: where_worlds(done, fresh(), w), lambda w: w, ongoing))


def record(world: World, before: Worlds, action: Float[Array, "*batch action"], after: Physical) -> Transition:
    """The transitions of a step from `before` to `after`; arrays lead with two axes."""
    terminated, truncated = _ends(world, before.age, after)
    observe = jax.vmap(jax.vmap(world.observe))
    return Transition(
        obs=observe(before.state),
        action=action,
        next_obs=observe(after),
        skill=before.skill,
        terminated=terminated,
        truncated=truncated,
        start=before.start,
    )


def _ends(world: World, age: Array, after: Physical) -> tuple[Array, Array]:
    """Which episodes a step ends: by the world, and by the time limit."""
    terminated = jax.vmap(jax.vmap(world.terminated))(after)
    return terminated, (age + 1 >= world.spec.episode_length) & ~terminated


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


class Lost(NamedTuple):
    """The first world of each seed that an engine moved to somewhere that is not a number, and what led there."""

    found: Bool[Array, " seeds"]
    before: Physical
    action: Float[Array, "seeds action"]


def none_lost(world: World) -> Lost:
    """One seed's record as long as nothing has gone wrong."""
    state = jax.eval_shape(world.initial, jax.random.key(0))
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), state)
    return Lost(jnp.zeros((), bool), zeros, jnp.zeros(world.spec.action_dim))


def look_for_lost(
    lost: Lost,
    before: Physical,
    action: Float[Array, "seeds worlds action"],
    after: Physical,
    running: Bool[Array, "seeds worlds"],
) -> Lost:
    """Keep the first world whose physics broke down in this step, among those whose episode was still running."""

    def one_seed(lost: Lost, before: Physical, action: Array, after: Physical, running: Array) -> Lost:
        bad = running & ~sane(after)
        first = jnp.argmax(bad)
        here = Lost(bad[first], jax.tree.map(lambda x: x[first], before), action[first])
        return jax.tree.map(lambda old, new: jnp.where(bad[first] & ~lost.found, new, old), lost, here)

    return jax.vmap(one_seed)(lost, before, action, after, running)


def play(
    world: World,
    engine: Engine,
    act: Act,
    skill: Float[Array, "worlds skill"],
    key: Key[Array, ""],
    steps: int,
    renew: Renew | None = None,
    hold: int = 1,
) -> Rollout:
    """One episode per given skill, `steps` long; a world that terminates stays where it ended.

    So does one whose physics breaks down: at the last state that meant something. With `renew`, what `act` reads is
    `skill` no longer: it is made anew before the first step and again every `hold` steps.
    Runs inside a compiled program if the engine does; otherwise `act` and `renew` should be compiled functions.
    """
    count = skill.shape[0]
    start_key, step_key = jax.random.split(key)
    start = jax.vmap(world.initial)(jax.random.split(start_key, count))
    if not engine.compiles:
        return _play_on_host(world, engine, act, skill, start, step_key, steps, renew, hold)

    Carry = tuple[Physical, Bool[Array, " worlds"], Float[Array, "worlds skill"]]  # noqa: N806 - a type

    def step(carry: Carry, now: tuple[Int[Array, ""], Key[Array, ""]]) -> tuple[Carry, tuple[Array, Array, Array]]:
        (state, alive, orders), (at, key) = carry, now
        obs = jax.vmap(world.observe)(state)
        if renew is not None:
            renewed = lambda orders: renew(obs, orders, jax.random.fold_in(key, 1))  # noqa: E731
            orders = jax.lax.cond(at % hold == 0, renewed, lambda orders: orders, orders)
        action = act(obs, orders, key)
        after = engine.step(state, action)
        alive = alive & sane(after)
        state = where_worlds(alive, after, state)
        alive = alive & ~jax.vmap(world.terminated)(state)
        return (state, alive, orders), (jax.vmap(world.observe)(state), action, alive)

    alive = jnp.ones(count, bool)
    times = jnp.arange(steps), jax.random.split(step_key, steps)
    _, (obs, action, later) = jax.lax.scan(step, (start, alive, skill), times)
    first = jax.vmap(world.observe)(start)
    return Rollout(
        obs=jnp.concatenate([first[None], obs]),
        action=action,
        skill=skill,
        alive=jnp.concatenate([alive[None], later]),
    )


def _play_on_host(
    world: World,
    engine: Engine,
    act: Act,
    skill: Array,
    start: Physical,
    key: Key[Array, ""],
    steps: int,
    renew: Renew | None,
    hold: int,
) -> Rollout:
    """The same with the engine outside: one compiled call to look and act, one call of the engine, in turn."""
    look = _compiled_look(cast(Hashable, world))
    state: Any = jax.device_get(start)
    obs, _ = jax.device_get(look(state))
    alive: Any = np.ones(len(obs), bool)
    seen, actions, lives = [obs], [], [alive]
    orders = skill
    for at, step_key in enumerate(jax.random.split(key, steps)):
        if renew is not None and at % hold == 0:
            orders = renew(obs, orders, jax.random.fold_in(step_key, 1))
        action: Any = np.asarray(act(obs, orders, step_key))
        if alive.any():  # where all have fallen nothing moves any more, and physics is what takes long
            after = engine.step(state, action)
            alive = alive & sane(after)
            state = jax.tree.map(lambda new, old, alive=alive: np.where(alive[:, None], new, old), after, state)
            obs, over = jax.device_get(look(state))
            alive = alive & ~over
        seen.append(obs)
        actions.append(action)
        lives.append(alive)
    stacked: Any = [np.stack(x) for x in (seen, actions, lives)]
    return Rollout(obs=stacked[0], action=stacked[1], skill=skill, alive=stacked[2])


@functools.cache
def _compiled_look(world: Any) -> Callable[[Physical], tuple[Array, Array]]:
    """What a batch of worlds observes and whether their episodes are over, compiled once per world."""
    return jax.jit(lambda state: (jax.vmap(world.observe)(state), jax.vmap(world.terminated)(state)))


def where_worlds(mask: Bool[Array, "*worlds"], yes: T, no: T) -> T:
    """Pick whole worlds from one of two batches."""
    return jax.tree.map(lambda y, n: jnp.where(mask.reshape(mask.shape + (1,) * (y.ndim - mask.ndim)), y, n), yes, no)
