"""Networks. Every module acts on one example; callers vmap. Skills meet observations only here.

Spectral normalisation keeps norms and vectors in an explicit state (`SpectralState`) that is measured once after each
update: a network is normalised by `normalise`, and the plain network that comes back is used for all states of a batch.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
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
        return x.astype(self.weight.dtype) @ self.weight + self.bias.astype(self.weight.dtype)

    def summed_in_float32(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """The same with factors in the type of the weights, and a sum that is not rounded to it."""
        inputs = x.astype(self.weight.dtype)
        return jnp.matmul(inputs, self.weight, preferred_element_type=jnp.float32) + self.bias


class MLP(eqx.Module):
    """Linear layers with an activation between them and none after the last.

    Computed in the type of its weights (see `in_precision`); what comes out is float32, and not rounded on the way:
    in bfloat16 a value of 40 has neighbours a quarter away, which is a whole step's reward.
    """

    layers: tuple[Linear, ...]
    activation: Activation = eqx.field(static=True)
    layer_norm: bool = eqx.field(static=True, default=False)
    """Whether hidden layers are brought to mean 0 and variance 1 before their activation."""

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        for layer in self.layers[:-1]:
            x = layer(x)
            x = self.activation(_standardised(x) if self.layer_norm else x)
        return self.layers[-1].summed_in_float32(x)


def _standardised(x: Float[Array, " n"]) -> Float[Array, " n"]:
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide)
    return (centred * jax.lax.rsqrt(jnp.mean(centred**2) + 1e-5)).astype(x.dtype)


Tree = TypeVar("Tree")
Metrics = dict[str, Float[Array, ""]]
"""What an update says of itself, by name."""


def in_precision(tree: Tree, precision: Precision) -> Tree:
    """The same networks with weights of another type: products are then computed in it, gradients pass through."""
    if precision == "float32":
        return tree

    def cast(node: object) -> object:
        return Linear(node.weight.astype(jnp.bfloat16), node.bias) if isinstance(node, Linear) else node

    cast_tree: Tree = jax.tree.map(cast, tree, is_leaf=lambda node: isinstance(node, Linear))
    return cast_tree


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


def displacements(
    phi: Callable[[Array], Array], obs: Float[Array, "batch obs"], next_obs: Float[Array, "batch obs"]
) -> Float[Array, "batch code"]:
    """phi(s') - phi(s), both in one pass."""
    after, before = jnp.split(jax.vmap(phi)(jnp.concatenate([next_obs, obs])), 2)
    return after - before


def directions(x: Float[Array, "batch n"]) -> Float[Array, "batch n"]:
    """Vectors at length 1. Zero stays zero, with gradient 1: fresh biases are zero, so phi of the mean state is.

    A small number under the root would give it a gradient of millions, which Adam's second moments remember for long.
    """
    squared = jnp.sum(x**2, axis=1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.where(squared > 1e-12, squared, 1.0))


def descend(
    optimizer: optax.GradientTransformation, grads: Tree, opt_state: optax.OptState, params: Tree
) -> tuple[Tree, optax.OptState]:
    """Parameters and the optimiser's state one step on."""
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state


# --- spectral normalisation ------------------------------------------------------------------------------------


class SpectralState(NamedTuple):
    """Per layer: the leading singular vectors, and a norm that the largest singular value does not exceed."""

    left: tuple[Float[Array, " inputs"], ...]
    right: tuple[Float[Array, " outputs"], ...]
    norm: tuple[Float[Array, ""], ...]


SQUARINGS = 5
"""Of the Gram matrix: 2^5 = 32 steps of power iteration at once. The norm is then the Schatten norm of order 128: too
large by 0.4% for a fresh layer of 1,024 x 1,024, and by at most r^(1/128) where r singular values share the top."""

BEFORE_RESCALING = 3
"""Squarings in a row: an eigenvalue of at least 1/sqrt(n) to the 8th is n^-4, well inside float32."""

SMALL = 64
"""Gram matrices up to this size are padded with zeros and squared together: each product costs a launch anyway."""

ROUNDING = 1e-5
"""What float32 may lose on the way; the norm is larger by this share, so that the bound stays a bound."""


def measure_spectral(mlp: MLP) -> SpectralState:
    """Norms and vectors of the current weights; called once after each update of them.

    Power iteration that is carried along approaches the largest singular value from below and loses it when another
    one overtakes. Repeated squaring of the Gram matrix gives an upper bound instead (the Schatten norm of a high
    order, "Gram iteration"), and it starts from the weights alone.
    """
    weights = [layer.weight for layer in mlp.layers]
    sides = [min(w.shape) for w in weights]
    together = max((n for n in sides if n <= SMALL), default=0)
    left, right, norm = {}, {}, {}
    for size in sorted({n if n > SMALL else together for n in sides}):
        members = [i for i, n in enumerate(sides) if (n if n > SMALL else together) == size]
        values, vectors = _leading(jnp.stack([_gram(weights[i], size) for i in members]))
        for i, value, vector in zip(members, values, vectors, strict=True):
            left[i], right[i] = _both_sides(weights[i], vector[: sides[i]])
            norm[i] = jnp.sqrt(value) * (1.0 + ROUNDING)
    order = range(len(weights))
    state = SpectralState(tuple(left[i] for i in order), tuple(right[i] for i in order), tuple(norm[i] for i in order))
    return jax.lax.stop_gradient(state)


def _gram(weight: Float[Array, "inputs outputs"], size: int) -> Float[Array, "size size"]:
    """The smaller of W^T W and W W^T, padded with zeros."""
    w = weight.T if weight.shape[0] < weight.shape[1] else weight
    gram = jnp.matmul(w.T, w, precision=jax.lax.Precision.HIGHEST)
    return jnp.pad(gram, (0, size - gram.shape[0]))


def _leading(grams: Float[Array, "layers n n"]) -> tuple[Float[Array, " layers"], Float[Array, "layers n"]]:
    """An upper bound of each largest eigenvalue, and its eigenvector."""
    power, log_scale = grams, jnp.zeros(len(grams))
    for k in range(SQUARINGS):
        if k % BEFORE_RESCALING == 0:
            power, log_size = _rescaled(power)
            log_scale = log_scale + log_size
        power = jnp.matmul(power, power, precision=jax.lax.Precision.HIGHEST)
        log_scale = 2.0 * log_scale
    power, log_size = _rescaled(power)
    # ||G^(2^k)||_F = exp(log_scale + log_size), and the largest eigenvalue is at most its 2^k-th root
    value = jnp.exp((log_scale + log_size) / 2**SQUARINGS)
    column = jnp.argmax(jnp.diagonal(power, axis1=1, axis2=2), axis=1)  # it is sure to see the leading vector
    return value, jax.vmap(lambda p, c: _unit(p[:, c]))(power, column)


def _rescaled(x: Float[Array, "layers n n"]) -> tuple[Float[Array, "layers n n"], Float[Array, " layers"]]:
    size = jnp.sqrt(jnp.sum(x**2, axis=(1, 2))) + 1e-30  # weights that are all zero stay so
    return x / size[:, None, None], jnp.log(size)


def _both_sides(weight: Float[Array, "inputs outputs"], vector: Float[Array, " n"]) -> tuple[Array, Array]:
    """The left and the right singular vector, from the one on the smaller side."""
    if weight.shape[0] < weight.shape[1]:
        return vector, _unit(jnp.matmul(vector, weight, precision=jax.lax.Precision.HIGHEST))
    return _unit(jnp.matmul(weight, vector, precision=jax.lax.Precision.HIGHEST)), vector


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
