"""DADS plans: it looks for the skill whose predicted course keeps nearest to the goal, which then acts for a while.

Model-predictive path integral control over the skill dynamics (Sharma et al., ICLR 2020), with the numbers of the
authors' code and its horizon of one skill. Their skills lie in [-1, 1]^d; ours are normal, so candidates go up to 2.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from wanderlust.downstream.controllers.options import Choice, ControlledSkills, HighLevelPolicy, over_skills
from wanderlust.downstream.settings import LARGEST_SKILL
from wanderlust.methods.skills import DiscreteSkills
from wanderlust.methods.views import goal_entries, with_position
from wanderlust.train import Setup

OPTION_LENGTH = 10
"""Control steps that a skill acts, and that its course is predicted."""
CANDIDATES, REFINEMENTS = 50, 10
VARIANCE = 1.5
"""Of candidates around the mean; it is not refined."""
SHARPNESS = 10.0
"""Candidates count by exp(SHARPNESS (reward - best reward))."""


def planning_policy(parts: Setup) -> HighLevelPolicy:
    """Plans a skill for every option."""
    skills = parts.skills

    def choose(skilled: ControlledSkills, seen: Float[Array, "worlds seen"], key: Key[Array, ""]) -> Choice:
        obs, goal = jnp.split(seen, [parts.world.spec.obs_dim], axis=1)
        if isinstance(skills, DiscreteSkills):
            every = jnp.broadcast_to(skills.all()[None], (len(obs), skills.size, skills.size))
            best = jnp.argmax(course_rewards(parts, skilled.learned.method, obs, goal, every, steps=1), axis=1)
            return Choice(jax.nn.one_hot(best, skills.size))
        return Choice(refined(parts, skilled.learned.method, obs, goal, key))

    return over_skills(parts, choose, OPTION_LENGTH)


def refined(
    parts: Setup, state: Any, obs: Float[Array, "worlds obs"], goal: Array, key: Key[Array, ""]
) -> Float[Array, "worlds skill"]:
    """A skill from the prior, moved again and again to the weighted mean of candidates around it."""
    first, rest = jax.random.split(key)
    shape = (len(obs), CANDIDATES, parts.skills.size)

    def refine(mean: Float[Array, "worlds skill"], key: Key[Array, ""]) -> tuple[Array, None]:
        spread = jnp.sqrt(VARIANCE) * jax.random.normal(key, shape)
        tried = jnp.clip(mean[:, None] + spread, -LARGEST_SKILL, LARGEST_SKILL)
        weight = jax.nn.softmax(SHARPNESS * course_rewards(parts, state, obs, goal, tried, OPTION_LENGTH), axis=1)
        return jnp.sum(weight[..., None] * tried, axis=1), None

    start = jax.random.normal(first, (len(obs), parts.skills.size))
    return jax.lax.scan(refine, start, jax.random.split(rest, REFINEMENTS))[0]


def course_rewards(
    parts: Setup,
    state: Any,
    obs: Float[Array, "worlds obs"],
    goal: Float[Array, "worlds xy"],
    tried: Float[Array, "worlds candidates skill"],
    steps: int,
) -> Float[Array, "worlds candidates"]:
    """Minus the distance from the goal, in metres, summed over the predicted course of every candidate."""
    spec, view, count = parts.world.spec, parts.view, tried.shape[1]
    entries = goal_entries(spec, goal.shape[1])
    where = jnp.array(view.places(entries))
    metres = jnp.ones(len(entries)) if view.method_sees_raw else jnp.array(spec.obs_std)[jnp.array(entries)]
    begin = jnp.repeat(view.for_method(obs), count, axis=0)
    target = jnp.repeat(view.for_method(with_position(spec, obs, goal))[:, where], count, axis=0)
    skill = tried.reshape(-1, tried.shape[-1])

    def step(now: Array, _: None) -> tuple[Array, Array]:
        now = now + parts.method.predict(state, now, skill)
        return now, -jnp.linalg.norm((now[:, where] - target) * metres[None], axis=1)

    _, earned = jax.lax.scan(step, begin, None, length=steps)
    return jnp.sum(earned, axis=0).reshape(len(obs), count)
