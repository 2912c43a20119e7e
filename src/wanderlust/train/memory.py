"""How much memory a run takes, counted from its configuration before anything is allocated."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wanderlust import train
from wanderlust.config import IbolConfig
from wanderlust.envs import devices
from wanderlust.envs.engines.warp import WarpEngine, import_warp
from wanderlust.errors import UserError

GIB = 2**30


class Memory(NamedTuple):
    """Bytes, by what they are for."""

    networks: int
    """Networks, targets and optimisers of all seeds."""
    replay: int
    working: int
    """What lives for an epoch: the collection, the batches and what the networks keep of them for their gradients."""
    physics: int
    """Buffers that belong to the engine and not to JAX."""

    @property
    def arrays(self) -> int:
        """What JAX allocates."""
        return self.networks + self.replay + self.working

    @property
    def total(self) -> int:
        return self.arrays + self.physics

    def __str__(self) -> str:
        return (
            f"networks and optimisers {in_words(self.networks)}, replay {in_words(self.replay)}, "
            f"collection and batches {in_words(self.working)}, physics buffers {in_words(self.physics)}"
        )


class Room(NamedTuple):
    """Memory there is, in bytes."""

    arrays: int
    """What JAX may allocate on one device."""
    physics: int | None
    """What an engine may allocate beside it; None if both share the former."""
    name: str

    def __str__(self) -> str:
        apart = f" for JAX and {in_words(self.physics)} beside it" if self.physics is not None else ""
        return f"{self.name} has {in_words(self.arrays)}{apart}"


def count(parts: train.Setup, episodes: int) -> Memory:
    """The memory of a run that looks at its skills with this many episodes, on the device that has most to hold.

    The state is counted to the byte. What the compiler needs besides is an upper bound by the rule below, 1.1 to 1.2
    times what XLA reports for the recipes of the bodies (`tests/test_engine_choice.py` compares one); the engine's
    buffers are counted by a rule of its own, which gave 1.1 to 1.4 times what it allocates.
    """
    config, world = parts.config, parts.world.spec
    state = jax.eval_shape(lambda: train.init(parts))
    split = train.seed_mesh(config.seeds).size if config.driver == "fused" else 1
    on_cpu = jax.default_backend() == "cpu"
    networks, replay = size(state.learner), size(state.replay)
    transition = config.seeds * size(jax.eval_shape(lambda: train.example(parts)))
    # The collection exists twice: as it was made, step by step, and seed by seed. The worlds are part of the state.
    working = size(state.worlds) + 2 * config.schedule.collection * transition
    # Seeds learn side by side on an accelerator. On a CPU device they take turns, each with a copy of its own share.
    at_once = split if on_cpu else config.seeds
    working += at_once * _learning(parts, networks // config.seeds)
    if on_cpu and config.seeds > split:
        working += split * (networks + replay) // config.seeds
    working += config.seeds * episodes * (world.episode_length + 1) * (world.obs_dim + world.action_dim) * 4
    physics = 0
    if isinstance(parts.engine, WarpEngine):
        physics = sum(parts.engine.bytes(worlds * config.seeds) for worlds in (config.schedule.worlds, episodes))
    whole = Memory(networks, replay, working, physics)
    return whole if on_cpu else Memory(*(-(-x // split) for x in whole))  # the host's memory is one, a GPU's its own


def _learning(parts: train.Setup, networks: int) -> int:
    """What gradient steps of one seed need: hidden layers kept for the backward pass, and new networks beside the old.

    A SAC step runs the policy twice (at s' and at s) and twin critics three times (targets, values, the policy's
    actions); the method's network runs at s and at s'. Halves are counted as float32: XLA may keep either.
    """
    schedule, sac, method = parts.config.schedule, parts.config.sac, parts.config.method
    if isinstance(method, IbolConfig):  # both policies at every decision, one of them for many skills, and two LSTMs
        decisions = min(schedule.sac_batch, schedule.worlds) * -(-schedule.steps // method.block)
        return networks + decisions * ((method.samples + 2) * sum(method.hidden) + 2 * 8 * method.hidden[0]) * 4
    kept_by_sac = schedule.sac_batch * (2 + 2 * 3) * sum(sac.hidden) * 4
    rows = schedule.sac_batch if schedule.order == "joint" else schedule.method_batch or schedule.collection
    ring = schedule.collection * schedule.replay_collections
    if schedule.order == "sac-first" and ring <= schedule.sac_steps * schedule.sac_batch:
        rows = max(rows, ring)  # the rewards of the whole ring are computed at once
    kept_by_method = rows * 2 * sum(method.hidden) * 4
    if schedule.order == "sac-first":
        return networks + max(kept_by_sac, kept_by_method)
    return networks + kept_by_sac + kept_by_method


def room(parts: train.Setup) -> Room:
    """The memory of this machine, as far as a run of these parts may use it."""
    device = jax.devices()[0]
    limit = (device.memory_stats() or {}).get("bytes_limit")
    if limit is None:
        return Room(devices.host_memory(), None, "this machine")
    beside = None
    if isinstance(parts.engine, WarpEngine):
        beside = int(import_warp().get_device().free_memory)  # JAX has taken its share when it started
    return Room(int(limit), beside, device.device_kind)


def check(needed: Memory, room: Room, seeds: int) -> None:
    """Refuse a run that does not fit, and name what would have to be smaller."""
    shared = room.physics is None
    arrays = needed.total if shared else needed.arrays
    if arrays > room.arrays:
        largest = max(
            (needed.networks, "sac.hidden or method.hidden"),
            (needed.replay, "schedule.replay_collections or schedule.worlds"),
            (needed.working, "schedule.sac_batch or schedule.worlds"),
            (needed.physics if shared else 0, "schedule.worlds"),
        )[1]
        raise UserError(
            f"this run needs {arrays / GIB:,.1f} GiB for networks and replay and what goes with them ({needed}), and "
            f"{room}; lower {largest}{', or --seeds' if seeds > 1 else ''}"
        )
    if room.physics is not None and needed.physics > room.physics:
        raise UserError(
            f"this run needs {in_words(needed.physics)} for its physics buffers, and {room}; lower schedule.worlds or "
            "--seeds, or leave more beside JAX with XLA_PYTHON_CLIENT_MEM_FRACTION=0.5"
        )


def size(tree: Any) -> int:
    """Bytes of all arrays of a tree, or of what `jax.eval_shape` says of one."""
    return sum(math.prod(x.shape) * _itemsize(x.dtype) for x in jax.tree.leaves(tree))


def _itemsize(dtype: Any) -> int:
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return 8  # two words
    return int(np.dtype(dtype).itemsize)


def in_words(count: float) -> str:
    """A number of bytes as a person reads it."""
    return f"{count / GIB:,.1f} GiB" if count >= GIB else f"{count / 2**20:,.1f} MiB"
