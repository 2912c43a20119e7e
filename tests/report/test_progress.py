"""The live line: its countdown moves, waits are said and timed, and a budget counts."""

import io

import pytest
from rich.console import Console

from wanderlust.report.progress import Progress


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def line():
    clock, screen = Clock(), io.StringIO()

    def make(total=100, deadline=None, live=None):
        made = Progress(total, "epoch", Console(file=screen, width=200), 0, deadline, live, clock, since=clock.now)
        return made, clock, screen

    return make


def test_the_time_left_moves_between_updates(line):
    made, clock, _ = line()
    assert made.left() is None and made.line() == ""
    clock.now += 10
    made.update(10, "fast")
    assert made.left() == 90.0
    assert made.line() == "██░░░░░░░░░░░░░░░░░░ epoch 10/100  fast  0:01:30 left"
    clock.now += 4
    assert made.left() == 86.0 and "0:01:26 left" in made.line()


def test_a_budget_that_ends_sooner_is_what_counts(line):
    made, clock, _ = line(deadline=120.0)
    clock.now += 10
    made.update(10, "")
    assert made.left() == 10.0
    assert made.line().startswith("█" * 10 + "░" * 10)  # half of the budget, though a tenth of the epochs


def test_what_is_waited_for_is_said_and_timed_and_is_no_part_of_the_pace(line):
    made, clock, screen = line(live=object())
    with made.waiting("compiling"):
        clock.now += 7
        assert made.line() == "compiling ... 7 s"
    assert screen.getvalue() == "compiling: 7.0 s\n"
    clock.now += 10
    made.update(10, "")
    assert made.left() == 90.0


def test_without_a_terminal_there_is_a_line_every_few_seconds_and_the_last(line):
    made, clock, screen = line()
    for done in (20, 21, 100):
        clock.now += 1
        made.update(done, f"at {done}")
    assert [text.split("  ")[1] for text in screen.getvalue().splitlines()] == ["at 20", "at 100"]
