"""A collection by turns: the host moves worlds, and compiled calls choose what they do next."""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from wanderlust.envs import Engine, Physical
from wanderlust.envs.vector import Worlds, go_on
from wanderlust.train.collection import (
    EpochKeys,
    act,
    by_seed,
    draw_epoch_keys,
    draw_noise,
    fresh_worlds,
    order_keys,
    renew_orders,
)
from wanderlust.train.state import Actor, Parts


class Desk(NamedTuple):
    """Where worlds stand in a collection. Few arrays: each costs every step a microsecond or two."""

    at: Int[Array, "seeds worlds"]
    """The step of the collection that each has come to."""
    turn: Float[Array, "seeds worlds turn"]
    """The worlds before that step, and the actions chosen (`pack`)."""


class Draws(NamedTuple):
    """All that is random in what follows the steps of a collection."""

    turns: Float[Array, "steps seeds worlds turn"]
    """As turns: worlds at the start of an episode, and in place of actions the noise that the next are made of."""
    orders: Key[Array, "steps seeds worlds"] | tuple[()]


class Log(NamedTuple):
    """The steps of worlds as the host saw them."""

    turns: Any
    """[steps, seeds, worlds, ...] Before each step: states, skills, ages and the actions chosen (`pack`)."""
    after: Any
    """[steps, seeds, worlds, ...] The states it led to."""
    last: Any
    """What would have come next."""


class Collector:
    """Moves worlds through the steps of a collection.

    Per step there is one call of the engine, and one compiled call that starts the episodes that are due and chooses
    the next actions: one array goes there and one comes back. What happened is put together when all steps are done.
    """

    def __init__(self, parts: Parts, engine: Engine) -> None:
        self._parts, self._cuts = parts, turn_cuts(parts)
        self._move = jax.jit(engine.step) if engine.compiles else engine.step
        self._turned = cache(partial(_compiled_turn, parts))

    def __call__(self, actor: Actor, steps: int, desk: Desk, draws: Draws) -> Log:
        """What happens in so many steps from the turn at this desk."""
        waits, length = self._parts.waits, self._parts.world.spec.episode_length
        leaves, structure = jax.tree.flatten(actor)
        turned = self._turned(structure)
        turns, after = [np.asarray(desk.turn)], []
        for _ in range(steps):
            worlds, action = unpack(self._cuts, turns[-1].reshape(-1, turns[-1].shape[-1]))
            if waits and worlds.age.min() >= length:  # every episode of this collection has ended early
                break
            after.append(np.concatenate(self._move(worlds.state, action), axis=1))
            desk = turned(leaves, desk, draws, after[-1])
            turns.append(np.asarray(desk.turn))
        missing = steps - len(after)  # steps of episodes that have ended: not stored
        seen = np.stack(turns[:-1] + missing * turns[-1:])
        led = np.stack(after + missing * (after[-1:] or [np.concatenate(worlds.state, axis=1)]))
        return Log(seen, led.reshape(*seen.shape[:3], -1), turns[-1])


def _compiled_turn(parts: Parts, structure: Any) -> Any:
    """`take_turn`, compiled for actors in pieces: to take one apart at every step costs Python time."""

    def turned(leaves: list[Array], *given: Any) -> Desk:
        return take_turn(parts, jax.tree.unflatten(structure, leaves), *given)

    return jax.jit(turned)


def pack(worlds: Worlds, action: Float[Array, "seeds worlds action"]) -> Float[Array, "seeds worlds turn"]:
    """All of a turn in one array: that is one transfer."""
    start = [] if isinstance(worlds.start, tuple) else [worlds.start]
    age = worlds.age[..., None].astype(jnp.float32)
    return jnp.concatenate([*worlds.state, worlds.skill, *start, age, action], axis=-1)


class Cuts(NamedTuple):
    """Where the pieces of a turn end."""

    qpos: int
    state: int
    skill: int
    start: int


def turn_cuts(parts: Parts) -> Cuts:
    """Where the pieces of a turn of these parts end."""
    initial = jax.eval_shape(parts.world.initial, jax.random.key(0))
    nq, nv = initial.qpos.shape[0], initial.qvel.shape[0]
    skill = nq + nv + parts.orders.size
    return Cuts(nq, nq + nv, skill, skill + parts.world.spec.obs_dim if parts.keeps_start else skill)


def unpack(cuts: Cuts, turn: Any) -> tuple[Worlds, Any]:
    """The worlds and actions of a turn, [..., entries]; NumPy or JAX."""
    state = Physical(turn[..., : cuts.qpos], turn[..., cuts.qpos : cuts.state])
    start = turn[..., cuts.skill : cuts.start] if cuts.start > cuts.skill else ()
    age = turn[..., cuts.start].astype(np.int32)
    return Worlds(state, turn[..., cuts.state : cuts.skill], age, start), turn[..., cuts.start + 1 :]


def prepare(parts: Parts, actor: Actor, worlds: Worlds, key: Array) -> tuple[EpochKeys, Desk, Draws]:
    """The first turn of a collection, and all that will be random in it."""
    keys = draw_epoch_keys(parts, key)
    orders = jax.vmap(partial(order_keys, parts))(keys.act)
    noise = jax.vmap(partial(draw_noise, parts))(keys.act)
    worlds = renew_orders(parts, actor, worlds, jax.tree.map(lambda x: x[0], orders))
    first = pack(worlds, jax.vmap(partial(act, parts))(actor, worlds, noise[0]))

    def coming(x: Array) -> Array:
        """What each step needs for the one that follows; nobody asks what follows the last."""
        return jnp.concatenate([x[1:], x[-1:]])

    if parts.waits:  # no episode starts before a collection ends: nobody looks
        fresh = jax.tree.map(lambda x: jnp.broadcast_to(x[None], (len(noise), *x.shape)), worlds)
    else:
        fresh = jax.vmap(partial(fresh_worlds, parts))(keys.fresh)
    desk = Desk(jnp.zeros(first.shape[:2], jnp.int32), first)
    return keys, desk, Draws(pack(fresh, coming(noise)), jax.tree.map(coming, orders))


def take_turn(
    parts: Parts,
    actor: Actor,
    desk: Desk,
    draws: Draws,
    after: Float[Array, "all state"],
    arrived: Bool[Array, " all"] | None = None,
) -> Desk:
    """Go on from where a step has led worlds: start the episodes that are due, and choose what comes next.

    All of them, or those that have `arrived` there: the others' turns stay as they are.
    """
    cuts, steps = turn_cuts(parts), draws.turns.shape[0]
    seed, world = jnp.indices(desk.at.shape, sparse=True)

    def due(x: Array) -> Array:
        return x[desk.at, seed, world]

    before, _ = unpack(cuts, desk.turn)
    fresh, noise = unpack(cuts, due(draws.turns))
    led = Physical(*jnp.split(by_seed(after, parts.config.seeds), [cuts.qpos], axis=-1))
    worlds = go_on(parts.world, before._replace(state=led), None if parts.waits else fresh)
    renewed = renew_orders(parts, actor, worlds, jax.tree.map(due, draws.orders))
    goes_on = desk.at + 1 < steps  # orders for the first step of a collection are given when it begins
    worlds = worlds._replace(skill=jnp.where(goes_on[..., None], renewed.skill, worlds.skill))
    turned = Desk(desk.at + 1, pack(worlds, jax.vmap(partial(act, parts))(actor, worlds, noise)))
    if arrived is None:
        return turned
    here = by_seed(arrived, parts.config.seeds)
    return Desk(jnp.where(here, turned.at, desk.at), jnp.where(here[..., None], turned.turn, desk.turn))
