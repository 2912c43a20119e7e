"""One epoch of learning, from what was collected."""

from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax.stages import Compiled
from jaxtyping import Array, Float, Int, Key

from wanderlust.envs.spec import Transition
from wanderlust.methods.base import Metrics, Trajectories
from wanderlust.rl import replay as replays
from wanderlust.rl.replay import Replay
from wanderlust.rl.sac import Batch, SacState
from wanderlust.train.autoreset import (
    drift,
)
from wanderlust.train.intrinsic import States, draw_batches, rewards, states_of, update_states, with_states
from wanderlust.train.rollout import all_worlds, is_running
from wanderlust.train.state import Learner, Setup, TrainState


def learn(
    parts: Setup, learner: Learner, replay: Replay, fresh: Transition, key: Key[Array, ""]
) -> tuple[Learner, Metrics]:
    """All gradient steps of one epoch of one seed. `fresh` is this epoch's collection, already in the replay."""
    learner, metrics = _ORDERS[parts.config.schedule.order](parts, learner, replay, fresh, key)
    if parts.config.sac.target_update == "epoch":
        learner = learner._replace(sac=parts.sac.move_targets(learner.sac))
    return learner, metrics


def _sac_first(
    parts: Setup, learner: Learner, replay: Replay, fresh: Transition, key: Key[Array, ""]
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

    def method_step(states: States, key: Key[Array, ""]) -> tuple[States, Metrics]:
        return update_states(parts, states, draw_batches(parts, replay, fresh, key))

    sac, sac_metrics = jax.lax.scan(sac_step, learner.sac, jax.random.split(sac_key, schedule.sac_steps))
    states, metrics = jax.lax.scan(method_step, states, jax.random.split(method_key, schedule.method_steps))
    return with_states(learner._replace(sac=sac), states), jax.tree.map(jnp.mean, {**sac_metrics, **metrics})


def _interleaved(
    parts: Setup, learner: Learner, replay: Replay, fresh: Transition, key: Key[Array, ""]
) -> tuple[Learner, Metrics]:
    """A step of phi, then a step of SAC under the phi just updated, in turn."""
    schedule = parts.config.schedule

    def step(learner: Learner, key: Key[Array, ""]) -> tuple[Learner, Metrics]:
        draw, draw_method, noise = jax.random.split(key, 3)
        seen = draw_batches(parts, replay, fresh, draw_method)
        states, metrics = update_states(parts, states_of(parts, learner), seen)
        batch = replays.take(replay, replays.draw(replay, draw, schedule.sac_batch))
        sac, sac_metrics = sac_update(parts, learner.sac, batch, rewards(parts, states, batch), noise)
        return with_states(learner._replace(sac=sac), states), {**sac_metrics, **metrics}

    learner, metrics = jax.lax.scan(step, learner, jax.random.split(key, schedule.sac_steps))
    return learner, jax.tree.map(jnp.mean, metrics)


def _joint(
    parts: Setup, learner: Learner, replay: Replay, fresh: Transition, key: Key[Array, ""]
) -> tuple[Learner, Metrics]:
    """A step of phi and a step of SAC at a time, from the same batch: it is gathered once, and the rewards are those
    of the forward pass that phi's gradient needs anyway (the compiler finds that they are the same).
    """
    schedule = parts.config.schedule

    def step(learner: Learner, key: Key[Array, ""]) -> tuple[Learner, Metrics]:
        draw, noise = jax.random.split(key)
        batch, states = replays.take(replay, replays.draw(replay, draw, schedule.sac_batch)), states_of(parts, learner)
        reward = rewards(parts, states, batch)
        seen = draw_batches(parts, replay, fresh, jax.random.fold_in(draw, 1), given=batch)
        states, metrics = update_states(parts, states, seen)
        sac, sac_metrics = sac_update(parts, learner.sac, batch, reward, noise)
        return with_states(learner._replace(sac=sac), states), {**sac_metrics, **metrics}

    learner, metrics = jax.lax.scan(step, learner, jax.random.split(key, schedule.sac_steps))
    return learner, jax.tree.map(jnp.mean, metrics)


_ORDERS = {"sac-first": _sac_first, "interleaved": _interleaved, "joint": _joint}


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
    if parts.config.sac.target_update == "step":
        sac = parts.sac.move_targets(sac)
    return sac, {"reward": jnp.mean(reward), **metrics}


def _reward_reader(
    parts: Setup, states: States, replay: Replay
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
    if parts.block:
        fresh = fresh._replace(drift=drift(fresh, age, parts.block))
    running = is_running(parts, age)
    fresh, running = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), (fresh, running))
    learn_from = _learn_from_steps if parts.high_level is None else _learn_from_trajectories
    state, metrics = learn_from(parts, state, fresh, running, key)
    steps = jnp.sum(running, axis=(1, 2), dtype=jnp.float32)
    return state, {**metrics, "steps": steps}


def _learn_from_trajectories(
    parts: Setup, state: TrainState, fresh: Transition, running: Array, key: Array
) -> tuple[TrainState, Metrics]:
    """The high-level policy learns from its decisions: one step out of every `hold`."""
    method, schedule = parts.high_level, parts.config.schedule
    if method is None:
        raise ValueError("this method learns from steps")
    count = min(schedule.sac_batch, schedule.worlds)

    def one_seed(learner: Learner, fresh: Transition, running: Array, key: Array) -> tuple[Learner, Metrics]:
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

    learner, metrics = each_seed(one_seed)(state.learner, fresh, running, key)
    return state._replace(learner=learner), metrics


def _learn_from_steps(
    parts: Setup, state: TrainState, fresh: Transition, running: Array, key: Array
) -> tuple[TrainState, Metrics]:
    """Store a collection [seeds, steps, worlds, ...], and learn from what is stored."""
    schedule = parts.config.schedule

    def store(replay: Replay, fresh: Transition, running: Array) -> Replay:
        if schedule.collect == "steps":
            return replays.append(replay, all_worlds(fresh))
        return replays.append_valid(replay, all_worlds(fresh), all_worlds(running))

    def one_seed(learner: Learner, replay: Replay, fresh: Transition, key: Key[Array, ""]) -> tuple[Learner, Metrics]:
        def go(learner: Learner) -> tuple[Learner, Metrics]:
            learner, metrics = learn(parts, learner, replay, all_worlds(fresh), key)
            return learner, {**metrics, "learned": jnp.ones(())}

        if schedule.learn_from == 1:
            return go(learner)
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(go, learner)[1])
        return jax.lax.cond(replay.size >= schedule.learn_from, go, lambda learner: (learner, nothing), learner)

    state = state._replace(replay=jax.vmap(store)(state.replay, fresh, running))
    learner, metrics = each_seed(one_seed)(state.learner, state.replay, fresh, key)
    return state._replace(learner=learner), metrics


class Driver(Protocol):
    """Trains: collects and learns, epoch by epoch."""

    working_bytes: int
    """What the compiled program needs beside its arguments, as the compiler says; 0 before it is compiled."""

    def __call__(self, state: TrainState, epochs: int) -> tuple[TrainState, Metrics]:
        """Run a number of epochs; metrics are means over them, one value per seed. 0 epochs compile, and no more."""
        ...


def working_bytes(program: Compiled) -> int:
    """Temporary arrays and outputs that do not reuse an argument's memory, on all devices of the program."""
    report: Any = program.memory_analysis()
    if report is None:
        return 0
    beside = report.temp_size_in_bytes + report.output_size_in_bytes - report.alias_size_in_bytes
    return int(max(0, beside))


def mean_metrics(total: Metrics, epochs: Any) -> Metrics:
    """Sums over epochs as means: of what is learned, over the epochs that learned."""
    learned = jnp.maximum(total["learned"], 1.0)
    rest = {name: value for name, value in total.items() if name not in ("learned", "steps")}
    return {**{name: value / learned for name, value in rest.items()}, "steps": total["steps"] / epochs}
