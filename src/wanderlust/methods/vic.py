"""VIC: Variational Intrinsic Control (Gregor et al., 2016) as the LSD paper analyses it; equations are its.

A discriminator guesses the skill from where an episode began and where it ended, so there is one reward an episode: at
its last step. The paper models the guess by a difference, mu(s_0, s_T) = phi(s_T) - phi(s_0), and takes the objective
apart to arrive at LSD; it does not run it.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from wanderlust.config import MethodConfig, RunConfig, require
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import GoalRule, Metrics
from wanderlust.methods.encoder import EncoderMethod, EncoderState
from wanderlust.methods.skills import ContinuousSkills, guessed, log_likelihood
from wanderlust.rl.nets import MLP


@dataclasses.dataclass(frozen=True)
class VicConfig(MethodConfig):
    """VIC: one reward an episode."""

    name: str = "vic"

    def check(self, run: RunConfig) -> None:
        hold = run.schedule.hold
        require(not hold, f"schedule.hold is {hold}, but vic is paid for whole episodes; leave it at 0")


@dataclasses.dataclass(frozen=True)
class Vic(EncoderMethod):
    """Continuous and discrete VIC: they differ in the discriminator's distribution."""

    config: VicConfig

    Config = VicConfig
    entropy = None
    keeps_start = True

    @classmethod
    def adapt(cls, config: RunConfig) -> RunConfig:
        """A reward at the last step must reach the first one: a horizon of one episode, which is all there is."""
        discount = 1.0 - 1.0 / config.env.episode_length
        sac = dataclasses.replace(config.sac, discount=discount, time_limit_is_terminal=True)
        return dataclasses.replace(config, sac=sac)

    def rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        """log q(z|s_0, s_T) without its constants at the last step (equation 3), nothing before it.

        -||z - (phi(s') - phi(s_0))||^2 / 2 as in equation 4, or the log-softmax of that difference at the skill.
        """
        both = jnp.concatenate([batch.next_obs, jnp.asarray(batch.start)])
        after, start = jnp.split(jax.vmap(phi)(both), 2)
        return jnp.where(_last(batch), log_likelihood(self.skills, after - start, batch.skill), 0.0)

    def loss(self, phi: MLP, batch: Transition) -> Float[Array, ""]:
        """Maximum likelihood of the skill over the episodes that end in this batch; 0 if none does."""
        ends = jnp.maximum(jnp.sum(_last(batch)), 1)
        return -jnp.sum(self.rewards(phi, batch)) / ends

    def update(self, state: EncoderState, batch: Transition) -> tuple[EncoderState, Metrics]:
        state, metrics = super().update(state, batch)
        return state, {**metrics, "ends": jnp.mean(_last(batch), dtype=jnp.float32)}

    @property
    def goal_rule(self) -> GoalRule:
        """The difference itself is the guess of a continuous skill; discrete skills are recognised by its direction."""
        return "own" if isinstance(self.skills, ContinuousSkills) else "direction"

    def towards(
        self, state: EncoderState, obs: Float[Array, "batch obs"], goal: Float[Array, "batch obs"]
    ) -> Float[Array, "batch skill"]:
        """The skill the discriminator expects of an episode from here to the goal."""
        return guessed(self.skills, self.represent(state, goal) - self.represent(state, obs))


def _last(batch: Transition) -> Bool[Array, " batch"]:
    """Which transitions end an episode, for whatever reason."""
    return batch.terminated | batch.truncated
