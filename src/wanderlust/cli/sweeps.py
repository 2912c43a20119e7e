"""The command for many runs: sweep."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from tyro.conf import Positional, arg

from wanderlust.cli.reports import EXIT_BROKEN, EXIT_INTERRUPTED, refuse
from wanderlust.config import require_at_least, require_positive


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Train methods x environments x settings x seeds, each run in a folder of its own, and compare what they reached.

    Runs that are finished are skipped, those that were stopped or killed are resumed, and those that failed are tried
    again. A grid is a few lines of TOML:

      methods = ["lsd", "diayn-xyo", "dads"]
      worlds = ["ant"]
      seeds = 5
      budget_steps = 4_000_000
      hours_per_run = 1.5            # both budgets may be left out
      [settings.near]                # settings, too: each is a variant of every method
      set = { sac.discount = 0.97 }
      [settings.far]
      set = { sac.discount = 0.99 }

    For example:
      wanderlust sweep grid.toml --dry-run      the plan, and how long it will take
      wanderlust sweep grid.toml
      wanderlust sweep grid.toml --workers 4 --hours 12
      wanderlust sweep grid.toml --ray auto     on the Ray cluster this machine is in (extra: cluster)
    """

    grid: Annotated[Positional[Path], arg(metavar="GRID.toml")]
    """What to train."""
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """The folder of the runs; by default what the grid says, or runs/ and its name."""
    workers: Annotated[int | None, arg(metavar="N")] = None
    """Runs at a time on this machine; by default as many as there are cores for (cores_per_run, which is 2)."""
    ray: Annotated[str | None, arg(metavar="ADDRESS")] = None
    """Train on a Ray cluster whose machines share the folder: HOST:PORT, auto for the one this machine is in, local for
    one of this machine alone."""
    hours: Annotated[float | None, arg(metavar="H")] = None
    """Stop after about so many hours, with everything ready to be resumed."""
    dry_run: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print the plan and an estimate of hours; train nothing."""

    def run(self, console: Console) -> int:
        from wanderlust.sweeps import front

        if self.workers is not None:
            require_at_least(1, "--workers", self.workers)
            refuse(
                ["workers"] if self.ray is not None else [], "--ray trains as many runs as its cluster has cores for"
            )
        if self.hours is not None:
            require_positive("--hours", self.hours)
        swept = front.plan_sweep(self.grid, self.out, self.hours, self.workers, self.ray)
        if self.dry_run:
            swept.dry_run(console)
            return 0
        swept.carry_out()
        swept.report(console)
        if swept.failed:
            return EXIT_BROKEN
        return 0 if swept.finished else EXIT_INTERRUPTED
