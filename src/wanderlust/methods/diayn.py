"""DIAYN (Eysenbach et al., ICLR 2019) as the LSD paper runs it. Equations are numbered as in the LSD paper.

A discriminator guesses the skill from the next state, and the reward is how well it does: states that tell skills
apart are enough, however close together they are. Continuous skills: q(z|s') = N(phi(s'), I), the unit variance of
equation 9; discrete skills: a softmax over phi(s').
"""

import dataclasses
from typing import ClassVar

import jax
from jaxtyping import Array, Float

from wanderlust.envs.spec import Transition
from wanderlust.methods.base import GoalRule
from wanderlust.methods.encoder import EncoderMethod, EncoderState
from wanderlust.methods.skills import guessed, log_likelihood
from wanderlust.rl.nets import MLP


@dataclasses.dataclass(frozen=True)
class Diayn(EncoderMethod):
    """Continuous and discrete DIAYN: they differ in the discriminator's distribution."""

    summary = "Diversity Is All You Need: skills that a discriminator can tell apart"
    entropy = None
    goal_rule: ClassVar[GoalRule] = "goal"

    def rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        """r = log q(z|s') without its constants: -||z - phi(s')||^2 / 2, or the log-softmax at the skill.

        The discriminator maximises the same: the likelihood of the skill.
        """
        return log_likelihood(self.skills, jax.vmap(phi)(batch.next_obs), batch.skill)

    def towards(
        self, state: EncoderState, obs: Float[Array, "batch obs"], goal: Float[Array, "batch obs"]
    ) -> Float[Array, "batch skill"]:
        """The skill the discriminator expects at the goal: z = mu(g), or the likeliest one. The start plays no part."""
        return guessed(self.skills, self.represent(state, goal))
