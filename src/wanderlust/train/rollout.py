"""Rollouts: a policy unrolled over an engine, and the collection of an epoch."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from wanderlust.envs import Engine
from wanderlust.rl.sac import mode_actions, noisy_actions
from wanderlust.train.autoreset import (
    Diverged,
    EnvState,
    autoreset,
    begin_all,
    guard,
    transitions,
)
from wanderlust.train.state import Actor, Setup


class Step(NamedTuple):
    """What a rollout does around every step of its engine: pure functions."""

    act: Callable[[Any, Any, Any], tuple[Any, Any, Any]]
    """(parameters, carry, input) -> carry, the states to step from, actions."""
    follow: Callable[[Any, Any, Any, Any, Any], tuple[Any, Any]]
    """(carry, states before, actions, states after, input) -> carry, output."""
    running: Callable[[Any], bool] | None = None
    """Whether the environments of a carry have anything left to do; if not, a rollout on the host skips the engine."""


Unroll = Callable[..., tuple[Any, Any]]
"""(parameters, carry, inputs) -> carry, outputs; inputs and outputs lead with the axis of steps."""


def make_unroll(engine: Engine, step: Step, on_host: bool) -> Unroll:
    """Unroll a policy over an engine: scanned inside a compiled program, or looped on the host with the same numbers.

    On the host there are two calls a step: the engine's, and one compiled call that follows it and acts again.
    """
    if on_host:
        return _host_unroll(engine, step)

    def scanned(parameters: Any, carry: Any, inputs: Any) -> tuple[Any, Any]:
        def one(carry: Any, now: Any) -> tuple[Any, Any]:
            carry, state, action = step.act(parameters, carry, now)
            return step.follow(carry, state, action, engine.step(state, action), now)

        return jax.lax.scan(one, carry, inputs)

    return scanned


def _host_unroll(engine: Engine, step: Step) -> Unroll:
    step_engine = jax.jit(engine.step) if engine.compiles else engine.step

    @cache
    def compiled(structure: Any) -> tuple[Any, Any]:
        """For parameters in pieces: to flatten them at every step costs Python time."""

        def act(leaves: list[Array], carry: Any, at: Any, inputs: Any) -> tuple[Any, Any, Any]:
            now = jax.tree.map(lambda x: x[jnp.minimum(at, x.shape[0] - 1)], inputs)
            return step.act(jax.tree.unflatten(structure, leaves), carry, now)

        def turn(leaves: list[Array], carry: Any, moved: Any, at: Any, inputs: Any) -> tuple[Any, ...]:
            before, action, after = moved
            followed, out = step.follow(carry, before, action, after, jax.tree.map(lambda x: x[at], inputs))
            return followed, out, at + 1, *act(leaves, followed, at + 1, inputs)

        return jax.jit(act), jax.jit(turn)

    def looped(parameters: Any, carry: Any, inputs: Any, steps: int | None = None) -> tuple[Any, Any]:
        leaves, structure = jax.tree.flatten(parameters)
        act, turn = compiled(structure)
        count = len(jax.tree.leaves(inputs)[0]) if steps is None else steps
        at, outs = jnp.int32(0), []
        followed, (acting, state, action) = carry, act(leaves, carry, at, inputs)
        for _ in range(count):
            before, chosen = jax.device_get((state, action))
            goes_on = step.running is None or step.running(acting)
            after = step_engine(before, chosen) if goes_on else before
            followed, out, at, acting, state, action = turn(leaves, acting, (before, chosen, after), at, inputs)
            outs.append(out)
        return jax.device_get(followed), jax.tree.map(lambda *x: np.stack(x), *jax.device_get(outs))

    return looped


class Collecting(NamedTuple):
    """The carry of a collection: some of the environments of all seeds."""

    envs: EnvState
    diverged: Diverged
    first: Int[Array, ""] | int = 0
    """Which of all environments of a seed is the first of these."""


def collection_step(parts: Setup) -> Step:
    """A step of a collection. Inputs are keys, outputs transitions and the ages at which they were made."""
    length = parts.world.spec.episode_length

    def mine(carry: Collecting, tree: Any) -> Any:
        count = carry.envs.age.shape[1]
        if count == parts.config.schedule.worlds:
            return tree
        return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, carry.first, count, axis=1), tree)

    def choose(actor: Actor, carry: Collecting, keys: tuple[Array, Array]) -> tuple[Collecting, Any, Any]:
        envs = resample_commands(parts, actor, carry.envs, mine(carry, command_keys(parts, keys[0])))
        action = jax.vmap(partial(act, parts))(actor, envs, mine(carry, draw_noise(parts, keys[0])))
        return carry._replace(envs=envs), all_worlds(envs.state), all_worlds(action)

    def follow(carry: Collecting, before: Any, action: Any, after: Any, keys: Any) -> tuple[Collecting, Any]:
        envs = carry.envs
        action, after = by_seed((action, after), envs.age.shape[0])
        fresh = None if parts.waits else lambda: mine(carry, fresh_worlds(parts, keys[1]))
        diverged = guard(carry.diverged, envs.state, action, after, is_running(parts, envs.age))
        out = transitions(parts.world, envs, action, after), envs.age
        return Collecting(autoreset(parts.world, envs._replace(state=after), fresh), diverged, carry.first), out

    def running(carry: Collecting) -> bool:
        return bool(np.min(carry.envs.age) < length)

    return Step(choose, follow, running if parts.waits else None)


def act(
    parts: Setup, actor: Actor, worlds: EnvState, noise: Float[Array, "worlds action"]
) -> Float[Array, "worlds action"]:
    """Actions of one seed's worlds: the ones of its policy that standard-normal noise stands for.

    A policy that follows subgoals takes its mode actions: what is random there is the subgoal.
    """
    obs = jax.vmap(parts.world.observe)(worlds.state)
    if parts.high_level is not None:
        return follow_goals(parts, actor, obs, worlds.skill)
    return noisy_actions(actor.policy, parts.view.for_policy(obs), worlds.skill, noise)


def follow_goals(
    parts: Setup, actor: Actor, obs: Float[Array, "worlds obs"], command: Float[Array, "worlds command"]
) -> Float[Array, "worlds action"]:
    """The mode actions of the low-level policy towards the subgoals in its commands."""
    return mode_actions(actor.policy, parts.view.for_policy(obs), command[:, parts.skills.size :])


def set_goals(
    parts: Setup,
    actor: Actor,
    obs: Float[Array, "worlds obs"],
    command: Float[Array, "worlds command"],
    keys: Key[Array, " worlds"] | None,
) -> Float[Array, "worlds command"]:
    """Commands with the subgoals that the high-level policy sets here: the likeliest, or drawn ones."""
    if parts.high_level is None:
        raise ValueError("this method sets no subgoals")
    skill = command[:, : parts.skills.size]
    seen = parts.view.for_method(obs)
    goal = partial(parts.high_level.goal, actor.goal_policy)
    goals = jax.vmap(lambda o, z: goal(o, z, None))(seen, skill) if keys is None else jax.vmap(goal)(seen, skill, keys)
    return jnp.concatenate([skill, goals], axis=1)


def resample_commands(
    parts: Setup, actor: Actor, worlds: EnvState, keys: Key[Array, "seeds worlds"] | tuple[()]
) -> EnvState:
    """New commands for episodes whose age is a multiple of `hold` steps; arrays lead with a seed axis."""
    if isinstance(keys, tuple):
        return worlds
    due = (worlds.age % parts.hold == 0) & (worlds.age < parts.world.spec.episode_length)

    def one_seed(actor: Actor, worlds: EnvState, keys: Key[Array, " worlds"]) -> Float[Array, "worlds command"]:
        if parts.high_level is None:
            return jax.vmap(parts.commands.sample)(keys)
        return set_goals(parts, actor, jax.vmap(parts.world.observe)(worlds.state), worlds.skill, keys)

    def renewed(worlds: EnvState) -> EnvState:
        command = jax.vmap(one_seed)(actor, worlds, keys)
        return worlds._replace(skill=jnp.where(due[..., None], command, worlds.skill))

    return jax.lax.cond(jnp.any(due), renewed, lambda worlds: worlds, worlds)


def command_keys(parts: Setup, keys: Key[Array, " seeds"]) -> Key[Array, "seeds worlds"] | tuple[()]:
    """Keys for the commands of a step; none if episodes keep theirs."""
    if not parts.hold:
        return ()
    return jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, 1), parts.config.schedule.worlds))(keys)


def draw_noise(parts: Setup, keys: Key[Array, " seeds"]) -> Float[Array, "seeds worlds action"]:
    """Standard-normal noise for the actions of a step."""
    shape = (parts.config.schedule.worlds, parts.world.spec.action_dim)
    return jax.vmap(lambda key: jax.random.normal(key, shape))(keys)


def fresh_worlds(parts: Setup, keys: Key[Array, " seeds"]) -> EnvState:
    """Environments of all seeds, each at the start of an episode."""
    return begin_all(parts.world, parts.commands, keys, parts.config.schedule.worlds, parts.keeps_start)


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
