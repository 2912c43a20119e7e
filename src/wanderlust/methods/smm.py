"""SMM: State Marginal Matching (Lee et al., 2019) towards a uniform distribution, as EDL explores with it.

A few skills share the work of visiting everything: a state is worth more the more rarely it is visited, and the more
clearly it belongs to one skill. How rarely is told by a variational autoencoder of (next state, skill): it has learned
to rebuild what is visited often, and the squared error of what it rebuilds stands for -log p.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from wanderlust.config import SmmConfig
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import GoalRule, Method, Metrics, discrete_only
from wanderlust.methods.skills import SkillSpace
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, init_mlp

LARGEST_LOG_VARIANCE = 20.0
"""Of a code, either way: a state far from all that was learned must not overflow."""

# --- state -----------------------------------------------------------------------------------------------------


class Autoencoder(NamedTuple):
    """q(code|x) = N(mean, variance), two outputs of the encoder; x is rebuilt from a code drawn from it."""

    encoder: MLP
    decoder: MLP


class SmmState(NamedTuple):
    """The discriminator and the autoencoder, and what draws its codes."""

    encoder: MLP
    """The discriminator: state -> logits of the skills."""
    density: Autoencoder
    key: Key[Array, ""]
    opt: optax.OptState
    density_opt: optax.OptState


@dataclasses.dataclass(frozen=True)
class Smm(Method):
    """SMM of discrete skills."""

    config: SmmConfig
    skills: SkillSpace

    def __post_init__(self) -> None:
        discrete_only("smm", self.skills, 4)

    def init(self, key: Key[Array, ""], obs_dim: int) -> SmmState:
        discriminator, encoder, decoder, draws = jax.random.split(key, 4)
        c, seen, skills = self.config, obs_dim + self.skills.size, self.skills.size
        phi = init_mlp(discriminator, (obs_dim, *c.hidden, skills), GLOROT_UNIFORM)
        density = Autoencoder(
            init_mlp(encoder, (seen, *c.hidden, 2 * c.code), GLOROT_UNIFORM),
            init_mlp(decoder, (c.code, *c.hidden, seen), GLOROT_UNIFORM),
        )
        return SmmState(phi, density, draws, self._optimizer.init(phi), self._density_optimizer.init(density))

    # --- reward ------------------------------------------------------------------------------------------------

    def reward(self, state: SmmState, batch: Transition) -> Float[Array, " batch"]:
        """r = w_z (log q(z|s') + log N) + w_p ||x - rebuilt(x)||^2, where x = (s', z)."""
        told_apart = _log_q(state.encoder, batch) + math.log(self.skills.size)
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

    # --- losses and update -------------------------------------------------------------------------------------

    def loss(self, encoder: MLP, batch: Transition) -> Float[Array, ""]:
        """Maximum likelihood of the skill."""
        return -jnp.mean(_log_q(encoder, batch))

    def density_loss(
        self, density: Autoencoder, batch: Transition, key: Key[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """beta KL + the error, as a mean over batch and entries; and the error as a reward counts it."""
        error, divergence = self._rebuilt(density, batch, key)
        novelty = jnp.mean(jnp.sum(error, axis=1))
        return self.config.beta * jnp.mean(divergence) + jnp.mean(error), novelty

    def update(self, state: SmmState, batch: Transition) -> tuple[SmmState, Metrics]:
        """One step of the discriminator and one of the autoencoder; the next rewards draw new codes."""
        loss, grads = jax.value_and_grad(self.loss)(state.encoder, batch)
        updates, opt = self._optimizer.update(grads, state.opt)
        key, draw = jax.random.split(state.key)
        (density_loss, novelty), density_grads = jax.value_and_grad(self.density_loss, has_aux=True)(
            state.density, batch, draw
        )
        density_updates, density_opt = self._density_optimizer.update(density_grads, state.density_opt)
        after = SmmState(
            encoder=optax.apply_updates(state.encoder, updates),
            density=optax.apply_updates(state.density, density_updates),
            key=key,
            opt=opt,
            density_opt=density_opt,
        )
        return after, {"phi_loss": loss, "density_loss": density_loss, "novelty": novelty}

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.config.learning_rate)

    @property
    def _density_optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.config.density_learning_rate)

    # --- downstream --------------------------------------------------------------------------------------------

    goal_rule: ClassVar[GoalRule] = "goal"

    def restored(self, kept: Mapping[str, Any]) -> SmmState:
        """The density matters to learning alone."""
        nothing = MLP((), kept["encoder"].activation)
        density = Autoencoder(nothing, nothing)
        return SmmState(kept["encoder"], density, jax.random.key(0), opt=(), density_opt=())


def _log_q(discriminator: MLP, batch: Transition) -> Float[Array, " batch"]:
    """log q(z|s')."""
    logits = jax.vmap(discriminator)(batch.next_obs)
    return jnp.sum(jax.nn.log_softmax(logits, axis=1) * batch.skill, axis=1)
