"""Who writes to the folder of a run: one process at a time, also where a file system has no locks.

`writer.json` names the attempt that writes, and is gone when it has ended. A process that takes a folder over puts its
own attempt there: the one before, if it still lives on some lost machine, is refused at its next write. Where the file
system has locks, the heir waits until the one before has let go.
"""

import contextlib
import fcntl
import os
import socket
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from wanderlust.errors import UserError
from wanderlust.runs.files import read_object, write_json

WRITER = "writer.json"
WAIT = 0.1
"""Seconds between two looks whether the process before has let go."""


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
        free, other = _locked(handle), _named(folder)
        if not free and not (claim and other.get("claim") == claim):
            who = f" (process {other['pid']} on {other['host']})" if {"pid", "host"} <= set(other) else ""
            raise HeldError(f"another process is training {folder}{who}; wait for it or stop it first")
        about = {"attempt": writer.attempt, "claim": claim, "host": socket.gethostname(), "pid": os.getpid()}
        write_json(folder / WRITER, about)
        while not free:
            time.sleep(WAIT)
            writer.check()
            free = _locked(handle)
        writer.check()
        yield writer
    finally:
        if _named(folder).get("attempt") == writer.attempt:
            (folder / WRITER).unlink(missing_ok=True)
        os.close(handle)


def is_held(folder: Path) -> bool:
    """Whether a process writes to a folder, as far as the locks of its file system tell."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        return not _locked(handle)
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    """Lock a folder, unless another process has; a file system without locks leaves it to `writer.json`."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _named(folder: Path) -> dict[str, Any]:
    """What writer.json says; nothing if it cannot be read."""
    try:
        return read_object(folder / WRITER, "the writer")
    except UserError:
        return {}
