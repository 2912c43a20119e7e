"""A VQ-VAE of states (van den Oord et al., 2017): EDL's second stage, which finds a state for each skill to reach.

An encoder maps a state to the nearest of N codes, and a decoder rebuilds the state from it; so the decoded codes stand
for all the states that were seen. Everything here is for one seed; callers map over seeds.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

from wanderlust.config import Count, Positive, StagedConfig, require
from wanderlust.rl.moments import Moments, moments_of
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, descend, init_mlp

FARTHEST = 5.0
"""Standard deviations from the mean beyond which the encoder sees all states alike."""


@dataclasses.dataclass(frozen=True)
class EdlConfig(StagedConfig):
    """EDL: after exploration by SMM, a VQ-VAE of the states found, and skills that reach its codes.

    `hidden` and `learning_rate` are the VQ-VAE's.
    """

    name: str = "edl"
    code: Count = 16
    """Entries of a code."""
    commitment: Positive = 1.5
    """Weight of the encoder's distance to its code in the VQ-VAE's loss."""
    code_steps: Count = 50_000
    """Gradient steps of the VQ-VAE."""
    code_batch: Count = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        first = self.first.method
        require(first.name == "smm", f"method.first.method.name is {first.name!r}; edl explores with 'smm'")


class States(NamedTuple):
    """The states to sum up."""

    obs: Float[Array, "room obs"]
    size: Int[Array, ""]
    """How many of them there are; what follows is empty."""


class VqVae(NamedTuple):
    """The networks and the codes."""

    encoder: MLP
    decoder: MLP
    codebook: Float[Array, "codes code"]


class Fit(NamedTuple):
    """A VQ-VAE that is being learned."""

    model: VqVae
    opt: optax.OptState
    key: Key[Array, ""]


def init(config: EdlConfig, codes: int, obs_dim: int, key: Key[Array, ""]) -> Fit:
    """Fresh networks, and codes near zero."""
    encoder, decoder, codebook, key = jax.random.split(key, 4)
    model = VqVae(
        init_mlp(encoder, (obs_dim, *config.hidden, config.code), GLOROT_UNIFORM),
        init_mlp(decoder, (config.code, *config.hidden, obs_dim), GLOROT_UNIFORM),
        jax.random.uniform(codebook, (codes, config.code), minval=-1.0 / codes, maxval=1.0 / codes),
    )
    return Fit(model, optax.adam(config.learning_rate).init(model), key)


def moments_of_states(states: States) -> Moments:
    """Of the states there are: the networks see standardised states, errors are those of states."""
    return moments_of(states.obs, jnp.arange(len(states.obs)) < states.size, divide_last=True)


def encode(model: VqVae, moments: Moments, obs: Float[Array, "batch obs"]) -> Float[Array, "batch code"]:
    """Before it is put in place of the nearest code."""
    standardised = moments.normalise(obs, on_root=1e-6)
    return jax.vmap(model.encoder)(jnp.clip(standardised, -FARTHEST, FARTHEST))


def nearest(codebook: Float[Array, "codes code"], encoded: Float[Array, "batch code"]) -> Int[Array, " batch"]:
    """Which code is nearest."""
    return jnp.argmin(jnp.sum((encoded[:, None] - codebook[None]) ** 2, axis=2), axis=1)


def decode(model: VqVae, moments: Moments, code: Float[Array, "batch code"]) -> Float[Array, "batch obs"]:
    """The states that codes stand for."""
    return moments.restore(jax.vmap(model.decoder)(code))


def loss(
    model: VqVae, moments: Moments, obs: Float[Array, "batch obs"], commitment: float
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """||s - rebuilt||^2 + ||sg(e) - c||^2 + commitment ||e - sg(c)||^2, averaged over the batch; and the first of them.

    e is an encoded state, c the code nearest to it. The decoder's gradient passes to the encoder as if e were c.
    """
    encoded = encode(model, moments, obs)
    code = model.codebook[nearest(model.codebook, encoded)]
    straight_through = encoded + jax.lax.stop_gradient(code - encoded)
    error = _squared(obs, decode(model, moments, straight_through))
    codes_follow = _squared(jax.lax.stop_gradient(encoded), code)
    encoder_commits = _squared(encoded, jax.lax.stop_gradient(code))
    return error + codes_follow + commitment * encoder_commits, error


def _squared(a: Float[Array, "batch n"], b: Float[Array, "batch n"]) -> Float[Array, ""]:
    return jnp.mean(jnp.sum((a - b) ** 2, axis=1))


def fit(config: EdlConfig, states: States, fitted: Fit, steps: Int[Array, ""]) -> tuple[Fit, Float[Array, ""]]:
    """So many gradient steps, on batches drawn with replacement; and the mean error of a state over them."""
    moments = moments_of_states(states)

    def step(_: int, carry: tuple[Fit, Float[Array, ""]]) -> tuple[Fit, Float[Array, ""]]:
        (model, opt, key), total = carry
        key, draw = jax.random.split(key)
        obs = states.obs[jax.random.randint(draw, (config.code_batch,), 0, states.size)]
        (_, error), grads = jax.value_and_grad(loss, has_aux=True)(model, moments, obs, config.commitment)
        return Fit(*descend(optax.adam(config.learning_rate), grads, opt, model), key), total + error

    fitted, total = jax.lax.fori_loop(0, steps, step, (fitted, jnp.zeros(())))
    return fitted, total / jnp.maximum(steps, 1)


class CodeSummary(NamedTuple):
    """What states were summed up in."""

    goal: Float[Array, "codes obs"]
    """The state each code stands for."""
    share: Float[Array, " codes"]
    """The share of the states that it stands for."""
    spread: Float[Array, ""]
    """The mean squared distance of a state from the one that stands for it."""


def summarise(model: VqVae, states: States) -> CodeSummary:
    """The goals, and how well they stand for the states."""
    moments = moments_of_states(states)
    there, count = jnp.arange(len(states.obs)) < states.size, jnp.maximum(states.size, 1)
    goals, code = decode(model, moments, model.codebook), nearest(model.codebook, encode(model, moments, states.obs))
    share = jnp.zeros(len(goals)).at[code].add(there / count)
    spread = jnp.sum(jnp.where(there, jnp.sum((states.obs - goals[code]) ** 2, axis=1), 0.0)) / count
    return CodeSummary(goals, share, spread)
