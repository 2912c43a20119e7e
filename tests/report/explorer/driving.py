"""An Ant to drive: loaded once for all tests of a process."""

import functools

import wanderlust
from helpers import optimised
from wanderlust.report.explorer.simulation import Simulation


@functools.cache
def ant_skills():
    with optimised():
        skills = wanderlust.load("zoo:ant-agile-10")
        simulation = Simulation(skills)
        simulation.greet()
        simulation.step()
        simulation.phi()
    return skills


def ant_simulation(seed: int = 0) -> Simulation:
    """An Ant at the start, under a random skill."""
    return Simulation(ant_skills(), seed)


def steps(simulation: Simulation, count: int) -> None:
    for _ in range(count):
        simulation.step()
