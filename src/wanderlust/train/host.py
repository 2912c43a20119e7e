"""The driver `split`: threads step environments on the host between compiled calls, for engines that do not compile."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from wanderlust.envs.devices import has_gpu
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import Metrics
from wanderlust.train.autoreset import Diverged, EnvState, where_worlds
from wanderlust.train.rollout import (
    Collecting,
    EpochKeys,
    collection_step,
    draw_epoch_keys,
    fresh_worlds,
    make_unroll,
)
from wanderlust.train.state import Setup, TrainState, behaviour_policy
from wanderlust.train.update import learn_all, mean_metrics, working_bytes

FEW = 32
"""Up to so many environments choose their actions on the CPU: to send every step to the GPU and back takes longer."""


class Collected(NamedTuple):
    """What a collection leaves behind, as NumPy arrays."""

    envs: EnvState
    diverged: Diverged
    fresh: Transition
    """[steps, seeds, worlds, ...]"""
    age: Int[Array, "steps seeds worlds"]


class SplitDriver:
    """Environments on the host, learning on the device."""

    def __init__(self, parts: Setup, groups: int | None = None, act_on: jax.Device | None = None) -> None:
        """Environments go in `groups`, each on a thread of its own: while the engine steps one, another acts."""
        schedule = parts.config.schedule
        if act_on is None and has_gpu() and schedule.worlds * parts.config.seeds <= FEW:
            act_on = _cpu()
        self._parts, self._act_on = parts, act_on
        self._groups = groups or (2 if schedule.worlds % 2 == 0 else 1)
        self._threads = ThreadPoolExecutor(self._groups)
        self._unroll = make_unroll(parts.engine.for_callers(self._groups), collection_step(parts), on_host=True)
        self._keys = jax.jit(partial(draw_epoch_keys, parts))
        self._split = jax.jit(partial(_split, self._groups))
        self._learning = jax.jit(partial(_learn, parts), donate_argnums=0)
        self._learn: Callable[..., tuple[TrainState, Metrics]] = self._learning
        self.working_bytes = 0

    def __call__(self, state: TrainState, epochs: int) -> tuple[TrainState, Metrics]:
        """Train for so many epochs, and return their mean metrics; compile alone if that is none."""
        if epochs == 0:
            self._compile(state)
        total: Metrics = {}
        for _ in range(epochs):
            state, metrics = self._learn(state, *self.collect(state))
            total = {name: total[name] + value if total else value for name, value in metrics.items()}
        return state, mean_metrics(total, epochs) if total else {}

    def collect(self, state: TrainState, steps: int | None = None) -> tuple[EpochKeys, Collected]:
        """The collection of an epoch, or the first steps of it."""
        keys = self._keys(state.key)
        given = behaviour_policy(self._parts, state.learner), state.worlds, state.diverged, (keys.act, keys.fresh)
        actor, envs, diverged, inputs = given if self._act_on is None else jax.device_put(given, self._act_on)

        def one(group: Collecting) -> tuple[Any, Any]:
            return self._unroll(actor, group, inputs, steps)

        ends, outs = zip(*self._threads.map(one, self._split(envs, diverged)), strict=True)
        fresh, age = jax.tree.map(lambda *x: np.concatenate(x, axis=2), *outs)
        envs = jax.tree.map(lambda *x: np.concatenate(x, axis=1), *(end.envs for end in ends))
        return keys, Collected(envs, _first(*(end.diverged for end in ends)), fresh, age)

    def _compile(self, state: TrainState) -> None:
        keys, collected = self.collect(state, 1)
        steps = self._parts.config.schedule.steps

        def whole(x: Array) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((steps, *x.shape[1:]), x.dtype)

        fresh, age = jax.tree.map(whole, (collected.fresh, collected.age))
        compiled = self._learning.lower(state, keys, collected._replace(fresh=fresh, age=age)).compile()
        self._learn, self.working_bytes = compiled, working_bytes(compiled)


def _cpu() -> jax.Device | None:
    try:
        return jax.devices("cpu")[0]
    except RuntimeError:  # JAX was told to use the GPU alone
        return None


def _split(groups: int, envs: EnvState, diverged: Diverged) -> list[Collecting]:
    """Some of the environments of every seed for each group."""
    size = envs.age.shape[1] // groups

    def part(first: int) -> Collecting:
        mine = jax.tree.map(lambda x: x[:, first : first + size], envs)
        return Collecting(mine, diverged, jnp.int32(first))

    return [part(group * size) for group in range(groups)]


def _first(one: Diverged, *others: Diverged) -> Diverged:
    """For each seed the first of these records that has found something."""
    for other in others:
        one = where_worlds(one.found, one, other)
    return one


def _learn(parts: Setup, state: TrainState, keys: EpochKeys, collected: Collected) -> tuple[TrainState, Metrics]:
    envs = fresh_worlds(parts, keys.fresh[0]) if parts.waits else collected.envs
    state = state._replace(worlds=envs, diverged=collected.diverged, key=keys.next)
    return learn_all(parts, state, collected.fresh, collected.age, keys.learn)
