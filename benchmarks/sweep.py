"""Try a change of a recipe on a GPU: train for a while and write down coverage over updates, steps and seconds.

python benchmarks/sweep.py OUT.jsonl SECONDS [--env ant] [--discrete N] [--seeds 1] [--gap 15] [KEY=VALUE ...]

Several at once share a GPU well under NVIDIA's MPS (`nvidia-cuda-mps-control -d`): an update and a physics step are
chains of short kernels that leave most of the chip idle. Seconds are then those of a shared GPU; compare updates.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np

from wanderlust import api, train
from wanderlust.envs import devices
from wanderlust.envs.spec import Rollout
from wanderlust.evaluation.metrics import coverage


def main() -> None:
    """Train until the time is over, looking at the skills every `gap` seconds of training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--env", default="ant")
    parser.add_argument("--recipe", default="fast")
    parser.add_argument("--discrete", type=int)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--gap", type=float, default=15.0)
    parser.add_argument("changes", nargs="*")
    args = parser.parse_intermixed_args()  # changes may come after options

    began = time.monotonic()
    devices.prepare(args.seeds)
    config = api.configure(
        args.env, recipe=args.recipe, discrete=args.discrete, seeds=args.seeds, set=tuple(args.changes)
    )
    parts = train.assemble(config)
    advance, probe, state = train.make_driver(parts), train.make_probe(parts, 200), train.init(parts)
    state, _ = jax.block_until_ready(advance(state, 0))
    epoch, spent, looked = 0, 0.0, 0.0
    with args.out.open("w") as file:
        print(json.dumps({"changes": args.changes, "compile_seconds": time.monotonic() - began}), file=file, flush=True)
        while time.monotonic() - began < args.seconds:
            chunk_began = time.monotonic()
            state, metrics = jax.block_until_ready(advance(state, 1))
            seconds = time.monotonic() - chunk_began
            spent, epoch = spent + seconds, epoch + 1
            if spent - looked >= args.gap:
                looked = spent
                facts = {"epoch": epoch, "updates": epoch * config.schedule.sac_steps}
                facts |= {"env_steps": epoch * config.schedule.collection, "train_seconds": round(spent, 2)}
                facts |= {"epoch_seconds": round(seconds, 3), **look(parts, probe(state.learner.sac.policy))}
                facts |= {name: np.round(np.asarray(value, float), 4).tolist() for name, value in metrics.items()}
                print(json.dumps(facts), file=file, flush=True)
    parts.engine.check()


def look(parts: train.Setup, rollout: Rollout) -> dict[str, list[float]]:
    """Where random skills went, per seed."""
    where = list(parts.world.spec.groups["position"])
    obs, alive = np.asarray(rollout.obs), np.asarray(rollout.alive)
    return {
        "coverage": [coverage(x[..., where]) for x in obs],
        "distance": [round(float(np.linalg.norm((x[-1] - x[0])[:, where], axis=-1).mean()), 2) for x in obs],
        "median_survived": [float(np.median(x[:-1].sum(axis=0))) for x in alive],
    }


if __name__ == "__main__":
    main()
