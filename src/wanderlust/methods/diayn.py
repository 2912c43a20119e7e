"""DIAYN (Eysenbach et al., ICLR 2019) as the LSD paper runs it. Equations are numbered as in the LSD paper.

A discriminator guesses the skill from the next state, and the reward is how well it does: states that tell skills
apart are enough, however close together they are. Continuous skills: q(z|s') = N(phi(s'), I), the unit variance of
equation 9, or N(phi(s'), sigma(s')^2) with a second network for log sigma, as in the authors' later code; discrete
skills: a softmax over phi(s').
"""

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from wanderlust.config import MethodConfig, RunConfig
from wanderlust.envs.spec import Transition
from wanderlust.errors import require
from wanderlust.methods.base import GoalRule, Metrics
from wanderlust.methods.encoder import EncoderMethod
from wanderlust.methods.skills import guessed, log_likelihood
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, descend, init_mlp

LEAST_LOG_STD = math.log(1e-6)
"""Of a learned variance, as in the authors' later code; there is no upper bound."""


@dataclasses.dataclass(frozen=True)
class DiaynConfig(MethodConfig):
    """DIAYN's configuration."""

    learned_variance: bool = False
    """Continuous skills: the discriminator also learns the variance of its guess, in a network of its own. The reward
    then has no upper bound."""

    def check(self, run: RunConfig) -> None:
        require(
            not self.learned_variance or run.skills.kind == "continuous",
            "method.learned_variance is true; it is of continuous skills, discrete ones are guessed by a softmax",
        )


class DiaynState(NamedTuple):
    """The discriminator and its optimiser."""

    encoder: MLP
    """phi, the mean of the guess or its logits."""
    opt: optax.OptState = ()
    log_std: Any = ()
    """Of a learned variance; nothing where it is 1. Use needs the mean alone."""


@dataclasses.dataclass(frozen=True)
class Diayn(EncoderMethod):
    """Continuous and discrete DIAYN: they differ in the discriminator's distribution."""

    Config = DiaynConfig
    State = DiaynState
    entropy = None
    goal_rule: ClassVar[GoalRule] = "goal"

    def rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        """r = log q(z|s') without its constants: -||z - phi(s')||^2 / 2, or the log-softmax at the skill.

        The discriminator maximises the same: the likelihood of the skill.
        """
        return log_likelihood(self.skills, jax.vmap(phi)(batch.next_obs), batch.skill)

    @property
    def learns_variance(self) -> bool:
        """Whether there is a network for it."""
        return isinstance(self.config, DiaynConfig) and self.config.learned_variance

    def init(self, key: Key[Array, ""], obs_dim: int) -> Any:
        encoder = self.init_encoder(key, obs_dim)
        if not self.learns_variance:
            return DiaynState(encoder, self._optimizer.init(encoder))
        sizes = (obs_dim, *self.config.hidden, self.skills.size)
        log_std = init_mlp(jax.random.fold_in(key, 1), sizes, GLOROT_UNIFORM)
        return DiaynState(encoder, self._optimizer.init((encoder, log_std)), log_std)

    def reward(self, state: DiaynState, batch: Transition) -> Float[Array, " batch"]:
        if self.learns_variance:
            return self.scaled_rewards(state.encoder, state.log_std, batch)
        return self.rewards(state.encoder, batch)

    def scaled_rewards(self, phi: MLP, log_std: MLP, batch: Transition) -> Float[Array, " batch"]:
        """r = log N(z; phi(s'), sigma^2) without its constant: -||(z - phi(s')) / sigma||^2 / 2 - sum log sigma."""
        logs = jnp.maximum(jax.vmap(log_std)(batch.next_obs), LEAST_LOG_STD)
        apart = (batch.skill - jax.vmap(phi)(batch.next_obs)) * jnp.exp(-logs)
        return -0.5 * jnp.sum(apart**2, axis=1) - jnp.sum(logs, axis=1)

    def update(self, state: DiaynState, batch: Transition) -> tuple[DiaynState, Metrics]:
        """One gradient step of the discriminator, its variance included if that is learned."""
        if not self.learns_variance:
            fixed: tuple[DiaynState, Metrics] = super().update(state, batch)
            return fixed

        def loss_of(both: tuple[MLP, MLP]) -> Float[Array, ""]:
            return -jnp.mean(self.scaled_rewards(*both, batch))

        both = (state.encoder, state.log_std)
        loss, grads = jax.value_and_grad(loss_of)(both)
        (encoder, log_std), opt = descend(self._optimizer, grads, state.opt, both)
        return DiaynState(encoder, opt, log_std), {"phi_loss": loss}

    def towards(
        self, state: DiaynState, obs: Float[Array, "batch obs"], goal: Float[Array, "batch obs"]
    ) -> Float[Array, "batch skill"]:
        """The skill the discriminator expects at the goal: z = mu(g), or the likeliest one. The start plays no part."""
        return guessed(self.skills, self.represent(state, goal))
