"""How long a sweep will take, from how fast runs in its folder have been."""

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from wanderlust.config import RunConfig
from wanderlust.sweeps.plan import Item, Plan
from wanderlust.sweeps.sweep import ENDED, Entry
from wanderlust.train import stages

RULE = (
    "an estimate: seconds per environment step of earlier runs in this folder, of the same row if there is one, else "
    "of the same environment"
)


class Estimate(NamedTuple):
    """What is left of a sweep."""

    hours: float
    """Of runs whose pace is known, on as many places as there are."""
    unknown: int
    """Runs of which nothing is known."""

    def __str__(self) -> str:
        known = f"about {hours_in_words(self.hours)}" if self.hours or not self.unknown else ""
        runs = "1 run" if self.unknown == 1 else f"{self.unknown} runs"
        return " and ".join([*([known] if known else []), *([f"{runs} of unknown length"] if self.unknown else [])])


def seconds_left(entries: Sequence[Entry], plan: Plan) -> list[float | None]:
    """Of every run, as far as there is one in the folder to go by; None where there is not."""
    paces: dict[str, list[float]] = {}
    for entry in entries:
        if entry.standing.env_steps:
            pace = entry.standing.seconds / entry.standing.env_steps
            for key in _keys(entry.item):
                paces.setdefault(key, []).append(pace)
    left: list[float | None] = []
    for entry in entries:
        pace = next((median(paces[key]) for key in _keys(entry.item) if key in paces), math.nan)
        steps = all_steps(entry.item.config) * (1 - entry.standing.share)
        most = math.inf if plan.seconds_per_run is None else max(0.0, plan.seconds_per_run - entry.standing.seconds)
        seconds = 0.0 if entry.state in ENDED else min(steps * pace, most) if pace == pace else most
        left.append(seconds if math.isfinite(seconds) else None)
    return left


def estimate(entries: Sequence[Entry], plan: Plan, places: int) -> Estimate:
    """What is left of all runs; a budget of the whole sweep is the most that it can take."""
    left = seconds_left(entries, plan)
    known = [seconds for seconds in left if seconds is not None]
    hours = max([sum(known) / max(1, places), *known], default=0.0) / 3600
    if plan.hours is not None:
        return Estimate(min(hours, plan.hours) if len(known) == len(left) else plan.hours, 0)
    return Estimate(hours, len(left) - len(known))


def all_steps(config: RunConfig) -> int:
    """Environment steps of a run, all stages together."""
    first = stages.earlier(config)
    before = first.schedule.epochs * first.schedule.collection if first else 0
    return before + config.schedule.epochs * config.schedule.collection


def _keys(item: Item) -> tuple[str, str]:
    """What runs of the same pace have in common, nearest first."""
    return f"row {item.combination}", f"world {item.combination.world}"


def hours_in_words(hours: float) -> str:
    """1.5 h, or minutes where it is less than one."""
    return f"{hours:.1f} h" if hours >= 1 else f"{max(1, round(60 * hours))} min"
