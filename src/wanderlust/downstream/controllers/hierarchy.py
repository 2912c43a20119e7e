"""A high-level policy over frozen skills (the paper's meta-controller): every K steps it chooses the skill that acts.

It learns from the task's reward alone (`learners.py`). Seeds are an axis, as in discovery: one program rolls out and
learns for all of them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Key

from wanderlust.downstream.controllers.learners import ControllerLearner, normalised, update_moments
from wanderlust.downstream.controllers.options import (
    Choice,
    ControlledSkills,
    Decisions,
    HighLevelPolicy,
    TaskSetup,
    make_option_rollout,
    over_skills,
    returns,
)
from wanderlust.methods.base import Metrics
from wanderlust.rl.moments import Moments, unit_moments
from wanderlust.runs.learned import Learned
from wanderlust.train import Setup, seed_mesh


class Controller(NamedTuple):
    """What a controller has learned; of one seed, or every array with a leading seed axis."""

    policy: Any
    statistics: Moments
    """By which it sees observations."""


def controlled_policy(parts: Setup, learner: ControllerLearner, mode: bool = True) -> HighLevelPolicy:
    """Takes the skills that seem best to a controller, or draws them as learning asks for it."""

    def choose(skilled: ControlledSkills, seen: Array, key: Key[Array, ""]) -> Choice:
        policy, statistics = skilled.controller
        return learner.choose(policy, normalised(statistics, seen), None if mode else key)

    return over_skills(parts, choose, learner.option_length)


class ControllerTraining(NamedTuple):
    """All that changes while controllers learn; every array leads with the seed axis."""

    learner: Any
    statistics: Moments
    memory: Any
    key: Key[Array, " seeds"]


Epoch = Callable[[ControllerTraining, Learned], tuple[ControllerTraining, Metrics]]
"""Trains for an epoch; the metrics of each seed."""


@partial(jax.jit, static_argnums=0)
def start_training(learner: ControllerLearner, seeds: Array) -> ControllerTraining:
    """Before the first epoch. A seed's state depends on that seed alone."""

    def one(seed: Array) -> ControllerTraining:
        own, key = jax.random.split(jax.random.key(seed))
        statistics = unit_moments(learner.algorithm.obs_dim)
        return ControllerTraining(learner.algorithm.init(own), statistics, learner.memory(), key)

    return jax.vmap(one)(seeds)


def controllers(learner: ControllerLearner, training: ControllerTraining) -> Controller:
    """Those of all seeds, as they are by now."""
    return Controller(learner.policy(training.learner), training.statistics)


def make_epoch(parts: Setup, setup: TaskSetup, learner: ControllerLearner) -> Epoch:
    """A rollout and learning from it: one program if the engine compiles, else the engine between compiled pieces."""
    rollout = make_option_rollout(setup, controlled_policy(parts, learner, mode=False))
    setting = learner.setting

    @jax.jit
    def split(keys: Key[Array, " seeds"]) -> tuple[Array, Array, Array]:
        key, rollout_keys, learn_keys = jax.vmap(lambda key: jax.random.split(key, 3), out_axes=1)(keys)
        return key, rollout_keys, learn_keys

    @jax.jit
    def learn(training: ControllerTraining, decisions: Decisions, keys: Array) -> tuple[ControllerTraining, Metrics]:
        of_seeds = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), decisions)
        learned, memory, metrics = jax.vmap(learner.learn)(
            training.learner, training.memory, of_seeds, training.statistics, keys
        )
        # only now: what was chosen was chosen by what the old ones showed
        statistics = jax.vmap(partial(update_moments, rate=setting.statistics_rate))(
            training.statistics, of_seeds.seen, of_seeds.valid
        )
        earned, steps = jnp.mean(returns(decisions), axis=1), jnp.sum(decisions.steps, axis=(0, 2))
        metrics = {**metrics, "return": earned, "env_steps": steps.astype(jnp.float32)}
        return ControllerTraining(learned, statistics, memory, training.key), metrics

    def epoch(training: ControllerTraining, learned: Learned) -> tuple[ControllerTraining, Metrics]:
        key, rollout_keys, learn_keys = split(training.key)
        skilled = ControlledSkills(learned, controllers(learner, training))
        decisions = rollout(skilled, rollout_keys, setting.episodes)
        return learn(training._replace(key=key), decisions, learn_keys)

    return _over_devices(epoch) if setup.engine.compiles else epoch


def _over_devices(epoch: Epoch) -> Epoch:
    """The same as one program, seeds spread over the devices."""
    across = PartitionSpec("seeds")

    @partial(jax.jit, donate_argnums=0)
    def program(training: ControllerTraining, learned: Learned) -> tuple[ControllerTraining, Metrics]:
        mesh = seed_mesh(len(training.key))
        return jax.shard_map(epoch, mesh=mesh, in_specs=across, out_specs=across, check_vma=False)(training, learned)

    def spread(training: ControllerTraining, learned: Learned) -> tuple[ControllerTraining, Metrics]:
        sharding = NamedSharding(seed_mesh(len(training.key)), across)  # as it comes back: another form compiles anew
        return program(*jax.device_put((training, learned), sharding))

    return spread
