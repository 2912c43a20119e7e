"""The driver `fused`: collection and learning in one compiled program."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from wanderlust.envs.vector import (
    Lost,
    Worlds,
    look_for_lost,
)
from wanderlust.methods.base import Metrics
from wanderlust.train.collection import (
    act,
    all_worlds,
    by_seed,
    draw_epoch_keys,
    draw_noise,
    fresh_worlds,
    is_running,
    order_keys,
    renew_orders,
    settle_step,
)
from wanderlust.train.learning import Advance, learn_all, mean_metrics
from wanderlust.train.state import Parts, TrainState, sampler
from wanderlust.types import Transition


def fused_driver(parts: Parts) -> Advance:
    """Everything in one program; seeds are spread over the devices there are."""
    if not parts.engine.compiles:
        raise ValueError("this engine cannot be compiled: use the split driver")

    def epoch(state: TrainState) -> tuple[TrainState, Metrics]:
        seeds = state.key.shape[0]
        keys = draw_epoch_keys(parts, state.key)
        actor = sampler(parts, state.learner)

        def step(
            carry: tuple[Worlds, Lost], keys: tuple[Array, Array]
        ) -> tuple[tuple[Worlds, Lost], tuple[Transition, Array]]:
            (worlds, lost), (act_key, fresh_key) = carry, keys
            worlds = renew_orders(parts, actor, worlds, order_keys(parts, act_key))
            action = jax.vmap(partial(act, parts))(actor, worlds, draw_noise(parts, act_key))
            after = by_seed(parts.engine.step(all_worlds(worlds.state), all_worlds(action)), seeds)
            before = worlds.state
            worlds, transition, age = settle_step(parts, worlds, action, after, lambda: fresh_worlds(parts, fresh_key))
            lost = look_for_lost(lost, before, action, after, is_running(parts, age))
            return (worlds, lost), (transition, age)

        (worlds, lost), (fresh, age) = jax.lax.scan(step, (state.worlds, state.lost), (keys.act, keys.fresh))
        if parts.waits:
            worlds = fresh_worlds(parts, keys.fresh[0])
        state = state._replace(worlds=worlds, lost=lost, key=keys.next)
        return learn_all(parts, state, fresh, age, keys.learn)

    def chunk(state: TrainState, epochs: Int[Array, ""]) -> tuple[TrainState, Metrics]:
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(epoch, state)[1])

        def body(_: int, carry: tuple[TrainState, Metrics]) -> tuple[TrainState, Metrics]:
            state, total = carry
            state, metrics = epoch(state)
            return state, jax.tree.map(jnp.add, total, metrics)

        state, total = jax.lax.fori_loop(0, epochs, body, (state, zeros))
        return state, mean_metrics(total, jnp.maximum(epochs, 1))

    mesh = seed_mesh(parts.config.seeds)
    across, same = PartitionSpec("seeds"), PartitionSpec()
    spread = jax.shard_map(chunk, mesh=mesh, in_specs=(across, same), out_specs=across, check_vma=False)
    compiled = jax.jit(spread, donate_argnums=0)

    def advance(state: TrainState, epochs: int) -> tuple[TrainState, Metrics]:
        state = jax.device_put(state, NamedSharding(mesh, across))
        return compiled(state, jnp.int32(epochs))

    return advance


def seed_mesh(seeds: int) -> Mesh:
    """As many devices as divide the seeds evenly: one seed stays on one device."""
    devices = jax.devices()
    count = max(n for n in range(1, min(seeds, len(devices)) + 1) if seeds % n == 0)
    return Mesh(np.array(devices[:count]), ("seeds",))
