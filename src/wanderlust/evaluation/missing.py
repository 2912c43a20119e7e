"""Evaluations for reading: of runs that lack one, without a write into their folders."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.report.comparison import RunRecord, evaluated_at


def is_current(record: RunRecord, episodes: int) -> bool:
    """Whether a run's evaluation is of its newest weights, of as many episodes, and beside random actions."""
    if record.evaluation is None or record.evaluation.get("episodes") != episodes or not record.random:
        return False
    return bool(record.run.entry) or record.evaluation.get("epoch") == max(record.run.checkpoints(), default=0)


def with_evaluation(record: RunRecord, episodes: int, into: Path, say: Callable[[str], None]) -> RunRecord:
    """The run with a current evaluation: its own, or one that is made now and written under `into`.

    A run without any weights yet stays as it is.
    """
    if is_current(record, episodes) or not (record.run.entry or record.run.checkpoints()):
        return record
    say(f"{record.label}: evaluating {episodes:,} random skills")
    away = dataclasses.replace(record.run, out=into)
    try:
        evaluate(away, episodes)
    except UserError as error:
        if record.run.entry or record.finished:
            raise
        say(f"{record.label}: not evaluated, it is being trained: {error}")
        return record
    return evaluated_at(record, into)
