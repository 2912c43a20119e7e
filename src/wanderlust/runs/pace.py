"""How fast skills go, and from that how near a goal counts as reached and how long a body may take."""

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from wanderlust import train
from wanderlust.envs.worlds.body import Body
from wanderlust.errors import UserError
from wanderlust.runs.files import bounded, parse_json, read_bytes
from wanderlust.runs.learned import Learned
from wanderlust.runs.run import Run

EPISODES = 32
"""Random skills that are rolled out where no evaluation has measured the speed."""
PATIENCE = 3.0
"""A goal may take so many times as long as the straight way at the skills' own speed."""
STEPS_INSIDE = 4
"""The radius of a goal is at least what a body covers in so many steps."""


class Pace(NamedTuple):
    """What the speed of a set of skills asks for."""

    speed: float
    """Metres that random skills get away from their start per control step, on average."""
    radius: float
    """How near a goal counts as reached."""

    def steps(self, metres: float) -> int:
        """How many control steps a goal so far away may take."""
        return math.ceil(PATIENCE * (metres + self.radius) / self.speed)


def walks(parts: train.Setup) -> bool:
    """Whether the world is a body that gets about by itself, and not an arm, or a point, or an object to be moved."""
    world = parts.world
    return not world.spec.focus and hasattr(world, "fallen") and getattr(world, "gets_about", True)


def pace_of(run: Run, parts: train.Setup, learned: Learned, seed: int = 0) -> Pace:
    """The pace of one seed of a run: as its evaluation or its card has it, or measured now."""
    speed = _known(run, seed) or _measured(parts, learned, seed)
    if not speed > 0:
        raise UserError(f"the skills of {run} do not move; no goal is within their reach")
    least = float(getattr(parts.world, "goal_radius", Body.goal_radius))
    return Pace(speed, max(least, STEPS_INSIDE * speed))


def _known(run: Run, seed: int) -> float | None:
    """What evaluation.json or card.json say of how far random skills get, and in how many steps."""
    for path, section in ((run.evaluation / "evaluation.json", "metrics"), (run.path / "card.json", "metrics")):
        try:
            found = parse_json(read_bytes(bounded(path, 2**22), "the measures"))[section]
            away, steps = (float(_of_seed(found[name], seed)) for name in ("distance", "survived"))
        except (UserError, ValueError, KeyError, TypeError, IndexError, OverflowError):
            continue
        if math.isfinite(away) and steps >= 1:
            return away / steps
    return None


def _of_seed(value: Any, seed: int) -> Any:
    return value["per_seed"][seed] if isinstance(value, dict) else value


def _measured(parts: train.Setup, learned: Learned, seed: int) -> float:
    """The same of a few episodes with mode actions."""
    keys = jax.random.split(jax.random.key(0), parts.config.seeds)
    rollout = train.make_skill_rollout(parts)(learned.policy, train.sample_skills(parts, keys, EPISODES), keys)
    where = parts.world.spec.place(np.asarray(rollout.obs)[seed])
    steps = np.asarray(rollout.alive)[seed][:-1].sum(axis=0)
    return float(np.linalg.norm(where[-1] - where[0], axis=-1).mean() / max(1.0, steps.mean()))
