"""One step of collection, in the pieces that both drivers share."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from wanderlust.envs import Physical
from wanderlust.envs.vector import (
    Worlds,
    begin_all,
    settle,
)
from wanderlust.sac import mode_actions, noisy_actions
from wanderlust.train.state import Actor, Parts
from wanderlust.types import Transition


def act(
    parts: Parts, actor: Actor, worlds: Worlds, noise: Float[Array, "worlds action"]
) -> Float[Array, "worlds action"]:
    """Actions of one seed's worlds: the ones of its policy that standard-normal noise stands for.

    A policy that an upper level leads takes its mode actions: what is random there is the goal.
    """
    obs = jax.vmap(parts.world.observe)(worlds.state)
    if parts.upper is not None:
        return follow_goals(parts, actor, obs, worlds.skill)
    return noisy_actions(actor.policy, parts.view.for_policy(obs), worlds.skill, noise)


def follow_goals(
    parts: Parts, actor: Actor, obs: Float[Array, "worlds obs"], orders: Float[Array, "worlds orders"]
) -> Float[Array, "worlds action"]:
    """What the lower level does about the goals in its orders."""
    return mode_actions(actor.policy, parts.view.for_policy(obs), orders[:, parts.skills.size :])


def set_goals(
    parts: Parts,
    actor: Actor,
    obs: Float[Array, "worlds obs"],
    orders: Float[Array, "worlds orders"],
    keys: Key[Array, " worlds"] | None,
) -> Float[Array, "worlds orders"]:
    """Orders with the goals that the upper level sets here: the likeliest, or drawn ones."""
    if parts.upper is None:
        raise ValueError("this method has no upper level")
    skill = orders[:, : parts.skills.size]
    seen = parts.view.for_method(obs)
    goal = partial(parts.upper.goal, actor.lead)
    goals = jax.vmap(lambda o, z: goal(o, z, None))(seen, skill) if keys is None else jax.vmap(goal)(seen, skill, keys)
    return jnp.concatenate([skill, goals], axis=1)


def renew_orders(parts: Parts, actor: Actor, worlds: Worlds, keys: Key[Array, "seeds worlds"] | tuple[()]) -> Worlds:
    """Worlds whose episode has come to a multiple of `hold` steps get other orders; arrays lead with a seed axis."""
    if isinstance(keys, tuple):
        return worlds
    due = (worlds.age % parts.hold == 0) & (worlds.age < parts.world.spec.episode_length)

    def one_seed(actor: Actor, worlds: Worlds, keys: Key[Array, " worlds"]) -> Float[Array, "worlds orders"]:
        if parts.upper is None:
            return jax.vmap(parts.orders.sample)(keys)
        return set_goals(parts, actor, jax.vmap(parts.world.observe)(worlds.state), worlds.skill, keys)

    def renewed(worlds: Worlds) -> Worlds:
        orders = jax.vmap(one_seed)(actor, worlds, keys)
        return worlds._replace(skill=jnp.where(due[..., None], orders, worlds.skill))

    return jax.lax.cond(jnp.any(due), renewed, lambda worlds: worlds, worlds)


def order_keys(parts: Parts, keys: Key[Array, " seeds"]) -> Key[Array, "seeds worlds"] | tuple[()]:
    """What other orders are drawn by in a step, if any may be."""
    if not parts.hold:
        return ()
    return jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, 1), parts.config.schedule.worlds))(keys)


def draw_noise(parts: Parts, keys: Key[Array, " seeds"]) -> Float[Array, "seeds worlds action"]:
    """Standard-normal numbers, of which policies make a step's actions."""
    shape = (parts.config.schedule.worlds, parts.world.spec.action_dim)
    return jax.vmap(lambda key: jax.random.normal(key, shape))(keys)


def fresh_worlds(parts: Parts, keys: Key[Array, " seeds"]) -> Worlds:
    """Worlds at the start of an episode each, of all seeds."""
    return begin_all(parts.world, parts.orders, keys, parts.config.schedule.worlds, parts.keeps_start)


class EpochKeys(NamedTuple):
    """The random keys of one epoch."""

    next: Key[Array, " seeds"]
    learn: Key[Array, " seeds"]
    act: Key[Array, "steps seeds"]
    fresh: Key[Array, "steps seeds"]


def draw_epoch_keys(parts: Parts, keys: Key[Array, " seeds"]) -> EpochKeys:
    """All keys of an epoch, from the one that each seed carries along."""
    steps = parts.config.schedule.steps

    def one_seed(key: Key[Array, ""]) -> tuple[Array, Array, Array]:
        key, learn, collect = jax.random.split(key, 3)
        return key, learn, jax.random.split(collect, (steps, 2))

    key, learn, collect = jax.vmap(one_seed)(keys)
    return EpochKeys(key, learn, collect[:, :, 0].T, collect[:, :, 1].T)


def settle_step(
    parts: Parts, worlds: Worlds, action: Array, after: Physical, fresh: Callable[[], Worlds]
) -> tuple[Worlds, Transition, Array]:
    """One step's transitions, and the age at which they were made: that of a whole episode if it was over before."""
    age = worlds.age
    worlds, transition = settle(parts.world, worlds, action, after, None if parts.waits else fresh)
    return worlds, transition, age


def is_running(parts: Parts, age: Int[Array, "*worlds"]) -> Bool[Array, "*worlds"]:
    """Whether an episode of that age is still going on."""
    return age < parts.world.spec.episode_length


def all_worlds(tree: Any) -> Any:
    """[seeds, worlds, ...] -> [seeds * worlds, ...]: what an engine sees."""
    return jax.tree.map(lambda x: x.reshape((x.shape[0] * x.shape[1], *x.shape[2:])), tree)


def by_seed(tree: Any, seeds: int) -> Any:
    """[seeds * worlds, ...] -> [seeds, worlds, ...]: the reverse of `all_worlds`."""
    return jax.tree.map(lambda x: x.reshape((seeds, x.shape[0] // seeds, *x.shape[1:])), tree)
