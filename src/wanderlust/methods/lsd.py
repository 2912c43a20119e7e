"""LSD: Lipschitz-constrained Skill Discovery (Park et al., ICLR 2022). Equations are numbered as in the paper.

A map phi of the state space that cannot stretch distances, and skills that move far along their own direction in
it: since ||phi(s_T) - phi(s_0)|| <= ||s_T - s_0||, to earn the reward is to travel.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import optax
from jaxtyping import Array, Float, Key

from wanderlust.envs.spec import Transition
from wanderlust.methods.base import GoalRule, Metrics
from wanderlust.methods.encoder import EncoderMethod
from wanderlust.rl.nets import MLP, SpectralState, displacements, measure_spectral, normalise


class LsdState(NamedTuple):
    """phi's raw weights, what normalises them, and the optimiser."""

    encoder: MLP
    spectral: SpectralState
    opt: optax.OptState = ()


@dataclasses.dataclass(frozen=True)
class Lsd(EncoderMethod):
    """Continuous and discrete LSD: they differ only in the code of a skill (`skills.py`)."""

    in_units = True

    @property
    def goal_rule(self) -> GoalRule:
        return "direction"

    def rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        """r = (phi(s') - phi(s))^T z: equation 8; with the zero-centred codes of discrete skills, equation 14.

        phi maximises the same (equation 6), under spectral normalisation.
        """
        return self.along_skill(displacements(phi, batch.obs, batch.next_obs), batch)

    def measure(self, encoder: MLP) -> SpectralState:
        """What normalises these weights."""
        return measure_spectral(encoder)

    def network(self, state: LsdState) -> MLP:
        return normalise(state.encoder, state.spectral)

    def init(self, key: Key[Array, ""], obs_dim: int) -> LsdState:
        encoder = self.init_encoder(key, obs_dim)
        return LsdState(encoder, self.measure(encoder), self._optimizer.init(encoder))

    def update(self, state: LsdState, batch: Transition) -> tuple[LsdState, Metrics]:
        state, metrics = super().update(state, batch)
        return state._replace(spectral=self.measure(state.encoder)), metrics

    def restored(self, kept: Mapping[str, Any]) -> LsdState:
        """Norms are measured, not kept: the Lipschitz bound holds for the very weights that were read."""
        return LsdState(kept["encoder"], self.measure(kept["encoder"]))
