"""VISR (Hansen et al., ICLR 2020) as the LSD paper runs it. Equations are numbered as in the LSD paper.

A discriminator over directions: q(z|s) is the von Mises-Fisher distribution around phi(s) / ||phi(s)|| with scale 1, so
that its log-density is the cosine between phi(s) and the skill. Of VISR this is the unsupervised objective alone: no
successor features, and the critics are those of any other method.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from wanderlust.config import MethodConfig
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import GoalRule, Method, Metrics
from wanderlust.methods.skills import SkillSpace
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, directions, init_mlp

# --- state -----------------------------------------------------------------------------------------------------


class VisrState(NamedTuple):
    """phi's weights and its optimiser."""

    encoder: MLP
    opt: optax.OptState


@dataclasses.dataclass(frozen=True)
class Visr(Method):
    """Continuous and discrete VISR: a one-hot is a direction like any other."""

    config: MethodConfig
    skills: SkillSpace

    def init(self, key: Key[Array, ""], obs_dim: int) -> VisrState:
        encoder = init_mlp(key, (obs_dim, *self.config.hidden, self.skills.size), GLOROT_UNIFORM)
        return VisrState(encoder, self._optimizer.init(encoder))

    # --- reward ------------------------------------------------------------------------------------------------

    def reward(self, state: VisrState, batch: Transition) -> Float[Array, " batch"]:
        """r = log q(z|s) without its constants, equation 10: the cosine between phi of the current state and z."""
        return self._rewards(state.encoder, batch)

    def _rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        return jnp.sum(directions(jax.vmap(phi)(batch.obs)) * directions(batch.skill), axis=1)

    # --- loss and update ---------------------------------------------------------------------------------------

    def loss(self, encoder: MLP, batch: Transition) -> Float[Array, ""]:
        """Maximum likelihood of the skill: phi maximises the same reward."""
        return -jnp.mean(self._rewards(encoder, batch))

    def update(self, state: VisrState, batch: Transition) -> tuple[VisrState, Metrics]:
        loss, grads = jax.value_and_grad(self.loss)(state.encoder, batch)
        updates, opt = self._optimizer.update(grads, state.opt)
        return VisrState(optax.apply_updates(state.encoder, updates), opt), {"phi_loss": loss}

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.config.learning_rate)

    # --- downstream --------------------------------------------------------------------------------------------

    goal_rule: ClassVar[GoalRule] = "goal"

    def restored(self, kept: Mapping[str, Any]) -> VisrState:
        return VisrState(kept["encoder"], opt=())
