"""METRA: Metric-Aware Abstraction (Park, Rybkin, Levine, ICLR 2024).

A map phi in which no step is longer than 1, so that distances in it count steps, and skills that move far along their
own direction in it. Units of the state play no part: what takes many steps to cross is wide.
"""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from wanderlust.config import MethodConfig, Positive, SkillConfig
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import NOTHING, GoalRule, Metrics
from wanderlust.methods.encoder import EncoderMethod
from wanderlust.rl.nets import MLP, descend, displacements


@dataclasses.dataclass(frozen=True)
class MetraConfig(MethodConfig):
    """METRA: LSD's reward, with phi bounded over neighbouring states by a Lagrange multiplier."""

    name: str = "metra"
    multiplier: Positive = 30.0
    """The Lagrange multiplier at the start."""
    slack: Positive = 1e-3


class MetraState(NamedTuple):
    """phi, the multiplier of its constraint, and an optimiser of each."""

    encoder: MLP
    log_multiplier: Float[Array, ""] = NOTHING
    opt: optax.OptState = NOTHING
    multiplier_opt: optax.OptState = NOTHING


@dataclasses.dataclass(frozen=True)
class Metra(EncoderMethod):
    """Continuous and discrete METRA: they differ only in the code of a skill (`skills.py`)."""

    config: MetraConfig

    Config = MetraConfig
    State: ClassVar[type[Any]] = MetraState
    usual_skills = SkillConfig(unit_length=True)
    entropy = 4.0
    goal_rule: ClassVar[GoalRule] = "direction"

    def init(self, key: Key[Array, ""], obs_dim: int) -> Any:
        encoder = self.init_encoder(key, obs_dim)
        log_multiplier = jnp.log(jnp.float32(self.config.multiplier))
        return MetraState(encoder, log_multiplier, self._optimizer.init(encoder), self._optimizer.init(log_multiplier))

    def rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        """r = (phi(s') - phi(s))^T z, with the zero-centred code of a discrete skill."""
        return self.along_skill(displacements(phi, batch.obs, batch.next_obs), batch)

    def squared_length(self, step: Float[Array, "batch code"]) -> Float[Array, " batch"]:
        """||phi(s') - phi(s)||^2."""
        return jnp.sum(step**2, axis=1)

    def constrained_loss(
        self, encoder: MLP, log_multiplier: Float[Array, ""], bound: Float[Array, " batch"] | float, batch: Transition
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """phi maximises r + lambda min(bound - ||phi(s') - phi(s)||^2, slack); and the mean of that minimum."""
        step = displacements(encoder, batch.obs, batch.next_obs)
        # beyond the slack there is nothing to gain: steps that are short enough are not made shorter
        room = jnp.minimum(bound - self.squared_length(step), self.config.slack)
        objective = self.along_skill(step, batch) + jnp.exp(log_multiplier) * room
        return -jnp.mean(objective), jnp.mean(room)

    def update(self, state: Any, batch: Transition) -> tuple[Any, Metrics]:
        return self.update_under(1.0, state, batch)

    def update_under(self, bound: Float[Array, " batch"] | float, state: Any, batch: Transition) -> tuple[Any, Metrics]:
        """One step each of phi and multiplier, both from the state before it."""
        loss_of = jax.value_and_grad(self.constrained_loss, has_aux=True)
        (loss, room), grads = loss_of(state.encoder, state.log_multiplier, bound, batch)
        encoder, opt = descend(self._optimizer, grads, state.opt, state.encoder)
        # dual gradient descent: lambda goes up while steps are too long on average, down while they are not
        log_multiplier, multiplier_opt = descend(self._optimizer, room, state.multiplier_opt, state.log_multiplier)
        after = state._replace(encoder=encoder, log_multiplier=log_multiplier, opt=opt, multiplier_opt=multiplier_opt)
        return after, {"phi_loss": loss, "multiplier": jnp.exp(state.log_multiplier), "constraint": room}
