"""The way to a desk on a GPU and back, as short as it can be.

JAX brings arrays to a GPU and back by threads of its own. They have to be woken up, which takes longer than the turn
that is taken there. So the GPU itself reads and writes memory of the host: worlds arrive in an array that stays where
it is and is read anew by every turn, and what a turn leads to is written next to it.
"""

import ctypes
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from wanderlust.train.state import Actor, Parts
from wanderlust.train.turns import Desk, Draws, take_turn, turn_cuts

HOST = "pinned_host"
"""JAX's name for memory of the host that a device can read and write."""


def reaches_host(device: jax.Device) -> bool:
    """Whether a device reads memory of the host anew for every program, and writes there.

    JAX does not promise the first, so it is tried.
    """
    if HOST not in {memory.kind for memory in device.addressable_memories()}:
        return False
    there = SingleDeviceSharding(device)
    here = there.with_memory_kind(HOST)
    array = jax.device_put(np.zeros(4, np.float32), here)
    written = _writable(array)
    doubled = jax.jit(lambda x: 2.0 * jax.device_put(x, there), out_shardings=here)
    for number in range(3):
        written[:] = number
        if np.any(np.asarray(doubled(array)) != 2.0 * number):
            return False
    return True


class Reception:
    """Takes worlds to the desk as they arrive, and shows what they are to do."""

    def __init__(self, parts: Parts, desk_at: jax.Device) -> None:
        """One at a time may use it: while a turn is being taken, nobody else's worlds may arrive."""
        worlds = parts.config.seeds * parts.config.schedule.worlds
        there = SingleDeviceSharding(desk_at)
        here = there.with_memory_kind(HOST)
        self._inbox = jax.device_put(np.zeros((worlds, turn_cuts(parts).state + 1), np.float32), here)
        self._arrivals = _writable(self._inbox)

        @cache
        def compiled(structure: Any) -> Any:
            def turned(leaves: list[Any], desk: Desk, draws: Draws, inbox: Any) -> tuple[Desk, Any]:
                actor, arrivals = jax.tree.unflatten(structure, leaves), jax.device_put(inbox, there)
                desk = take_turn(parts, actor, desk, draws, arrivals[:, :-1], arrivals[:, -1] > 0)
                return desk, desk.turn

            return jax.jit(turned, out_shardings=(there, here))

        self._compiled = compiled

    def open(self, actor: Actor, desk: Desk, draws: Draws) -> Any:
        """Begin a collection: the first turns, [worlds, turn]."""
        self._leaves, structure = jax.tree.flatten(actor)  # once: at every turn it would cost Python time
        self._turned, self._desk, self._draws = self._compiled(structure), desk, draws
        return np.asarray(desk.turn).reshape(len(self._arrivals), -1)

    def turn(self, after: Any, arrived: Any) -> Any:
        """The turns, [worlds, turn], when those worlds that have arrived in these states have taken their next."""
        self._arrivals[:, :-1], self._arrivals[:, -1] = after, arrived
        self._desk, shown = self._turned(self._leaves, self._desk, self._draws, self._inbox)
        while not shown.is_ready():  # to wait otherwise is to be woken up, on a core that others are using
            pass
        return np.asarray(shown).reshape(len(after), -1)


def _writable(array: jax.Array) -> Any:
    """Where an array in memory of the host is. JAX takes it for constant, but looks at it whenever it is passed."""
    array.block_until_ready()
    memory = (ctypes.c_float * array.size).from_address(array.unsafe_buffer_pointer())
    return np.ctypeslib.as_array(memory).reshape(array.shape)
