"""A method of your own in one file: skills are compass directions of the steps that phi sees.

cd examples
wanderlust discover point --method compass_method:Compass
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wanderlust.config import MethodConfig, Positive
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import GoalRule
from wanderlust.methods.encoder import EncoderMethod
from wanderlust.rl.nets import MLP, directions, displacements


@dataclasses.dataclass(frozen=True)
class CompassConfig(MethodConfig):
    """What can be changed, as `--method.sharpness 2`; `hidden` and `learning_rate` are there already."""

    sharpness: Positive = 1.0
    """What rewards are multiplied by."""


@dataclasses.dataclass(frozen=True)
class Compass(EncoderMethod):
    """phi and the policy maximise the cosine between a step in phi and the skill.

    `EncoderMethod` has the network, its optimiser and its update. A method that learns something else is a `Method`
    with `State`, `init`, `reward` and `update` of its own, as `wanderlust/methods/dads.py`.
    """

    config: CompassConfig

    Config = CompassConfig
    summary = "an example: the cosine between a step in phi and the skill"
    goal_rule: ClassVar[GoalRule] = "direction"

    def rewards(self, phi: MLP, batch: Transition) -> Float[Array, " batch"]:
        """r = sharpness * cos(phi(s') - phi(s), z)."""
        step = displacements(phi, batch.obs, batch.next_obs)
        code = jax.vmap(self.skills.code)(batch.skill)
        return self.config.sharpness * jnp.sum(directions(step) * directions(code), axis=1)
