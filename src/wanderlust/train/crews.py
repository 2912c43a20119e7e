"""Who moves the worlds of a collection: threads of this process, or processes of their own."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from wanderlust.devices import cores, has_gpu
from wanderlust.train.processes import Processes, possible
from wanderlust.train.state import Actor, Parts
from wanderlust.train.turns import Collector, Desk, Draws, Log

FEW = 32
"""Up to so many worlds processes move them, where a GPU learns. Threads, where there are not enough cores
for those, had better choose the actions of so few on the CPU than send every step to the GPU and back."""
CORES_FOR_PROCESSES = 8
"""So many at least. A quarter of the cores is left to this process and to the threads of JAX and the GPU's driver."""


class Crew(Protocol):
    """Moves all worlds through the steps of a collection; none of them knows of any other."""

    def collect(self, actor: Actor, steps: int, desk: Desk, draws: Draws) -> Log:
        """What happens in so many steps from this first turn."""
        ...


def make_crew(parts: Parts) -> Crew:
    """Processes where they pay, otherwise threads."""
    schedule, have = parts.config.schedule, cores()
    few = schedule.worlds * parts.config.seeds <= FEW
    if has_gpu() and few and parts.engine.name == "c" and have >= CORES_FOR_PROCESSES and possible():
        return Processes(parts, min(have - have // 4, schedule.worlds * parts.config.seeds))
    return Threads(parts, 2 if schedule.worlds % 2 == 0 else 1, _host() if has_gpu() and few else None)


def _host() -> jax.Device | None:
    """Where threads choose the actions of few worlds while something else learns."""
    try:
        return jax.devices("cpu")[0]
    except RuntimeError:  # JAX was told to use the GPU alone
        return None


class Threads:
    """Each group on a thread of its own: while one is with the engine, another is at the desk."""

    def __init__(self, parts: Parts, groups: int, desk_at: jax.Device | None = None) -> None:
        self._collector = Collector(parts, parts.engine.for_callers(groups))
        self._desk_at, self._cut_up = desk_at, jax.jit(partial(_cut_up, groups))
        self._threads = ThreadPoolExecutor(groups)

    def collect(self, actor: Actor, steps: int, desk: Desk, draws: Draws) -> Log:
        if self._desk_at is not None:
            actor, desk, draws = jax.device_put((actor, desk, draws), self._desk_at)
        groups = self._threads.map(partial(self._collector, actor, steps), *self._cut_up(desk, draws))
        pieces = zip(*groups, strict=True)
        return Log(*(np.concatenate(piece, axis) for piece, axis in zip(pieces, (2, 2, 1), strict=True)))


def _cut_up(groups: int, desk: Desk, draws: Draws) -> tuple[tuple[Desk, ...], tuple[Draws, ...]]:
    """Some of the worlds for each group."""

    def part(tree: Any, group: int, axis: int) -> Any:
        return jax.tree.map(lambda x: jnp.split(x, groups, axis)[group], tree)

    every = range(groups)
    return tuple(part(desk, group, 1) for group in every), tuple(part(draws, group, 2) for group in every)
