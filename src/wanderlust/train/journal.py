"""What training leaves on disk. Where the disk takes nothing, training goes on and tries again."""

import dataclasses
from collections.abc import Callable
from typing import Any

from wanderlust import train
from wanderlust.errors import DiskError
from wanderlust.runs.metrics import Counts
from wanderlust.runs.run import Run


@dataclasses.dataclass
class Journal:
    """Rows of metrics and checkpoints of a run, in order: what cannot be written waits until it can be."""

    run: Run
    say: Callable[[str], None]
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """That wait."""
    due: bool = False
    """Whether a checkpoint waits, too."""
    told: bool = False
    """Whether it was said that the disk takes nothing."""

    def keep(self, row: dict[str, Any], state: train.TrainState, counts: Counts, saves: bool, last: bool) -> None:
        """Write a row, and a checkpoint if one is due; of the `last` of a command a failure is an error."""
        self.rows.append(row)
        self.due = self.due or saves
        try:
            while self.rows:
                self.run.log(self.rows[0], sync=self.due)
                del self.rows[0]
            if self.due:
                self.run.save(row["epoch"], train.to_save(state), counts)
                self.due = False
        except DiskError as error:
            if last:
                raise
            if not self.told:
                self.say(f"{error}; training goes on meanwhile, and tries again after every chunk of epochs")
            self.told = True
            return
        if self.told:
            self.say(f"{self.run.path} can be written to again: nothing of it is lost")
        self.told = False

    def forget(self, epoch: int) -> None:
        """Let go of rows of epochs after this one: they will be trained again."""
        self.rows = [row for row in self.rows if row["epoch"] <= epoch]
