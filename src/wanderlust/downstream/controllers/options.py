"""Rollouts of a task with skills as options: a high-level policy chooses a skill, which acts for some control steps.

Many episodes of several seeds run side by side: in one compiled program if the engine compiles, else on the host with
the same numbers.
"""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from wanderlust import train
from wanderlust.config import EngineName
from wanderlust.downstream import episodes
from wanderlust.downstream.episodes import OptionState
from wanderlust.downstream.tasks import Task
from wanderlust.envs import Engine, World, make_engine
from wanderlust.envs.unroll import RolloutStep, make_unroll
from wanderlust.runs.learned import Learned
from wanderlust.train import Setup
from wanderlust.train.rollout import by_seed


@dataclasses.dataclass(frozen=True)
class TaskSetup:
    """A task, the world it is set in, and the engine that steps it."""

    task: Task[Any]
    world: World
    engine: Engine


def set_up_task(parts: Setup, task: Task[Any], engine: EngineName = "auto") -> TaskSetup:
    """A task in the world that some skills were learned in."""
    world = task.arrange(parts.world)
    return TaskSetup(task, world, make_engine(world, engine))


class Choice(NamedTuple):
    """The skills that a high-level policy chooses for a batch of worlds."""

    skill: Float[Array, "worlds skill"]
    note: Any = ()
    """What its learner needs to know of the choice."""


@dataclasses.dataclass(frozen=True)
class HighLevelPolicy:
    """Chooses skills, and says how they act. Functions are of one seed, whose parameters come first."""

    choose: Callable[[Any, Float[Array, "worlds seen"], Key[Array, ""]], Choice]
    """From the world's observation and the task's entries behind it, raw."""
    act: Callable[[Any, Float[Array, "worlds obs"], Float[Array, "worlds command"]], Float[Array, "worlds action"]]
    """From the world's observation, raw, and a command: the skill, with the subgoal set for it."""
    option_length: int
    """Control steps that a skill acts before another is chosen."""
    command: Callable[[Any, Float[Array, "worlds obs"], Float[Array, "worlds _"]], Float[Array, "worlds command"]] = (
        lambda parameters, obs, skill: skill
    )
    """Sets the subgoals of skills, or of the skills in earlier commands, where the method sets any."""
    command_length: int = 0
    """Control steps after which subgoals are set again while a skill acts; 0: commands are skills."""


class ControlledSkills(NamedTuple):
    """What a high-level policy over learned skills has for its parameters."""

    learned: Learned
    controller: Any = ()
    """What chooses among the skills; nothing for policies that need none."""


def over_skills(
    parts: Setup, choose: Callable[[ControlledSkills, Array, Key[Array, ""]], Choice], option_length: int
) -> HighLevelPolicy:
    """Chooses among learned skills. A method's own high level sets its subgoals as often as in training."""

    def act(skilled: ControlledSkills, obs: Array, command: Array) -> Array:
        return train.command_actions(parts, skilled.learned.policy, obs, command)

    def command(skilled: ControlledSkills, obs: Array, command: Array) -> Array:
        return train.set_subgoals(parts, skilled.learned.policy, obs, command)

    return HighLevelPolicy(choose, act, option_length, command, parts.subgoal_steps)


def random_policy(parts: Setup, option_length: int) -> HighLevelPolicy:
    """Draws skills as discovery drew them."""

    def choose(skilled: ControlledSkills, seen: Array, key: Key[Array, ""]) -> Choice:
        return Choice(jax.vmap(parts.skills.sample)(jax.random.split(key, len(seen))))

    return over_skills(parts, choose, option_length)


class Decisions(NamedTuple):
    """What came of every choice, [decisions, seeds, worlds, ...]; those after the end of an episode mean nothing."""

    seen: Float[Array, "decisions seeds worlds seen"]
    choice: Choice
    reward: Float[Array, "decisions seeds worlds"]
    """Summed over the control steps."""
    seen_next: Float[Array, "decisions seeds worlds seen"]
    terminated: Bool[Array, "decisions seeds worlds"]
    truncated: Bool[Array, "decisions seeds worlds"]
    valid: Bool[Array, "decisions seeds worlds"]
    """Whether the episode was still running."""
    steps: Int[Array, "decisions seeds worlds"]
    """Control steps made."""
    path: Any = ()
    """[decisions, steps, seeds, worlds, seen] What was seen after every control step, if that was asked for."""
    physics: Any = ()
    """The same of the worlds' states, of as many worlds of each seed as that was asked for of."""


OptionRollout = Callable[[Any, Key[Array, " seeds"], int], Decisions]
"""(parameters, keys, count) -> that many episodes per seed; parameters lead with the seed axis."""


def returns(decisions: Decisions) -> Float[Array, "seeds worlds"]:
    """The sum of rewards of every episode."""
    return (decisions.reward * decisions.valid).sum(axis=0)


def make_option_rollout(
    setup: TaskSetup, policy: HighLevelPolicy, paths: bool = False, states: int = 0
) -> OptionRollout:
    """Episodes of a task under a high-level policy: a function that can be compiled if the engine can be.

    It records what was seen in between for `paths`, and the states of so many worlds of each seed for `states`.
    """
    world, task, on_host = setup.world, setup.task, not setup.engine.compiles
    count_decisions = math.ceil(task.horizon / policy.option_length)

    # The engine and the task see seeds x worlds as one batch, high-level policies one seed at a time.
    def see(now: OptionState, seeds: int) -> Float[Array, "seeds worlds seen"]:
        return by_seed(jax.vmap(lambda e: episodes.observe(world, task, e))(now.episode), seeds)

    def observe(now: OptionState, seeds: int) -> Float[Array, "seeds worlds obs"]:
        return by_seed(jax.vmap(world.observe)(now.episode.body), seeds)

    def set_subgoals(parameters: Any, now: OptionState, command: Array) -> Float[Array, "seeds worlds command"]:
        return jax.vmap(policy.command)(parameters, observe(now, len(command)), command)

    @partial(jax.jit, static_argnums=1)
    def begin(keys: Key[Array, " seeds"], count: int) -> tuple[OptionState, Key[Array, "decisions seeds"]]:
        """Fresh episodes, and the keys of all decisions."""
        start, draws = jax.vmap(jax.random.split, out_axes=1)(keys)
        each = jax.vmap(lambda key: jax.random.split(key, count))(start).reshape(-1)
        fresh = jax.vmap(lambda key: episodes.begin(world, task, key))(each)
        decision_keys = jax.vmap(lambda key: jax.random.split(key, count_decisions), out_axes=1)(draws)
        return episodes.begin_option(fresh, jnp.ones(len(each), bool)), decision_keys

    @jax.jit
    def choose(parameters: Any, now: OptionState, keys: Key[Array, " seeds"]) -> tuple[Any, ...]:
        """The state before the option, what is seen, what is chosen, and the first command of it."""
        seen = see(now, len(keys))
        choice = jax.vmap(policy.choose)(parameters, seen, keys)
        before = episodes.begin_option(now.episode, now.running)
        command = set_subgoals(parameters, before, choice.skill) if policy.command_length else choice.skill
        return before, seen, choice, command

    def act(parameters: Any, carry: tuple[OptionState, Array], n: Array) -> tuple[Any, Any, Any]:
        now, command = carry
        if policy.command_length:
            due = (n > 0) & (n % policy.command_length == 0)
            command = jax.lax.cond(due, lambda: set_subgoals(parameters, now, command), lambda: command)
        action = jax.vmap(policy.act)(parameters, observe(now, len(command)), command)
        return (now, command), now.episode.body, action.reshape(-1, action.shape[-1])

    def count_step(carry: tuple[OptionState, Array], before: Any, action: Any, after: Any, n: Any) -> tuple[Any, Any]:
        now, command = carry
        now = episodes.step_option(world, task, now, after)
        path = see(now, len(command)) if paths else ()
        kept = by_seed(now.episode.body.physics, len(command))[:, :states] if states else ()
        return (now, command), (path, kept)

    @jax.jit
    def record(seen: Array, choice: Choice, before: OptionState, after: OptionState, log: Any) -> Decisions:
        result, valid, steps = by_seed((after.result, before.running, after.steps), len(seen))
        ends = result.terminated, result.truncated
        return Decisions(seen, choice, result.reward, see(after, len(seen)), *ends, valid, steps, *log)

    step = RolloutStep(act, count_step, running=lambda carry: bool(np.any(carry[0].running)))
    unroll, steps = make_unroll(setup.engine, step, on_host), jnp.arange(policy.option_length)

    def rollout(parameters: Any, keys: Key[Array, " seeds"], count: int) -> Decisions:
        def decide(now: OptionState, keys: Key[Array, " seeds"]) -> tuple[OptionState, Decisions]:
            before, seen, choice, command = choose(parameters, now, keys)
            (after, _), log = unroll(parameters, (before, command), steps)
            return after, record(seen, choice, before, after, log)

        begun, decision_keys = begin(keys, count)
        return _looped(decide, begun, decision_keys) if on_host else jax.lax.scan(decide, begun, decision_keys)[1]

    return rollout


def _looped(
    decide: Callable[[OptionState, Array], tuple[OptionState, Decisions]], now: OptionState, keys: Key[Array, "_ seeds"]
) -> Decisions:
    """The decisions of a scan on the host. The first one after all episodes have ended stands for those after it."""
    log: list[Decisions] = []
    while len(log) < len(keys) and (not log or log[-1].valid.any()):
        now, made = decide(now, keys[len(log)])
        log.append(jax.device_get(made))
    return jax.tree.map(lambda *x: np.stack(x), *log, *log[-1:] * (len(keys) - len(log)))
