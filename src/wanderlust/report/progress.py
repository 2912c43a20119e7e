"""The live line of a long command: a bar, facts, and a countdown that moves."""

import datetime
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.text import Text

from wanderlust.report.terminal import Terminal

PLAIN_INTERVAL = 10.0
"""Seconds between two lines where the output is not a terminal."""
WIDTH = 20
"""Characters of the bar."""
NEWEST = 0.3
"""Weight of the newest measurement in the pace, by which the time left is estimated."""


@dataclass
class Progress:
    """Shows one line in place on a terminal, and a line every few seconds elsewhere."""

    total: int
    unit: str
    console: Console
    done: int
    deadline: float | None = None
    """When the budget of the work is spent, by `clock`."""
    live: Live | None = None
    clock: Callable[[], float] = time.monotonic
    since: float = field(default_factory=time.monotonic)
    """When the work since the last update began."""
    first: int = field(init=False)
    began: float = field(init=False)
    _pace: float | None = None
    """Seconds of a unit."""
    _facts: str = ""
    _waits: tuple[str, float] | None = None
    """What is being waited for, and since when."""
    _last_plain: float = 0.0

    def __post_init__(self) -> None:
        self.first, self.began = self.done, self.clock()

    def update(self, done: int, facts: str) -> None:
        """Say how far it is, with some facts."""
        now = self.clock()
        if done > self.done:
            newest = (now - self.since) / (done - self.done)
            self._pace = newest if self._pace is None else NEWEST * newest + (1 - NEWEST) * self._pace
        self.since, self.done, self._facts, self._waits = now, done, facts, None
        if self.live is None and (now - self._last_plain >= PLAIN_INTERVAL or done >= self.total):
            self._last_plain = now
            self.console.print(self.line())

    def note(self, text: str) -> None:
        """Say what is being waited for until the next update."""
        self._waits = (text, self.clock())
        if self.live is None:
            self.console.print(text)

    def say(self, text: str) -> None:
        """A line that stays, above the one that moves."""
        self.console.print(text, soft_wrap=True, highlight=False, markup=False)

    @contextmanager
    def waiting(self, what: str, announced: bool = True) -> Iterator[None]:
        """Say what is being waited for, and afterwards how long it took; the pace does not count it.

        Where the output is not a terminal, what may be refused is not `announced`.
        """
        began = self.clock()
        self._waits = (what, began)
        if self.live is None and announced:
            self.console.print(f"{what} ...")
        try:
            yield
        finally:
            self._waits = None
            self.since += self.clock() - began
        self.say(f"{what}: {self.clock() - began:.1f} s")

    def line(self) -> str:
        """What is to be seen now."""
        if self._waits is not None:
            return f"{self._waits[0]} ... {self.clock() - self._waits[1]:.0f} s"
        if self.done == self.first and not self._facts:
            return ""
        share = self.done / max(self.total, 1)
        if self.deadline is not None and self.deadline > self.began:
            share = max(share, min((self.clock() - self.began) / (self.deadline - self.began), 1.0))
        full = round(WIDTH * share)
        left = self.left()
        words = "" if left is None else f"  {_time(left)} left"
        return f"{'█' * full}{'░' * (WIDTH - full)} {self.unit} {self.done:,}/{self.total:,}  {self._facts}{words}"

    def left(self) -> float | None:
        """Seconds until all is done or the budget is spent, whichever is first; None while nothing tells."""
        now, found = self.clock(), []
        if self._pace is not None:
            found.append((self.total - self.done) * self._pace - (now - self.since))
        if self.deadline is not None:
            found.append(self.deadline - now)
        return max(min(found), 0.0) if found else None

    def __rich__(self) -> Text:
        return Text(self.line(), no_wrap=True, overflow="ellipsis")


@contextmanager
def progress(
    total: int, unit: str, first: int = 0, quiet: bool = False, deadline: float | None = None
) -> Iterator[Progress]:
    """A progress line for a piece of work that goes from `first` to `total`, or until a deadline."""
    console = Terminal(file=sys.stderr, quiet=quiet)
    line = Progress(total, unit, console, first, deadline)
    shown = None
    if console.is_terminal and not quiet:
        shown = Live(line, console=console, refresh_per_second=4)
        line.live = shown
    with shown or nullcontext():
        yield line


@contextmanager
def waiting(what: str, quiet: bool = False) -> Iterator[None]:
    """A piece of work that has no steps to count: what it is, and how long it took."""
    with progress(1, "", quiet=quiet) as line, line.waiting(what, announced=False):
        yield


def _time(seconds: float) -> str:
    return str(datetime.timedelta(seconds=round(seconds)))
