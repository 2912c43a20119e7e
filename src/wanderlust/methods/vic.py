"""VIC: Variational Intrinsic Control (Gregor et al., 2016) as the LSD paper analyses it; equations are its.

A discriminator guesses the skill from where an episode began and where it ended, so there is one reward an episode: at
its last step. The paper models the guess by a difference, mu(s_0, s_T) = phi(s_T) - phi(s_0), and takes the objective
apart to arrive at LSD; it does not run it.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Key

from wanderlust.config import MethodConfig, RunConfig, require
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import GoalRule, Method, Metrics
from wanderlust.methods.skills import ContinuousSkills, SkillSpace, guessed
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, init_mlp

# --- state -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class VicConfig(MethodConfig):
    """VIC: one reward an episode."""

    name: str = "vic"

    def check(self, run: RunConfig) -> None:
        hold = run.schedule.hold
        require(not hold, f"schedule.hold is {hold}, but vic is paid for whole episodes; leave it at 0")


class VicState(NamedTuple):
    """phi's weights and its optimiser."""

    encoder: MLP
    opt: optax.OptState


@dataclasses.dataclass(frozen=True)
class Vic(Method):
    """Continuous and discrete VIC: they differ in the discriminator's distribution."""

    config: VicConfig
    skills: SkillSpace

    Config = VicConfig
    summary = "Variational Intrinsic Control: skills that can be told from where an episode began and ended"
    entropy = None
    keeps_start = True

    @classmethod
    def adapt(cls, config: RunConfig) -> RunConfig:
        """A reward at the last step must reach the first one: a horizon of one episode, which is all there is."""
        discount = 1.0 - 1.0 / config.env.episode_length
        sac = dataclasses.replace(config.sac, discount=discount, time_limit_is_terminal=True)
        return dataclasses.replace(config, sac=sac)

    def init(self, key: Key[Array, ""], obs_dim: int) -> VicState:
        encoder = init_mlp(key, (obs_dim, *self.config.hidden, self.skills.size), GLOROT_UNIFORM)
        return VicState(encoder, self._optimizer.init(encoder))

    # --- reward ------------------------------------------------------------------------------------------------

    def reward(self, state: VicState, batch: Transition) -> Float[Array, " batch"]:
        """log q(z|s_0, s_T) without its constants at the last step (equation 3), nothing before it."""
        return jnp.where(_last(batch), self._log_likelihood(state.encoder, batch), 0.0)

    def _log_likelihood(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        """-||z - (phi(s') - phi(s_0))||^2 / 2 as in equation 4, or the log-softmax of that difference at the skill."""
        both = jnp.concatenate([batch.next_obs, jnp.asarray(batch.start)])
        after, start = jnp.split(jax.vmap(phi)(both), 2)
        guess = after - start
        if isinstance(self.skills, ContinuousSkills):
            return -0.5 * jnp.sum((batch.skill - guess) ** 2, axis=1)
        return jnp.sum(jax.nn.log_softmax(guess, axis=1) * batch.skill, axis=1)

    # --- loss and update ---------------------------------------------------------------------------------------

    def loss(self, encoder: MLP, batch: Transition) -> Float[Array, ""]:
        """Maximum likelihood of the skill over the episodes that end in this batch; 0 if none does."""
        last = _last(batch)
        ends = jnp.maximum(jnp.sum(last), 1)
        return -jnp.sum(jnp.where(last, self._log_likelihood(encoder, batch), 0.0)) / ends

    def update(self, state: VicState, batch: Transition) -> tuple[VicState, Metrics]:
        loss, grads = jax.value_and_grad(self.loss)(state.encoder, batch)
        updates, opt = self._optimizer.update(grads, state.opt)
        ends = jnp.mean(_last(batch), dtype=jnp.float32)
        return VicState(optax.apply_updates(state.encoder, updates), opt), {"phi_loss": loss, "ends": ends}

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.config.learning_rate)

    # --- downstream --------------------------------------------------------------------------------------------

    @property
    def goal_rule(self) -> GoalRule:
        """The difference itself is the guess of a continuous skill; discrete skills are told by its direction."""
        return "own" if isinstance(self.skills, ContinuousSkills) else "direction"

    def towards(
        self, state: VicState, obs: Float[Array, "batch obs"], goal: Float[Array, "batch obs"]
    ) -> Float[Array, "batch skill"]:
        """The skill the discriminator expects of an episode from here to the goal."""
        guess = jax.vmap(state.encoder)(goal) - jax.vmap(state.encoder)(obs)
        return guessed(self.skills, guess)

    def restored(self, kept: Mapping[str, Any]) -> VicState:
        return VicState(kept["encoder"], opt=())


def _last(batch: Transition) -> Bool[Array, " batch"]:
    """Which transitions end an episode, for whatever reason."""
    return batch.terminated | batch.truncated
