"""Evaluation of skills: how much of the plane random skills cover, how far they travel, how well they are aligned.

Writes evaluation/evaluation.json and rollouts.safetensors, from which the figures are drawn, into the run's folder; for
a zoo entry, which is only read, into a folder under runs/.
"""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wanderlust import train
from wanderlust.config import Engine
from wanderlust.files import write_arrays, write_json
from wanderlust.learned import Learned
from wanderlust.metrics import alignment, coverage, summarise, travelled
from wanderlust.skillset import Source, load_learner
from wanderlust.types import Rollout


def evaluate(run: Source, episodes: int = 200, seed: int = 0, engine: Engine = "auto") -> dict[str, Any]:
    """Play `episodes` random skills per seed with mode and with sampled actions; write and return the measures.

    The engine need not be the one that trained the run.
    """
    parts = train.assemble(dataclasses.replace(run.config, engine=engine))
    epoch, learned = load_learner(run, parts)
    keys = jax.random.split(jax.random.key(seed), run.config.seeds)
    skill_keys, play_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
    skill = train.sample_skills(parts, skill_keys, episodes)
    mode: Rollout = jax.device_get(train.make_player(parts, mode=True)(learned.policy, skill, play_keys))
    sampled: Rollout = jax.device_get(train.make_player(parts, mode=False)(learned.policy, skill, play_keys))
    parts.engine.check()
    phi = jax.jit(jax.vmap(partial(_phi, parts)))
    phi_first, phi_last = (np.asarray(phi(learned, obs)) for obs in (mode.obs[:, 0], mode.obs[:, -1]))
    codes = np.asarray(jax.vmap(jax.vmap(parts.skills.code))(jnp.asarray(mode.skill)))
    where = list(parts.world.spec.position_dims)
    std = np.array(parts.world.spec.obs_std)
    per_seed: dict[str, list[float]] = {
        "coverage_mode": [coverage(x[..., where]) for x in mode.obs],
        "coverage_sampled": [coverage(x[..., where]) for x in sampled.obs],
        "travelled": [float(travelled(x, std).mean()) for x in mode.obs],
        "distance": [float(np.linalg.norm((x[-1] - x[0])[:, where], axis=-1).mean()) for x in mode.obs],
        "survived": [float(x[:-1].sum(axis=0).mean()) for x in mode.alive],
        "alignment": [alignment(b - a, c) for a, b, c in zip(phi_first, phi_last, codes, strict=True)],
    }
    result = {
        "name": run.config.name,
        "recipe": run.config.recipe,
        "epoch": epoch,
        "env_steps": epoch * run.config.schedule.collection,
        "episodes": episodes,
        "engine": parts.engine.name,
        "seeds": list(range(run.config.seed, run.config.seed + run.config.seeds)),
        "metrics": {name: {**summarise(v)._asdict(), "per_seed": v} for name, v in per_seed.items()},
    }
    arrays = {
        "position": np.asarray(mode.obs[..., where]),
        "skill": np.asarray(mode.skill),
        "phi_first": phi_first,
        "phi_last": phi_last,
    }
    write_arrays(run.evaluation / "rollouts.safetensors", arrays, {"skills": run.config.skills.kind})
    write_json(run.evaluation / "evaluation.json", result)
    return result


def _phi(parts: train.Parts, learned: Learned, obs: Float[Array, "n obs"]) -> Float[Array, "n code"]:
    return parts.method.represent(learned.method, parts.view.for_method(obs))
