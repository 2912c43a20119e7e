"""Zero-shot goal following: at every step the method's own choice of skill towards the goal, no further training.

LSD and METRA go by the direction from phi(s) to phi(g), at the length that skills have on average; DIAYN asks its
discriminator which skill it expects at the goal. What each does is `towards` of its file under `methods/`.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from wanderlust.downstream.controllers.options import Choice, ControlledSkills, HighLevelPolicy, over_skills
from wanderlust.downstream.tasks import GoalTask
from wanderlust.envs import World
from wanderlust.runs.learned import choose_skill
from wanderlust.train import Setup, make_skill_rollout, sample_skills


def zero_shot_policy(parts: Setup) -> HighLevelPolicy:
    """Chooses the skill towards the goal anew at every step."""

    def choose(skilled: ControlledSkills, seen: Float[Array, "worlds seen"], key: Key[Array, ""]) -> Choice:
        obs, goal = jnp.split(seen, [parts.world.spec.obs_dim], axis=1)
        return Choice(choose_skill(parts, skilled.learned, obs, goal))

    return over_skills(parts, choose, option_length=1)


# --- what the skills' own speed allows --------------------------------------------------------------------------------


def within_reach(task: GoalTask, world: World, speed: float, draws: int = 100_000) -> dict[str, float]:
    """Which goals a body, or an object, could reach that goes straight there at this speed, in metres per control step.

    `distance` is speed x time + radius, `share` that of the goals, as they are drawn, which are no farther away, and
    `bound` what an episode would earn that reaches exactly these.
    """
    distance = speed * task.slot + task.radius
    share = float(np.mean(_distances(task, world, draws) <= distance))
    return {"speed": speed, "distance": distance, "share": share, "bound": share * task.goals * task.reward}


@functools.lru_cache(maxsize=2)
def _distances(task: GoalTask, world: World, draws: int) -> Float[np.ndarray, " draws"]:
    """How far away goals are, as they are drawn."""
    keys = jax.random.split(jax.random.key(0), draws)
    away = np.asarray(jax.jit(jax.vmap(lambda key: task.away(world, key)))(keys))
    return np.linalg.norm(away, axis=1)


def skill_speed(
    parts: Setup,
    learned: Any,
    entries: tuple[int, ...],
    keys: Key[Array, " seeds"],
    times: tuple[int, ...],
    episodes: int = 100,
) -> Float[np.ndarray, "times seeds"]:
    """The mean of ||x_T - x_0|| / T over random skills, from the start of an episode, for each T of `times`.

    x are these entries of the observation.
    """
    skill_keys, rollout_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
    rollout = make_skill_rollout(parts)(learned.policy, sample_skills(parts, skill_keys, episodes), rollout_keys)
    position = np.asarray(rollout.obs)[..., list(entries)]
    away = np.linalg.norm(position[:, list(times)] - position[:, :1], axis=-1)
    return away.mean(axis=-1).T / np.array(times)[:, None]
