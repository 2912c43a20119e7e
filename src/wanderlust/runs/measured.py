"""Evaluations as files: what of them is read is checked first. They may be a stranger's, or of an older Wanderlust."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wanderlust.errors import UserError, is_count
from wanderlust.runs.files import ArrayFile, read_object
from wanderlust.runs.metrics import is_number

AXES = {
    "position": 4,
    "skill": 3,
    "last": 3,
    "phi_first": 3,
    "phi_last": 3,
    "phi_random": 3,
    "random": 3,
}
"""Of arrays beside an evaluation: seeds, steps, episodes, entries, as far as each has them."""
PER_SEED = ("position", "skill", "last", "phi_first", "phi_last", "phi_random")
LARGEST_ARRAY = 2**30
"""Numbers; the largest evaluation of a recipe has a tenth of this."""


def read_evaluation(folder: Path) -> dict[str, Any]:
    """What evaluation.json says, checked; entries that older ones lack may be missing."""
    path = folder / "evaluation.json"
    found = read_object(path, "the run's evaluation")
    wrong = next((name for name, ok in _checks(found) if not ok), None)
    if wrong is not None:
        raise UserError(f"{path} is damaged: {wrong} is not what it should be; `wanderlust evaluate` measures anew")
    return _with_one_floor(found)


def _with_one_floor(found: dict[str, Any]) -> dict[str, Any]:
    """What random actions cover is the mean over all draws, as in the verdict; older evaluations kept that of one."""
    verdict = found.get("verdict")
    floor = verdict.get("random_coverage") if isinstance(verdict, dict) else None
    mean = floor.get("mean") if isinstance(floor, dict) else None
    if found.get("random") and is_number(mean):
        return found | {"random": found["random"] | {"coverage": mean}}
    return found


def open_rollouts(folder: Path, seeds: int) -> ArrayFile:
    """The arrays beside it, of known form: none is loaded yet."""
    file = ArrayFile(folder / "rollouts.safetensors")
    shapes = file.shapes()
    for name, axes in AXES.items():
        if (shape := shapes.get(name)) is None and name != "position":
            continue
        fits = shape is not None and len(shape) == axes and 0 < math.prod(shape) <= LARGEST_ARRAY
        if not fits or (name in PER_SEED and shape is not None and shape[0] != seeds):
            raise UserError(
                f"{file.path} is not of {seeds} seeds at {name}: {shape}; `wanderlust evaluate` writes it anew"
            )
    return file


def _checks(found: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Every entry that is read, and whether it is what it should be."""
    seeds = found.get("seeds")
    count = len(seeds) if isinstance(seeds, list) else 0
    counts = [(name, name not in found or is_number(found[name])) for name in ("epoch", "env_steps", "episodes")]
    texts = [(name, isinstance(found.get(name, ""), str)) for name in ("name", "recipe", "engine", "unit")]
    metrics, random, kinds = found.get("metrics"), found.get("random", {}), found.get("kinds", {})
    measured = isinstance(metrics, dict) and all(_is_measure(value, count) for value in metrics.values())
    by_chance = isinstance(random, dict) and all(x is None or is_number(x) for x in random.values())
    named = isinstance(found.get("entries", []), list) and all(isinstance(x, str) for x in found.get("entries", []))
    kind = isinstance(kinds, dict) and all(_is_kind(name, x, count) for name, x in kinds.items())
    numbered = count > 0 and isinstance(seeds, list) and all(is_count(seed) for seed in seeds)
    whole = [(name, is_count(found.get(name, 0)) and found.get(name, 0) >= 0) for name in ("epoch", "env_steps")]
    episodes = found.get("episodes")
    return [
        ("seeds", numbered),
        *counts,
        *texts,
        *whole,
        ("bin", is_number(found.get("bin", 1.0))),
        ("place_dims", found.get("place_dims", 2) in (1, 2, 3)),
        ("episodes", is_count(episodes) and episodes > 0),  # type: ignore[operator]
        ("metrics", measured),
        ("random", by_chance),
        ("entries", named),
        ("kinds", kind),
    ]


def _is_kind(name: str, value: Any, count: int) -> bool:
    """What the skills of each seed do: a word for each skill, or how many skills there are for each word."""
    if not isinstance(value, list) or len(value) != count:
        return False
    if name == "counts":
        return all(isinstance(one, dict) and all(map(is_number, one.values())) for one in value)
    return all(isinstance(one, list) and all(isinstance(word, str) for word in one) for one in value)


def _is_measure(value: Any, count: int) -> bool:
    """A mean, perhaps with an interval, and a number per seed; null is a number that was none."""
    if not isinstance(value, dict):
        return False
    per_seed = value.get("per_seed")
    listed = isinstance(per_seed, list) and len(per_seed) == count and all(x is None or is_number(x) for x in per_seed)
    return listed and all(value.get(name) is None or is_number(value[name]) for name in ("mean", "ci95"))
