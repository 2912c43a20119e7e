"""Places where the runs of a sweep are trained: this process, or several processes of this machine."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from wanderlust.envs.devices import cores
from wanderlust.registry import ALLOWED
from wanderlust.runs.files import read_text
from wanderlust.sweeps.attempt import FAILED, INTERRUPTED, Ending, Order, attempt

LOOK = 0.1
"""Seconds between two checks of the processes."""


class Place(Protocol):
    """Where attempts are carried out, a number of them at a time."""

    @property
    def size(self) -> int:
        """How many at a time."""

    @property
    def about(self) -> str:
        """What it is, in words."""

    def start(self, order: Order) -> None:
        """Begin an attempt."""

    def wait(self, seconds: float) -> dict[str, Ending]:
        """The attempts that have ended, by name; returns at once if one has, else after so many seconds."""

    def stop(self, at_once: bool) -> None:
        """Ask all to stop at the end of their chunk of epochs, or at once, back to the last checkpoint."""

    def close(self) -> None:
        """Leave nothing behind."""


class Here:
    """The process that calls, one attempt at a time, with its line of progress."""

    size, about = 1, "in this process, one run at a time"

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._done: dict[str, Ending] = {}

    def start(self, order: Order) -> None:
        self._done[order.name] = ending = attempt(order, self._quiet)
        if ending.reason == INTERRUPTED:  # what was pressed was heard by the attempt, and means all of them
            signal.raise_signal(signal.SIGINT)

    def wait(self, seconds: float) -> dict[str, Ending]:
        if not self._done:
            time.sleep(seconds)
        done, self._done = self._done, {}
        return done

    def stop(self, at_once: bool) -> None:
        """There is nothing: an attempt has ended when this is called."""

    def close(self) -> None:
        """There is nothing."""


class _Worker(NamedTuple):
    """A process with its attempt."""

    process: "subprocess.Popen[str]"
    slot: int
    log: Path
    order: IO[str]
    """The pipe by which it got its order: it closes when this process dies."""


class Processes:
    """Processes of this machine, one for each attempt, each with cores of its own."""

    def __init__(
        self, logs: Path, cores_per_run: int = 2, workers: int | None = None, modules: tuple[str, ...] = ()
    ) -> None:
        mine = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._cores, self._logs = cores_per_run, logs
        self.size = workers or max(1, cores() // cores_per_run)
        share = max(1, min(cores_per_run, len(mine) // self.size)) if mine else 0
        self._slots = {k: tuple(mine[(k * share + n) % len(mine)] for n in range(share)) for k in range(self.size)}
        self._chosen = workers is not None
        self._share = share or cores_per_run
        self._env = environment(modules)
        self._workers: dict[str, _Worker] = {}

    @property
    def about(self) -> str:
        at_a_time = "1 run" if self.size == 1 else f"{self.size} runs"
        each = "" if self.size == 1 else " each"
        why = "as asked" if self._chosen else f"{cores()} cores, cores_per_run = {self._cores}"
        core = "1 core" if self._share == 1 else f"{self._share} cores"
        return f"{at_a_time} at a time in processes of {core}{each} ({why})"

    def start(self, order: Order) -> None:
        slot = min(set(self._slots) - {worker.slot for worker in self._workers.values()})
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"{order.name}.log"
        words = {**vars(order), "cores": self._slots[slot]}
        with open(log, "ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "wanderlust.sweeps.attempt"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env=self._env,
                start_new_session=True,  # a Ctrl-C of the terminal is passed on by `stop`, once
            )
        assert process.stdin is not None
        process.stdin.write(json.dumps(words) + "\n")
        process.stdin.flush()
        self._workers[order.name] = _Worker(process, slot, log, process.stdin)

    def wait(self, seconds: float) -> dict[str, Ending]:
        until = time.monotonic() + seconds
        while True:
            done = [name for name, worker in self._workers.items() if worker.process.poll() is not None]
            if done or time.monotonic() >= until:
                return {name: _ending(self._workers.pop(name)) for name in done}
            time.sleep(min(LOOK, seconds))

    def stop(self, at_once: bool) -> None:
        for worker in self._workers.values():
            worker.process.send_signal(signal.SIGKILL if at_once else signal.SIGINT)

    def close(self) -> None:
        self.stop(at_once=True)
        for worker in self._workers.values():
            worker.process.wait()
            _close(worker)
        self._workers.clear()


def environment(modules: tuple[str, ...]) -> Mapping[str, str]:
    """Ours; the modules that the sweep names may be imported, since its author has named them."""
    allowed = [name for name in os.environ.get(ALLOWED, "").split(",") if name]
    return {**os.environ, ALLOWED: ",".join(dict.fromkeys([*allowed, *modules]))}


def _ending(worker: _Worker) -> Ending:
    """What a process has answered; if it died instead, how."""
    assert worker.process.stdout is not None
    said, code = worker.process.stdout.read(), worker.process.returncode
    _close(worker)
    try:
        return Ending(*json.loads(said))
    except (ValueError, TypeError):
        pass
    if code == -signal.SIGINT:
        return Ending(INTERRUPTED)
    if code < 0:
        return Ending(FAILED, f"its process was killed ({signal.Signals(-code).name})")
    last = [line for line in read_text(worker.log, "the log").splitlines() if line.strip()][-1:]
    return Ending(FAILED, f"its process ended with code {code}{''.join(f': {line}' for line in last)}")


def _close(worker: _Worker) -> None:
    """Close the pipes."""
    for pipe in (worker.order, worker.process.stdout):
        if pipe is not None:
            pipe.close()
