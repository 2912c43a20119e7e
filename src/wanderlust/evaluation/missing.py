"""Evaluations for reading: of runs that lack one, without a write into their folders."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.report.comparison import Told, evaluated_at


def is_current(told: Told, episodes: int) -> bool:
    """Whether a run's evaluation is of its newest weights, of as many episodes, and beside random actions."""
    if told.evaluation is None or told.evaluation.get("episodes") != episodes or not told.random:
        return False
    return bool(told.run.entry) or told.evaluation.get("epoch") == max(told.run.checkpoints(), default=0)


def with_evaluation(told: Told, episodes: int, into: Path, say: Callable[[str], None]) -> Told:
    """The run with a current evaluation: its own, or one that is made now and written under `into`.

    A run without any weights yet stays as it is.
    """
    if is_current(told, episodes) or not (told.run.entry or told.run.checkpoints()):
        return told
    say(f"{told.label}: evaluating {episodes:,} random skills")
    away = dataclasses.replace(told.run, out=into)
    try:
        evaluate(away, episodes)
    except UserError as error:
        if told.run.entry or told.finished:
            raise
        say(f"{told.label}: not evaluated, it is being trained: {error}")
        return told
    return evaluated_at(told, into)
