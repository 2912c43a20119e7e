"""What policies do, and the collection of an epoch."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from wanderlust.envs.unroll import RolloutStep
from wanderlust.rl.sac import mode_actions, noisy_actions
from wanderlust.train.autoreset import Diverged, EnvState, autoreset, nan_guard, transitions
from wanderlust.train.state import Setup, fresh_worlds

# --- what policies do ------------------------------------------------------------------------------------------------


def command_actions(
    parts: Setup,
    policy: Any,
    obs: Float[Array, "worlds obs"],
    command: Float[Array, "worlds command"],
    noise: Float[Array, "worlds action"] | None = None,
) -> Float[Array, "worlds action"]:
    """Actions under commands: mode actions, or the ones that standard-normal noise stands for.

    Under subgoals they are mode actions in any case: what is random there is the subgoal.
    """
    seen = parts.view.for_policy(obs)
    if parts.method.high_level is not None:
        return mode_actions(policy.policy, seen, command[:, parts.skills.size :])
    return mode_actions(policy, seen, command) if noise is None else noisy_actions(policy, seen, command, noise)


def set_subgoals(
    parts: Setup,
    policy: Any,
    obs: Float[Array, "worlds obs"],
    command: Float[Array, "worlds command"],
    keys: Key[Array, " worlds"] | None = None,
) -> Float[Array, "worlds command"]:
    """Commands from here on: skills, with the subgoals that a high-level policy sets: the likeliest, or drawn ones.

    Of commands that have subgoals already, only the skills count.
    """
    if parts.method.high_level is None:
        return command
    skill = command[:, : parts.skills.size]
    seen = parts.view.for_method(obs)
    goal = partial(parts.method.high_level.goal, policy.goal_policy)
    goals = jax.vmap(lambda o, z: goal(o, z, None))(seen, skill) if keys is None else jax.vmap(goal)(seen, skill, keys)
    return jnp.concatenate([skill, goals], axis=1)


# --- the collection of an epoch --------------------------------------------------------------------------------------


class Collecting(NamedTuple):
    """The carry of a collection: some of the environments of all seeds."""

    envs: EnvState
    diverged: Diverged
    first: Int[Array, ""] | int = 0
    """Which of all environments of a seed is the first of these."""


def collection_step(parts: Setup) -> RolloutStep:
    """A step of a collection. Inputs are keys, outputs transitions and the ages at which they were made."""
    world, count = parts.world, parts.config.schedule.worlds

    def mine(carry: Collecting, tree: Any) -> Any:
        part = carry.envs.age.shape[1]
        if part == count:
            return tree
        return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, carry.first, part, axis=1), tree)

    def act(policy: Any, carry: Collecting, keys: tuple[Array, Array]) -> tuple[Collecting, Any, Any]:
        envs = carry.envs
        if parts.hold:
            new = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, 1), count))(keys[0])
            envs = resample_commands(parts, policy, envs, mine(carry, new))
        noise = jax.vmap(lambda key: jax.random.normal(key, (count, world.spec.action_dim)))(keys[0])
        obs = jax.vmap(jax.vmap(world.observe))(envs.state)
        action = jax.vmap(partial(command_actions, parts))(policy, obs, envs.skill, mine(carry, noise))
        return carry._replace(envs=envs), all_worlds(envs.state), all_worlds(action)

    def record(carry: Collecting, before: Any, action: Any, after: Any, keys: Any) -> tuple[Collecting, Any]:
        envs = carry.envs
        action, after = by_seed((action, after), envs.age.shape[0])
        made = transitions(world, envs, action, after)
        fresh = None if parts.waits else lambda: mine(carry, jax.vmap(partial(fresh_worlds, parts))(keys[1]))
        diverged = nan_guard(carry.diverged, envs.state, action, after, is_running(parts, envs.age))
        done = made.terminated | made.truncated
        envs_after = autoreset(world, envs._replace(state=after), done, fresh)
        return Collecting(envs_after, diverged, carry.first), (made, envs.age)

    def running(carry: Collecting) -> bool:
        return bool(np.min(carry.envs.age) < world.spec.episode_length)

    return RolloutStep(act, record, running if parts.waits else None)


def resample_commands(parts: Setup, policy: Any, worlds: EnvState, keys: Key[Array, "seeds worlds"]) -> EnvState:
    """New commands for episodes whose age is a multiple of `hold` steps; arrays lead with a seed axis."""
    due = (worlds.age % parts.hold == 0) & (worlds.age < parts.world.spec.episode_length)

    def one_seed(policy: Any, worlds: EnvState, keys: Key[Array, " worlds"]) -> Float[Array, "worlds command"]:
        if parts.method.high_level is None:
            return jax.vmap(parts.sample_command)(keys)
        return set_subgoals(parts, policy, jax.vmap(parts.world.observe)(worlds.state), worlds.skill, keys)

    def renewed(worlds: EnvState) -> EnvState:
        command = jax.vmap(one_seed)(policy, worlds, keys)
        return worlds._replace(skill=jnp.where(due[..., None], command, worlds.skill))

    return jax.lax.cond(jnp.any(due), renewed, lambda worlds: worlds, worlds)


class EpochKeys(NamedTuple):
    """The random keys of one epoch."""

    next: Key[Array, " seeds"]
    learn: Key[Array, " seeds"]
    act: Key[Array, "steps seeds"]
    fresh: Key[Array, "steps seeds"]


def draw_epoch_keys(parts: Setup, keys: Key[Array, " seeds"]) -> EpochKeys:
    """All keys of an epoch, from the one that each seed carries along."""
    steps = parts.config.schedule.steps

    def one_seed(key: Key[Array, ""]) -> tuple[Array, Array, Array]:
        key, learn, collect = jax.random.split(key, 3)
        return key, learn, jax.random.split(collect, (steps, 2))

    key, learn, collect = jax.vmap(one_seed)(keys)
    return EpochKeys(key, learn, collect[:, :, 0].T, collect[:, :, 1].T)


def is_running(parts: Setup, age: Int[Array, "*worlds"]) -> Bool[Array, "*worlds"]:
    """Whether an episode of that age is still going on."""
    return age < parts.world.spec.episode_length


def all_worlds(tree: Any) -> Any:
    """[seeds, worlds, ...] -> [seeds * worlds, ...]: what an engine sees."""
    return jax.tree.map(lambda x: x.reshape((x.shape[0] * x.shape[1], *x.shape[2:])), tree)


def by_seed(tree: Any, seeds: int) -> Any:
    """[seeds * worlds, ...] -> [seeds, worlds, ...]: the reverse of `all_worlds`."""
    return jax.tree.map(lambda x: x.reshape((seeds, x.shape[0] // seeds, *x.shape[1:])), tree)
