"""Probes of a learner: whole episodes of given skills."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from wanderlust.envs import Engine, World
from wanderlust.envs.base import Truncating, sane
from wanderlust.envs.spec import Rollout
from wanderlust.envs.unroll import RolloutStep, make_unroll
from wanderlust.train.autoreset import where_worlds
from wanderlust.train.rollout import command_actions, set_subgoals
from wanderlust.train.state import Setup

SkillRollout = Callable[[Any, Float[Array, "seeds worlds skill"], Key[Array, " seeds"]], Rollout]
"""One episode per skill under every seed's policy (`skill_policy`); arrays of the rollout lead with the seed axis."""
PolicyFunction = Callable[[Any, Float[Array, "worlds obs"], Float[Array, "worlds skill"], Key[Array, ""]], Array]
"""What a policy makes of observations, skills and a key: actions, or commands."""


def actions(
    parts: Setup, policy: Any, obs: Float[Array, "worlds obs"], skill: Array, key: Key[Array, ""] | None = None
) -> Float[Array, "worlds action"]:
    """What skills do in some states: their mode, or a sample if there is a key. A high-level policy decides anew."""
    keys, noise = (None, None) if key is None else (jax.random.split(key, len(obs)), action_noise(parts, obs, key))
    return command_actions(parts, policy, obs, set_subgoals(parts, policy, obs, skill, keys), noise)


def action_noise(parts: Setup, obs: Float[Array, "worlds obs"], key: Key[Array, ""]) -> Float[Array, "worlds action"]:
    """Standard-normal noise for the actions in some states."""
    return jax.random.normal(key, (len(obs), parts.world.spec.action_dim))


def make_skill_rollout(parts: Setup, mode: bool = True) -> SkillRollout:
    """Episodes from the origin with mode actions or sampled ones, compiled on first use."""

    def act(policy: Any, obs: Array, command: Array, key: Key[Array, ""]) -> Array:
        return command_actions(parts, policy, obs, command, None if mode else action_noise(parts, obs, key))

    def renew(policy: Any, obs: Array, command: Array, key: Key[Array, ""]) -> Array:
        return set_subgoals(parts, policy, obs, command, None if mode else jax.random.split(key, len(obs)))

    world, length, hold = parts.world.from_origin(), parts.world.spec.episode_length, parts.subgoal_steps
    episodes = make_episodes(world, parts.engine, act, length, renew if hold else None, hold)

    def of_skills(policy: Any, skill: Array, key: Key[Array, ""]) -> Rollout:
        return episodes(policy, parts.command(skill), key)._replace(skill=skill)

    return over_seeds(parts.engine, of_skills)


def make_episodes(
    world: World, engine: Engine, choose: PolicyFunction, steps: int, renew: PolicyFunction | None = None, hold: int = 1
) -> Callable[[Any, Float[Array, "worlds skill"], Key[Array, ""]], Rollout]:
    """One episode per given skill, `steps` long; an environment that terminates stays where it ended.

    One whose physics breaks down stays at its last finite state. With `renew`, actions are chosen not by `skill` but by
    the command that `renew` makes of it before the first step and again every `hold` steps.
    """
    observe = jax.jit(jax.vmap(world.observe))
    engine = engine.for_episodes()

    def act(policy: Any, carry: Any, now: tuple[Array, Array]) -> tuple[Any, Any, Any]:
        (state, alive, command), (at, key) = carry, now
        obs = observe(state)
        if renew is not None:
            renewed = lambda command: renew(policy, obs, command, jax.random.fold_in(key, 1))  # noqa: E731
            command = jax.lax.cond(at % hold == 0, renewed, lambda command: command, command)
        return (state, alive, command), state, choose(policy, obs, command, key)

    def record(carry: Any, before: Any, action: Array, after: Any, now: Any) -> tuple[Any, Any]:
        _, alive, command = carry
        alive = alive & sane(after)
        state = where_worlds(alive, after, before)
        alive = alive & ~jax.vmap(world.terminated)(state)
        if isinstance(world, Truncating):
            alive = alive & ~jax.vmap(world.truncated)(state)
        return (state, alive, command), (observe(state), action, alive)

    step = RolloutStep(act, record, running=lambda carry: bool(np.any(carry[1])))
    unroll = make_unroll(engine, step, on_host=not engine.compiles)

    def episodes(policy: Any, skill: Float[Array, "worlds skill"], key: Key[Array, ""]) -> Rollout:
        start_key, step_key = jax.random.split(key)
        start = jax.vmap(world.initial)(jax.random.split(start_key, skill.shape[0]))
        alive = jnp.ones(skill.shape[0], bool)
        times = jnp.arange(steps), jax.random.split(step_key, steps)
        _, (obs, action, later) = unroll(policy, (start, alive, skill), times)
        return Rollout(
            obs=jnp.concatenate([observe(start)[None], obs]),
            action=action,
            skill=skill,
            alive=jnp.concatenate([alive[None], later]),
        )

    return episodes if engine.at_once is None else _in_parts(episodes, engine.at_once)


def _in_parts(episodes: Callable[[Any, Array, Key[Array, ""]], Rollout], most: int) -> Any:
    """The same episodes, at most so many side by side."""

    def one_after_the_other(policy: Any, skill: Float[Array, "worlds skill"], key: Key[Array, ""]) -> Rollout:
        parts = -(-len(skill) // most)
        size = -(-len(skill) // parts)
        padded = skill[jnp.arange(parts * size) % len(skill)].reshape(parts, size, -1)  # all parts are alike
        played = [episodes(policy, mine, jax.random.fold_in(key, n)) for n, mine in enumerate(padded)]
        obs, action, alive = (
            np.concatenate([getattr(part, name) for part in played], axis=1)[:, : len(skill)]
            for name in ("obs", "action", "alive")
        )
        whole: Any = obs, action, skill, alive
        return Rollout(*whole)

    return one_after_the_other


def over_seeds(engine: Engine, episodes: Callable[[Any, Array, Key[Array, ""]], Rollout]) -> SkillRollout:
    """Episodes of one seed for all of them: side by side in one program, or one after the other on the host."""
    if engine.compiles:
        return jax.jit(jax.vmap(episodes))

    def seed_by_seed(policy: Any, skill: Array, keys: Key[Array, " seeds"]) -> Rollout:
        def one(k: int) -> Rollout:
            return episodes(jax.tree.map(lambda x: x[k], policy), skill[k], keys[k])

        return jax.tree.map(lambda *x: np.stack(x), *(one(k) for k in range(len(skill))))

    return seed_by_seed


def sample_skills(parts: Setup, keys: Key[Array, " seeds"], count: int) -> Float[Array, "seeds count skill"]:
    """Random skills for every seed."""
    return jax.vmap(lambda key: jax.vmap(parts.skills.sample)(jax.random.split(key, count)))(keys)


def make_probe(parts: Setup, episodes: int) -> Callable[[Any], Rollout]:
    """Rolls out random skills of all seeds with mode actions, always the same skills and starts."""
    seeds = range(parts.config.seed, parts.config.seed + parts.config.seeds)
    keys = jnp.stack([jax.random.fold_in(jax.random.key(s), 1) for s in seeds])
    skill_keys, rollout_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
    skill = sample_skills(parts, skill_keys, episodes)
    skill_rollout = make_skill_rollout(parts)
    return lambda policy: skill_rollout(policy, skill, rollout_keys)


def random_episodes(world: World, engine: Engine, episodes: int, seeds: Sequence[int], largest: float = 1.0) -> Rollout:
    """Whole episodes of uniform actions from where an evaluation starts them; arrays lead with the seed axis."""
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    play = make_random_rollout(world, engine, largest)
    rollout: Rollout = jax.device_get(play((), jnp.zeros((len(seeds), episodes, 1)), keys))
    engine.check()
    return rollout


def make_random_rollout(world: World, engine: Engine, largest: float) -> SkillRollout:
    """Whole episodes of uniform actions within [-largest, largest], compiled on first use."""

    def act(_: Any, obs: Array, skill: Array, key: Key[Array, ""]) -> Array:
        return jax.random.uniform(key, (len(obs), world.spec.action_dim), jnp.float32, -largest, largest)

    return over_seeds(engine, make_episodes(world.from_origin(), engine, act, world.spec.episode_length))
