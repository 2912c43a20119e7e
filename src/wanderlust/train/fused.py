"""The driver `fused`: collection and learning in one compiled program."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from wanderlust.methods.base import Metrics
from wanderlust.train.rollout import Collecting, Unroll, collection_step, draw_epoch_keys, fresh_worlds, make_unroll
from wanderlust.train.state import Setup, TrainState, behaviour_policy
from wanderlust.train.update import learn_all, mean_metrics, working_bytes


class FusedDriver:
    """Everything in one program; seeds are spread over the devices there are."""

    def __init__(self, parts: Setup) -> None:
        if not parts.engine.compiles:
            raise ValueError("this engine cannot be compiled: use the split driver")
        self._mesh = seed_mesh(parts.config.seeds)
        across, same = PartitionSpec("seeds"), PartitionSpec()
        collect = make_unroll(parts.engine, collection_step(parts), on_host=False)
        chunk = partial(_chunk, partial(_epoch, parts, collect))
        spread = jax.shard_map(chunk, mesh=self._mesh, in_specs=(across, same), out_specs=across, check_vma=False)
        self._jitted = jax.jit(spread, donate_argnums=0)
        self._program: Callable[..., tuple[TrainState, Metrics]] = self._jitted
        self._sharding = NamedSharding(self._mesh, across)
        self.working_bytes = 0

    def __call__(self, state: TrainState, epochs: int) -> tuple[TrainState, Metrics]:
        state = jax.device_put(state, self._sharding)
        if epochs == 0:
            compiled = self._jitted.lower(state, jnp.int32(0)).compile()
            self._program, self.working_bytes = compiled, working_bytes(compiled) * self._mesh.size
            return state, {}
        return self._program(state, jnp.int32(epochs))


def _epoch(parts: Setup, collect: Unroll, state: TrainState) -> tuple[TrainState, Metrics]:
    keys = draw_epoch_keys(parts, state.key)
    actor = behaviour_policy(parts, state.learner)
    carry = Collecting(state.worlds, state.diverged)
    (worlds, diverged, _), (fresh, age) = collect(actor, carry, (keys.act, keys.fresh))
    if parts.waits:
        worlds = fresh_worlds(parts, keys.fresh[0])
    state = state._replace(worlds=worlds, diverged=diverged, key=keys.next)
    return learn_all(parts, state, fresh, age, keys.learn)


def _chunk(
    epoch: Callable[[TrainState], tuple[TrainState, Metrics]], state: TrainState, epochs: Int[Array, ""]
) -> tuple[TrainState, Metrics]:
    """How many epochs is an argument: a last, shorter chunk compiles nothing new."""
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(epoch, state)[1])

    def body(_: int, carry: tuple[TrainState, Metrics]) -> tuple[TrainState, Metrics]:
        state, total = carry
        state, metrics = epoch(state)
        return state, jax.tree.map(jnp.add, total, metrics)

    state, total = jax.lax.fori_loop(0, epochs, body, (state, zeros))
    return state, mean_metrics(total, jnp.maximum(epochs, 1))


def seed_mesh(seeds: int) -> Mesh:
    """As many devices as divide the seeds evenly: one seed stays on one device."""
    devices = jax.devices()
    count = max(n for n in range(1, min(seeds, len(devices)) + 1) if seeds % n == 0)
    return Mesh(np.array(devices[:count]), ("seeds",))
