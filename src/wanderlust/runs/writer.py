"""Who writes to the folder of a run: one process at a time, also where a file system has no locks.

`writer.json` names the attempt that writes, and is gone when it has ended. A process that takes a folder over puts its
own attempt there: the one before, if it still lives on some lost machine, is refused at its next write. Where the file
system has locks, the heir waits until the one before has let go.

A lock tells whether a process of this machine still lives. Of another machine's, and where there are no locks, the
beats of `writer.json` do: while a process writes, it touches that file every few seconds. One that has not been touched
for a while is of a process that has crashed, and stops nobody.
"""

import contextlib
import fcntl
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from wanderlust.errors import UserError, notice
from wanderlust.runs.files import read_object, write_json

WRITER = "writer.json"
WAIT = 0.1
"""Seconds between two looks whether the process before has let go."""
BEAT = 5.0
"""Seconds between two touches of `writer.json`."""
STALE = 30.0
"""Seconds without one after which its process is taken for dead."""
BOOT = Path("/proc/sys/kernel/random/boot_id")


class HeldError(UserError):
    """Another process writes to the folder."""


class TakenOverError(UserError):
    """Another process has taken over the folder that this one was writing to."""


@dataclass(frozen=True)
class Writer:
    """The attempt by which this process writes to a folder."""

    folder: Path
    attempt: str
    around: Optional["Writer"] = None
    """Of the run that this one is a stage of."""

    def check(self) -> None:
        """Refuse to write when another process has taken the folder over."""
        if self.around is not None:
            self.around.check()
        if _named(self.folder).get("attempt") != self.attempt:
            raise TakenOverError(f"another process has taken over {self.folder}; this one writes nothing more there")


@contextlib.contextmanager
def hold(folder: Path, claim: str = "", around: Writer | None = None) -> Iterator[Writer]:
    """Write to a folder alone. It is taken over from another process only if that holds it by the same `claim`."""
    handle = os.open(folder, os.O_RDONLY)
    writer = Writer(folder, uuid.uuid4().hex, around)
    try:
        locked, other = _locked(handle), _named(folder)
        ours = claim and other.get("claim") == claim
        if not ours and (locked is False or _lives_elsewhere(folder, other, locked)):
            raise HeldError(f"another process is training {folder}{_who(other)}; wait for it or stop it first")
        place = {"host": socket.gethostname(), "machine": _machine(), "pid": os.getpid()}
        write_json(folder / WRITER, {"attempt": writer.attempt, "claim": claim, **place})
        while locked is False:
            time.sleep(WAIT)
            writer.check()
            locked = _locked(handle)
        writer.check()
        with _beating(writer):
            yield writer
    finally:
        if _named(folder).get("attempt") == writer.attempt:
            (folder / WRITER).unlink(missing_ok=True)
        os.close(handle)


def is_held(folder: Path) -> bool:
    """Whether a process writes to a folder, as far as the locks of its file system tell."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        return _locked(handle) is False
    finally:
        os.close(handle)


def _locked(handle: int) -> bool | None:
    """Lock a folder, unless another process has; None if its file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _machine() -> str:
    """What tells this machine, since it was started, from others: locks are of one machine in some file systems."""
    try:
        return BOOT.read_text().strip()
    except OSError:
        return socket.gethostname()


def _who(other: Mapping[str, Any]) -> str:
    return f" (process {other['pid']} on {other['host']})" if {"pid", "host"} <= set(other) else ""


def _lives_elsewhere(folder: Path, other: Mapping[str, Any], locked: bool | None) -> bool:
    """Whether the process that writer.json names still writes, where no lock tells it."""
    if not other or (locked and other.get("machine") == _machine()):
        return False
    notice(f"{folder} was written to by another process{_who(other)}: looking for {STALE:.0f} s whether it still is")
    seen, until = _beat(folder), time.monotonic() + STALE
    while time.monotonic() < until:
        time.sleep(min(BEAT, STALE / 10))
        if _beat(folder) != seen:
            return True
    return False


def _beat(folder: Path) -> int | None:
    """When writer.json was last touched, by the clock of whoever did it; None if it is gone."""
    try:
        with open(folder / WRITER, "rb") as file:  # opened, so that a shared file system looks anew
            return os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        return None


@contextlib.contextmanager
def _beating(writer: Writer) -> Iterator[None]:
    """Touch writer.json now and then, while it is ours."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT) and _named(writer.folder).get("attempt") == writer.attempt:
            with contextlib.suppress(OSError):  # a disk that is full or away for a moment
                os.utime(writer.folder / WRITER)

    thread = threading.Thread(target=beat, daemon=True, name="writer")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _named(folder: Path) -> dict[str, Any]:
    """What writer.json says; nothing if it cannot be read."""
    try:
        return read_object(folder / WRITER, "the writer")
    except UserError:
        return {}
