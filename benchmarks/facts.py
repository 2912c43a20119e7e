"""How far engines are apart, and normalisers against the presets.

The tables of docs/explanation/engines.md and docs/reference/worlds.md.

python benchmarks/facts.py OUT.json

Single control steps of `c` and `warp` from shared states, along random rollouts of `c`: 16 worlds, 20 steps, 3 seeds.
Normalisers from 1,500 random rollouts of 50 steps on `c`.
"""

import os
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

import wanderlust
from wanderlust import registry
from wanderlust.envs import WorldState, make_world
from wanderlust.envs.engines.mujoco_c import CEngine
from wanderlust.envs.engines.warp import WarpEngine
from wanderlust.envs.worlds.body import BodyConfig
from wanderlust.runs.files import write_json
from wanderlust.runs.provenance import PACKAGES, command, commit, processor, version

WORLDS, STEPS, SEEDS = 16, 20, (0, 1, 2)
CASES = (
    ("half-cheetah", "stock"),
    ("ant", "elliptic"),
    ("ant", "stock"),
    ("humanoid", "elliptic"),
    ("humanoid", "stock"),
)


def apart(name: str, cone: str) -> dict[str, Any]:
    """The largest difference of any entry after one control step, over all steps."""
    world = make_world(BodyConfig(name, cone=cone))
    c, warp = CEngine(world), WarpEngine(world)
    step = jax.jit(warp.step)
    found = []
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        state = jax.device_get(jax.vmap(world.initial)(jax.random.split(jax.random.key(seed), WORLDS)))
        for _ in range(STEPS):
            action = random.uniform(-1, 1, (WORLDS, world.spec.action_dim)).astype(np.float32)
            ours, theirs = c.step(state, action), WorldState(*map(np.asarray, step(state, action)))
            found.append(np.concatenate([np.abs(a - b) for a, b in zip(ours, theirs, strict=True)], axis=1).max(axis=1))
            state = ours
    warp.check()
    x = np.concatenate(found)
    numbers = {
        "median": np.median(x),
        "q99": np.quantile(x, 0.99),
        "largest": x.max(),
        "beyond_0.01": (x > 0.01).mean(),
    }
    return {"body": name, "cone": cone, "steps": len(x), **{k: float(v) for k, v in numbers.items()}}


def normaliser(name: str) -> dict[str, Any]:
    """Found against published: ratios of deviations, and the largest difference of a mean in published deviations."""
    (mean, std), (preset_mean, preset_std) = (
        wanderlust.normalise(name, rollouts=1500, engine="c"),
        registry.WORLDS.get(name).statistics,
    )
    ratio = np.array(std) / np.array(preset_std)
    off = np.abs(np.array(mean) - np.array(preset_mean)) / np.array(preset_std)
    return {
        "body": name,
        "lowest_ratio": ratio.min(),
        "highest_ratio": ratio.max(),
        "largest_mean_difference": off.max(),
    }


if __name__ == "__main__":
    result = {
        "command": command(),
        "commit": commit(),
        "device": {"kind": processor(), "cpu_cores": os.cpu_count(), "platform": jax.default_backend()},
        "versions": {name: version(name) for name in PACKAGES},
        "seeds": list(SEEDS),
        "engines": [apart(*case) for case in CASES],
        "normalisers": [normaliser(name) for name in ("ant", "half-cheetah", "humanoid")],
    }
    write_json(Path(sys.argv[1]), result)
