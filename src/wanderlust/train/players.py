"""Looking at a learner: whole episodes of given skills."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from wanderlust.envs import Engine
from wanderlust.envs.vector import play
from wanderlust.sac import mode_actions, sample_actions
from wanderlust.skills import Orders
from wanderlust.train.collection import follow_goals, set_goals
from wanderlust.train.state import Parts
from wanderlust.types import Rollout

Player = Callable[[Any, Float[Array, "seeds worlds skill"], Key[Array, " seeds"]], Rollout]
"""Plays one episode per skill under every seed's `performer`; arrays of the rollout lead with the seed axis."""


def actions(
    parts: Parts, performer: Any, obs: Float[Array, "worlds obs"], skill: Array, key: Key[Array, ""] | None = None
) -> Float[Array, "worlds action"]:
    """What skills do in some states: their mode, or a sample if there is a key. An upper level decides here and now."""
    return follow(parts, performer, obs, decide(parts, performer, obs, skill, key), key)


def decide(
    parts: Parts, performer: Any, obs: Float[Array, "worlds obs"], orders: Array, key: Key[Array, ""] | None = None
) -> Float[Array, "worlds orders"]:
    """What is followed from here on: skills, with the goals that an upper level sets; with a key these are drawn.

    Of orders that have goals already, only the skills count.
    """
    if parts.upper is None:
        return orders
    return set_goals(parts, performer, obs, orders, None if key is None else jax.random.split(key, len(obs)))


def follow(
    parts: Parts, performer: Any, obs: Float[Array, "worlds obs"], orders: Array, key: Key[Array, ""] | None = None
) -> Float[Array, "worlds action"]:
    """What is done in some states under orders that were decided here or earlier."""
    if parts.upper is not None:
        return follow_goals(parts, performer, obs, orders)
    seen = parts.view.for_policy(obs)
    return mode_actions(performer, seen, orders) if key is None else sample_actions(performer, seen, orders, key)[0]


def make_player(parts: Parts, mode: bool = True) -> Player:
    """Episodes from the origin with mode actions or sampled ones, compiled on first use."""
    world, steps = parts.world.from_origin(), parts.world.spec.episode_length

    def choose(performer: Any, obs: Array, orders: Array, key: Key[Array, ""]) -> Array:
        return follow(parts, performer, obs, orders, None if mode else key)

    def renew(performer: Any, obs: Array, orders: Array, key: Key[Array, ""]) -> Array:
        return decide(parts, performer, obs, orders, None if mode else key)

    def episodes(choose: Any, renew: Any, performer: Any, skill: Array, key: Key[Array, ""]) -> Rollout:
        by = (partial(renew, performer), parts.goals_stand) if parts.goals_stand else ()
        orders = parts.orders.without_goal(skill) if isinstance(parts.orders, Orders) else skill
        rollout = play(world, parts.engine, partial(choose, performer), orders, key, steps, *by)
        return rollout._replace(skill=skill)

    if parts.engine.compiles:
        return over_seeds(parts.engine, partial(episodes, choose, renew))
    return over_seeds(parts.engine, partial(episodes, jax.jit(choose), jax.jit(renew)))


def over_seeds(engine: Engine, episodes: Callable[[Any, Array, Key[Array, ""]], Rollout]) -> Player:
    """Episodes of one seed for all of them: side by side in one program, or one after the other on the host."""
    if engine.compiles:
        return jax.jit(jax.vmap(episodes))

    def seed_by_seed(performer: Any, skill: Array, keys: Key[Array, " seeds"]) -> Rollout:
        def one(k: int) -> Rollout:
            return episodes(jax.tree.map(lambda x: x[k], performer), skill[k], keys[k])

        return jax.tree.map(lambda *x: np.stack(x), *(one(k) for k in range(len(skill))))

    return seed_by_seed


def rollout(parts: Parts, performer: Any, skill: Array, key: Key[Array, ""], mode: bool = True) -> Rollout:
    """One episode per skill under one seed's `performer`, from the origin, with mode actions or sampled ones."""
    one = jax.tree.map(lambda x: x[None], (performer, skill, key))
    return jax.tree.map(lambda x: x[0], make_player(parts, mode)(*one))


def sample_skills(parts: Parts, keys: Key[Array, " seeds"], count: int) -> Float[Array, "seeds count skill"]:
    """Random skills for every seed."""
    return jax.vmap(lambda key: jax.vmap(parts.skills.sample)(jax.random.split(key, count)))(keys)


def make_probe(parts: Parts, episodes: int) -> Callable[[Any], Rollout]:
    """A look at all seeds: what random skills do, with mode actions, always the same skills and starts."""
    seeds = range(parts.config.seed, parts.config.seed + parts.config.seeds)
    keys = jnp.stack([jax.random.fold_in(jax.random.key(s), 1) for s in seeds])
    skill_keys, play_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
    skill = sample_skills(parts, skill_keys, episodes)
    player = make_player(parts)
    return lambda performer: player(performer, skill, play_keys)
