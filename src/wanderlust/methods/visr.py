"""VISR (Hansen et al., ICLR 2020) as the LSD paper runs it. Equations are numbered as in the LSD paper.

A discriminator over directions: q(z|s) is the von Mises-Fisher distribution around phi(s) / ||phi(s)|| with scale 1, so
that its log-density is the cosine between phi(s) and the skill. Of VISR this is the unsupervised objective alone: no
successor features, and the critics are those of any other method.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wanderlust.envs.spec import Transition
from wanderlust.methods.base import GoalRule
from wanderlust.methods.encoder import EncoderMethod
from wanderlust.rl.nets import MLP, directions


@dataclasses.dataclass(frozen=True)
class Visr(EncoderMethod):
    """Continuous and discrete VISR: a one-hot is a direction like any other."""

    entropy = None
    goal_rule: ClassVar[GoalRule] = "goal"

    def rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        """r = log q(z|s) without its constants, equation 10: the cosine between phi of the current state and z."""
        return jnp.sum(directions(jax.vmap(phi)(batch.obs)) * directions(batch.skill), axis=1)
