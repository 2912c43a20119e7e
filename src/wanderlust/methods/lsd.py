"""LSD: Lipschitz-constrained Skill Discovery (Park et al., ICLR 2022). Equations are numbered as in the paper.

A map phi of the state space that cannot stretch distances, and skills that move far along their own direction in
it: since ||phi(s_T) - phi(s_0)|| <= ||s_T - s_0||, to earn the reward is to travel.
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
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, SpectralState, displacements, init_mlp, measure_spectral, normalise

# --- state -----------------------------------------------------------------------------------------------------


class LsdState(NamedTuple):
    """phi's raw weights, what normalises them, and the optimiser."""

    encoder: MLP
    spectral: SpectralState
    opt: optax.OptState


@dataclasses.dataclass(frozen=True)
class Lsd(Method):
    """Continuous and discrete LSD: they differ only in the code of a skill (`skills.py`)."""

    config: MethodConfig
    skills: SkillSpace

    def init(self, key: Key[Array, ""], obs_dim: int) -> LsdState:
        encoder = init_mlp(key, (obs_dim, *self.config.hidden, self.skills.size), GLOROT_UNIFORM)
        return LsdState(encoder, measure_spectral(encoder), self._optimizer.init(encoder))

    # --- reward ------------------------------------------------------------------------------------------------

    def reward(self, state: LsdState, batch: Transition) -> Float[Array, " batch"]:
        """r = (phi(s') - phi(s))^T z: equation 8; with the zero-centred codes of discrete skills, equation 14."""
        return self._rewards(normalise(state.encoder, state.spectral), batch)

    def _rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        step = displacements(phi, batch.obs, batch.next_obs)
        return jnp.sum(step * jax.vmap(self.skills.code)(batch.skill), axis=1)

    # --- loss and update ---------------------------------------------------------------------------------------

    def loss(self, encoder: MLP, spectral: SpectralState, batch: Transition) -> Float[Array, ""]:
        """phi maximises the same reward (equation 6), under spectral normalisation."""
        return -jnp.mean(self._rewards(normalise(encoder, spectral), batch))

    def update(self, state: LsdState, batch: Transition) -> tuple[LsdState, Metrics]:
        loss, grads = jax.value_and_grad(self.loss)(state.encoder, state.spectral, batch)
        updates, opt = self._optimizer.update(grads, state.opt)
        encoder = optax.apply_updates(state.encoder, updates)
        return LsdState(encoder, measure_spectral(encoder), opt), {"phi_loss": loss}

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.config.learning_rate)

    # --- downstream --------------------------------------------------------------------------------------------

    goal_rule: ClassVar[GoalRule] = "direction"

    def restored(self, kept: Mapping[str, Any]) -> LsdState:
        """Norms are measured, not kept: the Lipschitz bound holds for the very weights that were read."""
        return LsdState(kept["encoder"], measure_spectral(kept["encoder"]), opt=())

    def network(self, state: LsdState) -> MLP:
        return normalise(state.encoder, state.spectral)
