"""DADS: Dynamics-Aware Discovery of Skills (Sharma et al., ICLR 2020), as the authors of LSD run it.

Skill dynamics q(s'|s, z) predict what a skill does next, and the reward is how much better they do so under the skill
that acts than under others: skills are to be predictable, and unlike each other. Here q is a Gaussian of standard
deviation 1 over the change s' - s, normalised by running statistics.
"""

import dataclasses
import math
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from wanderlust.config import Count, MethodConfig
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import NOTHING, GoalRule, Method, Metrics
from wanderlust.methods.skills import DiscreteSkills
from wanderlust.rl.moments import Moments, moments_of, unit_moments
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, descend, init_mlp

MOMENTUM = 0.01
"""By how much one update moves the running statistics, as in the later code of LSD's authors."""
LARGEST_GAP = 50.0
"""Between the log-likelihoods of two skills; beyond it they count as this far apart."""
SMALLEST = 1e-5
"""Added to variances, so that the rounding of entries that never change is not blown up."""
AT_ONCE = 2**26
"""Numbers of one hidden layer (256 MiB) that a reward computes at a time: it takes the other skills some at a time."""
AT_ONCE_ON_CPU = 2**20
"""The same on a CPU (4 MiB, which fit its caches). More memory is asked of the system anew in every reward, which takes
as long as the arithmetic."""


@dataclasses.dataclass(frozen=True)
class DadsConfig(MethodConfig):
    """DADS: skill dynamics, whose likelihood is compared with that under other skills."""

    name: str = "dads"
    alternatives: Count = 100
    """Other skills the reward compares with, drawn from the prior."""


class DadsState(NamedTuple):
    """The skill dynamics, what normalises them, and what draws the skills they are compared under."""

    encoder: MLP
    """(normalised state, skill) -> mean of the normalised change."""
    states: Moments
    changes: Moments
    updates: Float[Array, ""] = NOTHING
    """How many there have been."""
    key: Key[Array, ""] = NOTHING
    opt: optax.OptState = NOTHING


@dataclasses.dataclass(frozen=True)
class Dads(Method):
    """Continuous and discrete DADS: they differ in the skills a reward compares with."""

    config: DadsConfig

    Config = DadsConfig
    State = DadsState
    entropy = None

    def init(self, key: Key[Array, ""], obs_dim: int) -> DadsState:
        weights, draws = jax.random.split(key)
        encoder = init_mlp(weights, (obs_dim + self.skills.size, *self.config.hidden, obs_dim), GLOROT_UNIFORM)
        moments = unit_moments(obs_dim)
        return DadsState(encoder, moments, moments, jnp.zeros(()), draws, self._optimizer.init(encoder))

    def reward(self, state: DadsState, batch: Transition) -> Float[Array, " batch"]:
        """r = log(L + 1) - log(1 + sum_i q(s'|s, z_i) / q(s'|s, z)) for L other skills z_i."""
        seen, change = self._seen(state, batch.obs), state.changes.normalise(batch.next_obs - batch.obs, SMALLEST)
        own = _log_q(change, _predicted(state.encoder, seen, batch.skill))
        others = self.alternatives(state)
        gap = _log_q_of_each(state.encoder, seen, change, others) - own[None]
        ratio, count = jnp.exp(jnp.clip(gap, -LARGEST_GAP, LARGEST_GAP)), len(others) + 1
        if isinstance(self.skills, DiscreteSkills):  # the skill itself is among them
            ratio, count = ratio * (1.0 - batch.skill.T), len(others)
        # the dynamics learn by maximum likelihood alone
        return jax.lax.stop_gradient(math.log(count) - jnp.log1p(jnp.sum(ratio, axis=0)))

    def alternatives(self, state: DadsState) -> Float[Array, "others skill"]:
        """The skills a whole batch is compared with: draws from the prior, new after each update; or all of N."""
        if isinstance(self.skills, DiscreteSkills):
            return self.skills.all()
        _, draw = jax.random.split(state.key)
        return jax.vmap(self.skills.sample)(jax.random.split(draw, self.config.alternatives))

    def _seen(self, state: DadsState, obs: Float[Array, "batch obs"]) -> Float[Array, "batch obs"]:
        """What the dynamics see of a state: under -xyo nothing, where q is that of (x' - x, y' - y) given z alone."""
        return jnp.zeros_like(obs) if self.config.view == "xyo" else state.states.normalise(obs, SMALLEST)

    def loss(self, encoder: MLP, state: DadsState, batch: Transition) -> Float[Array, ""]:
        """Minus the log-likelihood of what happened, without its constant."""
        change = state.changes.normalise(batch.next_obs - batch.obs, SMALLEST)
        return -jnp.mean(_log_q(change, _predicted(encoder, self._seen(state, batch.obs), batch.skill)))

    def update(self, state: DadsState, batch: Transition) -> tuple[DadsState, Metrics]:
        loss, grads = jax.value_and_grad(self.loss)(state.encoder, state, batch)
        encoder, opt = descend(self._optimizer, grads, state.opt, state.encoder)
        # at first all batches count the same, so that it does not matter where the statistics started
        share = jnp.maximum(MOMENTUM, 1.0 / (state.updates + 1.0))
        states = state.states.merge(moments_of(batch.obs), share)
        changes = state.changes.merge(moments_of(batch.next_obs - batch.obs), share)
        key, _ = jax.random.split(state.key)
        return DadsState(encoder, states, changes, state.updates + 1.0, key, opt), {"phi_loss": loss}

    kept = ("encoder", "states", "changes")
    plans = True
    goal_rule: ClassVar[GoalRule] = None

    def predict(
        self, state: DadsState, obs: Float[Array, "batch obs"], skill: Float[Array, "batch skill"]
    ) -> Float[Array, "batch obs"]:
        """The mean change s' - s under a skill, in the units of the method's view."""
        return state.changes.restore(_predicted(state.encoder, self._seen(state, obs), skill), SMALLEST)

    def network(self, state: DadsState) -> None:
        return None


# --- the skill dynamics -----------------------------------------------------------------------------------------


def _predicted(dynamics: MLP, seen: Array, skill: Float[Array, "batch skill"]) -> Float[Array, "batch obs"]:
    return jax.vmap(dynamics)(jnp.concatenate([seen, skill], axis=1))


def _log_q(change: Float[Array, "batch obs"], predicted: Float[Array, "batch obs"]) -> Float[Array, " batch"]:
    return -0.5 * jnp.sum((change - predicted) ** 2, axis=1)


def _log_q_of_each(dynamics: MLP, seen: Array, change: Array, skills: Array) -> Float[Array, "skills batch"]:
    """Every transition under every skill. States and skills go through the first layer apart, for it is linear."""
    first, rest = dynamics.layers[0], MLP(dynamics.layers[1:], dynamics.activation)
    from_states = seen @ first.weight[: seen.shape[1]] + first.bias[None]
    from_skills = skills @ first.weight[seen.shape[1] :]

    def under(skill: Float[Array, " hidden"]) -> Float[Array, " batch"]:
        return _log_q(change, jax.vmap(rest)(dynamics.activation(from_states + skill[None])))

    widest = max(layer.bias.size for layer in dynamics.layers)
    at_once = AT_ONCE_ON_CPU if jax.default_backend() == "cpu" else AT_ONCE
    rounds = math.ceil(len(skills) * len(seen) * widest / at_once)
    return jax.lax.map(under, from_skills, batch_size=math.ceil(len(skills) / rounds))
