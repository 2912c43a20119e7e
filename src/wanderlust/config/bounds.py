"""What numbers of a configuration may be, said with the types of its fields: ``slack: Positive = 1e-3``."""

import dataclasses
import functools
import typing
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from wanderlust.errors import require

LARGEST = 3.4e38
"""What float32 can hold: beyond it a number would be infinite wherever it is used."""


class Bound(NamedTuple):
    """A condition on a number, and its words in the error message."""

    holds: Callable[[Any], bool]
    words: str


Positive = Annotated[float, Bound(lambda x: x > 0, "positive")]
Weight = Annotated[float, Bound(lambda x: x >= 0, "0 or larger")]
Share = Annotated[float, Bound(lambda x: 0 <= x < 1, "in [0, 1)")]
Count = Annotated[int, Bound(lambda x: x >= 1, "at least 1")]
CountOrZero = Annotated[int, Bound(lambda x: x >= 0, "0 or larger")]
Widths = Annotated[
    tuple[int, ...],
    Bound(lambda x: 1 <= len(x) <= 64 and all(w >= 1 for w in x), "one to 64 layer widths of at least 1"),
]


@functools.cache
def _bounds(kind: type) -> dict[str, Bound]:
    """By field; a subclass that gives a field another default keeps its bound."""
    every = (typing.get_type_hints(base, include_extras=True) for base in reversed(kind.__mro__))
    return {
        name: bound for hints in every for name, hint in hints.items() for bound in getattr(hint, "__metadata__", ())
    }


def check_bound(kind: type, name: str, value: Any, section: str = "") -> None:
    """Refuse a value of one field that is out of bounds."""
    bound = _bounds(kind).get(name)
    shown = list(value) if isinstance(value, tuple) else value
    require(bound is None or bound.holds(value), f"{section}{name} is {shown}; it must be {bound and bound.words}")


def check_bounds(config: Any, section: str) -> None:
    """Refuse a configuration with a number out of bounds; `section` comes before the field's name in the message."""
    kind: Any = type(config)
    for field in dataclasses.fields(kind):
        value = getattr(config, field.name)
        ok = not isinstance(value, float) or abs(value) < LARGEST
        require(ok, f"{section}{field.name} is {value}; it must be a number that float32 can hold, below 3.4e38")
    for name in _bounds(kind):
        check_bound(kind, name, getattr(config, name), section)
