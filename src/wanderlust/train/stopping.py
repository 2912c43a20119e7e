"""Being asked to stop: by Ctrl-C, by Slurm, Docker or systemd (SIGTERM), by a terminal that closes (SIGHUP)."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_INTERRUPTED = 130
PATIENCE = 1.0
"""Seconds for which compiled code that does not listen to signals is waited for."""
SOON = "stopping at the end of this chunk of epochs; Ctrl-C again stops at once, back to the last checkpoint\n"
NOW = "wanderlust: stopped at once; --resume goes on from the last checkpoint\n"


@dataclass
class Stop:
    """Whether somebody has asked to stop."""

    asked: bool = False
    at_once: bool = False
    """Whether there is nothing to finish first: asking then raises `KeyboardInterrupt`."""
    left: bool = False
    """Whether that was raised, or whoever listened has ended."""

    def __call__(self) -> bool:
        return self.asked


class _Process:
    """Whether the process may be ended from here: a command's may, that of somebody's program may not."""

    ours = False


def may_end_process() -> None:
    """Say that this process is a command and nothing else."""
    _Process.ours = True


@contextlib.contextmanager
def stop_signals() -> Iterator[Stop]:
    """The first signal asks to stop at the next good moment; the second stops at once."""
    stop, seen = Stop(), 0

    def handler(signum: int, frame: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        if stop.at_once or seen > 1:
            stop.left = True
            raise KeyboardInterrupt
        if not stop.asked or not listens:
            _say(SOON)
        stop.asked = True

    before = {}
    try:
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup has a closed terminal ignored
                before[number] = signal.signal(number, handler)
    except ValueError:  # not the main thread: another handler has the signals
        yield stop
        return
    listens = _Process.ours
    try:
        with _listening(stop) if listens else contextlib.nullcontext():
            yield stop
    finally:
        stop.left = True
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextlib.contextmanager
def _listening(stop: Stop) -> Iterator[None]:
    """A thread that hears of signals while compiled code keeps the main one busy, for minutes as may be.

    Python's own handlers run when that code has come back.
    """
    hears, tells = os.pipe()
    os.set_blocking(tells, False)
    earlier = signal.set_wakeup_fd(tells, warn_on_full_buffer=False)

    def listen() -> None:
        heard = 0
        while (number := os.read(hears, 1)) != b"\0":
            if number[0] not in SIGNALS:
                continue
            heard += 1
            if heard == 1 and not stop.at_once:
                if not stop.asked:
                    stop.asked = True
                    _say(SOON)
                continue
            timer = threading.Timer(PATIENCE, _end, [stop])
            timer.daemon = True
            timer.start()

    thread = threading.Thread(target=listen, daemon=True, name="signals")
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(earlier)
        os.write(tells, b"\0")
        thread.join()
        os.close(hears)
        os.close(tells)


def _end(stop: Stop) -> None:
    if not stop.left:
        _say(NOW)
        os._exit(EXIT_INTERRUPTED)  # every file is whole at every moment


def _say(words: str) -> None:
    with contextlib.suppress(OSError):  # a terminal that is gone
        os.write(2, words.encode())  # a signal may come while something else is being printed
