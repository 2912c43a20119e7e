"""Numbers for a body that nobody has tuned any for: by rule, from its model and from what random actions do to it.

docs/reference/model-files.md says the rules in words.
"""

import dataclasses

import numpy as np

from wanderlust.config import RunConfig
from wanderlust.envs.worlds.mjcf_file import ModelFile

STEPS = 50
"""Control steps of each environment in a collection."""
REPLAY = 409_600
"""Transitions."""
USUAL_MOVE = 0.09
"""Standard deviations by which random actions move Ant in one control step: the measure of rewards per step, since the
entropy weights of `laptop` are Ant's."""
SEEN_AS = 10.0
"""Standard deviations that the farthest place of an episode should look like to policy and critics."""


def for_any_body(config: RunConfig, world: ModelFile) -> RunConfig:
    """The same with horizon, entropy and position scale that suit the body."""
    length, worlds, trial = config.env.episode_length, config.schedule.worlds, world.trial
    steps = min(STEPS, length)
    horizon = float(np.clip(length / 2, 50, 250))
    pace = float(np.clip(trial.moved / USUAL_MOVE, 0.1, 3.0))
    reach = trial.moved * length / SEEN_AS
    return dataclasses.replace(
        config,
        sac=dataclasses.replace(
            config.sac,
            discount=round(1.0 - 1.0 / horizon, 4),
            alpha=config.sac.alpha if config.sac.learn_alpha else round(config.sac.alpha * pace, 5),
            position_scale=round(max(1.0, reach), 1) if world.facts.root.moves else 1.0,
        ),
        schedule=dataclasses.replace(
            config.schedule, steps=steps, replay_collections=max(1, REPLAY // (worlds * steps))
        ),
    )
