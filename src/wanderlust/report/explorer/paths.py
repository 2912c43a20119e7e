"""Where random skills go, and what that says of how to draw them."""

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wanderlust.envs import WorldState
from wanderlust.report.explorer.mechanics import Mechanics
from wanderlust.runs.loading import Skills

PATHS = 48
"""Random skills that are drawn; of discrete ones all, if there are no more."""
LONGEST = 300
"""Control steps of a path."""


@dataclasses.dataclass(frozen=True)
class Paths:
    """Where some skills went from one start."""

    skill: NDArray[np.float32]
    """[paths, skill]"""
    place: NDArray[np.float64]
    """[time, paths, 3]; a body that the world has stopped stays where it was."""
    phi: NDArray[np.float32]
    """[paths, code], of the last states."""


def random_paths(
    skills: Skills,
    start: WorldState | None = None,
    budget: float = 8.0,
    seed: int = 1,
    count: int = PATHS,
    stopped: Callable[[], bool] = lambda: False,
) -> Paths:
    """Try random skills from a state, or an episode's start.

    It ends with the episode, when about `budget` seconds are over, when all bodies have fallen, or when it is stopped.
    """
    mechanics, until = Mechanics(skills.world), time.monotonic() + budget
    if skills.discrete and skills.skill_dim <= count:
        z = np.eye(skills.skill_dim, dtype=np.float32)
    else:
        z = skills.sample(count, seed)
    state = mechanics.start(seed) if start is None else start
    longest = min(mechanics.spec.episode_length, LONGEST)
    places, last = [], mechanics.look(state).obs
    for moment in itertools.islice(play(skills, mechanics, z, state), longest + 1):
        last = moment.obs
        places.append(mechanics.place(last))
        if time.monotonic() > until or not moment.alive.any() or stopped():
            break
    return Paths(z, np.stack(places), skills.phi(last))


class Moment(NamedTuple):
    """Where some skills have come to; what the world has stopped stays as it was."""

    physics: NDArray[np.float32]
    """[skills, physics] The states, as `WorldState` has them."""
    obs: NDArray[np.float32]
    alive: NDArray[np.bool_]


def play(skills: Skills, mechanics: Mechanics, z: NDArray[np.float32], start: WorldState) -> Iterator[Moment]:
    """Skills acting side by side from one state, step by step: the start, and then without an end."""
    alike: Any = [np.repeat(part, len(z), axis=0) for part in start]
    state = WorldState(*alike)
    obs, command = mechanics.look(state).obs, z
    anchor = mechanics.position(obs)
    physics, last, alive = np.asarray(state.physics), obs, np.ones(len(z), bool)
    yield Moment(physics, last, alive)
    for step in itertools.count():
        seen = mechanics.seen_from(obs, anchor)
        if skills.decides_every:
            command = skills.decide(seen, z) if step % skills.decides_every == 0 else command
            action = skills.follow(seen, command)
        else:
            action = skills.act(seen, z)
        state = mechanics.step(state, action)
        obs, ended, _ = mechanics.look(state)
        alive = alive & np.isfinite(obs).all(axis=1)
        last = np.where(alive[:, None], obs, last)
        physics = np.where(alive[:, None], state.physics, physics)
        alive = alive & ~ended
        yield Moment(physics, last, alive)


def map_of(paths: Paths) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """How phi is drawn on the plane: (middle, axes [code, 2]); None for methods that have no map.

    Two dimensions are drawn as they are; of more, the two in which the ends of paths differ most.
    """
    ends = paths.phi.astype(np.float64)
    if not np.isfinite(ends).all() or not ends.size:
        return None
    size = ends.shape[1]
    if size <= 2:
        return np.zeros(size), np.eye(size, 2)
    middle = ends.mean(axis=0)
    return middle, np.linalg.svd(ends - middle, full_matrices=False)[2][:2].T


def compass(paths: Paths) -> NDArray[np.float64]:
    """The rotation or reflection [2, 2] of skills by which they point where they lead; the identity if none does."""
    moved = (paths.place[-1] - paths.place[0])[:, :2]
    if paths.skill.shape[1] != 2:
        return np.eye(2)
    left, size, right = np.linalg.svd(moved.T @ paths.skill)
    return left @ right if size[1] > 1e-3 * max(size[0], 1e-9) else np.eye(2)
