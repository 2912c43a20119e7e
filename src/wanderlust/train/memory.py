"""How much memory a run takes: its state before anything is allocated, its program once it is compiled."""

from typing import Any, NamedTuple

import jax

from wanderlust import train
from wanderlust.envs import devices
from wanderlust.envs.engines.warp import WarpEngine, import_warp
from wanderlust.errors import UserError
from wanderlust.train.state import example

GIB = 2**30


class MemoryUse(NamedTuple):
    """Bytes, by what they are for."""

    networks: int
    """Networks, targets and optimisers of all seeds."""
    replay: int
    working: int
    """What lives for an epoch: the collection, batches, and activations kept for gradients."""
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


def count(parts: train.Setup, episodes: int, compiled: int = 0) -> MemoryUse:
    """The memory of a run whose probe rolls out this many episodes, on the device that has most to hold.

    The state is counted to the byte. What the training program needs besides is `compiled`, the compiler's own number;
    before it is known, the collection and the environments stand for it: the run needs at least that. A rule of the
    engine's counts its buffers, 1.1 to 1.4 times what it allocates.
    """
    config = parts.config
    state = jax.eval_shape(lambda: train.init(parts))
    split = train.seed_mesh(config.seeds).size if config.driver == "fused" else 1
    transition = config.seeds * size(jax.eval_shape(lambda: example(parts)))
    working = max(compiled, size(state.worlds) + config.schedule.collection * transition)
    physics = 0
    if isinstance(parts.engine, WarpEngine):
        physics = sum(parts.engine.bytes(worlds * config.seeds) for worlds in (config.schedule.worlds, episodes))
    whole = MemoryUse(size(state.learner), size(state.replay), working, physics)
    on_host = jax.default_backend() == "cpu"  # whose memory is one; each GPU has its own
    return whole if on_host else MemoryUse(*(-(-x // split) for x in whole))


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


def check(needed: MemoryUse, room: Room, seeds: int) -> None:
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


EPISODES = 200
"""That are played at once to look at skills, unless more are asked for."""


def check_use(parts: train.Setup) -> None:
    """Refuse skills whose use does not fit the machine, before anything of them is allocated.

    A small file can ask for episodes or skills of any number. What is counted is the least there can be: what is
    observed of episodes with mode, sampled and random actions, and for discrete skills a row for each of them.
    """
    config, spec, skills = parts.config, parts.world.spec, parts.command_size
    observed = 3 * EPISODES * config.seeds * (spec.episode_length + 1) * spec.obs_dim
    drawn = 4 * EPISODES * config.seeds * skills + (skills**2 if config.skills.kind == "discrete" else 0)
    needed, have = 4 * (observed + drawn), room(parts)
    if needed > have.arrays:
        largest = "env.episode_length" if observed > drawn else "skills.size"
        raise UserError(
            f"to use these skills takes {in_words(needed)} at least, and {have}; {largest} of the run is too large for "
            "this machine"
        )


def size(tree: Any) -> int:
    """Bytes of all arrays of a tree, or of what `jax.eval_shape` says of one."""
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


def in_words(count: float) -> str:
    """A number of bytes as a person reads it."""
    return f"{count / GIB:,.1f} GiB" if count >= GIB else f"{count / 2**20:,.1f} MiB"
