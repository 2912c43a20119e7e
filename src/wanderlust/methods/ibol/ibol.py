"""IBOL: Information Bottleneck Option Learning (Kim, Park and Kim, ICML 2021), its high level.

It acts every few steps, by setting the goal that a frozen linearizer (`linearizer.py`) then follows. A sampling policy
pi_s(goal|s, u), u ~ N(0, I), makes trajectories; an encoder q(z|trajectory) squeezes each into a few numbers, through
an information bottleneck; and the skill policy pi(goal|s, z) learns to set the same goals again, given these numbers
alone. What comes of it is the skill policy, with z ~ N(0, I). It learns from whole trajectories: no step has a reward.
"""

import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Key

from wanderlust.config import Count, RunConfig, Share, StagedConfig, Weight, require
from wanderlust.errors import UserError
from wanderlust.methods.base import FirstStage, GoalRule, HighLevelMethod, LastStageStart, Metrics, Trajectories
from wanderlust.methods.ibol.linearizer import LinearizerConfig
from wanderlust.methods.ibol.nets import BetaPolicy, Normal, TrajectoryEncoder, init_beta_policy, init_encoder
from wanderlust.methods.skills import ContinuousSkills
from wanderlust.rl.moments import Moments, moments_of, unit_moments
from wanderlust.rl.nets import descend
from wanderlust.rl.sac import frozen

SMALLEST = 1e-8
"""Added to the standard deviations by which networks see states."""
AT_ONCE = 65_536
"""Densities of `surprise` that are computed together: one after the other a GPU would wait for most of the time."""


@dataclasses.dataclass(frozen=True)
class IbolConfig(StagedConfig):
    """IBOL: skills that set goals for a linearizer, learned from trajectories through an information bottleneck.

    `hidden` is the size of both policies and, its first width, of the encoder's LSTM; SAC plays no part in this stage.
    """

    name: str = "ibol"
    bottleneck: Weight = 0.01
    """Weight of the divergence of q(z|trajectory) from the prior (beta of the paper)."""
    recovery: Weight = 2.0
    """Weight of log q(u|trajectory), by which the sampling policy's parameter is recovered."""
    spread: Weight = 1.0
    """Weight of -log p(goal|state) in what the sampling policy is rewarded for (alpha of the paper)."""
    baseline: bool = False
    """Whether REINFORCE judges a trajectory against the mean of the others in its batch, which makes it less noisy."""
    samples: Count = 16
    """Skills drawn from q(z|trajectory) for each trajectory."""
    alternatives: Count = 100
    """Parameters u over which p(goal|state) is a mean."""
    statistics_keep: Share = 0.85
    """What an epoch keeps of the running mean and variance by which both policies and the encoder see states."""

    def __post_init__(self) -> None:
        super().__post_init__()
        first = self.first.method
        require(first.name == "linearizer", f"method.first.method.name is {first.name!r}; ibol needs a 'linearizer'")

    def check(self, run: RunConfig) -> None:
        schedule, length = run.schedule, run.env.episode_length
        require(
            schedule.collect == "episodes",
            f"schedule.collect is {schedule.collect}; ibol learns from whole trajectories: episodes",
        )
        require(
            length >= 2 * self.block,
            f"env.episode_length is {length}; ibol needs at least two goals of {self.block} steps "
            "(method.first.method.block)",
        )
        require(
            min(schedule.worlds, schedule.sac_batch) >= 2 or not self.baseline,
            "method.baseline needs other trajectories to compare with: schedule.worlds and schedule.sac_batch "
            "must be at least 2",
        )
        hold = schedule.hold
        require(not hold, f"schedule.hold is {hold}, but ibol sets goals of its own; leave it at 0")

    @property
    def block(self) -> int:
        """Steps a goal is held: what the linearizer has learned."""
        return self.first.method.block if isinstance(self.first.method, LinearizerConfig) else 1


class Networks(NamedTuple):
    """All that learns."""

    sampling: BetaPolicy
    skill: BetaPolicy
    encoder: TrajectoryEncoder


class IbolState(NamedTuple):
    """Networks, what they see states by, and the optimiser."""

    networks: Networks
    statistics: Moments
    opt: optax.OptState = ()


class GoalPolicy(NamedTuple):
    """What sets subgoals: one of the two policies, and how it sees states."""

    policy: BetaPolicy
    statistics: Moments


class Terms(NamedTuple):
    """What the objective is made of, one number for each trajectory."""

    imitation: Float[Array, " episodes"]
    """log pi(goal|s, z), mean over decisions and over z ~ q(z|trajectory)."""
    divergence: Float[Array, " episodes"]
    """KL(q(z|trajectory) || N(0, I)): the bottleneck."""
    recovery: Float[Array, " episodes"]
    """log q(u|trajectory)."""


@dataclasses.dataclass(frozen=True)
class Ibol(HighLevelMethod):
    """The high level. Continuous skills only: the bottleneck is a normal distribution."""

    config: IbolConfig

    Config = IbolConfig
    State = IbolState
    takes = ("continuous",)
    stages = ("linearizer", "skills")

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.skills, ContinuousSkills) and self.skills.unit_length:
            raise UserError("ibol cannot learn skills of length 1: its encoder is a normal distribution")

    @property
    def hold(self) -> int:
        return self.config.block

    def init(self, key: Key[Array, ""], obs_dim: int) -> IbolState:
        sampling, skill, encoder = jax.random.split(key, 3)
        sizes = (obs_dim, self.skills.size, self.config.first.skills.size, self.config.hidden)
        networks = Networks(
            init_beta_policy(sampling, *sizes),
            init_beta_policy(skill, *sizes),
            init_encoder(encoder, obs_dim, self.skills.size, self.config.hidden),
        )
        return IbolState(networks, unit_moments(obs_dim), self._optimizer.init(networks))

    def start_last_stage(self, first: FirstStage) -> LastStageStart:
        """A high level that has learned nothing, over the linearizer of the same seed."""
        return LastStageStart(sac=frozen(first.policy()))

    def goal_policy(self, state: IbolState, collecting: bool) -> GoalPolicy:
        return GoalPolicy(state.networks.sampling if collecting else state.networks.skill, state.statistics)

    def goal(
        self, policy: GoalPolicy, obs: Float[Array, " obs"], skill: Float[Array, " skill"], key: Key[Array, ""] | None
    ) -> Float[Array, " goal"]:
        goals = policy.policy(policy.statistics.normalise(obs, on_root=SMALLEST), skill)
        return goals.mode() if key is None else goals.sample(key)

    def returns(self, terms: Terms, surprise: Float[Array, " episodes"]) -> Float[Array, " episodes"]:
        """What the sampling policy maximises: trajectories that skills can make again, of goals that differ."""
        return self._bottleneck(terms) + self.config.spread * surprise

    def _bottleneck(self, terms: Terms) -> Float[Array, " episodes"]:
        """What encoder and skill policy maximise."""
        c = self.config
        return terms.imitation - c.bottleneck * terms.divergence + c.recovery * terms.recovery

    def terms(self, networks: Networks, seen: Trajectories, noise: Float[Array, "samples episodes skill"]) -> Terms:
        """The parts of the objective; `noise` stands for skills drawn from the encoder."""
        codes: Normal = jax.vmap(networks.encoder)(seen.obs, seen.valid)

        def imitated(noise: Float[Array, "episodes skill"]) -> Float[Array, " episodes"]:
            log_density = decision_densities(networks.skill, seen, jax.vmap(Normal.sample)(codes, noise))
            return over_time(log_density, seen.valid)

        return Terms(
            imitation=jnp.mean(jax.vmap(imitated)(noise), axis=0),
            divergence=jax.vmap(Normal.divergence)(codes),
            recovery=jax.vmap(Normal.log_density)(codes, seen.parameter),
        )

    def surprise(self, sampling: BetaPolicy, seen: Trajectories, key: Key[Array, ""]) -> Float[Array, " episodes"]:
        """-log p(goal|s), mean over decisions; p is the mean density under parameters drawn anew for each decision."""

        def one(key: Key[Array, ""]) -> Float[Array, "episodes time"]:
            other = jax.random.normal(key, (*seen.valid.shape, self.skills.size))
            return jax.vmap(jax.vmap(lambda s, u, g: sampling(s, u).log_density(g)))(seen.obs, other, seen.goal)

        at_once = max(1, AT_ONCE // seen.valid.size)
        logs = jax.lax.map(one, jax.random.split(key, self.config.alternatives), batch_size=at_once)
        marginal = jax.nn.logsumexp(logs, axis=0) - jnp.log(float(self.config.alternatives))
        return -over_time(marginal, seen.valid)

    def loss(self, networks: Networks, seen: Trajectories, key: Key[Array, ""]) -> tuple[Float[Array, ""], Metrics]:
        """Encoder and skill policy follow the gradient of their objective; the sampling policy that of REINFORCE.

        Each has a share of its own in the sum: the returns are numbers to the sampling policy, and neither of the
        others reads it.
        """
        noise_key, other_key = jax.random.split(key)
        noise = jax.random.normal(noise_key, (self.config.samples, *seen.parameter.shape))
        terms = self.terms(networks, seen, noise)
        surprise = self.surprise(jax.lax.stop_gradient(networks.sampling), seen, other_key)
        returns = jax.lax.stop_gradient(self.returns(terms, surprise))
        log_density = decision_densities(networks.sampling, seen, seen.parameter)
        likelihood = jnp.sum(jnp.where(seen.valid, log_density, 0.0), axis=1)
        metrics = {"reward": returns, "surprise": surprise, **terms._asdict()}
        advantage = leave_one_out_advantage(returns) if self.config.baseline else returns
        loss = -jnp.mean(self._bottleneck(terms)) - jnp.mean(likelihood * advantage)
        return loss, {name: jnp.mean(value) for name, value in metrics.items()}

    def learn(self, state: IbolState, batch: Trajectories, key: Key[Array, ""]) -> tuple[IbolState, Metrics]:
        """One gradient step of all three networks."""
        seen = batch._replace(obs=state.statistics.normalise(batch.obs, on_root=SMALLEST))
        grads, metrics = jax.grad(self.loss, has_aux=True)(state.networks, seen, key)
        networks, opt = descend(self._optimizer, grads, state.opt, state.networks)
        return state._replace(networks=networks, opt=opt), metrics

    def update_statistics(self, state: IbolState, batch: Trajectories) -> IbolState:
        """Move the statistics by which states are seen, once all has been learned from what was seen by them."""
        keep, old = self.config.statistics_keep, state.statistics
        moved = old.merge(moments_of(batch.obs, batch.valid), 1.0 - keep, keep, spread="new")
        return state._replace(statistics=moved)

    kept = ("networks", "statistics")
    goal_rule: ClassVar[GoalRule] = None
    """Its encoder knows skills by trajectories, not by places."""

    def represent(self, state: IbolState, obs: Float[Array, "batch obs"]) -> Float[Array, "batch code"]:
        """The skill the encoder expects of a trajectory that is this one state."""
        alone = jnp.ones(1, bool)
        seen = state.statistics.normalise(obs, on_root=SMALLEST)
        means: Array = jax.vmap(lambda s: state.networks.encoder(s[None], alone).mean)(seen)
        return means


def decision_densities(
    policy: BetaPolicy, seen: Trajectories, skill: Float[Array, "episodes skill"]
) -> Float[Array, "episodes time"]:
    """log pi(goal|s, skill) of every decision, with one skill for each trajectory."""

    def one(obs: Array, goal: Array, skill: Array) -> Array:
        return jax.vmap(lambda o, g: policy(o, skill).log_density(g))(obs, goal)

    return jax.vmap(one)(seen.obs, seen.goal, skill)


def over_time(x: Float[Array, "episodes time"], valid: Bool[Array, "episodes time"]) -> Float[Array, " episodes"]:
    """The mean over the decisions of each trajectory."""
    return jnp.sum(jnp.where(valid, x, 0.0), axis=1) / jnp.maximum(jnp.sum(valid, axis=1), 1)


def leave_one_out_advantage(returns: Float[Array, " episodes"]) -> Float[Array, " episodes"]:
    """By how much each exceeds the mean of all others, which does not depend on it: a baseline without a bias."""
    count = returns.shape[0]
    return (returns - jnp.mean(returns)) * (count / (count - 1))
