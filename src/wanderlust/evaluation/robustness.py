"""Whether skills keep their direction from other starts, and when one follows another in mid-episode."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from numpy.typing import NDArray

from wanderlust import train
from wanderlust.config import EnvConfig
from wanderlust.envs import World, make_world
from wanderlust.envs.spec import Rollout
from wanderlust.train.probe import make_episodes, over_seeds

EPISODES = 64
"""Pairs of skills that are tried of each seed."""
LEAST = 0.5
"""Bins that a skill must get away for its direction to count."""


def robustness(parts: train.Setup, policy: Any, mode: Rollout, keys: Key[Array, " seeds"]) -> dict[str, Any]:
    """Mean cosines between where skills go from shifted starts, or after another skill, and where they went in `mode`.

    `mode` are whole episodes of one skill each, with a seed axis. Half of each episode here is one skill's, the other
    half that of the next. None where it cannot be tried: under a high-level policy, in worlds without shifted starts,
    and where skills do not get away from where they are.
    """
    nothing: dict[str, Any] = {"shifted": None, "changed": None, "shift": None}
    spec, length = parts.world.spec, parts.world.spec.episode_length
    count = min(EPISODES, mode.skill.shape[1])
    if parts.method.high_level is not None or count < 2 or length < 2:
        return nothing
    half, size = length // 2, parts.skills.size
    went = spec.place(np.asarray(mode.obs)[:, [0, half], :count])  # [seeds, 2, episodes, place]
    usual = went[:, 1] - went[:, 0]
    reach = float(np.linalg.norm(usual, axis=-1).mean())
    if not reach > LEAST * spec.bin:
        return nothing
    shift = float(f"{max(reach, spec.bin):.2g}")
    world = _shifted(parts.world, shift)

    def act(policy: Any, obs: Array, skills: Array, key: Key[Array, ""]) -> Array:
        return train.actions(parts, policy, obs, skills[:, :size])

    def swap(policy: Any, obs: Array, skills: Array, key: Key[Array, ""]) -> Array:
        return jnp.concatenate([skills[:, size:], skills[:, :size]], axis=1)

    # every `half` steps the two skills of an episode change places, also before the first step
    skill = jnp.asarray(mode.skill)[:, :count]
    pairs = jnp.concatenate([jnp.roll(skill, 1, axis=1), skill], axis=-1)
    episodes = make_episodes(world, parts.engine, act, 2 * half, swap, half)
    played: Rollout = jax.device_get(over_seeds(parts.engine, episodes)(policy, pairs, keys))
    parts.engine.check()
    place = spec.place(np.asarray(played.obs))
    first, second = place[:, half] - place[:, 0], place[:, -1] - place[:, half]
    before = np.roll(usual, 1, axis=1)
    return {
        "shifted": _cosine(first, usual, spec.bin) if world is not parts.world else None,
        "changed": _cosine(second, before, spec.bin),
        "shift": shift if world is not parts.world else None,
    }


def _cosine(moved: NDArray[Any], usual: NDArray[Any], side: float) -> float | None:
    """Between two directions, over the skills that usually get away; one that goes nowhere counts as 0."""
    away = np.linalg.norm(usual, axis=-1)
    norms = np.maximum(np.linalg.norm(moved, axis=-1), LEAST * side) * away
    going = away > LEAST * side
    return float(np.mean((np.sum(moved * usual, axis=-1) / np.maximum(norms, 1e-9))[going])) if going.any() else None


def _shifted(world: World, reach: float) -> World:
    """The same with starts up to so far away; the same world where that cannot be asked for."""
    config: EnvConfig | None = getattr(world, "config", None)
    shifted = config.start_within(reach) if config is not None and world.spec.position else None
    return world if shifted is None else make_world(shifted)
