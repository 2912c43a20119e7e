"""Measuring: everything of one kind is measured interleaved, a slice of time each, round after round.

A machine that is busy for a while is busy for all of them; a ratio is the median of the rounds' own ratios, for the
same reason.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

ROUNDS = 5
"""Slices a measurement is cut into."""


class Workload(Protocol):
    """Does a known amount of work per call."""

    @property
    def about(self) -> dict[str, Any]:
        """What it is, as it stands in the results."""
        ...

    @property
    def per_call(self) -> int: ...

    def advance(self) -> None: ...

    def close(self) -> None: ...


class Rates(NamedTuple):
    """Work per second in every round."""

    rounds: list[float]

    def summary(self) -> dict[str, Any]:
        return {"median": statistics.median(self.rounds), "lowest": min(self.rounds), "highest": max(self.rounds)}


def interleaved(workloads: Sequence[Workload], seconds: float, rounds: int = ROUNDS) -> list[Rates]:
    """Measure all of them for `seconds` each, one slice of each at a time, after a slice to warm up."""
    for one in workloads:
        _slice(one, seconds / rounds)
    rates = [Rates([]) for _ in workloads]
    for _ in range(rounds):
        for one, rate in zip(workloads, rates, strict=True):
            rate.rounds.append(_slice(one, seconds / rounds))
    return rates


def _slice(one: Workload, seconds: float) -> float:
    calls, began, spent = 0, time.perf_counter(), 0.0
    while spent < seconds:
        one.advance()
        calls += 1
        spent = time.perf_counter() - began
    return calls * one.per_call / spent


def ratio(ours: Rates, theirs: Rates) -> dict[str, float]:
    """How many times faster we were, round by round."""
    each = [a / b for a, b in zip(ours.rounds, theirs.rounds, strict=True)]
    return Rates(each).summary()


def first_call(call: Callable[[], None]) -> float:
    """Seconds that the first call takes beyond the second."""
    spent = []
    for _ in range(2):
        began = time.perf_counter()
        call()
        spent.append(time.perf_counter() - began)
    return max(0.0, spent[0] - spent[1])
