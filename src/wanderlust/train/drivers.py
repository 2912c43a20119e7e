"""Both drivers: they collect and learn, epoch by epoch, and differ only in what steps the environments."""

import abc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from wanderlust.envs.devices import has_gpu
from wanderlust.envs.spec import Transition
from wanderlust.envs.unroll import Unroll, make_unroll
from wanderlust.methods.base import Metrics
from wanderlust.train.autoreset import Diverged, EnvState, where_worlds
from wanderlust.train.rollout import Collecting, EpochKeys, collection_step, draw_epoch_keys
from wanderlust.train.state import Setup, TrainState, fresh_worlds, skill_policy
from wanderlust.train.update import learn_all

FEW = 32
"""Up to so many environments choose their actions on the CPU: to send every step to the GPU and back takes longer."""


class Driver(abc.ABC):
    """Trains: collects and learns, epoch by epoch."""

    def __init__(self, program: Callable[..., tuple[TrainState, Metrics]]) -> None:
        """`program` is what is compiled: all of an epoch, or the learning part of it."""
        self._jitted: Any = jax.jit(program, donate_argnums=0)
        self._program: Callable[..., tuple[TrainState, Metrics]] = self._jitted
        self.working_bytes = 0
        """What the compiled program needs beside its arguments, as the compiler says; 0 before it is compiled."""

    @abc.abstractmethod
    def __call__(self, state: TrainState, epochs: int) -> tuple[TrainState, Metrics]:
        """Run a number of epochs; metrics are means over them, one value per seed. 0 epochs compile, and no more."""

    def _compile(self, *arguments: Any, devices: int = 1) -> None:
        """Compile ahead. What the program needs are temporary arrays, and outputs that reuse no argument's memory."""
        self._program = compiled = self._jitted.lower(*arguments).compile()
        if (report := compiled.memory_analysis()) is not None:
            beside = report.temp_size_in_bytes + report.output_size_in_bytes - report.alias_size_in_bytes
            self.working_bytes = devices * int(max(0, beside))


def make_driver(parts: Setup) -> Driver:
    """The driver a configuration asks for, compiled on first use."""
    return FusedDriver(parts) if parts.config.driver == "fused" else SplitDriver(parts)


def _learn(
    parts: Setup, state: TrainState, keys: EpochKeys, end: Collecting, made: tuple[Transition, Array]
) -> tuple[TrainState, Metrics]:
    """The second half of an epoch, from how its collection ended and what it made [steps, seeds, worlds, ...]."""
    envs = jax.vmap(partial(fresh_worlds, parts))(keys.fresh[0]) if parts.waits else end.envs
    state = state._replace(worlds=envs, diverged=end.diverged, key=keys.next)
    return learn_all(parts, state, *made, keys.learn)


def _mean_metrics(total: Metrics, epochs: Any) -> Metrics:
    """Sums over epochs as means: of what is learned, over the epochs that learned."""
    learned = jnp.maximum(total["learned"], 1.0)
    rest = {name: value for name, value in total.items() if name not in ("learned", "steps")}
    return {**{name: value / learned for name, value in rest.items()}, "steps": total["steps"] / epochs}


# --- fused -----------------------------------------------------------------------------------------------------------


class FusedDriver(Driver):
    """Collection and learning in one compiled program; seeds are spread over the devices there are."""

    def __init__(self, parts: Setup) -> None:
        if not parts.engine.compiles:
            raise ValueError("this engine cannot be compiled: use the split driver")
        self._mesh = seed_mesh(parts.config.seeds)
        across, same = PartitionSpec("seeds"), PartitionSpec()
        self._sharding = NamedSharding(self._mesh, across)
        collect = make_unroll(parts.engine, collection_step(parts), on_host=False)
        chunk = partial(_chunk, partial(_epoch, parts, collect))
        super().__init__(
            jax.shard_map(chunk, mesh=self._mesh, in_specs=(across, same), out_specs=across, check_vma=False)
        )

    def __call__(self, state: TrainState, epochs: int) -> tuple[TrainState, Metrics]:
        state = jax.device_put(state, self._sharding)
        if epochs == 0:
            self._compile(state, jnp.int32(0), devices=self._mesh.size)
            return state, {}
        return self._program(state, jnp.int32(epochs))


def _epoch(parts: Setup, collect: Unroll, state: TrainState) -> tuple[TrainState, Metrics]:
    keys = draw_epoch_keys(parts, state.key)
    policy = skill_policy(parts, state.learner, collecting=True)
    end, made = collect(policy, Collecting(state.worlds, state.diverged), (keys.act, keys.fresh))
    return _learn(parts, state, keys, end, made)


def _chunk(
    epoch: Callable[[TrainState], tuple[TrainState, Metrics]], state: TrainState, epochs: Int[Array, ""]
) -> tuple[TrainState, Metrics]:
    """How many epochs is an argument: a last, shorter chunk compiles nothing new."""
    epoch = jax.jit(epoch, inline=True)  # traced once for its shapes and its steps
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(epoch, state)[1])

    def body(_: int, carry: tuple[TrainState, Metrics]) -> tuple[TrainState, Metrics]:
        state, total = carry
        state, metrics = epoch(state)
        return state, jax.tree.map(jnp.add, total, metrics)

    state, total = jax.lax.fori_loop(0, epochs, body, (state, zeros))
    return state, _mean_metrics(total, jnp.maximum(epochs, 1))


def seed_mesh(seeds: int) -> Mesh:
    """As many devices as divide the seeds evenly: one seed stays on one device."""
    devices = jax.devices()
    count = max(n for n in range(1, min(seeds, len(devices)) + 1) if seeds % n == 0)
    return Mesh(np.array(devices[:count]), ("seeds",))


# --- split -----------------------------------------------------------------------------------------------------------


class SplitDriver(Driver):
    """Environments on the host, for engines that do not compile, between compiled calls that act and learn."""

    def __init__(self, parts: Setup, groups: int | None = None, act_on: jax.Device | None = None) -> None:
        """Environments go in `groups`, each on a thread of its own: while the engine steps one, another acts."""
        super().__init__(partial(_learn, parts))
        schedule = parts.config.schedule
        if act_on is None and has_gpu() and schedule.worlds * parts.config.seeds <= FEW:
            act_on = _cpu()
        self._parts, self._act_on = parts, act_on
        self._groups = groups or (2 if schedule.worlds % 2 == 0 and not parts.engine.stateful else 1)
        self._threads = ThreadPoolExecutor(self._groups)
        self._unroll = make_unroll(parts.engine.for_callers(self._groups), collection_step(parts), on_host=True)
        self._keys = jax.jit(partial(draw_epoch_keys, parts))
        self._split = jax.jit(partial(_split, self._groups))

    def __call__(self, state: TrainState, epochs: int) -> tuple[TrainState, Metrics]:
        if epochs == 0:
            self._compile_for(state)
        total: Metrics = {}
        for _ in range(epochs):
            state, metrics = self._program(state, *self.collect(state))
            total = {name: total[name] + value if total else value for name, value in metrics.items()}
        return state, _mean_metrics(total, epochs) if total else {}

    def collect(
        self, state: TrainState, steps: int | None = None
    ) -> tuple[EpochKeys, Collecting, tuple[Transition, Array]]:
        """The keys of an epoch; and of its collection, or of the first steps of it, how it ended and what it made."""
        keys = self._keys(state.key)
        policy = skill_policy(self._parts, state.learner, collecting=True)
        given = policy, state.worlds, state.diverged, (keys.act, keys.fresh)
        policy, envs, diverged, inputs = given if self._act_on is None else jax.device_put(given, self._act_on)

        def one(group: Collecting) -> tuple[Any, Any]:
            return self._unroll(policy, group, inputs, steps)

        ends, outs = zip(*self._threads.map(one, self._split(envs, diverged)), strict=True)
        envs = jax.tree.map(lambda *x: np.concatenate(x, axis=1), *(end.envs for end in ends))
        end = Collecting(envs, _first(*(end.diverged for end in ends)))
        return keys, end, jax.tree.map(lambda *x: np.concatenate(x, axis=2), *outs)

    def _compile_for(self, state: TrainState) -> None:
        """Compile for a collection, whose shapes are those of one step that is made."""
        keys, end, made = self.collect(state, 1)
        steps = self._parts.config.schedule.steps

        def whole(x: Array) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((steps, *x.shape[1:]), x.dtype)

        self._compile(state, keys, end, jax.tree.map(whole, made))


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
