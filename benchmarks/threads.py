"""How many threads move Ant best, by the number of worlds; and what a step of few worlds consists of.

python benchmarks/threads.py OUT.json [--threads 16 15 14 13 12 8] [--worlds 16 20 32 64 256]

Thread counts take turns of a quarter of a second, six each, with random actions, through `wanderlust.make_vec`.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import wanderlust
from wanderlust.envs.physics import CEngine
from wanderlust.files import write_json
from wanderlust.runs import PACKAGES, command, commit, processor, version

TURNS, TURN_SECONDS, WARM_UP_SECONDS = 6, 0.25, 0.3


def steps_per_second(worlds: int, threads: list[int]) -> dict[int, list[int]]:
    """Of every turn, sorted, by number of threads."""
    actions = np.random.default_rng(0).uniform(-1, 1, (400, worlds, 8)).astype(np.float32)
    envs = {count: wanderlust.make_vec("ant", num_envs=worlds, threads=count) for count in threads}
    for env in envs.values():
        env.reset(seed=0)

    def turn(env: Any, seconds: float) -> int:
        steps, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            for _ in range(10):
                env.step(actions[steps % len(actions)])
                steps += 1
        return round(steps * worlds / (time.perf_counter() - began))

    for env in envs.values():
        turn(env, WARM_UP_SECONDS)
    turns = [{count: turn(env, TURN_SECONDS) for count, env in envs.items()} for _ in range(TURNS)]
    return {count: sorted(one[count] for one in turns) for count in threads}


def parts_of_a_step(worlds: int, threads: int, steps: int = 1500, warm_up: int = 300) -> dict[str, NDArray[np.float64]]:
    """Microseconds of whole steps of `make_vec` and of the engine's part of them."""
    env = wanderlust.make_vec("ant", num_envs=worlds, threads=threads)
    env.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, worlds, 8)).astype(np.float32)
    engine: list[float] = []
    step_rows = CEngine.step_rows

    def timed(self: CEngine, *given: Any) -> Any:
        began = time.perf_counter()
        after = step_rows(self, *given)
        engine.append(time.perf_counter() - began)
        return after

    whole = []
    CEngine.step_rows = timed  # type: ignore[method-assign]
    try:
        for action in actions:
            began = time.perf_counter()
            env.step(action)
            whole.append(time.perf_counter() - began)
    finally:
        CEngine.step_rows = step_rows  # type: ignore[method-assign]
    return {"step": 1e6 * np.array(whole[warm_up:]), "engine": 1e6 * np.array(engine[warm_up:])}


def summary(microseconds: NDArray[np.float64]) -> dict[str, float]:
    """Of a distribution."""
    low, median, high = np.percentile(microseconds, [10, 50, 90]).round(1)
    return {"10%": low, "median": median, "90%": high, "mean": round(float(microseconds.mean()), 1)}


def main() -> None:
    """Measure both and write them down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[16, 15, 14, 13, 12, 8])
    parser.add_argument("--worlds", type=int, nargs="+", default=[16, 20, 32, 64, 256])
    args = parser.parse_args()
    facts: dict[str, Any] = {
        "command": command(),
        "commit": commit(),
        "versions": {name: version(name) for name in PACKAGES},
        "cpu": processor(),
    }
    few = max(args.threads)
    facts["microseconds"] = {}
    for count in args.threads:
        parts = parts_of_a_step(few, count)
        facts["microseconds"][f"{few} worlds, {count} threads"] = {k: summary(v) for k, v in parts.items()}
    alone = parts_of_a_step(1, 1, steps=3000)["engine"]
    slowest = alone[: len(alone) // few * few].reshape(-1, few).max(axis=1)
    facts["microseconds"]["one world, one thread"] = {"engine": summary(alone), f"slowest of {few}": summary(slowest)}
    facts["steps_per_second"] = []
    for worlds in args.worlds:
        turns = steps_per_second(worlds, args.threads)
        medians = {count: float(np.median(speeds)) for count, speeds in turns.items()}
        facts["steps_per_second"].append({"worlds": worlds, "turns": turns, "median": medians})
        write_json(args.out, facts)


if __name__ == "__main__":
    main()
