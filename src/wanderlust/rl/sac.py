"""Soft actor-critic with twin critics. It knows rewards and inputs; the skill is just one of the inputs.

Haarnoja et al. 2018: "Soft Actor-Critic Algorithms and Applications" (equations numbered as there).
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Key

from wanderlust.config import Precision, SacConfig
from wanderlust.rl.nets import Critic, Policy, TanhNormal, Tree, descend, in_precision, init_critic, init_policy

ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu}


class Batch(NamedTuple):
    """What one gradient step reads."""

    obs: Float[Array, "batch obs"]
    skill: Float[Array, "batch skill"]
    action: Float[Array, "batch action"]
    reward: Float[Array, " batch"]
    next_obs: Float[Array, "batch obs"]
    terminal: Bool[Array, " batch"]
    """No value beyond this step."""


class SacState(NamedTuple):
    """Everything that learning changes."""

    policy: Policy
    critics: Critic
    """Both critics, stacked along a leading axis of 2."""
    targets: Critic
    log_alpha: Float[Array, ""]
    policy_opt: optax.OptState
    critic_opt: optax.OptState
    alpha_opt: optax.OptState


@dataclasses.dataclass(frozen=True)
class Sac:
    """The learner: configuration and sizes, no state."""

    config: SacConfig
    obs_dim: int
    skill_dim: int
    action_dim: int
    precision: Precision = "float32"

    def init(self, key: Key[Array, ""]) -> SacState:
        """Fresh networks; the targets start as copies of the critics."""
        policy_key, *critic_keys = jax.random.split(key, 3)
        c = self.config
        sizes = (self.obs_dim, self.skill_dim, self.action_dim, c.hidden)
        policy = init_policy(policy_key, *sizes, ACTIVATIONS[c.policy_activation])
        critics = jax.vmap(lambda k: init_critic(k, *sizes, c.critic_layer_norm))(jnp.stack(critic_keys))
        log_alpha = jnp.log(jnp.float32(c.alpha))
        return SacState(
            policy=policy,
            critics=critics,
            targets=critics,
            log_alpha=log_alpha,
            policy_opt=optax.adam(c.policy_learning_rate).init(policy),
            critic_opt=optax.adam(c.critic_learning_rate).init(critics),
            alpha_opt=optax.adam(c.alpha_learning_rate).init(log_alpha),
        )

    # --- losses --------------------------------------------------------------------------------------------

    def critic_loss(
        self, critics: Critic, state: SacState, batch: Batch, key: Key[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Half the squared soft Bellman residual (equations 5 and 6), summed over the twins; and the mean value."""
        next_action, log_prob = sample_actions(self._cast(state.policy), batch.next_obs, batch.skill, key)
        next_q = jnp.min(twin_values(self._cast(state.targets), batch.next_obs, batch.skill, next_action), axis=0)
        soft_value = next_q - jnp.exp(state.log_alpha) * log_prob
        target = batch.reward + self.config.discount * jnp.where(batch.terminal, 0.0, soft_value)
        q = twin_values(self._cast(critics), batch.obs, batch.skill, batch.action)
        residual = q - jax.lax.stop_gradient(target)[None]
        return 0.5 * jnp.sum(jnp.mean(residual**2, axis=1)), jnp.mean(q)

    def policy_loss(
        self, policy: Policy, state: SacState, batch: Batch, key: Key[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """E[alpha log pi(a|s) - min Q(s, a)] (equation 7), and the policy's entropy."""
        action, log_prob = sample_actions(self._cast(policy), batch.obs, batch.skill, key)
        q = jnp.min(twin_values(self._cast(state.critics), batch.obs, batch.skill, action), axis=0)
        return jnp.mean(jnp.exp(state.log_alpha) * log_prob - q), -jnp.mean(log_prob)

    def alpha_loss(self, log_alpha: Float[Array, ""], entropy: Float[Array, ""]) -> Float[Array, ""]:
        """Moves alpha up while the entropy is below its target (equation 18, in log alpha)."""
        target = -self.config.target_entropy_per_action * self.action_dim
        return log_alpha * jax.lax.stop_gradient(entropy - target)

    # --- update --------------------------------------------------------------------------------------------

    def update(
        self, state: SacState, batch: Batch, key: Key[Array, ""]
    ) -> tuple[SacState, dict[str, Float[Array, ""]]]:
        """One gradient step of critics, then policy, then alpha."""
        c = self.config
        critic_key, policy_key = jax.random.split(key)
        (critic_loss, q), grads = jax.value_and_grad(self.critic_loss, has_aux=True)(
            state.critics, state, batch, critic_key
        )
        critics, critic_opt = descend(optax.adam(c.critic_learning_rate), grads, state.critic_opt, state.critics)
        state = state._replace(critics=critics, critic_opt=critic_opt)

        (_, entropy), grads = jax.value_and_grad(self.policy_loss, has_aux=True)(state.policy, state, batch, policy_key)
        learned = descend(optax.adam(c.policy_learning_rate), grads, state.policy_opt, state.policy)
        if c.policy_after:
            waits = state.critic_opt[0].count <= c.policy_after
            learned = jax.tree.map(partial(jnp.where, waits), (state.policy, state.policy_opt), learned)
        state = state._replace(policy=learned[0], policy_opt=learned[1])

        if c.learn_alpha:
            grad = jax.grad(self.alpha_loss)(state.log_alpha, entropy)
            log_alpha, alpha_opt = descend(optax.adam(c.alpha_learning_rate), grad, state.alpha_opt, state.log_alpha)
            state = state._replace(log_alpha=log_alpha, alpha_opt=alpha_opt)

        metrics = {"critic_loss": critic_loss, "q": q, "entropy": entropy, "alpha": jnp.exp(state.log_alpha)}
        return self._with_moved_targets(state) if c.target_update == "step" else state, metrics

    def end_epoch(self, state: SacState) -> SacState:
        """Move the target critics where the recipe does so once an epoch, and not after every gradient step."""
        return self._with_moved_targets(state) if self.config.target_update == "epoch" else state

    def _with_moved_targets(self, state: SacState) -> SacState:
        """A Polyak step of the target critics."""
        tau = self.config.target_step
        targets = jax.tree.map(lambda t, c: t + tau * (c - t), state.targets, state.critics)
        return state._replace(targets=targets)

    def _cast(self, networks: Tree) -> Tree:
        return in_precision(networks, self.precision)


def frozen(policy: Policy) -> SacState:
    """A policy that learns no more: nothing else is kept."""
    nothing: Any = ()
    return SacState(policy, nothing, nothing, nothing, nothing, nothing, nothing)


def twin_values(
    critics: Critic, obs: Float[Array, "batch obs"], skill: Float[Array, "batch skill"], action: Float[Array, "batch a"]
) -> Float[Array, "2 batch"]:
    """Both critics' values of a batch."""
    # Inputs get the critics' axis too: a product of two batched operands needs no transposition of its result.
    inputs = (jnp.broadcast_to(x, (2, *x.shape)) for x in (obs, skill, action))
    return jax.vmap(jax.vmap(Critic.__call__, in_axes=(None, 0, 0, 0)))(critics, *inputs)


def sample_actions(
    policy: Policy, obs: Float[Array, "batch obs"], skill: Float[Array, "batch skill"], key: Key[Array, ""]
) -> tuple[Float[Array, "batch action"], Float[Array, " batch"]]:
    """Actions drawn from the policy, and their log-densities."""
    dist = jax.vmap(policy)(obs, skill)
    return jax.vmap(TanhNormal.sample)(dist, jax.random.normal(key, dist.mean.shape))


def noisy_actions(
    policy: Policy,
    obs: Float[Array, "batch obs"],
    skill: Float[Array, "batch skill"],
    noise: Float[Array, "batch action"],
) -> Float[Array, "batch action"]:
    """The actions that standard-normal noise stands for."""
    return jax.vmap(lambda o, z, n: policy(o, z).sample(n)[0])(obs, skill, noise)


def mode_actions(
    policy: Policy, obs: Float[Array, "batch obs"], skill: Float[Array, "batch skill"]
) -> Float[Array, "batch action"]:
    """The policy's mode actions."""
    return jax.vmap(lambda o, z: policy(o, z).mode())(obs, skill)
