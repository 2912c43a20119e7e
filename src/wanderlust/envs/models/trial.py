"""What random actions do to a body: the statistics by which networks see it, how fast it moves, if it breaks down."""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from wanderlust.envs.base import WorldState, sane
from wanderlust.envs.engines.mujoco_c import CEngine
from wanderlust.errors import UserError

BODIES, SECONDS = 64, 2.5
"""A trial: so many bodies, about so long."""
FILE = "trial.json"
"""Beside the model in a run's folder."""
LARGEST = 2**22
"""Bytes of it."""
SHORTEST, LONGEST = 50, 150
"""Control steps."""


class Trial(NamedTuple):
    """What came of random actions."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    moved: float
    """By how many standard deviations the position changes per control step (root mean square)."""
    steps: int
    broken: int
    """Bodies, of `BODIES`, whose state was not finite at the end."""

    def words(self) -> str:
        """What came of it."""
        broke = f"{self.broken} broke down" if self.broken else "none broke down"
        return (
            f"{BODIES} bodies, {self.steps} control steps each: {broke}; the position moves by {self.moved:.3g} "
            "standard deviations per step. They give the means and deviations by which networks see the body"
        )

    def to_json(self, key: str) -> bytes:
        """As it is kept beside a run."""
        return (json.dumps({"key": key, "bodies": BODIES, **self._asdict()}) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes) -> "tuple[str, Trial] | None":
        """What was kept, and its key; nothing if it is damaged."""
        try:
            found = json.loads(data)
            mean, std = (tuple(float(x) for x in found[name]) for name in ("mean", "std"))
            made = cls(mean, std, float(found["moved"]), int(found["steps"]), int(found["broken"]))
            key = str(found["key"])
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            return None
        whole = len(made.mean) == len(made.std) and all(math.isfinite(x) for x in (*made.mean, *made.std, made.moved))
        return (key, made) if whole and min(made.std, default=1.0) > 0 else None


_known: dict[str, Trial] = {}


def of_key(key: str, world: Any, ranges: Any) -> Trial:
    """The trial of a world: known under this key, or made now."""
    if key not in _known or len(_known[key].mean) != len(ranges):
        _known[key] = try_random(world, ranges)
    return _known[key]


def read_beside(folder: Path) -> None:
    """Make the trial known that was kept in a folder, if there is one."""
    place = folder / FILE
    if place.is_file() and place.stat().st_size < LARGEST:
        found = Trial.from_json(place.read_bytes())
        if found is not None:
            _known.setdefault(*found)


def try_random(world: Any, ranges: Any) -> Trial:
    """Step bodies with actions uniform in [-1, 1]; an entry's deviation is at least a hundredth of its range.

    The entries of one rotation share the largest of their deviations: near a pose, a cosine hardly changes, and divided
    by its own deviation it would outweigh everything else where a body turns on. So do the entries of a place: a metre
    is as far to the side as ahead, whichever way random actions drift.
    `ranges` are the lengths of the ranges of the observation's entries, 0 where there is none.
    """
    engine, draw = CEngine(world), np.random.default_rng(0)
    steps = int(np.clip(round(SECONDS / world.control_seconds), SHORTEST, LONGEST))
    state: WorldState = jax.device_get(jax.vmap(world.initial)(jax.random.split(jax.random.key(0), BODIES)))
    look = jax.jit(jax.vmap(world.observe))
    seen = [np.asarray(look(state), np.float64)]
    ok = np.asarray(sane(state))
    for _ in range(steps):
        action: Any = draw.uniform(-1.0, 1.0, (BODIES, world.action_dim)).astype(np.float32)
        state = engine.step(state, action)
        ok = ok & np.asarray(sane(state))
        with np.errstate(all="ignore"):
            seen.append(np.asarray(look(state), np.float64))
    path = np.array(seen)[:, ok]
    if not ok.any():
        raise UserError(
            f"{world.config.file}: under random actions every body breaks down: not finite within {steps} steps"
        )
    after = path[1:]
    std = np.maximum(after.std(axis=(0, 1)), 0.01 * np.asarray(ranges))
    where = list(world.groups["position"])
    for entries in (*world.layout.together, where if world.gets_about else ()):
        std[list(entries)] = std[list(entries)].max(initial=0.0)
    std[std < 1e-6] = 1.0
    moved = float(np.sqrt(np.mean(np.sum((np.diff(path[..., where], axis=0) / std[where]) ** 2, axis=-1))))
    return Trial(tuple(after.mean(axis=(0, 1)).tolist()), tuple(std.tolist()), moved, steps, int(BODIES - ok.sum()))
