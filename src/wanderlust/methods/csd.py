"""CSD: Controllability-aware Skill Discovery (Park, Lee, Lee, Abbeel, ICML 2023), as its authors run it on locomotion.

A map phi in which a step may be as long as it is surprising, and skills that move far along their own direction in it.
A model of steps is learned beside phi: what the skills do all the time becomes likely and therefore short, so that
what is hard to control is what remains worth doing. All but the bound of a step is as in METRA (`metra.py`).
"""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from wanderlust.config import SkillConfig
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import NOTHING, Metrics
from wanderlust.methods.metra import Metra, MetraConfig
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, descend, init_mlp

LOG_STD_RANGE = (math.log(1e-6), math.log(1e6))


@dataclasses.dataclass(frozen=True)
class CsdConfig(MetraConfig):
    """CSD: phi bounded by how surprising a step is, under a learned model of steps."""

    name: str = "csd"
    multiplier: float = 3000.0
    """The Lagrange multiplier at the start."""
    slack: float = 1e-6


class CsdState(NamedTuple):
    """phi, the model of steps, the multiplier of the constraint, and an optimiser of each."""

    encoder: MLP
    model: MLP = NOTHING
    """q(s' - s | s): the means of a diagonal normal, then the logarithms of its standard deviations."""
    log_multiplier: Float[Array, ""] = NOTHING
    opt: optax.OptState = NOTHING
    model_opt: optax.OptState = NOTHING
    multiplier_opt: optax.OptState = NOTHING


@dataclasses.dataclass(frozen=True)
class Csd(Metra):
    """Continuous and discrete CSD: they differ only in the code of a skill (`skills.py`)."""

    config: CsdConfig

    Config = CsdConfig
    State = CsdState
    usual_skills = SkillConfig()
    entropy = 1.0

    def init(self, key: Key[Array, ""], obs_dim: int) -> CsdState:
        phi_key, model_key = jax.random.split(key)
        encoder = self.init_encoder(phi_key, obs_dim)
        model = init_mlp(model_key, (obs_dim, *self.config.hidden, 2 * obs_dim), GLOROT_UNIFORM)
        log_multiplier = jnp.log(jnp.float32(self.config.multiplier))
        opts = (self._optimizer.init(learned) for learned in (encoder, model, log_multiplier))
        return CsdState(encoder, model, log_multiplier, *opts)

    def squared_length(self, step: Float[Array, "batch code"]) -> Float[Array, " batch"]:
        """mean_j (phi_j(s') - phi_j(s))^2, to compare with d, which is a mean over entries as well."""
        return jnp.mean(step**2, axis=1)

    def model_loss(self, model: MLP, batch: Transition) -> tuple[Float[Array, ""], Float[Array, " batch"]]:
        """-log q(s' - s | s); and how surprising each step is, which is the controllability-aware distance d(s, s').

        d is the mean over the state's entries of (s' - s - mu)^2, each weighted by its precision in units of their
        geometric mean: entries count by how hard they are to move, and how sure the model is overall does not matter.
        """
        mean, log_std = jnp.split(jax.vmap(model)(batch.obs), 2, axis=1)
        log_std = jnp.clip(log_std, *LOG_STD_RANGE)
        error = batch.next_obs - batch.obs - mean
        log_density = -0.5 * (error * jnp.exp(-log_std)) ** 2 - log_std - 0.5 * jnp.log(2.0 * jnp.pi)
        weight = jnp.exp(2.0 * (jnp.mean(log_std, axis=1, keepdims=True) - log_std))
        return -jnp.mean(jnp.sum(log_density, axis=1)), jnp.mean(error**2 * weight, axis=1)

    def update(self, state: CsdState, batch: Transition) -> tuple[CsdState, Metrics]:
        """One step each of phi, model and multiplier, all from the state before it; d bounds the steps of phi."""
        (model_loss, surprise), grads = jax.value_and_grad(self.model_loss, has_aux=True)(state.model, batch)
        model, model_opt = descend(self._optimizer, grads, state.model_opt, state.model)
        state, metrics = self.update_under(surprise, state, batch)
        return state._replace(model=model, model_opt=model_opt), {**metrics, "model_loss": model_loss}
