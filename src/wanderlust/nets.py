"""Networks. Every module acts on one example; callers vmap. Skills meet observations only here.

Spectral normalisation keeps its power-iteration vectors in an explicit state (`SpectralState`): a network is
normalised once, by `normalise`, and the plain network that comes back is used for all states of a batch.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

Initializer = jax.nn.initializers.Initializer
Activation = Callable[[Array], Array]

GLOROT_UNIFORM = jax.nn.initializers.glorot_uniform()
GLOROT_NORMAL = jax.nn.initializers.glorot_normal()

LOG_STD_RANGE = (-13.8155, 2.0)  # the smallest is log 1e-6


class Linear(eqx.Module):
    """x W + b, with W stored inputs first so that a batch multiplies from the left."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return x @ self.weight + self.bias


class MLP(eqx.Module):
    """Linear layers with an activation between them and none after the last."""

    layers: tuple[Linear, ...]
    activation: Activation = eqx.field(static=True)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


def init_mlp(
    key: Key[Array, ""], sizes: tuple[int, ...], weights: Initializer, activation: Activation = jax.nn.relu
) -> MLP:
    """An MLP of the given layer sizes, biases zero."""
    keys = jax.random.split(key, len(sizes) - 1)
    pairs = zip(keys, sizes[:-1], sizes[1:], strict=True)
    layers = tuple(Linear(weights(k, (i, o)), jnp.zeros(o)) for k, i, o in pairs)
    return MLP(layers, activation)


# --- spectral normalisation ------------------------------------------------------------------------------------


class SpectralState(NamedTuple):
    """One estimate of the leading singular vectors per layer."""

    left: tuple[Float[Array, " inputs"], ...]
    right: tuple[Float[Array, " outputs"], ...]


SLACK = 1e-3
"""Layers are scaled to a norm of 1/(1 + SLACK): power iteration approaches the largest singular value from below,
and the 1-Lipschitz bound has to hold for the weights in use, not for the estimate of them."""

ITERATIONS_AT_START = 200
ITERATIONS_PER_UPDATE = 4


def init_spectral(key: Key[Array, ""], mlp: MLP) -> SpectralState:
    """Vectors for a fresh network, iterated until they have settled."""
    keys = jax.random.split(key, len(mlp.layers))
    left = tuple(_unit(jax.random.normal(k, (lay.weight.shape[0],))) for k, lay in zip(keys, mlp.layers, strict=True))
    right = tuple(_unit(v @ lay.weight) for v, lay in zip(left, mlp.layers, strict=True))
    return advance_spectral(mlp, SpectralState(left, right), ITERATIONS_AT_START)


def advance_spectral(mlp: MLP, state: SpectralState, iterations: int = ITERATIONS_PER_UPDATE) -> SpectralState:
    """Power iteration towards the current weights; called once after each update of them."""

    def once(_: int, state: SpectralState) -> SpectralState:
        left = tuple(_unit(lay.weight @ v) for lay, v in zip(mlp.layers, state.right, strict=True))
        right = tuple(_unit(u @ lay.weight) for lay, u in zip(mlp.layers, left, strict=True))
        return SpectralState(left, right)

    return jax.lax.stop_gradient(jax.lax.fori_loop(0, iterations, once, state))


def normalise(mlp: MLP, state: SpectralState) -> MLP:
    """The network with every layer's spectral norm brought to 1, hence 1-Lipschitz (ReLU is, too).

    The gradient flows through the norm u^T W v; the vectors u and v are constants.
    """
    layers = []
    for layer, u, v in zip(mlp.layers, state.left, state.right, strict=True):
        norm = u @ layer.weight @ v
        layers.append(Linear(layer.weight / (norm * (1.0 + SLACK)), layer.bias))
    return MLP(tuple(layers), mlp.activation)


def _unit(x: Float[Array, " n"]) -> Float[Array, " n"]:
    return x / (jnp.linalg.norm(x) + 1e-12)


# --- actor and critics -----------------------------------------------------------------------------------------


class TanhNormal(NamedTuple):
    """a = tanh(u), u ~ N(mean, std^2), independent in each dimension."""

    mean: Float[Array, " action"]
    log_std: Float[Array, " action"]

    def mode(self) -> Float[Array, " action"]:
        return jnp.tanh(self.mean)

    def sample(self, noise: Float[Array, " action"]) -> tuple[Float[Array, " action"], Float[Array, ""]]:
        """The action that standard-normal `noise` stands for, and its log-density."""
        pre_tanh = self.mean + jnp.exp(self.log_std) * noise
        log_normal = -0.5 * noise**2 - self.log_std - 0.5 * jnp.log(2.0 * jnp.pi)
        # log(1 - tanh(u)^2) in a form that neither overflows nor loses its gradient for large |u|
        log_det = 2.0 * (jnp.log(2.0) - pre_tanh - jax.nn.softplus(-2.0 * pre_tanh))
        return jnp.tanh(pre_tanh), jnp.sum(log_normal - log_det)


class Policy(eqx.Module):
    """pi(a | s, z): one trunk, one linear head for mean and log standard deviation."""

    mlp: MLP

    def __call__(self, obs: Float[Array, " obs"], skill: Float[Array, " skill"]) -> TanhNormal:
        mean, log_std = jnp.split(self.mlp(jnp.concatenate([obs, skill])), 2)
        return TanhNormal(mean, jnp.clip(log_std, *LOG_STD_RANGE))


class Critic(eqx.Module):
    """Q(s, z, a)."""

    mlp: MLP

    def __call__(
        self, obs: Float[Array, " obs"], skill: Float[Array, " skill"], action: Float[Array, " action"]
    ) -> Float[Array, ""]:
        return self.mlp(jnp.concatenate([obs, skill, action]))[0]


def init_policy(
    key: Key[Array, ""], obs: int, skill: int, action: int, hidden: tuple[int, ...], activation: Activation
) -> Policy:
    """A policy that starts near the middle of the action range with standard deviation near 1."""
    trunk, head = jax.random.split(key)
    mlp = init_mlp(trunk, (obs + skill, *hidden, 2 * action), GLOROT_UNIFORM, activation)
    # Each of the two heads is Glorot-normal for its own width, a tenth as large.
    keys = jax.random.split(head)
    small = jnp.concatenate([0.1 * GLOROT_NORMAL(k, (hidden[-1], action)) for k in keys], axis=1)
    return Policy(MLP((*mlp.layers[:-1], Linear(small, jnp.zeros(2 * action))), activation))


def init_critic(key: Key[Array, ""], obs: int, skill: int, action: int, hidden: tuple[int, ...]) -> Critic:
    """A critic with Glorot-normal weights."""
    return Critic(init_mlp(key, (obs + skill + action, *hidden, 1), GLOROT_NORMAL))
