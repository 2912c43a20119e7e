"""Learners of high-level policies: SAC where a skill is a vector, PPO where it is one of N.

The `Decisions` of an epoch arrive as those of one seed. Episodes that ended early leave gaps in it, which learning
skips.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from wanderlust.downstream.controllers.options import Choice, Decisions, TaskSetup
from wanderlust.downstream.settings import LARGEST_SKILL, ControllerSetting
from wanderlust.methods.base import Metrics
from wanderlust.methods.skills import SkillSpace
from wanderlust.rl import replay as replays
from wanderlust.rl.moments import Moments, moments_of
from wanderlust.rl.ppo import Episodes, Ppo, PpoBatch, PpoConfig, PpoState, likeliest_choices, sample_choices
from wanderlust.rl.sac import Batch, Sac, SacState, mode_actions, sample_actions
from wanderlust.train import Setup
from wanderlust.train.rollout import all_worlds


def normalised(moments: Moments, seen: Float[Array, "*batch seen"]) -> Float[Array, "*batch seen"]:
    """Observations as the networks see them."""
    return moments.normalise(seen, in_root=1e-8)


def update_moments(
    moments: Moments, seen: Float[Array, "decisions worlds seen"], valid: Bool[Array, "decisions worlds"], rate: float
) -> Moments:
    """The moments after all these observations.

    One observation o moves m by rate (o - m), and v to (1 - rate) (v + rate (o - m)^2). Of n that come side by side
    none is the first, so they count alike: together they have the share 1 - (1 - rate)^n.
    """
    share = -jnp.expm1(jnp.sum(valid) * math.log1p(-rate))  # without a loss of digits
    return moments.merge(moments_of(seen, valid), share)


@dataclasses.dataclass(frozen=True)
class SacLearner:
    """Over continuous skills: an action in [-1, 1]^d is the skill nearest to a vector in [-scale, scale]^d."""

    algorithm: Sac
    setting: ControllerSetting
    option_length: int
    """Control steps that a skill acts."""
    decisions: int
    """Of an epoch, at most."""
    skills: SkillSpace
    scale: float

    def policy(self, state: SacState) -> Any:
        return state.policy

    def choose(self, policy: Any, seen: Float[Array, "worlds seen"], key: Key[Array, ""] | None = None) -> Choice:
        none = _no_skill(seen)
        action = mode_actions(policy, seen, none) if key is None else sample_actions(policy, seen, none, key)[0]
        return Choice(jax.vmap(self.skills.nearest)(self.scale * action), action)

    def memory(self) -> Any:
        seen, action, nothing = jnp.zeros(self.algorithm.obs_dim), jnp.zeros(self.skills.size), jnp.zeros(())
        one: Any = Batch(seen, jnp.zeros(0), action, nothing, seen, jnp.zeros((), bool))
        return replays.empty(one, self.decisions * self.setting.collections)

    def learn(
        self, state: SacState, memory: Any, decisions: Decisions, moments: Moments, key: Key[Array, ""]
    ) -> tuple[SacState, Any, Metrics]:
        config, setting = self.algorithm.config, self.setting
        over = decisions.terminated | decisions.truncated if config.time_limit_is_terminal else decisions.terminated
        seen, seen_next = decisions.seen, decisions.seen_next
        happened: Any = Batch(seen, _no_skill(seen), decisions.choice.note, decisions.reward, seen_next, over)
        kept = self.memory() if setting.collections == 1 else memory
        kept = replays.append_valid(kept, all_worlds(happened), decisions.valid.reshape(-1))

        def step(state: SacState, key: Key[Array, ""]) -> tuple[SacState, Metrics]:
            draw, noise = jax.random.split(key)
            batch: Any = replays.take(kept, _rows(kept, draw, setting.batch, self.decisions))
            batch = batch._replace(obs=normalised(moments, batch.obs), next_obs=normalised(moments, batch.next_obs))
            return self.algorithm.update(state, batch, noise)

        state, metrics = jax.lax.scan(step, state, jax.random.split(key, setting.steps))
        memory = kept if setting.collections > 1 else memory
        return self.algorithm.end_epoch(state), memory, jax.tree.map(jnp.mean, metrics)


@dataclasses.dataclass(frozen=True)
class PpoLearner:
    """Over discrete skills: an action is the number of a skill."""

    algorithm: Ppo
    setting: ControllerSetting
    option_length: int
    decisions: int

    def policy(self, state: PpoState) -> Any:
        return state.networks.policy

    def choose(self, policy: Any, seen: Float[Array, "worlds seen"], key: Key[Array, ""] | None = None) -> Choice:
        if key is None:
            return Choice(jax.nn.one_hot(likeliest_choices(policy, seen), self.algorithm.choices))
        action, log_prob = sample_choices(policy, seen, key)
        return Choice(jax.nn.one_hot(action, self.algorithm.choices), (action, log_prob))

    def memory(self) -> Any:
        return ()

    def learn(
        self, state: PpoState, memory: Any, decisions: Decisions, moments: Moments, key: Key[Array, ""]
    ) -> tuple[PpoState, Any, Metrics]:
        seen, seen_next = normalised(moments, decisions.seen), normalised(moments, decisions.seen_next)
        over = decisions.terminated | decisions.truncated  # as in SAC, no value is expected beyond the time limit
        action, log_prob = decisions.choice.note
        rollouts = Episodes(seen, action, log_prob, decisions.reward, seen_next, over)
        happened = all_worlds(self.algorithm.with_advantages(state, rollouts))
        empty = replays.empty(jax.tree.map(lambda x: x[0], happened), self.decisions)
        kept = replays.append_valid(empty, happened, decisions.valid.reshape(-1))

        def step(state: PpoState, key: Key[Array, ""]) -> tuple[PpoState, Metrics]:
            batch: Any = replays.take(kept, _rows(kept, key, self.setting.batch, self.decisions))
            return self.algorithm.update(state, PpoBatch(*batch))

        state, metrics = jax.lax.scan(step, state, jax.random.split(key, self.setting.steps))
        return state, (), jax.tree.map(jnp.mean, metrics)


ControllerLearner = SacLearner | PpoLearner
"""Chooses skills by observations that the running moments normalise, and learns to from raw ones.

`choose` takes the skills that seem best, or draws them if there is a key, with a note for `learn`. `learn` makes the
gradient steps of an epoch from the decisions of one seed, [decisions, worlds, ...]; `memory` is what it keeps of
earlier epochs, before the first.
"""


def make_learner(parts: Setup, setup: TaskSetup, setting: ControllerSetting, option_length: int) -> ControllerLearner:
    """The learner of a setting for these skills and this task."""
    seen = parts.world.spec.obs_dim + setup.task.entries
    decisions = setting.episodes * -(-setup.task.horizon // option_length)
    if isinstance(setting.learner, PpoConfig):
        return PpoLearner(Ppo(setting.learner, seen, parts.skills.size), setting, option_length, decisions)
    sac = Sac(setting.learner, seen, 0, parts.skills.size)
    scale = 1.0 if parts.config.skills.kind == "box" else LARGEST_SKILL
    return SacLearner(sac, setting, option_length, decisions, parts.skills, scale)


def _no_skill(seen: Float[Array, "*batch seen"]) -> Float[Array, "*batch 0"]:
    """SAC's networks take a skill beside what is seen: here it is what they choose."""
    return jnp.zeros((*seen.shape[:-1], 0))


def _rows(kept: replays.Replay, key: Key[Array, ""], batch: int, whole: int) -> Array:
    """Which choices a gradient step reads: drawn ones, or all of them and, for each gap, a drawn one again."""
    if batch:
        return replays.draw(kept, key, batch)
    at = jnp.arange(whole)
    return jnp.where(at < kept.size, at, replays.draw(kept, key, whole))
