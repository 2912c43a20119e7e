"""The driver `split`: worlds on the host, moved between compiled calls, for engines that cannot be compiled."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from wanderlust.envs import Physical
from wanderlust.envs.vector import look_for_lost, record
from wanderlust.methods.base import Metrics
from wanderlust.train.collection import EpochKeys, all_worlds, fresh_worlds, is_running
from wanderlust.train.crews import Crew, make_crew
from wanderlust.train.learning import learn_all, mean_metrics
from wanderlust.train.state import Parts, TrainState, sampler
from wanderlust.train.turns import Log, prepare, turn_cuts, unpack


class SplitDriver:
    """Worlds on the host, moved by a crew; learning on the device."""

    def __init__(self, parts: Parts, crew: Crew | None = None) -> None:
        self._parts, self._crew = parts, crew or make_crew(parts)
        self._prepared = jax.jit(partial(prepare, parts))
        self._finishing = jax.jit(partial(_finish, parts), donate_argnums=0)
        self._finished: Callable[..., tuple[TrainState, Metrics]] = self._finishing

    def __call__(self, state: TrainState, epochs: int) -> tuple[TrainState, Metrics]:
        """Train for so many epochs, and return their mean metrics; compile alone if that is none."""
        if epochs == 0:
            self._compile(state)
        total: Metrics = {}
        for _ in range(epochs):
            state, metrics = self.learn(state, *self.collect(state))
            total = {name: total[name] + value if total else value for name, value in metrics.items()}
        return state, mean_metrics(total, epochs) if total else {}

    def collect(self, state: TrainState, steps: int | None = None) -> tuple[EpochKeys, Log]:
        """What happens in a collection of an epoch, or in the first steps of it."""
        actor = sampler(self._parts, state.learner)
        keys, desk, draws = self._prepared(actor, state.worlds, state.key)
        steps = self._parts.config.schedule.steps if steps is None else steps
        return keys, self._crew.collect(actor, steps, desk, draws)

    def learn(self, state: TrainState, keys: EpochKeys, log: Log) -> tuple[TrainState, Metrics]:
        """Store it and learn from it. The state that is given is used up."""
        return self._finished(state, keys, log)

    def _compile(self, state: TrainState) -> None:
        keys, log = self.collect(state, 1)
        steps = self._parts.config.schedule.steps

        def whole(x: Array) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((steps, *x.shape[1:]), x.dtype)

        whole_log = Log(whole(log.turns), whole(log.after), log.last)
        self._finished = self._finishing.lower(state, keys, whole_log).compile()


def _finish(parts: Parts, state: TrainState, keys: EpochKeys, log: Log) -> tuple[TrainState, Metrics]:
    """Put together what happened, and learn."""
    cuts = turn_cuts(parts)
    before, action = unpack(cuts, log.turns)
    led = Physical(*jnp.split(log.after, [cuts.qpos], axis=-1))
    fresh = jax.vmap(partial(record, parts.world))(before, action, led)
    running = is_running(parts, before.age)

    def in_order(tree: Any) -> Any:
        """[steps, seeds, worlds, ...] -> [seeds, steps * worlds, ...]: the first is the first in time."""
        return jax.vmap(all_worlds, in_axes=1)(tree)

    lost = look_for_lost(state.lost, *in_order((before.state, action, led, running)))
    worlds = unpack(cuts, log.last)[0]
    if parts.waits:
        worlds = fresh_worlds(parts, keys.fresh[0])
    return learn_all(parts, state._replace(worlds=worlds, lost=lost, key=keys.next), fresh, before.age, keys.learn)
