"""What a linearizer is paid for: its reward, entry by entry of the state, with goals that come as they did in training.

python benchmarks/linearizer_parts.py OUT.json RUN [RUN ...]
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import wanderlust
from wanderlust.envs import make_world
from wanderlust.methods.ibol.linearizer import LinearizerConfig
from wanderlust.runs.files import write_json
from wanderlust.runs.provenance import provenance
from wanderlust.runs.run import Run

WORLDS, SEED = 64, 0


def parts_of(run: Run) -> dict[str, Any]:
    """The mean reward of a step of one episode in each of 64 worlds, as a sum over entries of the state."""
    config, method = run.config, run.config.method
    assert isinstance(method, LinearizerConfig), f"{run.path} is no run of a linearizer"
    spec = make_world(config.env).spec
    skills, random = wanderlust.load(run), np.random.default_rng(SEED)
    envs = wanderlust.make_vec(config.env.name, num_envs=WORLDS)
    obs, _ = envs.reset(seed=SEED)
    block, hold = method.block, method.hold or spec.episode_length
    paid = []
    for step in range(spec.episode_length - 1):  # the last step returns what the next episode begins with
        if step % hold == 0:
            goal = random.uniform(-1, 1, (WORLDS, spec.obs_dim)).astype(np.float32)
        if step % block == 0:
            began = obs
        obs, *_ = envs.step(skills.act(obs, goal))
        if step % block == block - 1:
            move = (obs - began) / np.array(spec.obs_std)
            paid.append((move * goal).mean(axis=0) / np.sqrt(spec.obs_dim) / block)
    entries = np.mean(paid, axis=0)
    where, turned = list(spec.groups["position"]), list(spec.groups["orientation"])
    return {
        "run": run.path.name,
        "command": run.provenance().get("command"),
        "env": config.env.name,
        "hold": method.hold,
        "reward": float(entries.sum()),
        "of position": float(entries[where].sum()),
        "of orientation": float(entries[turned].sum()),
        "of the rest": float(np.delete(entries, where + turned).sum()),
        "entries": entries.tolist(),
    }


def main(out: Path, runs: list[Path]) -> None:
    """Look at every run, write the JSON."""
    opened = [Run.open(path) for path in runs]
    made = {"provenance": provenance(opened[0].config), "seed": SEED, "worlds": WORLDS}
    write_json(out, {**made, "runs": [parts_of(run) for run in opened]})


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
