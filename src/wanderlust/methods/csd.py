"""CSD: Controllability-aware Skill Discovery (Park, Lee, Lee, Abbeel, ICML 2023), as its authors run it on locomotion.

A map phi in which a step may be as long as it is surprising, and skills that move far along their own direction in it.
A model of steps is learned beside phi: what the skills do all the time becomes likely and therefore short, so that
what is hard to control is what remains worth doing.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from wanderlust.config import CsdConfig
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import GoalRule, Method, Metrics
from wanderlust.methods.skills import SkillSpace
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, descend, displacements, init_mlp

Params = TypeVar("Params")
LOG_STD_RANGE = (math.log(1e-6), math.log(1e6))

# --- state -----------------------------------------------------------------------------------------------------


class CsdState(NamedTuple):
    """phi, the model of steps, the multiplier of the constraint, and an optimiser of each."""

    encoder: MLP
    model: MLP
    """q(s' - s | s): the means of a diagonal normal, then the logarithms of its standard deviations."""
    log_multiplier: Float[Array, ""]
    opt: optax.OptState
    model_opt: optax.OptState
    multiplier_opt: optax.OptState


@dataclasses.dataclass(frozen=True)
class Csd(Method):
    """Continuous and discrete CSD: they differ only in the code of a skill (`skills.py`)."""

    config: CsdConfig
    skills: SkillSpace

    def init(self, key: Key[Array, ""], obs_dim: int) -> CsdState:
        phi_key, model_key = jax.random.split(key)
        encoder = init_mlp(phi_key, (obs_dim, *self.config.hidden, self.skills.size), GLOROT_UNIFORM)
        model = init_mlp(model_key, (obs_dim, *self.config.hidden, 2 * obs_dim), GLOROT_UNIFORM)
        log_multiplier = jnp.log(jnp.float32(self.config.multiplier))
        opts = (self._optimizer.init(learned) for learned in (encoder, model, log_multiplier))
        return CsdState(encoder, model, log_multiplier, *opts)

    # --- reward ------------------------------------------------------------------------------------------------

    def reward(self, state: CsdState, batch: Transition) -> Float[Array, " batch"]:
        """r = (phi(s') - phi(s))^T z, with the zero-centred code of a discrete skill."""
        return self._along_skill(displacements(state.encoder, batch.obs, batch.next_obs), batch)

    def _along_skill(self, step: Float[Array, "batch code"], batch: Transition) -> Float[Array, " batch"]:
        return jnp.sum(step * jax.vmap(self.skills.code)(batch.skill), axis=1)

    # --- losses and update -------------------------------------------------------------------------------------

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

    def loss(
        self, encoder: MLP, log_multiplier: Float[Array, ""], surprise: Float[Array, " batch"], batch: Transition
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """phi maximises r + lambda min(d - mean_j (phi_j(s') - phi_j(s))^2, slack); and the mean of that minimum."""
        step = displacements(encoder, batch.obs, batch.next_obs)
        # beyond the slack there is nothing to gain: steps that are short enough are not made shorter
        room = jnp.minimum(surprise - jnp.mean(step**2, axis=1), self.config.slack)
        objective = self._along_skill(step, batch) + jnp.exp(log_multiplier) * room
        return -jnp.mean(objective), jnp.mean(room)

    def multiplier_loss(self, log_multiplier: Float[Array, ""], room: Float[Array, ""]) -> Float[Array, ""]:
        """Moves lambda up while steps are too long on average, down while they are not: dual gradient descent."""
        return log_multiplier * room

    def update(self, state: CsdState, batch: Transition) -> tuple[CsdState, Metrics]:
        """One step each of phi, model and multiplier, all from the state before it."""
        (model_loss, surprise), grads = jax.value_and_grad(self.model_loss, has_aux=True)(state.model, batch)
        model, model_opt = descend(self._optimizer, grads, state.model_opt, state.model)

        (loss, room), grads = jax.value_and_grad(self.loss, has_aux=True)(
            state.encoder, state.log_multiplier, surprise, batch
        )
        encoder, opt = descend(self._optimizer, grads, state.opt, state.encoder)

        grad = jax.grad(self.multiplier_loss)(state.log_multiplier, room)
        log_multiplier, multiplier_opt = descend(self._optimizer, grad, state.multiplier_opt, state.log_multiplier)

        metrics = {
            "phi_loss": loss,
            "model_loss": model_loss,
            "multiplier": jnp.exp(state.log_multiplier),
            "constraint": room,
        }
        return CsdState(encoder, model, log_multiplier, opt, model_opt, multiplier_opt), metrics

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.config.learning_rate)

    # --- downstream --------------------------------------------------------------------------------------------

    goal_rule: ClassVar[GoalRule] = "direction"

    def restored(self, kept: Mapping[str, Any]) -> CsdState:
        """The model of steps matters to learning alone."""
        encoder = kept["encoder"]
        nothing = MLP((), encoder.activation)
        return CsdState(encoder, nothing, jnp.zeros(()), opt=(), model_opt=(), multiplier_opt=())
