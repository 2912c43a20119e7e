"""A method of your own in one file: skills are compass directions of the steps that phi sees.

cd examples
wanderlust discover point --method compass_method:Compass
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from wanderlust.config import MethodConfig
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import Method, Metrics
from wanderlust.methods.skills import along
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, descend, directions, displacements, init_mlp


@dataclasses.dataclass(frozen=True)
class CompassConfig(MethodConfig):
    """What can be changed, as `--method.sharpness 2`; `hidden` and `learning_rate` are there already."""

    sharpness: float = 1.0
    """What rewards are multiplied by."""


class CompassState(NamedTuple):
    """phi and its optimiser."""

    encoder: MLP
    opt: optax.OptState = ()


@dataclasses.dataclass(frozen=True)
class Compass(Method):
    """r = sharpness * cos(phi(s') - phi(s), z); phi maximises the same."""

    config: CompassConfig

    Config = CompassConfig
    summary = "an example: the cosine between a step in phi and the skill"
    goal_rule = "direction"

    def init(self, key: Key[Array, ""], obs_dim: int) -> CompassState:
        encoder = init_mlp(key, (obs_dim, *self.config.hidden, self.skills.size), GLOROT_UNIFORM)
        return CompassState(encoder, self._optimizer.init(encoder))

    def reward(self, state: CompassState, batch: Transition) -> Float[Array, " batch"]:
        return self._cosine(state.encoder, batch)

    def _cosine(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        step, code = displacements(phi, batch.obs, batch.next_obs), jax.vmap(self.skills.code)(batch.skill)
        return self.config.sharpness * jnp.sum(directions(step) * directions(code), axis=1)

    def update(self, state: CompassState, batch: Transition) -> tuple[CompassState, Metrics]:
        loss, grads = jax.value_and_grad(lambda phi: -jnp.mean(self._cosine(phi, batch)))(state.encoder)
        return CompassState(*descend(self._optimizer, grads, state.opt, state.encoder)), {"phi_loss": loss}

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.config.learning_rate)

    def represent(self, state: CompassState, obs: Float[Array, "batch obs"]) -> Float[Array, "batch code"]:
        return jax.vmap(state.encoder)(obs)

    def towards(
        self, state: CompassState, obs: Float[Array, "batch obs"], goal: Float[Array, "batch obs"]
    ) -> Float[Array, "batch skill"]:
        return along(self.skills, self.represent(state, goal) - self.represent(state, obs))
