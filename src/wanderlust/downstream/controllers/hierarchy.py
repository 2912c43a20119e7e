"""A meta-controller over frozen skills (the paper's appendix): every K steps it chooses the skill that acts next.

It learns from the task's reward alone (`learners.py`). Seeds are an axis, as in discovery: one program rolls out and
learns for all of them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, Key

from wanderlust.downstream.controllers.learners import ControllerLearner, Metrics, follow_moments, show
from wanderlust.downstream.controllers.options import (
    Choice,
    Decisions,
    HighLevelPolicy,
    TaskSetup,
    make_option_rollout,
    returns,
)
from wanderlust.rl.moments import Moments, unit_moments
from wanderlust.runs.learned import Learned
from wanderlust.train import Setup, command_actions, seed_mesh, set_subgoals

# --- high-level policies ---------------------------------------------------------------------------------------------


class Controller(NamedTuple):
    """What a controller is at one moment; of one seed, or every array with a leading seed axis."""

    policy: Any
    statistics: Moments
    """By which it sees observations."""


class ControlledSkills(NamedTuple):
    """A controller, and the skills it chooses from: the parameters of the high-level policies here."""

    controller: Any
    """A `Controller`, or nothing for policies that need none."""
    learned: Learned


def exploring_policy(parts: Setup, learner: ControllerLearner, option_length: int) -> HighLevelPolicy:
    """Draws skills as learning asks for it."""

    def choose(skilled: ControlledSkills, seen: Array, key: Key[Array, ""]) -> Choice:
        policy, statistics = skilled.controller
        return learner.explore(policy, show(statistics, seen), key)

    return _over_skills(parts, choose, option_length)


def greedy_policy(parts: Setup, learner: ControllerLearner, option_length: int) -> HighLevelPolicy:
    """Takes the skill that seems best."""

    def choose(skilled: ControlledSkills, seen: Array, key: Key[Array, ""]) -> Choice:
        policy, statistics = skilled.controller
        return Choice(learner.decide(policy, show(statistics, seen)))

    return _over_skills(parts, choose, option_length)


def random_policy(parts: Setup, option_length: int) -> HighLevelPolicy:
    """Draws skills as discovery drew them."""

    def choose(skilled: ControlledSkills, seen: Array, key: Key[Array, ""]) -> Choice:
        return Choice(jax.vmap(parts.skills.sample)(jax.random.split(key, len(seen))))

    return _over_skills(parts, choose, option_length)


def _over_skills(
    parts: Setup, choose: Callable[[ControlledSkills, Array, Key[Array, ""]], Choice], option_length: int
) -> HighLevelPolicy:
    """A method's own high level sets its subgoals as often as in training."""

    def act(skilled: ControlledSkills, obs: Array, command: Array) -> Array:
        return command_actions(parts, skilled.learned.policy, obs, command)

    def command(skilled: ControlledSkills, obs: Array, command: Array) -> Array:
        return set_subgoals(parts, skilled.learned.policy, obs, command)

    return HighLevelPolicy(choose, act, option_length, command, parts.subgoal_steps)


# --- training ------------------------------------------------------------------------------------------------------


class ControllerTraining(NamedTuple):
    """All that changes while controllers learn; every array leads with the seed axis."""

    learner: Any
    statistics: Moments
    memory: Any
    key: Key[Array, " seeds"]


Advance = Callable[
    [ControllerTraining, Learned, int], tuple[ControllerTraining, dict[str, Float[Array, "epochs seeds"]]]
]
"""Trains for some epochs, at most `log_every` of the setting; the metrics of each."""


def begin(learner: ControllerLearner, seeds: Array) -> ControllerTraining:
    """Before the first epoch. A seed's state depends on that seed alone."""

    def one(seed: Array) -> ControllerTraining:
        own, key = jax.random.split(jax.random.key(seed))
        return ControllerTraining(learner.init(own), unit_moments(learner.obs_dim), learner.memory(), key)

    return jax.jit(jax.vmap(one))(seeds)


def controllers(learner: ControllerLearner, training: ControllerTraining) -> Controller:
    """What has been learned so far."""
    return Controller(learner.policy(training.learner), training.statistics)


def make_advance(parts: Setup, setup: TaskSetup, learner: ControllerLearner, option_length: int) -> Advance:
    """Epochs of rollouts and learning: one program if the engine compiles, else the engine between compiled pieces."""
    rollout = make_option_rollout(setup, exploring_policy(parts, learner, option_length))
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
        statistics = jax.vmap(partial(follow_moments, rate=setting.statistics_rate))(
            training.statistics, of_seeds.seen, of_seeds.valid
        )
        earned, steps = jnp.mean(returns(decisions), axis=1), jnp.sum(decisions.steps, axis=(0, 2))
        metrics = {**metrics, "return": earned, "env_steps": steps.astype(jnp.float32)}
        return ControllerTraining(learned, statistics, memory, training.key), metrics

    def epoch(training: ControllerTraining, learned: Learned) -> tuple[ControllerTraining, Metrics]:
        key, rollout_keys, learn_keys = split(training.key)
        skilled = ControlledSkills(controllers(learner, training), learned)
        decisions = rollout(skilled, rollout_keys, setting.episodes)
        return learn(training._replace(key=key), decisions, learn_keys)

    return _compiled_epochs(epoch, setting.log_every) if setup.engine.compiles else _host_epochs(epoch)


Epoch = Callable[[ControllerTraining, Learned], tuple[ControllerTraining, Metrics]]


def _host_epochs(epoch: Epoch) -> Advance:
    def advance(training: ControllerTraining, learned: Learned, epochs: int) -> tuple[ControllerTraining, Any]:
        log = []
        for _ in range(epochs):
            training, metrics = epoch(training, learned)
            log.append(metrics)
        return training, jax.tree.map(lambda *x: jnp.stack(x), *log)

    return advance


def _compiled_epochs(epoch: Epoch, most: int) -> Advance:
    """At most so many epochs in one program, seeds spread over the devices."""
    across = PartitionSpec("seeds")

    def chunk(training: ControllerTraining, learned: Learned, epochs: Int[Array, ""]) -> tuple[ControllerTraining, Any]:
        """How many is not part of the program: the last ones before the end may be fewer, and compile nothing anew."""

        def one(n: Array, so_far: tuple[ControllerTraining, Any]) -> tuple[ControllerTraining, Any]:
            training, metrics = epoch(so_far[0], learned)
            return training, jax.tree.map(lambda log, now: log.at[n].set(now), so_far[1], metrics)

        _, shapes = jax.eval_shape(epoch, training, learned)
        log = jax.tree.map(lambda x: jnp.zeros((most, *x.shape), x.dtype), shapes)
        return jax.lax.fori_loop(0, epochs, one, (training, log))

    @partial(jax.jit, donate_argnums=0)
    def spread(
        training: ControllerTraining, learned: Learned, epochs: Int[Array, ""]
    ) -> tuple[ControllerTraining, Any]:
        part = jax.shard_map(
            chunk,
            mesh=seed_mesh(len(training.key)),
            in_specs=(across, across, PartitionSpec()),
            out_specs=(across, PartitionSpec(None, "seeds")),
            check_vma=False,
        )
        return part(training, learned, epochs)

    def advance(training: ControllerTraining, learned: Learned, epochs: int) -> tuple[ControllerTraining, Any]:
        if epochs > most:
            raise ValueError(f"{epochs} epochs at once are more than log_every, {most}")
        sharding = NamedSharding(seed_mesh(len(training.key)), across)  # as it comes back: another form compiles anew
        training, log = spread(*jax.device_put((training, learned), sharding), jnp.int32(epochs))
        return training, jax.tree.map(lambda x: x[:epochs], log)

    return advance
