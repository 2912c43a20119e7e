"""The one exception a user is meant to see, checks that raise it, and lines on the side."""

import contextlib
import difflib
import numbers
import os
import sys
from collections.abc import Iterable
from typing import Any

LONGEST = 2000
"""Characters of a message: what a stranger's file may have put into it is cut off."""


class UserError(Exception):
    """Something the caller can put right: one line that says what is wrong and what would be right.

    The command line prints it and exits with code 2; from Python it is an ordinary exception.
    """

    def __init__(self, message: object) -> None:
        super().__init__(printable(str(message), LONGEST))  # Gymnasium makes one of another


class DiskError(UserError):
    """Something cannot be written now; later it may be."""


class GoneError(UserError):
    """A file that is not there, or not any more."""


class DamagedError(UserError):
    """A file that is not whole: something may stand in for it."""


def printable(text: str, longest: int) -> str:
    """Text that may hold anything: without control characters, and cut off in the middle where it is too long."""
    if len(text) > longest:
        text = f"{text[: longest * 2 // 3]} … {text[-longest // 3 :]}"
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def notice(text: str) -> None:
    """Say something on stderr that a user should know and that stops nothing."""
    with contextlib.suppress(OSError, ValueError):  # nobody listens any more
        sys.stderr.write(f"wanderlust: {printable(text, LONGEST)}\n")
        sys.stderr.flush()


def require(ok: bool, message: str) -> None:
    """Raise `UserError` unless `ok`."""
    if not ok:
        raise UserError(message)


def is_count(value: Any) -> bool:
    """Whether something is a whole number, NumPy's included, and not a truth value."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def require_positive(name: str, value: float) -> None:
    """Refuse zero and below."""
    ok = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
    require(ok, f"{name} is {value!r}; it must be positive")


def require_seed(name: str, value: Any) -> None:
    """Refuse what no random numbers can be drawn from."""
    ok = is_count(value) and 0 <= value < 2**31
    require(ok, f"{name} is {value!r}; it must be a whole number in [0, 2^31)")


def require_path(name: str, value: Any) -> None:
    """Refuse what names no file and no folder anywhere."""
    ok = isinstance(value, str | os.PathLike) and "\0" not in str(value)
    require(ok, f"{name} is {value!r}; it must be the path of a file or a folder")


def require_at_least(least: int, name: str, value: int) -> None:
    """Refuse counts that are too small."""
    require(is_count(value) and value >= least, f"{name} is {value!r}; it must be at least {least}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """What to put behind a message about an unknown word; nothing if no known one is near."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""
