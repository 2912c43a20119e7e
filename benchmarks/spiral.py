"""Ant follows goals along a spiral, zero-shot, as in the paper's first figure: many starts, and a picture of one.

python benchmarks/spiral.py OUT.json OUT.png [zoo:NAME]

One episode without a reset for each start. At every step the skill is the direction from phi(s) to phi(g) of the
current goal g; the next goal is called when the body is within 3 m of it, or after 50 steps, unreached (radius and
steps of AntMultiGoals). As in the paper, for this figure only, the policy is told that it stands at the origin: it was
trained on episodes of 200 steps, and this takes four times as long. phi sees where the body is.
"""

import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

import wanderlust
from wanderlust.envs import World, devices, make_engine
from wanderlust.envs.base import sane
from wanderlust.evaluation.metrics import summarise
from wanderlust.report.plots import draw_reach
from wanderlust.runs.files import write_atomic, write_json
from wanderlust.runs.provenance import PACKAGES, commit, processor, version

SKILLS, STARTS, SEED = "zoo:ant", 100, 2
INNER, OUTER, PITCH, SPACING = 5.0, 40.0, 20.0, 8.0
"""Metres: the spiral's radii, how much wider it gets in a turn, from goal to goal along it. Skills of zoo:ant end 65 m
from their start on average, so phi has seen all of it."""
RADIUS, LIMIT = 3.0, 50


def lay_out(inner: float, outer: float, pitch: float, spacing: float) -> NDArray[np.float32]:
    """Goals on the spiral r = pitch x angle / 2 pi, about evenly spaced: the first one step after the inner radius."""
    growth = pitch / (2 * math.pi)
    angle, goals = inner / growth, []
    while (angle := angle + spacing / math.hypot(growth, growth * angle)) * growth <= outer:
        goals.append((growth * angle * math.cos(angle), growth * angle * math.sin(angle)))
    return np.array(goals, np.float32)


def follow(
    skills: Any, world: World, goals: NDArray[np.float32], radius: float, limit: int, starts: int, seed: int
) -> list[dict[str, Any]]:
    """Walk through all goals in order from several starts, side by side. Of each: its legs and its path."""
    place, pose = list(world.spec.groups["position"]), list(world.spec.groups.get("orientation", ()))
    engine = make_engine(world, "c" if pose else "auto")
    observe = jax.jit(jax.vmap(world.observe))
    state = jax.device_get(jax.vmap(world.initial)(jax.random.split(jax.random.key(seed), starts)))
    walks: list[dict[str, Any]] = [{"legs": [], "path": [], "upside_down_at": None} for _ in range(starts)]
    used = np.zeros(starts, int)
    while any(len(walk["legs"]) < len(goals) for walk in walks):
        obs = np.asarray(observe(state))
        for k, walk in enumerate(walks):
            if len(walk["legs"]) < len(goals):
                note(walk, obs[k], place, pose)
                used[k] = advance(walk, goals, radius, limit, int(used[k]))
        current = np.stack([goals[min(len(walk["legs"]), len(goals) - 1)] for walk in walks])
        told = obs.copy()
        told[:, place] = 0.0
        state = jax.device_get(engine.step(state, skills.act(told, skills.towards(obs, current))))
        assert np.all(sane(state)), "the physics broke down"
    for walk in walks:
        walk["path"] = np.round(np.array(walk["path"], np.float64), 2).tolist()
    return walks


def note(walk: dict[str, Any], obs: NDArray[np.float32], place: list[int], pose: list[int]) -> None:
    """Write down where the body is, and whether it lies on its back for the first time."""
    if len(pose) == 4 and walk["upside_down_at"] is None:
        _, x, y, _ = obs[pose] / np.linalg.norm(obs[pose])
        walk["upside_down_at"] = len(walk["path"]) if 1 - 2 * (x**2 + y**2) < 0 else None
    walk["path"].append(obs[place].tolist())


def advance(walk: dict[str, Any], goals: NDArray[np.float32], radius: float, limit: int, used: int) -> int:
    """Close the legs that end here; how many steps of the current one will have been made after the next step."""
    while len(walk["legs"]) < len(goals):
        goal = goals[len(walk["legs"])]
        away = float(np.linalg.norm(np.array(walk["path"][-1]) - goal))
        if away > radius and used < limit:
            break
        facts = {"reached": away <= radius, "steps": used, "distance": round(away, 2)}
        walk["legs"].append({"goal": [round(float(x), 2) for x in goal], **facts})
        used = 0
    return used + 1


def main(table: Path, picture: Path, name: str = SKILLS) -> None:
    """Measure, write and draw."""
    skills = wanderlust.load(name)
    goals = lay_out(INNER, OUTER, PITCH, SPACING)
    walks = follow(skills, skills.world.from_origin(), goals, RADIUS, LIMIT, STARTS, SEED)
    reached = [sum(leg["reached"] for leg in walk["legs"]) for walk in walks]
    fell = [walk["upside_down_at"] for walk in walks]
    mean = summarise(reached)
    shown = reached.index(sorted(reached)[len(reached) // 2])  # a median start: neither the best nor the worst
    write_json(
        table,
        {
            "command": f"python benchmarks/spiral.py {table.name} {picture.name} {name}",
            "commit": commit(),
            "device": {"kind": processor(), "cpu_cores": os.cpu_count(), "cores_used": devices.cores()},
            "versions": {name: version(name) for name in PACKAGES},
            "skills": name,
            "engine": "c",
            "spiral": {"inner": INNER, "outer": OUTER, "pitch": PITCH, "spacing": SPACING, "goals": len(goals)},
            "rule": {"radius": RADIUS, "steps_per_goal": LIMIT, "policy_at_origin": True},
            "starts": STARTS,
            "seed_of_starts": SEED,
            "reached": reached,
            "median_reached": float(np.median(reached)),
            "mean_reached": {"mean": mean.mean, "ci95": mean.ci95},
            "never_upside_down": sum(step is None for step in fell),
            "median_reached_of_those": float(
                np.median([n for n, step in zip(reached, fell, strict=True) if step is None])
            ),
            "upside_down_at": fell,
            "steps": [len(walk["path"]) - 1 for walk in walks],
            "shown": shown,
            "walk_shown": walks[shown],
        },
    )
    with tempfile.TemporaryDirectory() as folder:  # figures are drawn from files
        facts = {"name": name, "radius": RADIUS, **walks[shown]}
        write_atomic(Path(folder) / "reach" / "reach.json", json.dumps(facts))
        write_atomic(picture, draw_reach(Path(folder)).read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
