"""How long recipe `paper` takes on the Fetch robot, and an estimate of the same for the released MUSIC-family code.

python benchmarks/fetch_paper.py OUT.json [EPOCHS]

Ours: epochs of a real run, LSD, one seed, after the first, which compiles; seconds of the clock and of CPU. Theirs
cannot be run (its packages are gone): 8,000 episodes of 50 steps in Gymnasium-Robotics' own environment, one after the
other, and 160,000 updates that take as long as ours. They have one critic where ours have two, and an actor of three
wide layers where ours has two: about as many multiplications. The environment's step is measured, the update is ours.
"""

import itertools
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from wanderlust.api import configure, start_run, train
from wanderlust.config import SkillConfig
from wanderlust.recipes.fetch import fetch_paper
from wanderlust.runs.files import write_json
from wanderlust.runs.provenance import PACKAGES, command, commit, processor, version
from wanderlust.runs.run import Run
from wanderlust_experiments.bench.robotics import robotics_env

ENV, STEPS = "fetch-push", 500


def epochs_of_ours(count: int) -> list[dict[str, float]]:
    """Seconds of every epoch after the first, with what else the machine was doing."""
    marks: list[tuple[float, float]] = []
    logged = Run.log

    def log(run: Run, row: Any) -> None:
        marks.append((time.perf_counter(), time.process_time()))
        logged(run, row)

    Run.log = log  # type: ignore[method-assign]
    changes = (f"schedule.epochs={count}", "log_every=1", f"look_every={count + 1}", f"checkpoint_every={count}")
    with tempfile.TemporaryDirectory() as folder:
        train(start_run(configure(ENV, "lsd", recipe="paper", set=changes), Path(folder) / "run"), quiet=True)
    pairs = itertools.pairwise(marks)
    return [{"seconds": b[0] - a[0], "cpu_seconds": b[1] - a[1]} for a, b in pairs]


def steps_of_theirs() -> dict[str, float]:
    """Control steps a second of the original environment, one alone, with random actions."""
    env = robotics_env(ENV)
    env.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (STEPS, 4)).astype(np.float32)
    clock, cpu = time.perf_counter(), time.process_time()
    for n, action in enumerate(actions, 1):
        env.step(action)
        if n % 50 == 0:
            env.reset()
    return {"seconds": (time.perf_counter() - clock) / STEPS, "cpu_seconds": (time.process_time() - cpu) / STEPS}


def main() -> None:
    """Measure and write."""
    out, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 6
    schedule = fetch_paper(ENV, "lsd", "", SkillConfig()).schedule
    load = os.getloadavg()[0]
    ours, step = epochs_of_ours(count), steps_of_theirs()
    names = ("seconds", "cpu_seconds")
    epoch = {name: float(np.median([one[name] for one in ours])) for name in names}
    whole = {name: schedule.epochs * epoch[name] / 3600 for name in names}
    steps = schedule.epochs * schedule.collection
    theirs = {name: whole[name] + steps * step[name] / 3600 for name in names}
    result = {
        "what": f"recipe paper on {ENV}, lsd, one seed: an epoch is two episodes of 50 steps and 40 updates of 256",
        "epochs": schedule.epochs,
        "measured_epochs": ours,
        "epoch_median": epoch,
        "ours_hours_estimated": whole,
        "original_environment_step": step,
        "released_code_hours_estimated": theirs,
        "released_code_estimate_is": f"{steps:,} steps of the original environment, one at a time, and as much time to "
        "learn as a whole epoch of ours takes, physics included",
        "load": [load, os.getloadavg()[0]],
        "cores": os.cpu_count(),
        "processor": processor(),
        "command": command(),
        "commit": commit(),
        "versions": {name: version(name) for name in PACKAGES},
    }
    write_json(out, result)
    sys.stdout.write(f"epoch {epoch}; ours {whole} hours; released {theirs} hours; load {result['load']}\n")


if __name__ == "__main__":
    main()
