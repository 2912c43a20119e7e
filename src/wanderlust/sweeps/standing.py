"""How far a run of a sweep is, as its folder says."""

import math
import os
from pathlib import Path
from typing import Any, NamedTuple

from wanderlust.config import RunConfig
from wanderlust.errors import UserError
from wanderlust.evaluation.metrics import summarise
from wanderlust.runs.files import parse_json, read_object
from wanderlust.runs.metrics import is_row
from wanderlust.runs.run import Run
from wanderlust.train import stages

TAIL = 2**16
"""Bytes at the end of a log in which its last line is looked for."""


class Standing(NamedTuple):
    """What there is of a run, all stages together."""

    epoch: int
    """Of the newest checkpoint."""
    epochs: int
    seconds: float
    """That training has taken."""
    env_steps: int
    coverage: float
    """Last seen while it trained; NaN if it was not yet."""
    logged: int
    """The last epoch of its metrics."""
    spent: bool
    """Whether its budget is."""
    measured: bool
    """Whether there is an evaluation of that checkpoint."""

    @property
    def trains(self) -> bool:
        """Whether there is training left to do."""
        return self.epoch < self.epochs and not self.spent

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return not self.trains and self.measured

    @property
    def share(self) -> float:
        """How much of its epochs is trained."""
        return self.logged / self.epochs


NOTHING = Standing(0, 1, 0.0, 0, math.nan, 0, False, False)


def standing(run: Run, budget_seconds: float | None = None) -> Standing:
    """How far a run is; in a stage before the last one, that stage counts."""
    every = stages.runs(run)
    rows = [_last_row(one.path / "metrics.jsonl") for one in every]
    epochs = sum(one.config.schedule.epochs for one in every)
    if (first := stages.first_run(run)) is not None and len(every) == 1:
        epochs += first.config.schedule.epochs
    done = [max(one.checkpoints(), default=0) for one in every]
    seconds = sum(float(row.get("seconds", 0.0)) for row in rows)
    seen = rows[-1].get("coverage") or rows[0].get("coverage") or [math.nan]
    spent = budget_seconds is not None and seconds >= budget_seconds and bool(run.checkpoints())
    return Standing(
        epoch=epochs if _complete(run) else min(sum(done), epochs - 1),
        epochs=epochs,
        seconds=seconds,
        env_steps=sum(int(row.get("env_steps", 0)) for row in rows),
        coverage=summarise([float(one) for one in seen]).mean,
        logged=sum(int(row.get("epoch", 0)) for row in rows),
        spent=spent,
        measured=_evaluated(run) == max(run.checkpoints(), default=-1),
    )


def opened(folder: Path, config: RunConfig, choose: str = "another --work folder") -> Run | None:
    """The run in a folder, if there is one; one with another configuration is refused."""
    run = Run.open(folder) if os.path.lexists(folder) else None  # a name that is too long for any folder names none
    if run is not None and run.config != config:
        raise UserError(f"{folder} holds a run with another configuration; choose {choose}")
    return run


def open_or_start(folder: Path, config: RunConfig) -> Run:
    """The run in a folder, made if there is none."""
    try:
        return opened(folder, config) or stages.start(config, folder)
    except UserError:
        if (run := opened(folder, config)) is None:
            raise
        return run  # which another process has made meanwhile


def _complete(run: Run) -> bool:
    return max(run.checkpoints(), default=0) >= run.config.schedule.epochs


def _evaluated(run: Run) -> int | None:
    """The epoch that evaluation.json is of."""
    try:
        epoch = read_object(run.evaluation / "evaluation.json", "the evaluation").get("epoch")
    except UserError:
        return None
    return epoch if isinstance(epoch, int) else None


def _last_row(path: Path) -> dict[str, Any]:
    """The last whole line of a log; nothing if there is none."""
    try:
        if not path.is_file():  # nothing that hangs
            return {}
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            lines = file.read().splitlines()
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            row = parse_json(line)
        except ValueError:
            continue
        if isinstance(row, dict) and is_row(row):
            return row
    return {}
