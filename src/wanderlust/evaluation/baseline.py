"""What random actions in a run's own world do: the floor that skills are compared with."""

from typing import Any

import numpy as np

from wanderlust.envs.spec import EnvSpec
from wanderlust.evaluation.metrics import coverage, travelled


def measures_of_draws(spec: EnvSpec, obs: Any) -> dict[str, float]:
    """What an evaluation measures of skills, of random episodes [draws, time, episodes, obs]: means over draws."""
    every = [measures_of_one(spec, one) for one in obs]
    return {name: float(np.mean([one[name] for one in every])) for name in every[0]}


def measures_of_one(spec: EnvSpec, obs: Any) -> dict[str, float]:
    """The same of episodes [time, episodes, obs]."""
    return {
        "coverage": coverage(spec.place(obs), spec.bin),
        "travelled": float(travelled(obs, np.array(spec.obs_std)).mean()),
        "distance": float(np.linalg.norm(spec.place(obs[-1]) - spec.place(obs[0]), axis=-1).mean()),
    }
