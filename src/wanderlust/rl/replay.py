"""A ring of the last transitions. On-policy learning is a ring that holds exactly one collection."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from wanderlust.envs.spec import Transition


class Replay(NamedTuple):
    """Storage with a leading axis of its capacity, and how much of it has been written."""

    data: Transition
    cursor: Int[Array, ""]
    size: Int[Array, ""]


def empty(example: Transition, capacity: int) -> Replay:
    """A ring for `capacity` transitions shaped like `example` (one transition, without a batch axis)."""
    data = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), example)
    return Replay(data, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))


def append(replay: Replay, batch: Transition) -> Replay:
    """Write a batch over the oldest entries. The capacity must be a multiple of the batch, so that it never wraps."""
    count = batch.obs.shape[0]
    capacity = replay.data.obs.shape[0]
    if capacity % count:
        raise ValueError(f"a ring of {capacity} cannot take batches of {count} without wrapping")
    data = jax.tree.map(
        lambda whole, part: jax.lax.dynamic_update_slice_in_dim(whole, part, replay.cursor, 0), replay.data, batch
    )
    return Replay(data, (replay.cursor + count) % capacity, jnp.minimum(replay.size + count, capacity))


def append_valid(replay: Replay, batch: Transition, valid: Bool[Array, " count"]) -> Replay:
    """Write only the valid entries of a batch, in their order, over the oldest ones; the ring may wrap anywhere."""
    count, capacity = batch.obs.shape[0], replay.data.obs.shape[0]
    if count > capacity:
        raise ValueError(f"a ring of {capacity} cannot take a batch of {count}")
    order = jnp.argsort(~valid, stable=True)
    written = jnp.sum(valid, dtype=jnp.int32)
    place = jnp.arange(count)
    index = jnp.where(place < written, (replay.cursor + place) % capacity, capacity)  # beyond the end: dropped
    data = jax.tree.map(lambda whole, part: whole.at[index].set(part[order], mode="drop"), replay.data, batch)
    return Replay(data, (replay.cursor + written) % capacity, jnp.minimum(replay.size + written, capacity))


def draw(replay: Replay, key: Key[Array, ""], count: int) -> Int[Array, " count"]:
    """Indices of `count` transitions, uniform with replacement."""
    return jax.random.randint(key, (count,), 0, replay.size)


def whole_episodes(index: Int[Array, " count"], steps: int, worlds: int) -> Int[Array, "count steps"]:
    """Indices of the episodes that these transitions are of, in order of time.

    For a ring of collections [steps, worlds] in which each world goes through one whole episode, so that no episode
    crosses the end of a collection, and none the end of the ring.
    """
    begin = index - index % (steps * worlds) + index % worlds
    return begin[:, None] + worlds * jnp.arange(steps)[None]


def take(replay: Replay, index: Int[Array, "*count"]) -> Transition:
    """The transitions at these indices."""
    return jax.tree.map(lambda x: x[index], replay.data)
