"""APS (Liu and Abbeel, ICML 2021) as the LSD paper runs it: VISR's reward and a reward for being far from known states.

The cosine between phi(s') and the skill tells skills apart; the distance in phi's space from s' to its nearest among
remembered states (a k-nearest-neighbour estimate of the states' entropy, as in APT) sends them out. phi learns from the
cosine alone. No successor features: the critics are those of any other method.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

from wanderlust.config import MethodConfig, require
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import GoalRule, Metrics
from wanderlust.methods.encoder import EncoderMethod
from wanderlust.rl.nets import MLP, directions

UPDATES_REMEMBERED = 64
"""Updates after which all of the memory has been replaced."""


@dataclasses.dataclass(frozen=True)
class ApsConfig(MethodConfig):
    """APS: VISR's reward, and the distance to the nearest of many remembered states."""

    name: str = "aps"
    neighbours: int = 5
    memory: int = 2048
    """States among which neighbours are searched."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            1 <= self.neighbours < self.memory,
            f"method.neighbours is {self.neighbours}; it must be at least 1 and below method.memory, {self.memory}",
        )


class Memory(NamedTuple):
    """A ring of observations, rather than of their phi: distances are always those of the current phi."""

    obs: Float[Array, "memory obs"]
    cursor: Int[Array, ""]
    size: Int[Array, ""]


class ApsState(NamedTuple):
    """phi's weights and its optimiser; what has been seen, and how far apart it has been."""

    encoder: MLP
    opt: optax.OptState
    memory: Memory
    usual_distance: Float[Array, ""]
    """To the nearest neighbours: the mean over all updates that could measure it, 0 before the first."""
    measured: Int[Array, ""]
    """How many updates that were."""
    key: Key[Array, ""]


def _fresh(encoder: MLP, opt: optax.OptState, memory: int, key: Key[Array, ""]) -> ApsState:
    obs, none = jnp.zeros((memory, encoder.layers[0].weight.shape[0])), jnp.zeros((), jnp.int32)
    return ApsState(encoder, opt, Memory(obs, none, none), jnp.zeros(()), none, key)


@dataclasses.dataclass(frozen=True)
class Aps(EncoderMethod):
    """Continuous and discrete APS: a one-hot is a direction like any other."""

    config: ApsConfig

    Config = ApsConfig
    entropy = None
    goal_rule: ClassVar[GoalRule] = "goal"

    def init(self, key: Key[Array, ""], obs_dim: int) -> ApsState:
        encoder_key, key = jax.random.split(key)
        encoder = self.init_encoder(encoder_key, obs_dim)
        return _fresh(encoder, self._optimizer.init(encoder), self.config.memory, key)

    def reward(self, state: ApsState, batch: Transition) -> Float[Array, " batch"]:
        """r = cos(phi(s'), z) + log(1 + d / its usual size), d the mean distance of phi(s') to its k neighbours."""
        return super().reward(state, batch) + _entropy(state, self._distances(state, batch))

    def rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        """The cosine alone, which is what phi maximises."""
        return jnp.sum(directions(jax.vmap(phi)(batch.next_obs)) * directions(batch.skill), axis=1)

    def _distances(self, state: ApsState, batch: Transition) -> Float[Array, " batch"]:
        """The mean distance to the k nearest after the first, which may be s' itself; 0 while too few are known."""
        phi, memory = jax.vmap(jax.lax.stop_gradient(state.encoder)), state.memory
        # coordinate by coordinate: exact also for near neighbours, and compiled without an array [batch, memory, code]
        pairs = zip(phi(batch.next_obs).T, phi(memory.obs).T, strict=True)
        squared: Array = sum(((x[:, None] - y[None]) ** 2 for x, y in pairs), jnp.zeros(()))
        squared = jnp.where((jnp.arange(len(memory.obs)) < memory.size)[None], squared, jnp.inf)
        # The next larger one, k times. lax.top_k is a full sort on a GPU once it is mapped over seeds.
        nearest = [jnp.min(squared, axis=1)]
        for _ in range(self.config.neighbours):
            nearest.append(jnp.min(jnp.where(squared > nearest[-1][:, None], squared, jnp.inf), axis=1))
        distance = jnp.mean(jnp.sqrt(jnp.stack(nearest[1:])), axis=0)
        return jnp.where(jnp.isfinite(distance), distance, 0.0)

    def update(self, state: ApsState, batch: Transition) -> tuple[ApsState, Metrics]:
        after, metrics = super().update(state, batch)
        distances = self._distances(state, batch)
        mean = jnp.mean(distances)
        measured = state.measured + (mean > 0)
        share = jnp.where(mean > 0, 1.0 / jnp.maximum(measured, 1), 0.0)
        key, draw = jax.random.split(state.key)
        after = after._replace(
            memory=self._remember(state.memory, batch.next_obs, draw),
            usual_distance=state.usual_distance + share * (mean - state.usual_distance),
            measured=measured,
            key=key,
        )
        entropy = jnp.mean(_entropy(state, distances))
        return after, {**metrics, "alignment_reward": -metrics["phi_loss"], "entropy_reward": entropy}

    def _remember(self, memory: Memory, obs: Float[Array, "batch obs"], key: Key[Array, ""]) -> Memory:
        """Random rows of a batch in place of the oldest; its order may mean something, so not the first ones."""
        capacity, available = self.config.memory, obs.shape[0]
        count = min(max(capacity // UPDATES_REMEMBERED, 1), available)
        rows = obs[jax.random.randint(key, (count,), 0, available)]
        places = (memory.cursor + jnp.arange(count)) % capacity
        return Memory(
            obs=memory.obs.at[places].set(rows),
            cursor=(memory.cursor + count) % capacity,
            size=jnp.minimum(memory.size + count, capacity),
        )

    def restored(self, kept: Mapping[str, Any]) -> ApsState:
        """Without remembered states: the reward is the cosine alone."""
        return _fresh(kept["encoder"], (), 1, jax.random.key(0))


def _entropy(state: ApsState, distances: Float[Array, " batch"]) -> Float[Array, " batch"]:
    """0 until the usual distance is known: without it the size of phi, which the cosine leaves free, would count."""
    usual = jnp.where(state.usual_distance > 0, state.usual_distance, jnp.inf)
    return jnp.log1p(distances / usual)
