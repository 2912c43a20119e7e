"""Kill runs at random moments, resume them, and compare their ends with that of a run nobody touched, bit by bit.

python benchmarks/soak.py --kills 100 --seed 0                     PointEnv
python benchmarks/soak.py --world ant --kills 50                   Ant on the engine c
python benchmarks/soak.py --method edl --kills 50                  a method that learns in stages

Processes come from a server that has imported all there is, so that most of the time goes into training and not into
starts. A kill is SIGKILL; one in three waits for a file that is being written and strikes then. Prints one JSON object:
kills, of them inside a write, runs, seconds, and whether every end was the same; exit code 1 if one was not.
"""

import argparse
import contextlib
import dataclasses
import json
import multiprocessing
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from wanderlust.config import RunConfig, with_changes
from wanderlust.recipes import get_recipe, usual_skills
from wanderlust.runs.files import ArrayFile
from wanderlust.runs.run import Run

CONTEXT = multiprocessing.get_context("forkserver")


def small(world: str, method: str) -> RunConfig:
    """A run of some seconds whose checkpoints come often."""
    config = get_recipe("laptop", world, method, usual_skills(method))
    schedule: dict[str, Any] = {"epochs": 120 if world == "point" else 24, "worlds": 4, "replay_collections": 8}
    schedule |= {"sac_steps": 4, "method_steps": 4, "sac_batch": 64}
    narrow = ("sac.hidden=[32,32]", "method.hidden=[32,32]", "sac.position_scale=1")
    config = dataclasses.replace(
        config,
        schedule=dataclasses.replace(config.schedule, **schedule),
        engine="jax" if world == "point" else "c",
        driver="fused" if world == "point" else "split",
        log_every=2,
        checkpoint_every=4,
        look_every=10,
    )
    return with_changes(config, narrow)


def train(path: str) -> None:
    """What the killed process does."""
    from wanderlust import api
    from wanderlust.envs import devices

    devices.prepare()
    api.train(api.open_to_resume(path), quiet=True)


def arrays(run: Run) -> dict[str, bytes]:
    """Of all final checkpoints, those of stages included, by file and name."""
    found = {}
    for path in sorted(run.path.rglob("epoch-*.safetensors")):
        if path.parent.name == "checkpoints":
            file = ArrayFile(path)
            found |= {f"{path.relative_to(run.path)} {name}": file.read(name).tobytes() for name in file.shapes()}
    return found


def finished(run: Run) -> bool:
    """Whether its last checkpoint is there."""
    return max(run.checkpoints(), default=0) >= run.config.schedule.epochs


def killed_while_training(run: Run, rng: random.Random, most: float) -> str:
    """Train in a process of its own and kill it; what it was at: `train`, `write`, or `end` if it was faster."""
    process = CONTEXT.Process(target=train, args=(str(run.path),))
    process.start()
    until, writes = time.monotonic() + rng.uniform(0.0, most), rng.random() < 1 / 3
    while process.is_alive() and time.monotonic() < until:
        time.sleep(0.002)
    while writes and process.is_alive() and time.monotonic() < until + most:
        if next(run.path.rglob("checkpoints/.*.tmp"), None) is not None:
            break
    inside = next(run.path.rglob(".*.tmp"), None) is not None
    alive = process.is_alive()
    process.kill()
    process.join()
    if not alive and process.exitcode != 0:
        raise SystemExit(f"the process ended by itself with {process.exitcode}")
    return ("write" if inside else "train") if alive else "end"


def soak(config: RunConfig, kills: int, seed: int, folder: Path) -> dict[str, Any]:
    """Kill until there were as many kills as asked for; every run that ends is compared."""
    rng, began = random.Random(seed), time.monotonic()
    whole = Run.create(folder / "whole", config)
    started = time.monotonic()
    process = CONTEXT.Process(target=train, args=(str(whole.path),))
    process.start()
    process.join()
    took, expected = time.monotonic() - started, arrays(whole)
    counts = {"train": 0, "write": 0, "end": 0}
    runs, same = 0, True
    while counts["train"] + counts["write"] < kills:
        run = Run.create(folder / f"run-{runs}", config)
        while not finished(run):
            counts[killed_while_training(run, rng, took)] += 1
        runs, same = runs + 1, same and arrays(run) == expected
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{runs} runs, {counts}, same: {same}\n")
    return {
        "env": config.env.name,
        "method": config.rewards,
        "kills": counts["train"] + counts["write"],
        "inside_a_write": counts["write"],
        "runs": runs,
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "seconds_of_one_run": round(took, 1),
        "same": same,
    }


def main() -> None:
    """Soak, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="point", choices=("point", "ant"))
    parser.add_argument("--method", default="lsd")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help="where the runs go; by default a temporary folder")
    asked = parser.parse_args()
    CONTEXT.set_forkserver_preload(["wanderlust.api"])
    with tempfile.TemporaryDirectory() as folder:
        result = soak(small(asked.world, asked.method), asked.kills, asked.seed, asked.work or Path(folder))
    sys.stdout.write(json.dumps(result) + "\n")
    sys.exit(0 if result["same"] else 1)


if __name__ == "__main__":
    main()
