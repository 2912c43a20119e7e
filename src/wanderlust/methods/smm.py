"""SMM: State Marginal Matching (Lee et al., 2019) towards a uniform distribution, as EDL explores with it.

A few skills share the work of visiting everything: a state is worth more the more rarely it is visited, and the more
clearly it belongs to one skill. A variational autoencoder of (next state, skill) estimates how rarely: it has learned
to rebuild what is visited often, and the squared error of what it rebuilds stands for -log p.
"""

import dataclasses
import math
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from wanderlust.config import Count, MethodConfig, Positive, SkillConfig, Weight
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import NOTHING, GoalRule, Metrics
from wanderlust.methods.encoder import EncoderMethod
from wanderlust.methods.skills import log_likelihood
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, descend, init_mlp

LARGEST_LOG_VARIANCE = 20.0
"""Of a code, either way: a state far from all that was learned must not overflow."""


@dataclasses.dataclass(frozen=True)
class SmmConfig(MethodConfig):
    """SMM: a discriminator of skills, and a variational autoencoder whose error says how rarely a state is seen."""

    name: str = "smm"
    skill_weight: Weight = 1.0
    """Weight of telling skills apart, in the reward."""
    density_weight: Weight = 0.5
    """Of being rarely seen, in the reward."""
    density_learning_rate: Positive = 1e-3
    """Of the autoencoder; learning_rate is the discriminator's."""
    code: Count = 64
    """Entries of the autoencoder's code."""
    beta: Positive = 1.0
    """Weight of the code's divergence from its prior in the autoencoder's loss."""


class Autoencoder(NamedTuple):
    """q(code|x) = N(mean, variance), two outputs of the encoder; x is rebuilt from a code drawn from it."""

    encoder: MLP
    decoder: MLP


class SmmState(NamedTuple):
    """The discriminator and the autoencoder, and what draws its codes."""

    encoder: MLP
    """The discriminator: state -> logits of the skills."""
    density: Autoencoder = NOTHING
    key: Key[Array, ""] = NOTHING
    opt: optax.OptState = NOTHING
    density_opt: optax.OptState = NOTHING


@dataclasses.dataclass(frozen=True)
class Smm(EncoderMethod):
    """SMM of discrete skills."""

    config: SmmConfig

    Config = SmmConfig
    State = SmmState
    takes = ("discrete",)
    usual_skills = SkillConfig("discrete", 4)
    goal_rule: ClassVar[GoalRule] = "goal"

    def init(self, key: Key[Array, ""], obs_dim: int) -> SmmState:
        discriminator, encoder, decoder, draws = jax.random.split(key, 4)
        c, seen = self.config, obs_dim + self.skills.size
        phi = self.init_encoder(discriminator, obs_dim)
        density = Autoencoder(
            init_mlp(encoder, (seen, *c.hidden, 2 * c.code), GLOROT_UNIFORM),
            init_mlp(decoder, (c.code, *c.hidden, seen), GLOROT_UNIFORM),
        )
        density_opt = optax.adam(c.density_learning_rate).init(density)
        return SmmState(phi, density, draws, self._optimizer.init(phi), density_opt)

    def rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        """log q(z|s'): the discriminator learns by maximum likelihood of the skill, and has no part in the rest."""
        return log_likelihood(self.skills, jax.vmap(phi)(batch.next_obs), batch.skill)

    def reward(self, state: SmmState, batch: Transition) -> Float[Array, " batch"]:
        """r = w_z (log q(z|s') + log N) + w_p ||x - rebuilt(x)||^2, where x = (s', z)."""
        told_apart = super().reward(state, batch) + math.log(self.skills.size)
        error, _ = self._rebuilt(state.density, batch, state.key)
        return self.config.skill_weight * told_apart + self.config.density_weight * jnp.sum(error, axis=1)

    def _rebuilt(
        self, density: Autoencoder, batch: Transition, key: Key[Array, ""]
    ) -> tuple[Float[Array, "batch x"], Float[Array, " batch"]]:
        """The squared error of every entry of x, rebuilt from one draw of its code; and KL(q(code|x), N(0, I))."""
        x = jnp.concatenate([batch.next_obs, batch.skill], axis=1)
        mean, log_variance = jnp.split(jax.vmap(density.encoder)(x), 2, axis=1)
        log_variance = jnp.clip(log_variance, -LARGEST_LOG_VARIANCE, LARGEST_LOG_VARIANCE)
        code = mean + jnp.exp(0.5 * log_variance) * jax.random.normal(key, mean.shape)
        divergence = 0.5 * jnp.sum(mean**2 + jnp.exp(log_variance) - 1.0 - log_variance, axis=1)
        return (x - jax.vmap(density.decoder)(code)) ** 2, divergence

    def density_loss(
        self, density: Autoencoder, batch: Transition, key: Key[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """beta KL + the error, as a mean over batch and entries; and the error as a reward counts it."""
        error, divergence = self._rebuilt(density, batch, key)
        novelty = jnp.mean(jnp.sum(error, axis=1))
        return self.config.beta * jnp.mean(divergence) + jnp.mean(error), novelty

    def update(self, state: SmmState, batch: Transition) -> tuple[SmmState, Metrics]:
        """One step of the discriminator and one of the autoencoder; the next rewards draw new codes."""
        after, metrics = super().update(state, batch)
        key, draw = jax.random.split(state.key)
        (density_loss, novelty), grads = jax.value_and_grad(self.density_loss, has_aux=True)(state.density, batch, draw)
        optimizer = optax.adam(self.config.density_learning_rate)
        density, density_opt = descend(optimizer, grads, state.density_opt, state.density)
        after = after._replace(density=density, key=key, density_opt=density_opt)
        return after, {**metrics, "density_loss": density_loss, "novelty": novelty}
