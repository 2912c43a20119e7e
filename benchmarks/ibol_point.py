"""IBOL on PointEnv: what its linearizer and its skills do, and how much of where skills end is linear in z.

python benchmarks/ibol_point.py OUT.json [SEEDS]

Trains `wanderlust discover point --method ibol` (recipe laptop) in a new folder, OUT, beside OUT.json.
"""

import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

import wanderlust
from wanderlust import train
from wanderlust.envs import devices
from wanderlust.methods.ibol import levels
from wanderlust.runs.files import write_json
from wanderlust.runs.learned import load_learner
from wanderlust.runs.provenance import provenance
from wanderlust.runs.run import Run

EPISODES = 200


def linear_share(skill: Any, end: Any) -> float:
    """The share of the variance of end positions that a linear map of z explains."""
    z, end = (x - x.mean(axis=0) for x in (np.asarray(skill), np.asarray(end)))
    rest = end - z @ np.linalg.lstsq(z, end, rcond=None)[0]
    return float(1 - (rest**2).sum() / (end**2).sum())


def linear_in_z(parts: train.Setup, actor: Any) -> dict[str, list[float]]:
    """The same for each seed, with mode goals and with drawn ones."""
    skill_keys, rollout_keys = jax.random.split(jax.random.key(0), (2, parts.config.seeds))
    skill = train.sample_skills(parts, skill_keys, EPISODES)
    shares = {}
    for name in ("mode", "sampled"):
        rollout = jax.device_get(train.make_skill_rollout(parts, mode=name == "mode")(actor, skill, rollout_keys))
        shares[name] = [linear_share(z, obs[-1]) for z, obs in zip(skill, rollout.obs, strict=True)]
    return shares


def main(out: Path, seeds: int) -> None:
    """Train, evaluate both levels, write the JSON."""
    devices.prepare(seeds)
    run = wanderlust.discover("point", method="ibol", seeds=seeds, out=out.with_suffix(""))
    first = Run.open(run.path / "linearizer")
    parts = train.assemble(run.config)
    begun = levels.begin(first, run, parts, lambda: False, quiet=True)
    assert begun is not None
    stages = {"linearizer": first, "skills": run}
    measured = {name: json.loads((stage.evaluation / "evaluation.json").read_text()) for name, stage in stages.items()}
    rows = run.metrics()
    write_json(
        out,
        {
            "provenance": provenance(run.config),
            "seeds": measured["skills"]["seeds"],
            "env_steps": {stage: result["env_steps"] for stage, result in measured.items()},
            "measured": {stage: result["metrics"] for stage, result in measured.items()},
            "linear_in_z": {
                "before": linear_in_z(parts, train.skill_policy(parts, begun.learner)),
                "after": linear_in_z(parts, load_learner(run, parts)[1].policy),
            },
            "first_row": rows[0],
            "last_row": rows[-1],
        },
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2)
