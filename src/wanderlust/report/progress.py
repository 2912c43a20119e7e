"""The live line of a long command."""

import datetime
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.text import Text

from wanderlust.report.terminal import Terminal

PLAIN_INTERVAL = 10.0
"""Seconds between two lines where the output is not a terminal."""


@dataclass
class Progress:
    """Shows one line in place on a terminal, and a line every few seconds elsewhere."""

    total: int
    unit: str
    console: Console
    live: Live | None
    done: int
    since: float = field(default_factory=time.monotonic)
    _last_plain: float = 0.0

    def note(self, text: str) -> None:
        """Show a line of text instead, e.g. while something is compiled."""
        if self.live is not None:
            self.live.update(Text(text, no_wrap=True, overflow="ellipsis"))
        else:
            self.console.print(text)

    def update(self, done: int, facts: str, left: float | None = None) -> None:
        """Show how far it is, some facts, and the time left (at the pace since the last update, or a nearer limit)."""
        now = time.monotonic()
        remaining = (self.total - done) * (now - self.since) / max(done - self.done, 1)
        self.since, self.done = now, done
        if left is not None:
            remaining = min(remaining, max(left, 0.0))
        if self.live is not None or now - self._last_plain >= PLAIN_INTERVAL or done >= self.total:
            self._last_plain = now
            clock = datetime.timedelta(seconds=round(remaining))
            self.note(f"{self.unit} {done:,}/{self.total:,}  {facts}  {clock} left")


@contextmanager
def progress(total: int, unit: str, first: int = 0, quiet: bool = False) -> Iterator[Progress]:
    """A progress line for a piece of work that goes from `first` to `total`."""
    console = Terminal(file=sys.stderr, quiet=quiet)
    shown = Live(console=console, refresh_per_second=8) if console.is_terminal and not quiet else nullcontext()
    with shown as live:
        yield Progress(total, unit, console, live, first)
