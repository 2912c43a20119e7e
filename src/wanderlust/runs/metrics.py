"""metrics.jsonl: one line per `log_every` epochs, one value per seed, for people and figures.

A run goes on without it: how far it has come and in what time is in its checkpoints, too (`Counts`).
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from wanderlust.errors import notice
from wanderlust.runs.files import append_line, parse_json, read_lines, write_atomic

COUNTS = ("env_steps", "seconds", "train_seconds")
LARGEST = 1e30
"""Beyond it a number is no measurement, and what is computed of it may be infinite."""
MOST = 2**53
"""Counts beyond this are no counts."""


@dataclasses.dataclass(frozen=True)
class Counts:
    """What it took to come to an epoch."""

    env_steps: int = 0
    """Per seed."""
    seconds: float = 0.0
    """In all, with compilation and looks at the skills."""
    train_seconds: float = 0.0
    rollbacks: int = 0
    """How often training diverged and went back (`--on-divergence rollback`); what was undone is counted above, too."""

    @staticmethod
    def of(found: Mapping[str, Any]) -> "Counts | None":
        """As a line of metrics or a checkpoint has them, if it does."""
        if not all(_is_count(found.get(name)) for name in COUNTS):
            return None
        turns = found.get("rollbacks", 0)
        if not (_is_count(turns) and isinstance(turns, int)):
            return None
        return Counts(int(found["env_steps"]), float(found["seconds"]), float(found["train_seconds"]), turns)

    @staticmethod
    def of_text(text: str) -> "Counts | None":
        """The same of what the metadata of a checkpoint say."""
        try:
            found = parse_json(text)
        except ValueError:
            return None
        return Counts.of(found) if isinstance(found, dict) else None

    def to_text(self) -> str:
        return json.dumps(dataclasses.asdict(self))


def read_metrics(path: Path, seeds: int | None = None) -> list[dict[str, Any]]:
    """Every line that is whole and is what it should be; one cut short by a kill, or damaged, is left out.

    So are lines of another number of seeds, if that is known.
    """
    rows = [row for _, row in read_lines(path) if row is not None and is_row(row)]
    return [row for row in rows if seeds is None or {len(x) for x in row.values() if isinstance(x, list)} <= {seeds}]


def rewind(path: Path, epoch: int) -> None:
    """Forget the lines of epochs after `epoch`: they will be trained, and written, again.

    Lines that are damaged go to a file beside it; half a line at the end is what a kill leaves, and goes.
    """
    lines = read_lines(path)
    good = [(line, row) for line, row in lines if row is not None and is_row(row)]
    bad = [line for line, row in lines if row is None or not is_row(row)]
    if bad and bad[-1] == lines[-1][0] and lines[-1][1] is None:
        bad = bad[:-1]
    if bad:
        aside = path.with_name(f"{path.name}.damaged")
        for line in bad:
            append_line(aside, line.decode(errors="replace"))
        notice(f"{len(bad)} lines of {path} are damaged; they are in {aside} now, and the run goes on without them")
    if lines and len(kept := [line for line, row in good if row["epoch"] <= epoch]) < len(lines):
        write_atomic(path, b"".join(line + b"\n" for line in kept))


def is_row(row: Mapping[str, Any]) -> bool:
    """Whether a line says of what epoch it is, and has numbers, or a number per seed, for the rest."""
    if "coverage" in row and not (isinstance(row["coverage"], list) and row["coverage"]):
        return False
    counts = (name for name in ("epoch", "env_steps") if name in row)
    if "epoch" not in row or not all(isinstance(row[name], int) and _is_count(row[name]) for name in counts):
        return False
    if not all(_is_count(row[name]) for name in ("seconds", "train_seconds") if name in row):
        return False
    return all(all(map(is_number, x)) if isinstance(x, list) else is_number(x) for x in row.values())


def is_number(x: Any) -> TypeGuard[float]:
    """Whether something is a number that may have been measured."""
    try:
        return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) and abs(x) < LARGEST
    except OverflowError:
        return False


def _is_count(x: Any) -> bool:
    return is_number(x) and 0 <= x < MOST
