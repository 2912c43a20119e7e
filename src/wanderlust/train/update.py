"""One epoch of learning, from what was collected."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from wanderlust.envs.spec import Transition
from wanderlust.methods.base import HighLevelMethod, Metrics, Trajectories
from wanderlust.rl import replay as replays
from wanderlust.rl.replay import Replay
from wanderlust.rl.sac import Batch, SacState
from wanderlust.train.autoreset import drift
from wanderlust.train.intrinsic import RewardStates, draw_batches, rewards, states_of, update_states, with_states
from wanderlust.train.rollout import all_worlds, is_running
from wanderlust.train.state import Learner, Setup, TrainState


def learn(
    parts: Setup, learner: Learner, replay: Replay, fresh: Transition, key: Key[Array, ""]
) -> tuple[Learner, Metrics]:
    """All gradient steps of one epoch of one seed. `fresh` is this epoch's collection, already in the replay."""
    schedule = parts.config.schedule
    if schedule.order == "sac-first":
        learner, metrics = _sac_first(parts, replay, fresh, learner, key)
    else:
        step = partial(_joint_step if schedule.order == "joint" else _interleaved_step, parts, replay, fresh)
        learner, metrics = jax.lax.scan(step, learner, jax.random.split(key, schedule.sac_steps))
    return learner._replace(sac=parts.sac.end_epoch(learner.sac)), jax.tree.map(jnp.mean, metrics)


def _sac_first(
    parts: Setup, replay: Replay, fresh: Transition, learner: Learner, key: Key[Array, ""]
) -> tuple[Learner, Metrics]:
    """The published code's order: every SAC step under the phi that collected, then phi."""
    schedule, states = parts.config.schedule, states_of(parts, learner)
    sac_key, method_key = jax.random.split(key)
    reward_of = _reward_reader(parts, states, replay)

    def sac_step(sac: SacState, key: Key[Array, ""]) -> tuple[SacState, Metrics]:
        draw, noise = jax.random.split(key)
        index = replays.draw(replay, draw, schedule.sac_batch)
        batch = replays.take(replay, index)
        return sac_update(parts, sac, batch, reward_of(index, batch), noise)

    def method_step(states: RewardStates, key: Key[Array, ""]) -> tuple[RewardStates, Metrics]:
        return update_states(parts, states, draw_batches(parts, replay, fresh, key))

    sac, sac_metrics = jax.lax.scan(sac_step, learner.sac, jax.random.split(sac_key, schedule.sac_steps))
    states, metrics = jax.lax.scan(method_step, states, jax.random.split(method_key, schedule.method_steps))
    return with_states(learner._replace(sac=sac), states), {**sac_metrics, **metrics}


def _interleaved_step(
    parts: Setup, replay: Replay, fresh: Transition, learner: Learner, key: Key[Array, ""]
) -> tuple[Learner, Metrics]:
    """A step of phi, then a step of SAC under the phi just updated."""
    draw, draw_method, noise = jax.random.split(key, 3)
    seen = draw_batches(parts, replay, fresh, draw_method)
    states, metrics = update_states(parts, states_of(parts, learner), seen)
    batch = replays.take(replay, replays.draw(replay, draw, parts.config.schedule.sac_batch))
    sac, sac_metrics = sac_update(parts, learner.sac, batch, rewards(parts, states, batch), noise)
    return with_states(learner._replace(sac=sac), states), {**sac_metrics, **metrics}


def _joint_step(
    parts: Setup, replay: Replay, fresh: Transition, learner: Learner, key: Key[Array, ""]
) -> tuple[Learner, Metrics]:
    """A step of phi and a step of SAC from the same batch: it is gathered once, and the rewards are those of the
    forward pass that phi's gradient needs anyway (the compiler finds that they are the same).
    """
    draw, noise = jax.random.split(key)
    batch = replays.take(replay, replays.draw(replay, draw, parts.config.schedule.sac_batch))
    states = states_of(parts, learner)
    reward = rewards(parts, states, batch)
    seen = draw_batches(parts, replay, fresh, jax.random.fold_in(draw, 1), given=batch)
    states, metrics = update_states(parts, states, seen)
    sac, sac_metrics = sac_update(parts, learner.sac, batch, reward, noise)
    return with_states(learner._replace(sac=sac), states), {**sac_metrics, **metrics}


def sac_update(
    parts: Setup, sac: SacState, batch: Transition, reward: Float[Array, " batch"], key: Key[Array, ""]
) -> tuple[SacState, Metrics]:
    """One step of SAC from a batch and its rewards."""
    terminal = batch.terminated
    if parts.config.sac.time_limit_is_terminal:
        terminal = terminal | batch.truncated
    sac, metrics = parts.sac.update(
        sac,
        Batch(
            obs=parts.view.for_policy(batch.obs),
            skill=batch.skill,
            action=batch.action,
            reward=reward + parts.config.sac.alive_bonus,
            next_obs=parts.view.for_policy(batch.next_obs),
            terminal=terminal,
        ),
        key,
    )
    return sac, {"reward": jnp.mean(reward), **metrics}


def _reward_reader(
    parts: Setup, states: RewardStates, replay: Replay
) -> Callable[[Int[Array, " batch"], Transition], Float[Array, " batch"]]:
    """Rewards of drawn transitions: per draw, or for the whole ring at once where that is less work."""
    schedule = parts.config.schedule
    if replay.data.obs.shape[0] <= schedule.sac_steps * schedule.sac_batch:
        everything = rewards(parts, states, replay.data)
        return lambda index, _: everything[index]
    return lambda _, batch: rewards(parts, states, batch)


def each_seed(f: Callable[..., Any]) -> Callable[..., Any]:
    """Map over the seed axis: side by side on an accelerator, one after the other on a CPU.

    A CPU core gains nothing from wider products, and the arrays of one seed fit its caches.
    """
    if jax.default_backend() == "cpu":
        return lambda *args: jax.lax.map(lambda one: f(*one), args)
    return jax.vmap(f)


def learn_all(parts: Setup, state: TrainState, fresh: Transition, age: Array, key: Array) -> tuple[TrainState, Metrics]:
    """Learn from a collection [steps, seeds, worlds, ...], seed by seed."""
    if block := parts.method.block:
        fresh = fresh._replace(drift=drift(fresh, age, block))
    running = is_running(parts, age)
    fresh, running = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), (fresh, running))
    if (high_level := parts.method.high_level) is not None:
        learn_seed = partial(_learn_from_trajectories, parts, high_level)
        learner, metrics = each_seed(learn_seed)(state.learner, fresh, running, key)
    else:
        state = state._replace(replay=jax.vmap(partial(_store, parts))(state.replay, fresh, running))
        learner, metrics = each_seed(partial(_learn_from_steps, parts))(state.learner, state.replay, fresh, key)
    steps = jnp.sum(running, axis=(1, 2), dtype=jnp.float32)
    return state._replace(learner=learner), {**metrics, "steps": steps}


def _learn_from_trajectories(
    parts: Setup, method: HighLevelMethod, learner: Learner, fresh: Transition, running: Array, key: Array
) -> tuple[Learner, Metrics]:
    """The high-level policy of one seed learns from its decisions: one step out of every `hold`."""
    schedule = parts.config.schedule
    count = min(schedule.sac_batch, schedule.worlds)
    decisions, valid = jax.tree.map(lambda x: jnp.swapaxes(x[:: parts.hold], 0, 1), (fresh, running))
    everything = Trajectories(
        obs=jnp.where(valid[..., None], parts.view.for_method(decisions.obs), 0.0),
        goal=decisions.skill[..., parts.skills.size :],
        parameter=decisions.skill[:, 0, : parts.skills.size],
        valid=valid,
    )

    def step(state: Any, key: Key[Array, ""]) -> tuple[Any, Metrics]:
        draw, noise = jax.random.split(key)
        some = jax.random.permutation(draw, schedule.worlds)[:count]
        return method.learn(state, jax.tree.map(lambda x: x[some], everything), noise)

    state, metrics = jax.lax.scan(step, learner.method, jax.random.split(key, schedule.sac_steps))
    metrics = jax.tree.map(jnp.mean, metrics)
    learned = learner._replace(method=method.update_statistics(state, everything))
    return learned, {**metrics, "learned": jnp.ones(())}


def _store(parts: Setup, replay: Replay, fresh: Transition, running: Array) -> Replay:
    """Store the collection [steps, worlds, ...] of one seed."""
    if parts.config.schedule.collect == "steps":
        return replays.append(replay, all_worlds(fresh))
    return replays.append_valid(replay, all_worlds(fresh), all_worlds(running))


def _learn_from_steps(
    parts: Setup, learner: Learner, replay: Replay, fresh: Transition, key: Key[Array, ""]
) -> tuple[Learner, Metrics]:
    """One seed learns from what is stored, once that is enough."""
    enough = parts.config.schedule.learn_from

    def go(learner: Learner) -> tuple[Learner, Metrics]:
        learner, metrics = learn(parts, learner, replay, all_worlds(fresh), key)
        return learner, {**metrics, "learned": jnp.ones(())}

    if enough == 1:
        return go(learner)
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(go, learner)[1])
    return jax.lax.cond(replay.size >= enough, go, lambda learner: (learner, nothing), learner)
