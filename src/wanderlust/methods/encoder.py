"""Methods that learn one network, phi: state -> as many numbers as a skill has."""

import abc
import dataclasses
from typing import Any, ClassVar, NamedTuple

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
    """phi and the policy maximise the same reward, which a subclass says.

    A subclass may learn more beside phi: it has a state of its own, with the fields `encoder` and `opt` among others.
    """

    State: ClassVar[type[Any]] = EncoderState

    @abc.abstractmethod
    def rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        """The reward of a batch under a network phi."""

    def init_encoder(self, key: Key[Array, ""], obs_dim: int) -> MLP:
        """A fresh phi."""
        return init_mlp(key, (obs_dim, *self.config.hidden, self.skills.size), GLOROT_UNIFORM)

    def init(self, key: Key[Array, ""], obs_dim: int) -> Any:
        encoder = self.init_encoder(key, obs_dim)
        return EncoderState(encoder, self._optimizer.init(encoder))

    def network(self, state: Any) -> MLP:
        """phi as it is used."""
        encoder: MLP = state.encoder
        return encoder

    def reward(self, state: Any, batch: Transition) -> Float[Array, " batch"]:
        return self.rewards(self.network(state), batch)

    def along_skill(self, step: Float[Array, "batch code"], batch: Transition) -> Float[Array, " batch"]:
        """<step, z>: how far steps of phi lead along their skills; with the zero-centred codes of discrete skills."""
        return jnp.sum(step * jax.vmap(self.skills.code)(batch.skill), axis=1)

    def loss(self, phi: MLP, batch: Transition) -> Float[Array, ""]:
        """Minus the mean reward."""
        return -jnp.mean(self.rewards(phi, batch))

    def update(self, state: Any, batch: Transition) -> tuple[Any, Metrics]:
        """One gradient step of phi; the rest of the state stays as it is."""

        def loss_of(encoder: MLP) -> Float[Array, ""]:
            return self.loss(self.network(state._replace(encoder=encoder)), batch)

        loss, grads = jax.value_and_grad(loss_of)(state.encoder)
        encoder, opt = descend(self._optimizer, grads, state.opt, state.encoder)
        return state._replace(encoder=encoder, opt=opt), {"phi_loss": loss}
