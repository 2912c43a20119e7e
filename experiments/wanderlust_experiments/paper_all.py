"""The commands of the paper that fit into some hours, one after the other."""

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from wanderlust_experiments.paper import PAPER, hours

GRACE = 1800.0
"""Seconds that a command has to reach the end of its chunk of epochs and to save."""


class Command(NamedTuple):
    """What is to be carried out, and how long it takes."""

    words: str
    hours: float | None


class Done(NamedTuple):
    """How it went."""

    finished: list[str]
    failed: list[str]
    left: list[str]
    stopped: bool


def commands(results: Path) -> list[Command]:
    """All commands, shortest first, those without an estimate last."""
    found = {one.words: hours(one, results) for one in PAPER if one.words}
    return sorted((Command(*item) for item in found.items()), key=lambda one: (one.hours is None, one.hours or 0.0))


def carry_out(most: float, results: Path, say: Callable[[str], None]) -> Done:
    """Carry out what fits into so many hours."""
    until, done = time.monotonic() + 3600 * most, Done([], [], [], False)
    for command in commands(results):
        left = (until - time.monotonic()) / 3600
        title = f"wanderlust reproduce {command.words}"
        if command.hours is None or command.hours > left or done.stopped:
            length = "of unknown length" if command.hours is None else f"about {command.hours:.1f} h"
            say(f"left out ({length}, {max(left, 0.0):.1f} h left): {title}")
            done.left.append(command.words)
            continue
        say(f"about {command.hours:.1f} h: {title}")
        code = _run(command.words, results, until)
        if code == 0:
            done.finished.append(command.words)
        elif code == STOPPED:
            done = done._replace(stopped=time.monotonic() < until)
            done.left.append(command.words)
            say(f"stopped: {title}; the same command goes on")
        else:
            done.failed.append(command.words)
            say(f"failed with exit code {code}: {title}")
    say(f"{len(done.finished)} finished, {len(done.failed)} failed, {len(done.left)} left")
    return done


STOPPED = 130


def _run(words: str, results: Path, until: float) -> int:
    """One command in a process of its own; its exit code. At the end of the time it is asked to stop, as by Ctrl-C."""
    argv = [sys.executable, "-m", "wanderlust", "reproduce", *shlex.split(words), "--out", str(results)]
    process = subprocess.Popen(argv)
    asked = 0
    while True:
        try:
            return process.wait(max(until - time.monotonic(), 0.0) if not asked else GRACE)
        except KeyboardInterrupt:  # the terminal has told the process, too
            asked += 1
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT if not asked else signal.SIGKILL)
            asked += 1
