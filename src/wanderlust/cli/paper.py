"""Commands about the whole paper: reproduce list, reproduce all."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from tyro.conf import arg

from wanderlust.cli.reports import EXIT_BROKEN, EXIT_INTERRUPTED
from wanderlust.config import require_positive
from wanderlust.errors import UserError


@dataclasses.dataclass(frozen=True)
class PaperList:
    """Every figure, table and claim of the paper: the command for it, what is measured of it, whether it agrees, hours.

    A verdict is computed from the seeds in the results: `agrees` and `disagrees` are said only of what they order.
    For example:
      wanderlust reproduce list
      wanderlust reproduce list --results runs/mine/results --json
    """

    results: Path = Path("benchmarks/results")
    """Where the results are."""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print JSON instead."""

    def run(self, console: Console) -> int:
        from wanderlust_experiments import paper

        if not self.results.is_dir() and self.results != PaperList.results:
            raise UserError(f"there is no folder of results {self.results}")
        lines = paper.listed(self.results)
        console.print(paper.as_json(lines) if self.json else paper.as_text(lines), end="")
        if not self.json and not self.results.is_dir():
            console.print(
                f"there is no folder {self.results} here: run this in Wanderlust's repository, or give --results DIR"
            )
        return 0


@dataclasses.dataclass(frozen=True)
class PaperAll:
    """Carry out what fits into some hours, shortest first; each command goes on from where it was.

    What does not fit, and what has no estimate here, is listed. When the time is over the command that runs is stopped
    as by Ctrl-C. For example:
      wanderlust reproduce all --hours 20
    """

    hours: Annotated[float, arg(metavar="H")]
    """How long, at most."""
    results: Path = Path("benchmarks/results")
    """Where results are read and written."""

    def run(self, console: Console) -> int:
        from wanderlust_experiments import paper_all

        require_positive("--hours", self.hours)
        done = paper_all.carry_out(self.hours, self.results, console.print)
        if done.stopped:
            return EXIT_INTERRUPTED
        return EXIT_BROKEN if done.failed else 0
