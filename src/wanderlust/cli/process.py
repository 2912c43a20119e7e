"""A command as a process: its output may go away, and others than the keyboard may stop it."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

EXIT_INTERRUPTED = 130


class LastingStream:
    """A stream that takes all that is written to it, also when nobody reads it any more or its disk is full.

    A command that has trained for hours goes on then. What cannot be encoded is written as an escape.
    """

    def __init__(self, stream: Any, lost: list[OSError]) -> None:
        self._stream, self._lost = stream, lost

    def write(self, text: str) -> int:
        try:
            return int(self._stream.write(text) or 0)
        except UnicodeEncodeError as error:
            return self.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
        except (OSError, ValueError) as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._give_up(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _give_up(self, error: OSError | ValueError) -> None:
        """From here on nothing is written. A pipe whose reader has seen enough is no loss."""
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            self._lost.append(error)
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())  # Python flushes what is left when it ends
            os.close(nowhere)


@contextlib.contextmanager
def lasting_output() -> Iterator[list[OSError]]:
    """Have stdout and stderr last; yields why stdout did not, if it did not."""
    lost: list[OSError] = []
    before = sys.stdout, sys.stderr
    out, err = (
        stream if stream is not None else open(os.devnull, "w")  # noqa: SIM115 - a process may be begun without them
        for stream in before
    )
    lasting: Any = LastingStream(out, lost), LastingStream(err, [])
    sys.stdout, sys.stderr = lasting
    try:
        yield lost
    finally:
        for stream in lasting:
            stream.flush()
        sys.stdout, sys.stderr = before


@contextlib.contextmanager
def ended_at_once() -> Iterator[None]:
    """Have Ctrl-C end the process on the spot, while there is nothing to clear away: modules are being imported.

    An exception out of the middle of an import may come out as anything, or be lost.
    """

    def end(signum: int, frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            os.write(2, b"wanderlust: stopped\n")
        os._exit(EXIT_INTERRUPTED)

    try:
        before = signal.signal(signal.SIGINT, end)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def import_api() -> Any:
    """`wanderlust.api`, and with it JAX, MuJoCo and all that comes with them."""
    with ended_at_once():
        from wanderlust import api
    return api


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Take what Slurm, Docker and a terminal that closes send for Ctrl-C: files are cleared away, and one line said."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(f"stopped by {signal.Signals(signum).name}")

    before = {}
    with contextlib.suppress(ValueError):  # not the main thread
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
