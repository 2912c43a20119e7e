"""What a step of `wanderlust.make_vec` consists of where every thread has a single Ant.

python benchmarks/few_worlds.py OUT.json [THREADS]

Whole steps, the engine's part of them, and what one world takes alone: of how many of those a step has to wait for the
slowest. (How fast it is with other numbers of worlds and threads: `wanderlust bench --only physics --threads 16 15 8`.)
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

import wanderlust
from wanderlust.envs import make_world
from wanderlust.envs.devices import cores
from wanderlust.envs.engines.mujoco_c import CEngine
from wanderlust.envs.worlds.body import BodyConfig
from wanderlust.runs.files import write_json
from wanderlust.runs.provenance import PACKAGES, command, commit, processor, version

STEPS, WARM_UP = 1500, 300


def step_of(worlds: int, threads: int) -> tuple[Callable[[NDArray[Any]], Any], Callable[[NDArray[Any]], Any]]:
    """A step of the vector environment, and one of an engine that goes on by itself from the same start."""
    envs = wanderlust.make_vec("ant", num_envs=worlds, threads=threads)
    envs.reset(seed=0)
    world = make_world(BodyConfig("ant"))
    state = [jax.device_get(jax.vmap(world.initial)(jax.random.split(jax.random.key(0), worlds)))]
    engine = CEngine(world, threads)

    def advance(action: NDArray[Any]) -> None:
        state[0] = engine.step(state[0], action)

    return envs.step, advance


def microseconds(call: Callable[[NDArray[Any]], Any], worlds: int, steps: int = STEPS) -> NDArray[np.float64]:
    """Of every call, with random actions."""
    spent = []
    for action in np.random.default_rng(0).uniform(-1, 1, (WARM_UP + steps, worlds, 8)).astype(np.float32):
        began = time.perf_counter()
        call(action)
        spent.append(time.perf_counter() - began)
    return 1e6 * np.array(spent[WARM_UP:])


def summary(times: NDArray[np.float64]) -> dict[str, float]:
    """Of a distribution."""
    low, median, high = np.percentile(times, [10, 50, 90]).round(1)
    return {"10%": low, "median": median, "90%": high, "mean": round(float(times.mean()), 1)}


if __name__ == "__main__":
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else cores()
    step, engine = (summary(microseconds(call, threads)) for call in step_of(threads, threads))
    alone = microseconds(step_of(1, 1)[1], 1, threads * (STEPS // threads))
    result = {
        "command": command(),
        "commit": commit(),
        "versions": {name: version(name) for name in PACKAGES},
        "cpu": processor(),
        "cpu_cores": cores(),
        "microseconds": {
            f"{threads} worlds, {threads} threads": {"step": step, "engine": engine},
            "one world": {"times": summary(alone), f"slowest of {threads}": summary(alone.reshape(-1, threads).max(1))},
        },
    }
    write_json(Path(sys.argv[1]), result)
