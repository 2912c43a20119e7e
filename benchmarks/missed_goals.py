"""Which goals of AntMultiGoals are reached, zero-shot: by how far away they are, and by how much they lie behind.

python benchmarks/missed_goals.py OUT.json zoo:NAME [EPISODES]

The angle is that between the way to a goal and the way the body goes when the goal is called; for a body that stands,
as before its first goal, there is none.
"""

import dataclasses
import itertools
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from wanderlust import train
from wanderlust.downstream.controllers.options import ControlledSkills, make_option_rollout, returns, set_up_task
from wanderlust.downstream.controllers.zero_shot import zero_shot_policy
from wanderlust.downstream.tasks import make_task
from wanderlust.envs import devices
from wanderlust.runs.files import write_json
from wanderlust.runs.learned import load_learner
from wanderlust.runs.provenance import commit, processor
from wanderlust.runs.zoo import open_run

SEED, LOOK_BACK, STANDS = 5, 3, 0.1
"""The body's way is that of its last three steps; if that is less than 10 cm, it stands."""
DISTANCES = (0, 3, 6, 9, 12, 15, 22)
ANGLES = (0, 45, 90, 135, 181)


class Goal(NamedTuple):
    """One goal of an episode."""

    distance: float
    angle: float | None
    """Degrees; None for a body that stands."""
    reached: bool
    steps: int
    """That it was followed."""


def goals_of(position: Any, goal: Any, reward: Any) -> list[Goal]:
    """The goals of one episode, from what was seen before each of its steps and what each paid."""
    called = [0, *(1 + np.flatnonzero(np.any(goal[1:] != goal[:-1], axis=1))), len(goal)]
    found = []
    for first, end in itertools.pairwise(called):
        way = goal[first] - position[first]
        run = position[first] - position[max(0, first - LOOK_BACK)]
        cosine = way @ run / np.linalg.norm(way) / np.linalg.norm(run) if np.linalg.norm(run) > STANDS else None
        angle = None if cosine is None else float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))
        found.append(Goal(float(np.linalg.norm(way)), angle, bool(reward[first:end].sum() > 0), int(end - first)))
    return found


def share(goals: list[Goal]) -> dict[str, Any]:
    """How many there are, how many are reached, and in how many steps."""
    steps = [goal.steps for goal in goals if goal.reached]
    return {"goals": len(goals), "reached": len(steps), "mean_steps": float(np.mean(steps)) if steps else None}


def by_angle(goals: list[Goal]) -> dict[str, Any]:
    """The same for standing bodies, and for running ones by where the goal lies."""
    table = {"standing": share([goal for goal in goals if goal.angle is None])}
    for low, high in itertools.pairwise(ANGLES):
        some = [goal for goal in goals if goal.angle is not None and low <= goal.angle < high]
        table[f"{low} to {min(high, 180)} degrees"] = share(some)
    return table


def main(out: Path, name: str, episodes: int = 200) -> None:
    """Play, and write the table."""
    devices.prepare(1)
    source, task = open_run(name), make_task("ant-multi-goals")
    parts = train.assemble(dataclasses.replace(source.config, engine="c"))
    skilled = ControlledSkills(jax.tree.map(lambda x: x[:1], load_learner(source, parts)[1]))
    keys = jax.random.split(jax.random.key(SEED), 1)
    decisions = make_option_rollout(set_up_task(parts, task, "c"), zero_shot_policy(parts))(skilled, keys, episodes)
    seen, reward, valid = (np.asarray(x)[:, 0] for x in (decisions.seen, decisions.reward, decisions.valid))
    goals: list[Goal] = []
    for n in range(episodes):
        steps = int(valid[:, n].sum())
        goals += goals_of(seen[:steps, n, :2], seen[:steps, n, -2:], reward[:steps, n])
    table = {
        "command": f"python benchmarks/missed_goals.py {out.name} {name} {episodes}",
        "commit": commit(),
        "device": {"kind": processor(), "cpu_cores": devices.cores()},
        "engine": "c",
        "seed": SEED,
        "mean_return": float(np.mean(returns(decisions))),
        "all": by_angle(goals),
        "by_distance": {
            f"{a} to {b} m": by_angle([x for x in goals if a <= x.distance < b])
            for a, b in itertools.pairwise(DISTANCES)
        },
    }
    write_json(out, table)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
