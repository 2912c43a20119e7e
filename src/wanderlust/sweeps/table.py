"""The live table of a sweep: every run, how far it is, what it covers, why it failed."""

import contextlib
import datetime
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from wanderlust.report.terminal import Terminal
from wanderlust.sweeps.attempt import BUDGET, FAILED, FINISHED
from wanderlust.sweeps.estimate import estimate, seconds_left
from wanderlust.sweeps.plan import Plan
from wanderlust.sweeps.sweep import ELSEWHERE, RUNNING, STOPPED, WAITING, Entry, Watch

PLAIN_INTERVAL = 60.0
"""Seconds between two summaries where the output is not a terminal."""
STATES = (RUNNING, ELSEWHERE, FAILED, STOPPED, WAITING, BUDGET, FINISHED)
"""In the order in which runs are shown where not all fit."""
STYLES = {RUNNING: "bold", FAILED: "red", STOPPED: "yellow", ELSEWHERE: "yellow", WAITING: "dim"}
WORDS = {BUDGET: "budget spent", ELSEWHERE: "held by another process"}


@contextlib.contextmanager
def shown(plan: Plan, places: int, quiet: bool = False) -> Iterator[Watch]:
    """Show the runs in place on a terminal, and a line now and then elsewhere."""
    console = Terminal(file=sys.stderr, quiet=quiet)
    if console.is_terminal and not quiet:
        with Live(console=console, refresh_per_second=2, vertical_overflow="crop") as live:

            def redraw(entries: Sequence[Entry], news: str) -> None:
                if news:
                    console.print(news)
                live.update(Group(table(entries, plan, console.height - 4), Text(summary(entries, plan, places))))

            yield redraw
        return
    last = 0.0

    def tell(entries: Sequence[Entry], news: str) -> None:
        nonlocal last
        if news:
            console.print(news)
        if time.monotonic() - last >= PLAIN_INTERVAL or last == 0.0:
            last = time.monotonic()
            console.print(f"{summary(entries, plan, places)}{_running(entries)}")

    yield tell


def table(entries: Sequence[Entry], plan: Plan, rows: int | None = None) -> Table:
    """All runs, or those that matter most where there is no room for all."""
    left = dict(zip((entry.item.name for entry in entries), seconds_left(entries, plan), strict=True))
    made = Table(
        Column("run", no_wrap=True),
        Column("state", no_wrap=True),
        Column("epoch", justify="right"),
        Column("steps", justify="right"),
        Column("covers", justify="right"),
        Column("left", justify="right"),
        "",
        box=None,
        padding=(0, 1),
    )
    chosen = list(entries)
    if rows is not None and len(chosen) > max(1, rows):
        nearest = sorted(range(len(entries)), key=lambda k: (STATES.index(entries[k].state), k))[: max(1, rows)]
        chosen = [entries[k] for k in sorted(nearest)]
    for entry in chosen:
        now, seconds = entry.standing, left[entry.item.name]
        clock = "" if not seconds else str(datetime.timedelta(seconds=round(seconds)))
        steps = f"{now.env_steps:,}" if now.env_steps else ""
        covers = f"{now.coverage:.0f}" if now.coverage == now.coverage else ""
        made.add_row(
            entry.item.name,
            _state(entry),
            _epoch(entry),
            steps,
            covers,
            clock,
            entry.why,
            style=STYLES.get(entry.state),
        )
    return made


def _epoch(entry: Entry) -> str:
    now = entry.standing
    return f"{now.logged:,}/{now.epochs:,}" if now.logged else ""


def summary(entries: Sequence[Entry], plan: Plan, places: int) -> str:
    """One line: how many runs are in which state, and what is left."""
    counts = Counter(entry.state for entry in entries)
    parts = [f"{counts[state]} {WORDS.get(state, state)}" for state in reversed(STATES) if counts[state]]
    runs = "1 run" if len(entries) == 1 else f"{len(entries)} runs"
    going = any(entry.state in (RUNNING, ELSEWHERE, WAITING) for entry in entries)
    line = f"{runs}: {', '.join(parts)}" + (f"; left: {estimate(entries, plan, places)}" if going else "")
    return line


def _running(entries: Sequence[Entry]) -> str:
    """What the table shows of a few running runs, in words."""
    running = [entry for entry in entries if entry.state == RUNNING]
    now = [f"{one.item.name} {_state(one)} {_epoch(one)}".rstrip() for one in running]
    return f"; {', '.join(now)}" if running and len(running) <= 4 else ""


def _state(entry: Entry) -> str:
    measuring = entry.state == RUNNING and entry.standing.logged and not entry.standing.trains
    return "measuring" if measuring else WORDS.get(entry.state, entry.state)
