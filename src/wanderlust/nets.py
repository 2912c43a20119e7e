"""Networks. Every module acts on one example; callers vmap. Skills meet observations only here.

Spectral normalisation keeps norms and vectors in an explicit state (`SpectralState`) that is measured once after each
update: a network is normalised by `normalise`, and the plain network that comes back is used for all states of a batch.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from wanderlust.config import Precision

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
        return x.astype(self.weight.dtype) @ self.weight + self.bias


class MLP(eqx.Module):
    """Linear layers with an activation between them and none after the last.

    Computed in the type of its weights (see `in_precision`); what comes out is float32.
    """

    layers: tuple[Linear, ...]
    activation: Activation = eqx.field(static=True)
    layer_norm: bool = eqx.field(static=True, default=False)
    """Whether hidden layers are brought to mean 0 and variance 1 before their activation."""

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        for layer in self.layers[:-1]:
            x = layer(x)
            x = self.activation(_standardised(x) if self.layer_norm else x)
        return self.layers[-1](x).astype(jnp.float32)


def _standardised(x: Float[Array, " n"]) -> Float[Array, " n"]:
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide)
    return (centred * jax.lax.rsqrt(jnp.mean(centred**2) + 1e-5)).astype(x.dtype)


Tree = TypeVar("Tree")


def in_precision(tree: Tree, precision: Precision) -> Tree:
    """The same networks with weights of another type: products are then computed in it, gradients pass through."""
    if precision == "float32":
        return tree
    return jax.tree.map(lambda x: x.astype(jnp.bfloat16), tree)


def init_mlp(
    key: Key[Array, ""],
    sizes: tuple[int, ...],
    weights: Initializer,
    activation: Activation = jax.nn.relu,
    layer_norm: bool = False,
) -> MLP:
    """An MLP of the given layer sizes, biases zero."""
    keys = jax.random.split(key, len(sizes) - 1)
    pairs = zip(keys, sizes[:-1], sizes[1:], strict=True)
    layers = tuple(Linear(weights(k, (i, o)), jnp.zeros(o)) for k, i, o in pairs)
    return MLP(layers, activation, layer_norm)


# --- spectral normalisation ------------------------------------------------------------------------------------


class SpectralState(NamedTuple):
    """Per layer: the leading singular vectors, and a norm that the largest singular value does not exceed."""

    left: tuple[Float[Array, " inputs"], ...]
    right: tuple[Float[Array, " outputs"], ...]
    norm: tuple[Float[Array, ""], ...]


SQUARINGS = 7
"""Of the Gram matrix: 2^7 = 128 steps of power iteration at once. The norm is at most r^(1/512) too large where r
singular values share the top: 0.14% for two, 1% for all 128 of a layer."""

ROUNDING = 1e-5
"""What float32 may lose on the way; the norm is larger by this share, so that the bound stays a bound."""


def measure_spectral(mlp: MLP) -> SpectralState:
    """Norms and vectors of the current weights; called once after each update of them.

    Power iteration that is carried along approaches the largest singular value from below and loses it when another
    one overtakes. Repeated squaring of the Gram matrix gives an upper bound instead (the Schatten norm of a high
    order, "Gram iteration"), and it starts from the weights alone.
    """
    left, right, norm = zip(*(_leading(layer.weight) for layer in mlp.layers), strict=True)
    return jax.lax.stop_gradient(SpectralState(left, right, norm))


def _leading(weight: Float[Array, "inputs outputs"]) -> tuple[Array, Array, Array]:
    wide = weight.shape[0] < weight.shape[1]
    w = weight.T if wide else weight  # now the Gram matrix W^T W is the smaller of the two
    precise = jax.lax.Precision.HIGHEST

    def square(_: int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        power, log_scale = carry
        power = jnp.matmul(power, power, precision=precise)
        size = jnp.linalg.norm(power) + 1e-30
        return power / size, 2.0 * log_scale + jnp.log(size)

    gram = jnp.matmul(w.T, w, precision=precise)
    size = jnp.linalg.norm(gram) + 1e-30  # weights that are all zero stay so
    # ||G^(2^k)||_F = exp(log_scale), and sigma^2 is at most its 2^k-th root
    power, log_scale = jax.lax.fori_loop(0, SQUARINGS, square, (gram / size, jnp.log(size)))
    norm = jnp.exp(0.5 * log_scale / 2**SQUARINGS) * (1.0 + ROUNDING)
    v = _unit(power[:, jnp.argmax(jnp.diagonal(power))])  # a column that is sure to see the leading vector
    u = _unit(jnp.matmul(w, v, precision=precise))
    return (v, u, norm) if wide else (u, v, norm)


def normalise(mlp: MLP, state: SpectralState) -> MLP:
    """The network with every layer's spectral norm brought to 1 or just below, hence 1-Lipschitz (ReLU is, too).

    Forward, a layer is divided by its norm in `state`; the gradient is that of u^T W v, with u and v constants.
    """
    layers = []
    for layer, u, v, norm in zip(mlp.layers, *state, strict=True):
        estimate = u @ layer.weight @ v
        divisor = norm + (estimate - jax.lax.stop_gradient(estimate))
        layers.append(Linear(layer.weight / divisor, layer.bias))
    return MLP(tuple(layers), mlp.activation, mlp.layer_norm)


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


def init_critic(
    key: Key[Array, ""], obs: int, skill: int, action: int, hidden: tuple[int, ...], layer_norm: bool = False
) -> Critic:
    """A critic with Glorot-normal weights."""
    return Critic(init_mlp(key, (obs + skill + action, *hidden, 1), GLOROT_NORMAL, layer_norm=layer_norm))
