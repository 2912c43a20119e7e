"""The driver `split`: worlds on the host, moved between compiled calls, for engines that cannot be compiled."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from wanderlust.envs import Physical
from wanderlust.envs.vector import (
    Worlds,
    go_on,
    look_for_lost,
    record,
)
from wanderlust.methods.base import Metrics
from wanderlust.train.collection import (
    EpochKeys,
    act,
    all_worlds,
    by_seed,
    draw_epoch_keys,
    draw_noise,
    fresh_worlds,
    is_running,
    order_keys,
    renew_orders,
)
from wanderlust.train.learning import learn_all, mean_metrics
from wanderlust.train.state import Actor, Parts, TrainState, sampler


class _Desk(NamedTuple):
    """Where one group of worlds stands in a collection. Few arrays: each costs every step a microsecond or two."""

    at: Int[Array, ""]
    """The step of the collection."""
    turn: Float[Array, "seeds worlds turn"]
    """The worlds before that step, and the actions chosen (`_pack`)."""


class _Draws(NamedTuple):
    """All that is random in what follows the steps of a collection."""

    turns: Float[Array, "steps seeds worlds turn"]
    """As turns: worlds at the start of an episode, and in place of actions the noise that the next are made of."""
    orders: Key[Array, "steps seeds worlds"] | tuple[()]


class _Log(NamedTuple):
    """The steps of worlds as the host saw them."""

    turns: Any
    """[steps, seeds, worlds, ...] Before each step: states, skills, ages and the actions chosen (`_pack`)."""
    after: Any
    """[steps, seeds, worlds, ...] The states it led to."""
    last: Any
    """What would have come next."""


DESK_ON_HOST = 32
"""Up to so many worlds it is quicker to choose actions on the CPU than to send every step to a GPU and back."""


def desk_device(parts: Parts) -> jax.Device | None:
    """Where the split driver chooses actions, if that is not where it learns."""
    worlds = parts.config.schedule.worlds * parts.config.seeds
    if jax.default_backend() == "cpu" or worlds > DESK_ON_HOST:
        return None
    try:
        return jax.devices("cpu")[0]
    except RuntimeError:  # JAX was told to use the GPU alone
        return None


class SplitDriver:
    """Worlds on the host, learning on the device.

    Per step there is one call of the engine, and one compiled call that starts the episodes that are due and chooses
    the next actions: one array goes there and one comes back. What happened is put together when all steps are done.
    The worlds go in groups, usually two, each on a thread of its own: while one is with the engine, the other is at the
    desk.
    """

    def __init__(self, parts: Parts, desk_at: jax.Device | None = None, groups: int | None = None) -> None:
        self._parts, self._cuts = parts, _cuts(parts)
        self._desk_at = desk_at or desk_device(parts)
        groups = groups or (2 if parts.config.schedule.worlds % 2 == 0 else 1)
        engine = parts.engine.for_callers(groups)
        self._move = jax.jit(engine.step) if engine.compiles else engine.step
        self._prepared = jax.jit(partial(_prepare, parts, groups))
        self._turned = jax.jit(partial(_turn, parts))
        self._finishing = jax.jit(partial(_finish, parts), donate_argnums=0)
        self._finished: Callable[..., tuple[TrainState, Metrics]] = self._finishing
        self._threads = ThreadPoolExecutor(groups)

    def __call__(self, state: TrainState, epochs: int) -> tuple[TrainState, Metrics]:
        """Train for so many epochs, and return their mean metrics; compile alone if that is none."""
        if epochs == 0:
            self._compile(state)
        total: Metrics = {}
        for _ in range(epochs):
            state, metrics = self.learn(state, *self.collect(state))
            total = {name: total[name] + value if total else value for name, value in metrics.items()}
        return state, mean_metrics(total, epochs) if total else {}

    def collect(self, state: TrainState, steps: int | None = None) -> tuple[EpochKeys, _Log]:
        """What happens in a collection of an epoch, or in the first steps of it."""
        steps = self._parts.config.schedule.steps if steps is None else steps
        actor = sampler(self._parts, state.learner)
        keys, *given = self._prepared(actor, state.worlds, state.key)
        if self._desk_at is not None:
            actor, given = jax.device_put((actor, given), self._desk_at)
        logs = zip(*self._threads.map(partial(self._collect_group, actor, steps), *given), strict=True)
        return keys, _Log(*(np.concatenate(pieces, axis) for pieces, axis in zip(logs, (2, 2, 1), strict=True)))

    def learn(self, state: TrainState, keys: EpochKeys, log: _Log) -> tuple[TrainState, Metrics]:
        """Store it and learn from it. The state that is given is used up."""
        return self._finished(state, keys, log)

    def _collect_group(self, actor: Actor, count: int, desk: _Desk, draws: _Draws) -> _Log:
        waits, length = self._parts.waits, self._parts.world.spec.episode_length
        turns, after = [np.asarray(desk.turn)], []
        for _ in range(count):
            worlds, action = _unpack(self._cuts, turns[-1].reshape(-1, turns[-1].shape[-1]))
            if waits and worlds.age.min() >= length:  # every episode of this collection has ended early
                break
            after.append(np.concatenate(self._move(worlds.state, action), axis=1))
            desk = self._turned(actor, desk, draws, after[-1])
            turns.append(np.asarray(desk.turn))
        missing = count - len(after)  # steps of episodes that have ended: not stored
        seen = np.stack(turns[:-1] + missing * turns[-1:])
        led = np.stack(after + missing * after[-1:])
        return _Log(seen, led.reshape(*seen.shape[:3], -1), turns[-1])

    def _compile(self, state: TrainState) -> None:
        keys, log = self.collect(state, 1)
        steps = self._parts.config.schedule.steps

        def whole(x: Array) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((steps, *x.shape[1:]), x.dtype)

        whole_log = _Log(whole(log.turns), whole(log.after), log.last)
        self._finished = self._finishing.lower(state, keys, whole_log).compile()


def _pack(worlds: Worlds, action: Float[Array, "seeds worlds action"]) -> Float[Array, "seeds worlds turn"]:
    """All of a turn in one array: that is one transfer."""
    start = [] if isinstance(worlds.start, tuple) else [worlds.start]
    age = worlds.age[..., None].astype(jnp.float32)
    return jnp.concatenate([*worlds.state, worlds.skill, *start, age, action], axis=-1)


class _Cuts(NamedTuple):
    """Where the pieces of a turn end."""

    qpos: int
    state: int
    skill: int
    start: int


def _cuts(parts: Parts) -> _Cuts:
    initial = jax.eval_shape(parts.world.initial, jax.random.key(0))
    nq, nv = initial.qpos.shape[0], initial.qvel.shape[0]
    skill = nq + nv + parts.orders.size
    return _Cuts(nq, nq + nv, skill, skill + parts.world.spec.obs_dim if parts.keeps_start else skill)


def _unpack(cuts: _Cuts, turn: Any) -> tuple[Worlds, Any]:
    """The worlds and actions of a turn, [..., entries]; NumPy or JAX."""
    state = Physical(turn[..., : cuts.qpos], turn[..., cuts.qpos : cuts.state])
    start = turn[..., cuts.skill : cuts.start] if cuts.start > cuts.skill else ()
    age = turn[..., cuts.start].astype(np.int32)
    return Worlds(state, turn[..., cuts.state : cuts.skill], age, start), turn[..., cuts.start + 1 :]


def _prepare(
    parts: Parts, groups: int, actor: Actor, worlds: Worlds, key: Array
) -> tuple[EpochKeys, tuple[_Desk, ...], tuple[_Draws, ...]]:
    """For each group of worlds: its first turn, and all that will be random."""
    keys = draw_epoch_keys(parts, key)
    orders = jax.vmap(partial(order_keys, parts))(keys.act)
    noise = jax.vmap(partial(draw_noise, parts))(keys.act)
    worlds = renew_orders(parts, actor, worlds, jax.tree.map(lambda x: x[0], orders))
    first = _pack(worlds, jax.vmap(partial(act, parts))(actor, worlds, noise[0]))

    def coming(x: Array) -> Array:
        """What each step needs for the one that follows; nobody asks what follows the last."""
        return jnp.concatenate([x[1:], x[-1:]])

    fresh = jax.vmap(partial(fresh_worlds, parts))(keys.fresh)
    draws = _Draws(_pack(fresh, coming(noise)), jax.tree.map(coming, orders))

    def part(tree: Any, group: int, axis: int) -> Any:
        return jax.tree.map(lambda x: jnp.split(x, groups, axis)[group], tree)

    desks = tuple(_Desk(jnp.int32(0), part(first, g, 1)) for g in range(groups))
    return keys, desks, tuple(part(draws, g, 2) for g in range(groups))


def _turn(parts: Parts, actor: Actor, desk: _Desk, draws: _Draws, after: Float[Array, "all state"]) -> _Desk:
    """Go on from where a step has led: start the episodes that are due, and choose what comes next."""
    cuts = _cuts(parts)
    before, _ = _unpack(cuts, desk.turn)
    fresh, noise = _unpack(cuts, draws.turns[desk.at])
    led = Physical(*jnp.split(by_seed(after, parts.config.seeds), [cuts.qpos], axis=-1))
    worlds = go_on(parts.world, before._replace(state=led), None if parts.waits else fresh)
    renewed = renew_orders(parts, actor, worlds, jax.tree.map(lambda x: x[desk.at], draws.orders))
    goes_on = desk.at + 1 < draws.turns.shape[0]  # orders for the first step of a collection are given when it begins
    worlds = worlds._replace(skill=jnp.where(goes_on, renewed.skill, worlds.skill))
    return _Desk(desk.at + 1, _pack(worlds, jax.vmap(partial(act, parts))(actor, worlds, noise)))


def _finish(parts: Parts, state: TrainState, keys: EpochKeys, log: _Log) -> tuple[TrainState, Metrics]:
    """Put together what happened, and learn."""
    cuts = _cuts(parts)
    before, action = _unpack(cuts, log.turns)
    led = Physical(*jnp.split(log.after, [cuts.qpos], axis=-1))
    fresh = jax.vmap(partial(record, parts.world))(before, action, led)
    running = is_running(parts, before.age)

    def in_order(tree: Any) -> Any:
        """[steps, seeds, worlds, ...] -> [seeds, steps * worlds, ...]: the first is the first in time."""
        return jax.vmap(all_worlds, in_axes=1)(tree)

    lost = look_for_lost(state.lost, *in_order((before.state, action, led, running)))
    worlds = _unpack(cuts, log.last)[0]
    if parts.waits:
        worlds = fresh_worlds(parts, keys.fresh[0])
    return learn_all(parts, state._replace(worlds=worlds, lost=lost, key=keys.next), fresh, before.age, keys.learn)
