"""The ablation grid of the LSD paper (its appendix "Ablation Study"): every mixture of three choices.

How the reward compares what phi says with the skill (three forms), of which states phi is asked (four ways), and
whether phi is spectrally normalised. (inner-product, step, spectral) is LSD, (normal, next-state, free) is DIAYN and
(von-mises-fisher, state, free) is VISR. Continuous skills only, as in the paper.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from wanderlust.config import MethodConfig
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import GoalRule, Method, Metrics
from wanderlust.methods.skills import SkillSpace, along
from wanderlust.rl.nets import (
    GLOROT_UNIFORM,
    MLP,
    SpectralState,
    directions,
    displacements,
    init_mlp,
    measure_spectral,
    normalise,
)

Codes = Float[Array, "batch code"]
Observations = Float[Array, "batch obs"]

# --- the grid: a reward is FORMS[form](USES[states](phi, s, s'), z) ----------------------------------------------


def _normal(x: Codes, skill: Codes) -> Float[Array, " batch"]:
    """log N(z; x, I) without its constant, as in `diayn.py`."""
    return -0.5 * jnp.sum((skill - x) ** 2, axis=1)


def _von_mises_fisher(x: Codes, skill: Codes) -> Float[Array, " batch"]:
    """The cosine: the log-density of a von Mises-Fisher distribution of scale 1 without its constant."""
    return jnp.sum(directions(x) * directions(skill), axis=1)


def _inner_product(x: Codes, skill: Codes) -> Float[Array, " batch"]:
    return jnp.sum(x * skill, axis=1)


FORMS: Mapping[str, Callable[[Codes, Codes], Float[Array, " batch"]]] = {
    "normal": _normal,
    "von-mises-fisher": _von_mises_fisher,
    "inner-product": _inner_product,
}
USES: Mapping[str, Callable[[MLP, Observations, Observations], Codes]] = {
    "state": lambda phi, obs, next_obs: jax.vmap(phi)(obs),
    "next-state": lambda phi, obs, next_obs: jax.vmap(phi)(next_obs),
    "change": lambda phi, obs, next_obs: jax.vmap(phi)(next_obs - obs),
    "step": displacements,
}


# --- configuration -------------------------------------------------------------------------------------------


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


# --- state -----------------------------------------------------------------------------------------------------


class AblationState(NamedTuple):
    """phi's raw weights, what normalises them (of no layers if nothing does), and the optimiser."""

    encoder: MLP
    spectral: SpectralState
    opt: optax.OptState


UNMEASURED = SpectralState(left=(), right=(), norm=())


@dataclasses.dataclass(frozen=True)
class Ablation(Method):
    """One cell of the grid."""

    config: AblationConfig
    skills: SkillSpace

    Config = AblationConfig
    summary = "one cell of the LSD paper's ablation grid, picked by method.form, method.states and method.spectral"
    takes = ("continuous",)

    def init(self, key: Key[Array, ""], obs_dim: int) -> AblationState:
        encoder = init_mlp(key, (obs_dim, *self.config.hidden, self.skills.size), GLOROT_UNIFORM)
        return AblationState(encoder, self._measure(encoder), self._optimizer.init(encoder))

    def _measure(self, encoder: MLP) -> SpectralState:
        return measure_spectral(encoder) if self.config.spectral else UNMEASURED

    def _phi(self, encoder: MLP, spectral: SpectralState) -> MLP:
        return normalise(encoder, spectral) if self.config.spectral else encoder

    # --- reward ------------------------------------------------------------------------------------------------

    def reward(self, state: AblationState, batch: Transition) -> Float[Array, " batch"]:
        """The cell's form of what phi says of the cell's states, and the skill."""
        return self._rewards(self._phi(state.encoder, state.spectral), batch)

    def _rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        x = USES[self.config.states](phi, batch.obs, batch.next_obs)
        return FORMS[self.config.form](x, batch.skill)

    # --- loss and update ---------------------------------------------------------------------------------------

    def loss(self, encoder: MLP, spectral: SpectralState, batch: Transition) -> Float[Array, ""]:
        """phi maximises the same reward, in every cell."""
        return -jnp.mean(self._rewards(self._phi(encoder, spectral), batch))

    def update(self, state: AblationState, batch: Transition) -> tuple[AblationState, Metrics]:
        loss, grads = jax.value_and_grad(self.loss)(state.encoder, state.spectral, batch)
        updates, opt = self._optimizer.update(grads, state.opt)
        encoder = optax.apply_updates(state.encoder, updates)
        return AblationState(encoder, self._measure(encoder), opt), {"phi_loss": loss}

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.config.learning_rate)

    # --- downstream --------------------------------------------------------------------------------------------

    @property
    def goal_rule(self) -> GoalRule:
        """By the cell's states; phi of a change is neither a difference of phi nor of the goal alone."""
        if self.config.states == "step":
            return "direction"
        return "own" if self.config.states == "change" else "goal"

    def towards(
        self, state: AblationState, obs: Float[Array, "batch obs"], goal: Float[Array, "batch obs"]
    ) -> Float[Array, "batch skill"]:
        """What phi says of the goal, or of the way there. The normal form expects just that skill at the goal
        (DIAYN); where only the direction counts, or x is of a way much longer than a step, the direction (LSD).
        """
        if self.goal_rule == "direction":
            return super().towards(state, obs, goal)
        at_the_goal = self.config.states in ("state", "next-state")
        use = USES["next-state" if at_the_goal else self.config.states]
        x = use(self._phi(state.encoder, state.spectral), obs, goal)
        if self.config.form == "normal" and at_the_goal:
            return x
        return along(self.skills, x)

    def restored(self, kept: Mapping[str, Any]) -> AblationState:
        return AblationState(kept["encoder"], self._measure(kept["encoder"]), opt=())

    def network(self, state: AblationState) -> MLP:
        return self._phi(state.encoder, state.spectral)
