"""The ablation grid of the LSD paper (its appendix "Ablation Study"): every mixture of three choices.

How the reward compares what phi says with the skill (three forms), of which states phi is asked (four ways), and
whether phi is spectrally normalised. (inner-product, step, spectral) is LSD, (normal, next-state, free) is DIAYN and
(von-mises-fisher, state, free) is VISR. Continuous skills only, as in the paper.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wanderlust.config import MethodConfig
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import GoalRule
from wanderlust.methods.lsd import Lsd, LsdState
from wanderlust.methods.skills import along
from wanderlust.rl.nets import MLP, SpectralState, directions, displacements

Codes = Float[Array, "batch code"]
Observations = Float[Array, "batch obs"]

# --- the grid: a reward is FORMS[form](USES[states](phi, s, s'), z) ----------------------------------------------

FORMS: Mapping[str, Callable[[Codes, Codes], Float[Array, " batch"]]] = {
    # log N(z; x, I) without its constant, as in `diayn.py`
    "normal": lambda x, skill: -0.5 * jnp.sum((skill - x) ** 2, axis=1),
    # the cosine: the log-density of a von Mises-Fisher distribution of scale 1 without its constant
    "von-mises-fisher": lambda x, skill: jnp.sum(directions(x) * directions(skill), axis=1),
    "inner-product": lambda x, skill: jnp.sum(x * skill, axis=1),
}
USES: Mapping[str, Callable[[MLP, Observations, Observations], Codes]] = {
    "state": lambda phi, obs, next_obs: jax.vmap(phi)(obs),
    "next-state": lambda phi, obs, next_obs: jax.vmap(phi)(next_obs),
    "change": lambda phi, obs, next_obs: jax.vmap(phi)(next_obs - obs),
    "step": displacements,
}


@dataclasses.dataclass(frozen=True)
class AblationConfig(MethodConfig):
    """One cell of the paper's ablation grid; (inner-product, step, spectral) is LSD."""

    name: str = "ablation"
    form: Literal["normal", "von-mises-fisher", "inner-product"] = "inner-product"
    """How the reward compares phi with the skill."""
    states: Literal["state", "next-state", "change", "step"] = "step"
    """What phi is taken of: phi(s), phi(s'), phi(s' - s), or the step phi(s') - phi(s)."""
    spectral: bool = True
    """Whether phi is spectrally normalised."""

    def __str__(self) -> str:
        spectral = "spectral" if self.spectral else "free"
        return f"{super().__str__()}-{self.form}-{self.states}-{spectral}"


@dataclasses.dataclass(frozen=True)
class Ablation(Lsd):
    """One cell of the grid: LSD with other choices."""

    config: AblationConfig

    Config = AblationConfig
    takes = ("continuous",)

    def rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        """The cell's form of what phi says of the cell's states, and the skill."""
        x = USES[self.config.states](phi, batch.obs, batch.next_obs)
        return FORMS[self.config.form](x, batch.skill)

    def measure(self, encoder: MLP) -> SpectralState:
        """Of no layers if nothing is normalised."""
        return super().measure(encoder) if self.config.spectral else SpectralState(left=(), right=(), norm=())

    def network(self, state: LsdState) -> MLP:
        return super().network(state) if self.config.spectral else state.encoder

    @property
    def goal_rule(self) -> GoalRule:
        """By the cell's states; phi of a change is neither a difference of phi nor of the goal alone."""
        if self.config.states == "step":
            return "direction"
        return "own" if self.config.states == "change" else "goal"

    def towards(
        self, state: LsdState, obs: Float[Array, "batch obs"], goal: Float[Array, "batch obs"]
    ) -> Float[Array, "batch skill"]:
        """What phi says of the goal, or of the way there. The normal form expects just that skill at the goal
        (DIAYN); where only the direction counts, or x is of a way much longer than a step, the direction (LSD).
        """
        if self.config.states == "change":
            return along(self.skills, USES["change"](self.network(state), obs, goal))
        if self.config.form == "normal" and self.goal_rule == "goal":
            return self.represent(state, goal)
        return super().towards(state, obs, goal)
