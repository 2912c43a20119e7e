"""What is rewarded: a method, or a method and a bonus, each with a network that learns and a view of its own."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from wanderlust.envs.spec import Transition
from wanderlust.methods.base import Metrics
from wanderlust.rl import replay as replays
from wanderlust.rl.replay import Replay
from wanderlust.train.state import Learner, Reward, Setup

RewardStates = tuple[Any, ...]
"""The state of every reward: of the method, and of the bonus if there is one."""


def states_of(parts: Setup, learner: Learner) -> RewardStates:
    """What the rewards of a learner have learned."""
    return (learner.method,) if parts.bonus is None else (learner.method, learner.bonus)


def with_states(learner: Learner, states: RewardStates) -> Learner:
    """The learner with these states of its rewards."""
    return learner._replace(**dict(zip(("method", "bonus"), states, strict=False)))


def rewards(parts: Setup, states: RewardStates, batch: Transition) -> Float[Array, " batch"]:
    """What SAC learns from: the sum of all rewards, each times its scale."""
    scaled = (
        one.scale * one.method.reward(state, one.view.transition_for_method(batch))
        for one, state in zip(parts.rewards, states, strict=True)
    )
    return functools.reduce(jnp.add, scaled)


def update_states(parts: Setup, states: RewardStates, batches: tuple[Transition, ...]) -> tuple[RewardStates, Metrics]:
    """One gradient step of every network, each from its own batch."""
    updated, metrics = [], {}
    for one, state, batch in zip(parts.rewards, states, batches, strict=True):
        after, found = one.method.update(state, one.view.transition_for_method(batch))
        updated.append(after)
        metrics.update(found)
    return tuple(updated), metrics


def draw_batches(
    parts: Setup, replay: Replay, fresh: Transition, key: Key[Array, ""], given: Transition | None = None
) -> tuple[Transition, ...]:
    """What each network learns from; `given` instead where that is transitions."""

    def batch(which: int, one: Reward) -> Transition:
        mine = key if which == 0 else jax.random.fold_in(key, which)
        if one.method.episodes:
            return _episodes(parts, replay, mine, one.method.episodes)
        return _transitions(parts, replay, fresh, mine) if given is None else given

    return tuple(batch(which, one) for which, one in enumerate(parts.rewards))


def _transitions(parts: Setup, replay: Replay, fresh: Transition, key: Key[Array, ""]) -> Transition:
    count = parts.config.schedule.method_batch
    return replays.take(replay, replays.draw(replay, key, count)) if count else fresh


def _episodes(parts: Setup, replay: Replay, key: Key[Array, ""], count: int) -> Transition:
    schedule = parts.config.schedule
    index = replays.whole_episodes(replays.draw(replay, key, count), schedule.steps, schedule.worlds)
    return replays.take(replay, index)
