"""Proximal policy optimisation for a choice among N. It knows rewards and observations, and not what is chosen.

Schulman et al. 2017: "Proximal Policy Optimization Algorithms"; advantages as in Schulman et al. 2016 (GAE).
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, Linear, Metrics, descend, init_mlp


@dataclasses.dataclass(frozen=True)
class PpoConfig:
    """Numbers of the learner; how much is collected and how often it learns is the caller's."""

    hidden: tuple[int, ...] = (512, 512)
    learning_rate: float = 3e-4
    discount: float = 0.995
    trace: float = 0.95
    """Lambda of the advantages: 0 trusts the value function, 1 trusts what happened."""
    clip: float = 0.2
    """The ratio of new and old probability counts up to 1 +- this."""
    entropy: float = 0.01
    """Weight of the policy's entropy in its objective."""


class Episodes(NamedTuple):
    """Episodes side by side, [time, worlds, ...]; entries after the end of an episode mean nothing."""

    obs: Float[Array, "time worlds obs"]
    action: Int[Array, "time worlds"]
    log_prob: Float[Array, "time worlds"]
    """Of the action, under the policy that chose it."""
    reward: Float[Array, "time worlds"]
    next_obs: Float[Array, "time worlds obs"]
    last: Bool[Array, "time worlds"]
    """The episode ends here, for whatever reason: no value beyond this step."""


class PpoBatch(NamedTuple):
    """What one gradient step reads."""

    obs: Float[Array, "batch obs"]
    action: Int[Array, " batch"]
    log_prob: Float[Array, " batch"]
    advantage: Float[Array, " batch"]
    target: Float[Array, " batch"]
    """What the value function should say: the discounted return."""


class PpoNetworks(NamedTuple):
    """Both see observations, and share nothing."""

    policy: MLP
    """One logit for each choice."""
    value: MLP


class PpoState(NamedTuple):
    """Everything that learning changes."""

    networks: PpoNetworks
    opt: optax.OptState


@dataclasses.dataclass(frozen=True)
class Ppo:
    """The learner: configuration and sizes, no state."""

    config: PpoConfig
    obs_dim: int
    choices: int

    def init(self, key: Key[Array, ""]) -> PpoState:
        """Fresh networks; the policy starts near the uniform choice."""
        policy_key, value_key = jax.random.split(key)
        policy = init_mlp(policy_key, (self.obs_dim, *self.config.hidden, self.choices), GLOROT_UNIFORM, jnp.tanh)
        head = policy.layers[-1]
        policy = MLP((*policy.layers[:-1], Linear(0.1 * head.weight, head.bias)), policy.activation)
        value = init_mlp(value_key, (self.obs_dim, *self.config.hidden, 1), GLOROT_UNIFORM)
        networks = PpoNetworks(policy, value)
        return PpoState(networks, optax.adam(self.config.learning_rate).init(networks))

    # --- what is learned from ----------------------------------------------------------------------------------

    def with_advantages(self, state: PpoState, episodes: Episodes) -> PpoBatch:
        """Advantages and returns of whole episodes; [time, worlds, ...], like what they are made of."""
        value, next_value = (_values(state.networks.value, x) for x in (episodes.obs, episodes.next_obs))
        next_value = jnp.where(episodes.last, 0.0, next_value)
        td_error = episodes.reward + self.config.discount * next_value - value
        advantage = _backwards(td_error, episodes.last, self.config.discount * self.config.trace)
        target = _backwards(episodes.reward, episodes.last, self.config.discount)
        return PpoBatch(episodes.obs, episodes.action, episodes.log_prob, advantage, target)

    # --- losses ------------------------------------------------------------------------------------------------

    def policy_loss(self, policy: MLP, batch: PpoBatch) -> tuple[Float[Array, ""], Metrics]:
        """Minus the clipped objective (equation 7) and minus some entropy; advantages at mean 0 and variance 1."""
        log_probs = jax.nn.log_softmax(jax.vmap(policy)(batch.obs))
        ratio = jnp.exp(jnp.take_along_axis(log_probs, batch.action[:, None], axis=1)[:, 0] - batch.log_prob)
        advantage = (batch.advantage - jnp.mean(batch.advantage)) / (jnp.std(batch.advantage) + 1e-8)
        near = jnp.clip(ratio, 1.0 - self.config.clip, 1.0 + self.config.clip)
        objective = jnp.mean(jnp.minimum(ratio * advantage, near * advantage))
        entropy = -jnp.mean(jnp.sum(jnp.exp(log_probs) * log_probs, axis=1))
        clipped = jnp.mean(jnp.abs(ratio - 1.0) > self.config.clip)
        return -objective - self.config.entropy * entropy, {"entropy": entropy, "clipped": clipped}

    def value_loss(self, value: MLP, batch: PpoBatch) -> Float[Array, ""]:
        """The squared distance from the returns."""
        return jnp.mean((_values(value, batch.obs) - batch.target) ** 2)

    # --- update ------------------------------------------------------------------------------------------------

    def update(self, state: PpoState, batch: PpoBatch) -> tuple[PpoState, Metrics]:
        """One gradient step of both networks: their sum of losses, in which each has a term of its own."""

        def loss(networks: PpoNetworks) -> tuple[Float[Array, ""], Metrics]:
            policy_loss, metrics = self.policy_loss(networks.policy, batch)
            value_loss = self.value_loss(networks.value, batch)
            return policy_loss + value_loss, {"value_loss": value_loss, **metrics}

        grads, metrics = jax.grad(loss, has_aux=True)(state.networks)
        return PpoState(*descend(optax.adam(self.config.learning_rate), grads, state.opt, state.networks)), metrics


def sample_choices(
    policy: MLP, obs: Float[Array, "batch obs"], key: Key[Array, ""]
) -> tuple[Int[Array, " batch"], Float[Array, " batch"]]:
    """Choices drawn from the policy, and their log-probabilities."""
    log_probs = jax.nn.log_softmax(jax.vmap(policy)(obs))
    action = jax.random.categorical(key, log_probs)
    return action, jnp.take_along_axis(log_probs, action[:, None], axis=1)[:, 0]


def likeliest_choices(policy: MLP, obs: Float[Array, "batch obs"]) -> Int[Array, " batch"]:
    """The policy's mode."""
    return jnp.argmax(jax.vmap(policy)(obs), axis=1)


def _values(value: MLP, obs: Float[Array, "*batch obs"]) -> Float[Array, "*batch"]:
    flat = jax.vmap(value)(obs.reshape(-1, obs.shape[-1]))
    return flat[:, 0].reshape(obs.shape[:-1])


def _backwards(
    x: Float[Array, "time worlds"], last: Bool[Array, "time worlds"], keep: float
) -> Float[Array, "time worlds"]:
    """y_t = x_t + keep y_{t+1}, where nothing follows the last step of an episode."""

    def step(later: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        x, last = now
        total = x + keep * jnp.where(last, 0.0, later)
        return total, total

    return jax.lax.scan(step, jnp.zeros(x.shape[1:]), (x, last), reverse=True)[1]
