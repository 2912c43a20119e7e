"""Numbers for a body that nobody has tuned any for: by rule, from its model and from what random actions do to it.

docs/reference/model-files.md says the rules in words, and benchmarks/reports/2026-11-20_your_robot.md what was measured
of them.
"""

import dataclasses
from typing import Any

import numpy as np

from wanderlust.config import EnvConfig, RunConfig
from wanderlust.methods import Method
from wanderlust.registry import METHODS

STEPS = 50
"""Control steps of each environment in a collection."""
REPLAY = 409_600
"""Transitions."""
SMALLER = 4
"""Batches are smaller by this factor than for bodies with tuned numbers, and updates as many times more: as much
computation."""
USUAL_MOVE = 0.09
"""Standard deviations by which random actions move Ant in one control step: the measure of rewards per step, since the
entropy weights of `laptop` are Ant's."""
LOUDER = 10.0
"""Rewards that are distances are multiplied by this: of bodies that go a few deviations far in an episode, and not the
hundreds that Ant does, they are otherwise smaller than what critics are wrong by."""
SEEN_AS = 10.0
"""Standard deviations that the farthest place of an episode should look like to policy and critics."""


def for_any_body(config: RunConfig, moved: float, gets_about: bool) -> RunConfig:
    """The same with what the method sees, horizon, entropy, rewards and position scale that suit a body.

    Random actions move its position by `moved` deviations in a control step; `gets_about` if it can leave its place.
    """
    length, worlds, sac = config.env.episode_length, config.schedule.worlds, config.sac
    method: type[Method] = METHODS.get(config.method.name)
    steps, updates = min(STEPS, length), config.schedule.sac_steps * SMALLER
    horizon = float(np.clip(length / 2, 50, 250))
    pace = float(np.clip(moved / USUAL_MOVE, 0.1, 3.0)) if method.in_units else 1.0
    louder = LOUDER if method.in_units else 1.0
    reach = moved * length / SEEN_AS
    return dataclasses.replace(
        config,
        env=_looking_at_place(config.env, config.method.view),
        method=dataclasses.replace(config.method, reward_scale=config.method.reward_scale * louder),
        sac=dataclasses.replace(
            sac,
            discount=round(1.0 - 1.0 / horizon, 4),
            alpha=sac.alpha if sac.learn_alpha else round(sac.alpha * pace * louder, 5),
            position_scale=round(max(1.0, reach), 1) if gets_about else 1.0,
        ),
        schedule=dataclasses.replace(
            config.schedule,
            steps=steps,
            sac_steps=updates,
            method_steps=updates,
            sac_batch=config.schedule.sac_batch // SMALLER,
            replay_collections=max(1, REPLAY // (worlds * steps)),
        ),
    )


def _looking_at_place(env: Any, view: str) -> EnvConfig:
    """What the method's network sees is where the body is, unless something else is said."""
    said = env.focus or "xy" in view
    made: EnvConfig = env if said else dataclasses.replace(env, focus="position")
    return made
