"""IBOL's networks: policies over a box, and an encoder of whole trajectories. Each acts on one example."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from wanderlust.rl.nets import GLOROT_UNIFORM, LOG_STD_RANGE, MLP, init_mlp

SHARPEST = 1.05
"""What both parameters of a Beta exceed: above 1 the density has a single peak, and none at the walls."""
WALL = 1e-6
"""How near to the walls of the box a goal may come: at them a density is zero."""
TRIES = 8
"""Of drawing a Gamma variate; that all fail is rarer than 1 in 10^10."""
FIRST_STD = 0.1
"""Standard deviation of q(z|trajectory) before learning."""
UNROLL = 5
"""Steps of an LSTM that are compiled as one."""
SPREAD_OUT = 10.0
"""How much larger than usual the last layer of its mean is before learning: trajectories begin far apart."""


class Beta(NamedTuple):
    """A Beta distribution in every dimension of [-1, 1]^d, independent of each other."""

    a: Float[Array, " goal"]
    b: Float[Array, " goal"]

    def mode(self) -> Float[Array, " goal"]:
        return 2.0 * (self.a - 1.0) / (self.a + self.b - 2.0) - 1.0

    def sample(self, key: Key[Array, ""]) -> Float[Array, " goal"]:
        """x / (x + y) of two Gamma variates is Beta; x - y over x + y is the same on [-1, 1]."""
        x, y = (_gamma(k, shape) for k, shape in zip(jax.random.split(key), self, strict=True))
        return jnp.clip((x - y) / (x + y), -1.0 + WALL, 1.0 - WALL)

    def log_density(self, goal: Float[Array, " goal"]) -> Float[Array, ""]:
        """Of x = 2y - 1 with y ~ Beta(a, b), hence the log 2."""
        logs = (self.a - 1.0) * jnp.log((1.0 + goal) / 2.0) + (self.b - 1.0) * jnp.log((1.0 - goal) / 2.0)
        return jnp.sum(logs - jax.scipy.special.betaln(self.a, self.b) - jnp.log(2.0))


def _gamma(key: Key[Array, ""], shape: Float[Array, " goal"]) -> Float[Array, " goal"]:
    """Gamma variates for shapes above 1, by the rejection of Marsaglia and Tsang (2000), all tries made at once.

    A loop that tries until it succeeds compiles and runs several times as long. A try fails in less than 5% of cases.
    """
    normal, uniform = jax.random.split(key)
    x = jax.random.normal(normal, (TRIES, *shape.shape))
    u = jax.random.uniform(uniform, x.shape, minval=1e-12)
    d = jnp.broadcast_to(shape - 1.0 / 3.0, x.shape)
    v = jnp.maximum(1.0 + x / jnp.sqrt(9.0 * d), 1e-6) ** 3
    accepted = jnp.log(u) < 0.5 * x**2 + d - d * v + d * jnp.log(v)
    return jnp.take_along_axis(d * v, jnp.argmax(accepted, axis=0)[None], axis=0)[0]


class BetaPolicy(eqx.Module):
    """pi(goal | s, z): one trunk, one linear head for both parameters of the Beta."""

    mlp: MLP

    def __call__(self, obs: Float[Array, " obs"], skill: Float[Array, " skill"]) -> Beta:
        a, b = jnp.split(jax.nn.softplus(self.mlp(jnp.concatenate([obs, skill]))) + SHARPEST, 2)
        return Beta(a, b)


def init_beta_policy(key: Key[Array, ""], obs: int, skill: int, goal: int, hidden: tuple[int, ...]) -> BetaPolicy:
    """A policy with tanh layers; each of the two heads is Glorot-uniform for its own width."""
    trunk, *heads = jax.random.split(key, 3)
    mlp = init_mlp(trunk, (obs + skill, *hidden, 2 * goal), GLOROT_UNIFORM, jnp.tanh)
    weight = jnp.concatenate([GLOROT_UNIFORM(k, (hidden[-1], goal)) for k in heads], axis=1)
    return BetaPolicy(eqx.tree_at(lambda m: m.layers[-1].weight, mlp, weight))


class Normal(NamedTuple):
    """Independent normals."""

    mean: Float[Array, " skill"]
    log_std: Float[Array, " skill"]

    def sample(self, noise: Float[Array, " skill"]) -> Float[Array, " skill"]:
        return self.mean + jnp.exp(self.log_std) * noise

    def log_density(self, x: Float[Array, " skill"]) -> Float[Array, ""]:
        scaled = (x - self.mean) * jnp.exp(-self.log_std)
        return jnp.sum(-0.5 * scaled**2 - self.log_std - 0.5 * jnp.log(2.0 * jnp.pi))

    def divergence(self) -> Float[Array, ""]:
        """KL from N(0, I)."""
        return 0.5 * jnp.sum(self.mean**2 + jnp.exp(2.0 * self.log_std) - 2.0 * self.log_std - 1.0)


class TrajectoryEncoder(eqx.Module):
    """q(z | s_0, s_1, ...): an LSTM in each direction, the mean of their outputs over time, then a normal."""

    onward: eqx.nn.LSTMCell
    back: eqx.nn.LSTMCell
    mean: MLP
    log_std: MLP

    def __call__(self, states: Float[Array, "time obs"], valid: Bool[Array, " time"]) -> Normal:
        """`valid` is true up to where the trajectory ends: what follows is not read."""
        cells = jax.tree.map(lambda *x: jnp.stack(x), self.onward, self.back)  # both ways at once
        ahead, behind = jax.vmap(_run_lstm)(cells, jnp.stack([states, states[::-1]]), jnp.stack([valid, valid[::-1]]))
        outputs = jnp.concatenate([ahead, behind[::-1]], axis=1)
        pooled = jnp.sum(outputs * valid[:, None], axis=0) / jnp.maximum(jnp.sum(valid), 1)
        return Normal(self.mean(pooled), jnp.maximum(self.log_std(pooled), LOG_STD_RANGE[0]))


def _run_lstm(
    cell: eqx.nn.LSTMCell, states: Float[Array, "time obs"], valid: Bool[Array, " time"]
) -> Float[Array, "time hidden"]:
    """Outputs of an LSTM at every time; it stands still where the trajectory is over.

    What it is given by the states is one product for all times, so that a step is one product too: on a GPU an encoder
    takes as long as its chain of kernels.
    """
    given = states @ cell.weight_ih.T
    given = given if cell.bias is None else given + cell.bias[None]

    def step(memory: tuple[Array, Array], now: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        drive, is_valid = now
        hidden, kept = memory
        i, f, g, o = jnp.split(drive + cell.weight_hh @ hidden, 4)
        kept = jnp.where(is_valid, jax.nn.sigmoid(f) * kept + jax.nn.sigmoid(i) * jnp.tanh(g), kept)
        hidden = jnp.where(is_valid, jax.nn.sigmoid(o) * jnp.tanh(kept), hidden)
        return (hidden, kept), hidden

    nothing = jnp.zeros(cell.hidden_size)
    return jax.lax.scan(step, (nothing, nothing), (given, valid), unroll=UNROLL)[1]


def init_encoder(key: Key[Array, ""], obs: int, skill: int, hidden: tuple[int, ...]) -> TrajectoryEncoder:
    """An encoder whose LSTMs are as wide as its first layer."""
    onward, back, mean, log_std = jax.random.split(key, 4)
    sizes = (2 * hidden[0], *hidden, skill)
    means, log_stds = (init_mlp(k, sizes, GLOROT_UNIFORM) for k in (mean, log_std))
    return TrajectoryEncoder(
        onward=eqx.nn.LSTMCell(obs, hidden[0], key=onward),
        back=eqx.nn.LSTMCell(obs, hidden[0], key=back),
        mean=eqx.tree_at(lambda m: m.layers[-1].weight, means, SPREAD_OUT * means.layers[-1].weight),
        log_std=eqx.tree_at(lambda m: m.layers[-1].bias, log_stds, jnp.full(skill, jnp.log(FIRST_STD), jnp.float32)),
    )
