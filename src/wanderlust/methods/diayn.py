"""DIAYN (Eysenbach et al., ICLR 2019) as the LSD paper runs it. Equations are numbered as in the LSD paper.

A discriminator guesses the skill from the next state, and the reward is how well it does: states that tell skills
apart are enough, however close together they are. Continuous skills: q(z|s') = N(phi(s'), I), the unit variance of
equation 9; discrete skills: a softmax over phi(s').
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
from wanderlust.methods.skills import ContinuousSkills, SkillSpace, guessed
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, init_mlp

# --- state -----------------------------------------------------------------------------------------------------


class DiaynState(NamedTuple):
    """The discriminator's weights and its optimiser."""

    encoder: MLP
    opt: optax.OptState


@dataclasses.dataclass(frozen=True)
class Diayn(Method):
    """Continuous and discrete DIAYN: they differ in the discriminator's distribution."""

    config: MethodConfig
    skills: SkillSpace

    summary = "Diversity Is All You Need: skills that a discriminator can tell apart"
    entropy = None

    def init(self, key: Key[Array, ""], obs_dim: int) -> DiaynState:
        encoder = init_mlp(key, (obs_dim, *self.config.hidden, self.skills.size), GLOROT_UNIFORM)
        return DiaynState(encoder, self._optimizer.init(encoder))

    # --- reward ------------------------------------------------------------------------------------------------

    def reward(self, state: DiaynState, batch: Transition) -> Float[Array, " batch"]:
        """r = log q(z|s') without its constants: -||z - phi(s')||^2 / 2, or the log-softmax at the skill."""
        return self._rewards(state.encoder, batch)

    def _rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        guess = jax.vmap(phi)(batch.next_obs)
        if isinstance(self.skills, ContinuousSkills):
            return -0.5 * jnp.sum((batch.skill - guess) ** 2, axis=1)
        return jnp.sum(jax.nn.log_softmax(guess, axis=1) * batch.skill, axis=1)

    # --- loss and update ---------------------------------------------------------------------------------------

    def loss(self, encoder: MLP, batch: Transition) -> Float[Array, ""]:
        """Maximum likelihood of the skill: the same quantity, maximised by the discriminator."""
        return -jnp.mean(self._rewards(encoder, batch))

    def update(self, state: DiaynState, batch: Transition) -> tuple[DiaynState, Metrics]:
        loss, grads = jax.value_and_grad(self.loss)(state.encoder, batch)
        updates, opt = self._optimizer.update(grads, state.opt)
        return DiaynState(optax.apply_updates(state.encoder, updates), opt), {"phi_loss": loss}

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.config.learning_rate)

    # --- downstream --------------------------------------------------------------------------------------------

    goal_rule: ClassVar[GoalRule] = "goal"

    def towards(
        self, state: DiaynState, obs: Float[Array, "batch obs"], goal: Float[Array, "batch obs"]
    ) -> Float[Array, "batch skill"]:
        """The skill the discriminator expects at the goal: z = mu(g), or the likeliest one. The start plays no part."""
        guess = jax.vmap(state.encoder)(goal)
        return guessed(self.skills, guess)

    def restored(self, kept: Mapping[str, Any]) -> DiaynState:
        return DiaynState(kept["encoder"], opt=())
