"""The clock: nothing moves while nobody watches, requests come between steps, an error ends it."""

import time

import numpy as np
import pytest

import wanderlust
from trained import trained
from wanderlust.report.explorer.loop import Loop
from wanderlust.report.explorer.simulation import Simulation


@pytest.fixture
def loop():
    simulation = Simulation(wanderlust.load(trained()))
    simulation.step()
    made = Loop(simulation, lambda simulation: drawn.append(simulation.steps))
    drawn = made.drawn = []
    made.speed = 20.0
    made.start()
    yield made
    made.stop()
    assert made.over.is_set()


def until(true, seconds=20.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_it_runs_while_somebody_watches_and_sleeps_otherwise(loop):
    simulation = loop.simulation
    time.sleep(0.1)
    assert simulation.steps == 1 and not loop.drawn
    loop.watch(True)
    until(lambda: simulation.steps > 20)
    assert loop.drawn
    loop.watch(False)
    time.sleep(0.2)
    steps, used = simulation.steps, time.thread_time_ns()
    cpu = time.process_time()
    time.sleep(0.5)
    assert simulation.steps == steps and time.process_time() - cpu < 0.1 and used
    loop.watch(True)
    until(lambda: simulation.steps > steps)


def test_simulated_time_keeps_to_the_speed_and_a_pause_stops_it(loop):
    simulation = loop.simulation
    loop.speed = 5.0
    loop.watch(True)
    until(lambda: loop.pace is not None)
    assert loop.pace < 5.5  # never faster than asked for; slower only on a machine that is busy
    began, simulated = time.monotonic(), simulation.seconds
    time.sleep(0.5)
    assert 0.2 < simulation.seconds - simulated < 5.0 * (time.monotonic() - began) + 0.5
    loop.ask(lambda simulation: setattr(simulation, "paused", True))
    until(lambda: simulation.paused)
    steps, drawings = simulation.steps, len(loop.drawn)
    until(lambda: len(loop.drawn) > drawings)  # what is asked for meanwhile is seen
    assert simulation.steps == steps and loop.pace is None


def test_what_is_asked_for_is_done_in_order_between_steps(loop):
    seen = []
    loop.watch(True)
    for number in range(50):
        loop.ask(lambda simulation, number=number: seen.append(number))
    loop.ask(lambda simulation: simulation.pick(np.array([0.0, 1.0])))
    until(lambda: np.array_equal(loop.simulation.skill, [0.0, 1.0]))
    assert seen == list(range(50))


def test_an_error_ends_it_and_is_kept(loop):
    def fail(simulation):
        raise ValueError("as it happens")

    loop.watch(True)
    loop.ask(fail)
    assert loop.over.wait(timeout=20.0)
    assert str(loop.failure) == "as it happens"
