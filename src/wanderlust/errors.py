"""The one exception a user is meant to see, and checks that raise it."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the caller can put right: one line that says what is wrong and what would be right.

    The command line prints it and exits with code 2; from Python it is an ordinary exception.
    """


def require(ok: bool, message: str) -> None:
    """Raise `UserError` unless `ok`."""
    if not ok:
        raise UserError(message)


def require_positive(name: str, value: float) -> None:
    """Refuse zero and below."""
    require(value > 0, f"{name} is {value}; it must be positive")


def require_at_least(least: int, name: str, value: int) -> None:
    """Refuse counts that are too small."""
    require(value >= least, f"{name} is {value}; it must be at least {least}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """What to put behind a message about an unknown word; nothing if no known one is near."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""
