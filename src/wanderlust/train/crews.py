"""Who moves the worlds of a collection: threads of this process, or processes of their own."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from wanderlust.devices import cores
from wanderlust.train.processes import Processes
from wanderlust.train.state import Actor, Parts
from wanderlust.train.turns import Collector, Desk, Draws, Log

DESK_ON_HOST = 32
"""Up to so many worlds it is quicker to choose actions on the CPU than to send every step to a GPU and back."""
CORES_FOR_PROCESSES = 8
"""From here on, where a GPU learns, processes move few worlds."""


class Crew(Protocol):
    """Moves all worlds through the steps of a collection, in groups that know nothing of each other."""

    def collect(self, actor: Actor, steps: int, desk: Desk, draws: Draws) -> Log:
        """What happens in so many steps from this first turn."""
        ...


def make_crew(parts: Parts) -> Crew:
    """Processes where they pay, otherwise threads."""
    worlds, have = parts.config.schedule.worlds, cores()
    if chooses_on_host(parts) and parts.engine.name == "c" and not parts.hold and have >= CORES_FOR_PROCESSES:
        return Processes(parts, min(have, worlds), 1)  # lines of two read the policy half as often, but idle more cores
    return Threads(parts, 2 if worlds % 2 == 0 else 1, desk_device(parts))


def chooses_on_host(parts: Parts) -> bool:
    """Whether it is better to choose actions on the CPU while something else learns."""
    return jax.default_backend() != "cpu" and parts.config.schedule.worlds * parts.config.seeds <= DESK_ON_HOST


def desk_device(parts: Parts) -> jax.Device | None:
    """Where threads choose actions, if that is not where learning happens."""
    if not chooses_on_host(parts):
        return None
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

    desks = tuple(Desk(desk.at, part(desk.turn, g, 1)) for g in range(groups))
    return desks, tuple(part(draws, g, 2) for g in range(groups))
