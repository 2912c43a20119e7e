"""Random actions in a run's own world: the floor that skills are compared with."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from wanderlust.envs import Engine, World
from wanderlust.envs.spec import EnvSpec, Rollout
from wanderlust.evaluation.metrics import coverage, travelled
from wanderlust.train.probe import make_episodes, over_seeds


def random_episodes(world: World, engine: Engine, episodes: int, seeds: Sequence[int], largest: float = 1.0) -> Rollout:
    """Whole episodes of uniform actions from where an evaluation starts them; arrays lead with the seed axis."""
    world, spec = world.from_origin(), world.spec

    def act(_: Any, obs: Array, skill: Array, key: Key[Array, ""]) -> Array:
        return jax.random.uniform(key, (len(obs), spec.action_dim), jnp.float32, -largest, largest)

    episodes_of = make_episodes(world, engine, act, spec.episode_length)
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    rollouts = over_seeds(engine, episodes_of)((), jnp.zeros((len(seeds), episodes, 1)), keys)
    rollout: Rollout = jax.device_get(rollouts)
    engine.check()
    return rollout


def measures_of_one(spec: EnvSpec, obs: Any) -> dict[str, float]:
    """What an evaluation measures of skills, of episodes [time, episodes, obs] without any."""
    return {
        "coverage": coverage(spec.place(obs), spec.bin),
        "travelled": float(travelled(obs, np.array(spec.obs_std)).mean()),
        "distance": float(np.linalg.norm(spec.place(obs[-1]) - spec.place(obs[0]), axis=-1).mean()),
    }
