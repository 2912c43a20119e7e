"""Carry out a sweep: every run in its own folder, finished ones skipped, killed ones resumed, failed ones tried again.

DIR/NAME/              a run (`runs/run.py`)
DIR/logs/NAME.log      what its processes have said
DIR/attempts.jsonl     one line for every attempt: when, how it ended and why
DIR/results.json, .md  what the runs reached (`results.py`)

Several sweeps may work on one folder: each leaves alone what another holds, and takes it up if that one is gone.
"""

import contextlib
import dataclasses
import json
import signal
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from wanderlust.config import to_json
from wanderlust.runs.files import append_line, check_writable
from wanderlust.runs.run import Run
from wanderlust.runs.writer import is_held
from wanderlust.sweeps.attempt import BUDGET, FAILED, FINISHED, HELD, INTERRUPTED, LOST, Ending, Order
from wanderlust.sweeps.local import Place
from wanderlust.sweeps.plan import Item, Plan
from wanderlust.sweeps.standing import NOTHING, Standing, standing
from wanderlust.train.stopping import SIGNALS

WAITING, RUNNING, ELSEWHERE, STOPPED = "waiting", "running", "elsewhere", "stopped"
"""What a run does, beside how it has ended."""
ENDED = (FINISHED, BUDGET, FAILED, STOPPED)
TURN = 1.0
"""Seconds between two checks of all runs."""
AGAIN = 5.0
"""Seconds until a run that another process held is tried again."""
MOST_LOST = 20
"""Times that a run may lose its machine."""


@dataclasses.dataclass
class Entry:
    """A run of the sweep, and how it fares."""

    item: Item
    state: str = WAITING
    standing: Standing = NOTHING
    attempts: int = 0
    lost: int = 0
    why: str = ""
    """Why the last attempt failed."""
    not_before: float = 0.0
    began: float = 0.0

    def refresh(self, plan: Plan) -> None:
        """Read from its folder how far it is."""
        if self.item.folder.exists():
            self.standing = standing(Run(self.item.folder, self.item.config), plan.seconds_per_run)

    def mark_done(self) -> None:
        """Set the state of a run that is done, as its folder says."""
        self.state = FINISHED if self.standing.epoch >= self.standing.epochs else BUDGET


Watch = Callable[[Sequence[Entry], str], None]
"""Told of all runs after every turn, with a line for what has just happened, or none."""


def carry_out(plan: Plan, place: Place, watch: Watch = lambda entries, news: None) -> list[Entry]:
    """Train and measure what is missing, as many runs at a time as there is place for; return how all of them fare.

    The first Ctrl-C, or SIGTERM, has every run stop at the end of its chunk of epochs, the second one at once. The
    same sweep called again goes on from there.
    """
    try:
        check_writable(plan.out)
        entries = {entry.item.name: entry for entry in read_entries(plan)}
        with _stop_asked() as presses:
            _turns(plan, place, entries, presses, watch)
    finally:
        place.close()
    return list(entries.values())


def read_entries(plan: Plan) -> list[Entry]:
    """How all runs fare, as their folders say."""
    entries = [Entry(item) for item in plan.items]
    for entry in entries:
        entry.refresh(plan)
        if entry.standing.done:
            entry.mark_done()
    return entries


def _turns(plan: Plan, place: Place, entries: dict[str, Entry], presses: Callable[[], int], watch: Watch) -> None:
    """Begin attempts and hear of their ends, until there is nothing to wait for."""
    claim, began, told = uuid.uuid4().hex, time.monotonic(), 0
    queue = deque(name for name, entry in entries.items() if entry.state == WAITING)
    running: set[str] = set()
    watch(list(entries.values()), "")
    while queue or running:
        over = plan.hours is not None and time.monotonic() - began >= 3600 * plan.hours
        asked = max(presses(), int(over))
        if asked:
            for name in queue:
                entries[name].state = STOPPED
            queue.clear()
            if asked > told:
                place.stop(at_once=asked > 1)
                told = asked
        for _ in range(len(queue)):
            if len(running) >= place.size:
                break
            name = queue.popleft()
            if _begin(entries[name], plan, place, claim):
                running.add(name)
            elif entries[name].state not in ENDED:
                queue.append(name)
        watch(list(entries.values()), "")
        for name, ending in place.wait(TURN).items():
            running.discard(name)
            news = _end(entries[name], ending, plan, bool(told))
            if entries[name].state in (WAITING, ELSEWHERE):
                queue.append(name)
            watch(list(entries.values()), news)
        for entry in entries.values():
            if entry.state in (RUNNING, ELSEWHERE):
                entry.refresh(plan)


def _begin(entry: Entry, plan: Plan, place: Place, claim: str) -> bool:
    """Start an attempt, unless the run is another process's for now, or done by it."""
    if entry.not_before > time.monotonic():
        return False
    entry.not_before = time.monotonic() + AGAIN
    entry.refresh(plan)
    if entry.standing.done:
        entry.mark_done()
        return False
    if entry.state == ELSEWHERE and entry.item.folder.exists() and is_held(entry.item.folder):
        return False
    entry.state, entry.began = RUNNING, time.time()
    item = entry.item
    order = Order(item.name, str(item.folder), to_json(item.config), claim, plan.seconds_per_run, plan.episodes)
    place.start(order)
    return True


def _end(entry: Entry, ending: Ending, plan: Plan, stopping: bool) -> str:
    """Note how an attempt has ended, and whether there is another; return it as a line."""
    name, before = entry.item.name, entry.attempts
    entry.refresh(plan)
    if ending.reason == HELD:
        entry.state, entry.why = ELSEWHERE, ending.why
        return "" if stopping else f"{name}: {ending.why}"
    entry.attempts += ending.reason == FAILED
    entry.lost += ending.reason == LOST
    spent = entry.attempts > plan.retries or entry.lost > MOST_LOST
    if ending.reason in (FINISHED, BUDGET):
        entry.state, entry.why = ending.reason, ""
    elif stopping or ending.reason == INTERRUPTED:
        entry.state, entry.why = STOPPED, ending.why
    else:
        entry.state, entry.why, entry.not_before = (FAILED if spent else WAITING), ending.why, 0.0
    _note(plan.out, entry, ending)
    failed = entry.attempts > before
    more = f"; attempt {entry.attempts + 1} of {plan.retries + 1} follows" if failed and entry.state == WAITING else ""
    return f"{name}: {ending.reason}{f': {ending.why}' if ending.why else ''}{more}"


def _note(out: Path, entry: Entry, ending: Ending) -> None:
    """A line in attempts.jsonl."""
    row: dict[str, Any] = {"run": entry.item.name, "began": _clock(entry.began), "ended": _clock(time.time())}
    row |= {"reason": ending.reason, "why": ending.why, "epoch": entry.standing.epoch}
    append_line(out / "attempts.jsonl", json.dumps(row))


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


@contextlib.contextmanager
def _stop_asked() -> Iterator[Callable[[], int]]:
    """How often the process was asked to stop: by Ctrl-C, SIGTERM, a terminal that closes."""
    presses = 0

    def handler(signum: int, frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1

    heard = [which for which in SIGNALS if signal.getsignal(which) is not signal.SIG_IGN]
    try:
        before = {which: signal.signal(which, handler) for which in heard}
    except ValueError:  # not the main thread: another handler has them
        yield lambda: 0
        return
    try:
        yield lambda: presses
    finally:
        for which, what in before.items():
            signal.signal(which, what)
