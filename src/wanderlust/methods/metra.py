"""METRA: Metric-Aware Abstraction (Park, Rybkin, Levine, ICLR 2024).

A map phi in which no step is longer than 1, so that distances in it count steps, and skills that move far along their
own direction in it. Units of the state play no part: what takes many steps to cross is wide.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from wanderlust.config import MetraConfig
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import GoalRule, Method, Metrics
from wanderlust.methods.skills import SkillSpace
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, descend, displacements, init_mlp

Params = TypeVar("Params")

# --- state -----------------------------------------------------------------------------------------------------


class MetraState(NamedTuple):
    """phi, the multiplier of its constraint, and an optimiser of each."""

    encoder: MLP
    log_multiplier: Float[Array, ""]
    opt: optax.OptState
    multiplier_opt: optax.OptState


@dataclasses.dataclass(frozen=True)
class Metra(Method):
    """Continuous and discrete METRA: they differ only in the code of a skill (`skills.py`)."""

    config: MetraConfig
    skills: SkillSpace

    def init(self, key: Key[Array, ""], obs_dim: int) -> MetraState:
        encoder = init_mlp(key, (obs_dim, *self.config.hidden, self.skills.size), GLOROT_UNIFORM)
        log_multiplier = jnp.log(jnp.float32(self.config.multiplier))
        return MetraState(encoder, log_multiplier, self._optimizer.init(encoder), self._optimizer.init(log_multiplier))

    # --- reward ------------------------------------------------------------------------------------------------

    def reward(self, state: MetraState, batch: Transition) -> Float[Array, " batch"]:
        """r = (phi(s') - phi(s))^T z, with the zero-centred code of a discrete skill."""
        return self._along_skill(displacements(state.encoder, batch.obs, batch.next_obs), batch)

    def _along_skill(self, step: Float[Array, "batch code"], batch: Transition) -> Float[Array, " batch"]:
        return jnp.sum(step * jax.vmap(self.skills.code)(batch.skill), axis=1)

    # --- losses and update -------------------------------------------------------------------------------------

    def loss(
        self, encoder: MLP, log_multiplier: Float[Array, ""], batch: Transition
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """phi maximises r + lambda min(1 - ||phi(s') - phi(s)||^2, slack); and the mean of that minimum."""
        step = displacements(encoder, batch.obs, batch.next_obs)
        # beyond the slack there is nothing to gain: steps that are short enough are not made shorter
        room = jnp.minimum(1.0 - jnp.sum(step**2, axis=1), self.config.slack)
        objective = self._along_skill(step, batch) + jnp.exp(log_multiplier) * room
        return -jnp.mean(objective), jnp.mean(room)

    def multiplier_loss(self, log_multiplier: Float[Array, ""], room: Float[Array, ""]) -> Float[Array, ""]:
        """Moves lambda up while steps are too long on average, down while they are not: dual gradient descent."""
        return log_multiplier * room

    def update(self, state: MetraState, batch: Transition) -> tuple[MetraState, Metrics]:
        (loss, room), grads = jax.value_and_grad(self.loss, has_aux=True)(state.encoder, state.log_multiplier, batch)
        encoder, opt = descend(self._optimizer, grads, state.opt, state.encoder)
        grad = jax.grad(self.multiplier_loss)(state.log_multiplier, room)
        log_multiplier, multiplier_opt = descend(self._optimizer, grad, state.multiplier_opt, state.log_multiplier)
        metrics = {"phi_loss": loss, "multiplier": jnp.exp(state.log_multiplier), "constraint": room}
        return MetraState(encoder, log_multiplier, opt, multiplier_opt), metrics

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.config.learning_rate)

    # --- downstream --------------------------------------------------------------------------------------------

    goal_rule: ClassVar[GoalRule] = "direction"

    def restored(self, kept: Mapping[str, Any]) -> MetraState:
        return MetraState(kept["encoder"], jnp.zeros(()), opt=(), multiplier_opt=())
