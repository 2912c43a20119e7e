"""Where an epoch of the published recipe goes when the worlds are moved by MuJoCo on the host.

python benchmarks/split_epoch.py OUT.json [KEY=VALUE ...]

Ant, 20 worlds. Actions are chosen on the CPU and, where there is a GPU, there too; physics is timed alone.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from wanderlust import api, devices, train
from wanderlust.train import split


def epochs(parts: train.Parts, desk_on_host: bool) -> dict[str, Any]:
    """Seconds per epoch, in chunks of several; the first is not yet warm."""
    split.DESK_ON_HOST = parts.config.schedule.worlds if desk_on_host else 0
    state, advance = train.init(parts), train.make_driver(parts)
    began = time.monotonic()
    state, _ = jax.block_until_ready(advance(state, 0))
    found: dict[str, Any] = {"compile_seconds": time.monotonic() - began, "epochs": [1, 1, 5, 10, 10, 20]}
    found["seconds_per_epoch"] = []
    for count in found["epochs"]:
        began = time.monotonic()
        state, _ = jax.block_until_ready(advance(state, count))
        found["seconds_per_epoch"].append((time.monotonic() - began) / count)
    return found


def physics(parts: train.Parts, worlds: int) -> float:
    """Milliseconds of one control step of so many worlds."""
    state = jax.device_get(jax.tree.map(lambda x: x[0, :worlds], train.init(parts).worlds.state))
    action = np.zeros((worlds, parts.world.spec.action_dim), np.float32)
    began = time.monotonic()
    for _ in range(200):
        parts.engine.step(state, action)
    return (time.monotonic() - began) / 200 * 1e3


if __name__ == "__main__":
    out, *changes = sys.argv[1:]
    devices.prepare(1)
    parts = train.assemble(api.configure("ant", recipe="paper", set=tuple(changes)))
    found: dict[str, Any] = {"command": "python benchmarks/split_epoch.py", "changes": changes}
    found |= {"device": devices.describe(), "cpu_cores": devices.cores(), "seed": 0}
    found["physics_ms_per_step"] = {str(n): physics(parts, n) for n in (10, 20)}
    found["actions_chosen_on_the_cpu"] = epochs(parts, desk_on_host=True)
    if devices.has_gpu():
        found["actions_chosen_on_the_gpu"] = epochs(parts, desk_on_host=False)
    Path(out).write_text(json.dumps(found, indent=1) + "\n")
