"""Methods that learn one network, phi, by maximising the policy's own reward."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from wanderlust.envs.spec import Transition
from wanderlust.methods.base import Method, Metrics
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, descend, init_mlp


class EncoderState(NamedTuple):
    """phi and its optimiser."""

    encoder: MLP
    opt: optax.OptState = ()


@dataclasses.dataclass(frozen=True)
class EncoderMethod(Method):
    """phi and the policy maximise the same reward; a subclass says which."""

    @abc.abstractmethod
    def rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        """The reward of a batch under a network phi: state -> as many numbers as a skill has."""

    def init(self, key: Key[Array, ""], obs_dim: int) -> EncoderState:
        encoder = init_mlp(key, (obs_dim, *self.config.hidden, self.skills.size), GLOROT_UNIFORM)
        return EncoderState(encoder, self._optimizer.init(encoder))

    def reward(self, state: EncoderState, batch: Transition) -> Float[Array, " batch"]:
        return self.rewards(state.encoder, batch)

    def loss(self, encoder: MLP, batch: Transition) -> Float[Array, ""]:
        """Minus the mean reward."""
        return -jnp.mean(self.rewards(encoder, batch))

    def update(self, state: EncoderState, batch: Transition) -> tuple[EncoderState, Metrics]:
        loss, grads = jax.value_and_grad(self.loss)(state.encoder, batch)
        return EncoderState(*descend(self._optimizer, grads, state.opt, state.encoder)), {"phi_loss": loss}

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.config.learning_rate)

    def restored(self, kept: Mapping[str, Any]) -> EncoderState:
        return EncoderState(kept["encoder"])
