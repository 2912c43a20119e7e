"""A sweep from its grid to its table: what `wanderlust sweep` and `wanderlust.sweep` do."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from wanderlust.report.terminal import Terminal
from wanderlust.sweeps import results
from wanderlust.sweeps.attempt import BUDGET, FAILED, FINISHED
from wanderlust.sweeps.estimate import RULE, estimate
from wanderlust.sweeps.local import Place, Processes
from wanderlust.sweeps.plan import Plan, read_plan
from wanderlust.sweeps.sweep import Entry, carry_out, read_entries
from wanderlust.sweeps.table import shown, summary, table


@dataclasses.dataclass
class Swept:
    """A sweep, planned or carried out."""

    plan: Plan
    entries: list[Entry]
    """Every run, and how it fares."""
    workers: int | None = None
    ray: str | None = None
    table: str = ""
    """What the runs reached, as Markdown."""
    files: tuple[Path, ...] = ()

    @property
    def failed(self) -> list[str]:
        """A line for every run that failed for good."""
        return [f"{entry.item.name}: {entry.why}" for entry in self.entries if entry.state == FAILED]

    @property
    def finished(self) -> bool:
        """Whether all runs are at their end, or at that of their budget."""
        return all(entry.state in (FINISHED, BUDGET) for entry in self.entries)

    def place(self) -> Place:
        """Where runs are trained."""
        plan = self.plan
        if self.ray is not None:
            from wanderlust.sweeps.cluster import OnRay

            return OnRay(self.ray, plan.cores_per_run, plan.modules, plan.needs_gpu)
        return Processes(plan.out / "logs", plan.cores_per_run, self.workers, plan.modules)

    def dry_run(self, console: Console) -> None:
        """Say what would be done, and how long it would take."""
        place = self.place()
        try:
            console.print(f"{self.plan.out}: {place.about}")
            console.print(table(self.entries, self.plan), soft_wrap=False)
            console.print(summary(self.entries, self.plan, place.size))
            if estimate(self.entries, self.plan, place.size).unknown:
                console.print("unknown: no run of these environments in this folder has trained yet; budgets bound it")
            else:
                console.print(RULE)
        finally:
            place.close()

    def carry_out(self, quiet: bool = False) -> None:
        """Train and measure what is missing, and write what all runs reached."""
        place = self.place()
        if not quiet:
            Terminal(stderr=True).print(f"{self.plan.out}: {place.about}; what the runs say: {self.plan.out / 'logs'}")
        with shown(self.plan, place.size, quiet) as watch:
            self.entries = carry_out(self.plan, place, watch)
        if any(entry.state in (FINISHED, BUDGET) for entry in self.entries):
            self.table, self.files = results.write_results(self.plan, self.entries)

    def report(self, console: Console) -> None:
        """Print what came of it, and what to do next."""
        console.print(self.table or "no run is finished yet")
        for line in self.failed:
            console.print(f"failed: {line}")
        if self.files:
            console.print(f"written: {', '.join(map(str, self.files))}")
        if not self.finished:
            console.print("the same command goes on with what is not finished, and tries again what has failed")


def plan_sweep(
    grid: Path | str | Mapping[str, Any],
    out: Path | str | None = None,
    hours: float | None = None,
    workers: int | None = None,
    ray: str | None = None,
) -> Swept:
    """Read a grid, and see how far its runs are."""
    plan = read_plan(grid, out)
    if hours is not None:
        plan = dataclasses.replace(plan, hours=hours)
    return Swept(plan, read_entries(plan), workers, ray)


def sweep(
    grid: Path | str | Mapping[str, Any],
    *,
    out: Path | str | None = None,
    workers: int | None = None,
    ray: str | None = None,
    hours: float | None = None,
    quiet: bool = False,
) -> Swept:
    """Train methods x environments x settings x seeds, each run in a folder of its own; as ``wanderlust sweep``.

    Args:
        grid: a TOML file, or a mapping with the same keys, e.g.
            ``{"methods": ["lsd"], "worlds": ["point"], "seeds": 5, "out": "runs/five"}``.
        out: the folder of the runs; by default what the grid says.
        workers: runs at a time on this machine; by default as many as there are cores for.
        ray: address of a Ray cluster whose machines share the folder, ``"auto"``, or ``"local"``.
        hours: stop after about so long.
        quiet: show nothing.

    Returns:
        How every run fares (``entries``), the ``table`` of what they reached and its ``files``. Runs that failed are in
        ``failed``; calling it again goes on with what is not ``finished``.
    """
    swept = plan_sweep(grid, out, hours, workers, ray)
    swept.carry_out(quiet)
    return swept
