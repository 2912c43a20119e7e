"""The live line of a long command."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.text import Text

PLAIN_INTERVAL = 10.0
"""Seconds between two lines where the output is not a terminal."""


@dataclass
class Progress:
    """Shows one line in place on a terminal, and a line every few seconds elsewhere."""

    total: int
    unit: str
    console: Console
    live: Live | None = None
    started: float = field(default_factory=time.monotonic)
    first: int = 0
    _last_plain: float = 0.0

    def note(self, text: str) -> None:
        """Show a line of text instead, e.g. while something is compiled."""
        if self.live is not None:
            self.live.update(Text(text, no_wrap=True, overflow="ellipsis"))
        else:
            self.console.print(text, soft_wrap=True, highlight=False)

    def restart(self, done: int) -> None:
        """Measure the pace from here on: what came before was preparation."""
        self.started, self.first = time.monotonic(), done

    def update(self, done: int, facts: str, left: float | None = None) -> None:
        """Show how far it is, some facts, and the time left (from the pace so far, or a nearer limit)."""
        elapsed = time.monotonic() - self.started
        pace = elapsed / max(done - self.first, 1)
        remaining = (self.total - done) * pace
        if left is not None:
            remaining = min(remaining, max(left, 0.0))
        line = f"{self.unit} {done:,}/{self.total:,}  {facts}  {clock(remaining)} left"
        if self.live is not None:
            self.live.update(Text(line, no_wrap=True, overflow="ellipsis"))
        elif time.monotonic() - self._last_plain >= PLAIN_INTERVAL or done >= self.total:
            self._last_plain = time.monotonic()
            self.console.print(line, soft_wrap=True, highlight=False)


@contextmanager
def progress(total: int, unit: str, first: int = 0, quiet: bool = False) -> Iterator[Progress]:
    """A progress line for a piece of work that goes from `first` to `total`."""
    console = Console(file=sys.stderr, quiet=quiet)
    if console.is_terminal and not quiet:
        with Live(console=console, transient=False, refresh_per_second=8) as live:
            yield Progress(total, unit, console, live, first=first)
    else:
        yield Progress(total, unit, console, first=first)


def clock(seconds: float) -> str:
    """A duration as a person reads it."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
