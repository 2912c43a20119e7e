"""EDL: Explore, Discover and Learn (Campos et al., ICML 2020), its last stage: skills that reach given states.

What comes before it: SMM explores (`smm.py`), and a VQ-VAE (`codes.py`) sums up the states it found in as many
codes as there are skills (`vqvae.py`). A skill's goal is the state its code decodes to, and its reward log p(s'|z) of
a normal around the goal, as wide as the states found lie around theirs. Nothing is learned here but the policy.
"""

import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from wanderlust.config import SkillConfig
from wanderlust.envs.spec import Transition
from wanderlust.methods.base import FirstStage, GoalRule, LastStageStart, Method, Metrics
from wanderlust.methods.edl import codes
from wanderlust.methods.edl.vqvae import EdlConfig
from wanderlust.rl.nets import MLP, Linear


class EdlState(NamedTuple):
    """A goal for each skill."""

    encoder: MLP
    """One linear layer: weights are the goals, biases -||goal||^2 / 2, so that its outputs are half of -||s - goal||^2
    but for what all skills have in common."""
    spread: Float[Array, ""]
    """The mean squared distance of the states that were found from their goals."""


def with_goals(goals: Float[Array, "skills obs"], spread: Float[Array, ""]) -> EdlState:
    """The state whose skill k is to reach the k-th of these observations."""
    return EdlState(MLP((Linear(goals.T, -0.5 * jnp.sum(goals**2, axis=1)),), jax.nn.relu), spread)


@dataclasses.dataclass(frozen=True)
class Edl(Method):
    """EDL of discrete skills."""

    config: EdlConfig

    Config = EdlConfig
    State = EdlState
    learns_network = False
    takes = ("discrete",)
    usual_skills = SkillConfig("discrete", 10)
    stages = ("explore", "codes", "skills")

    def init(self, key: Key[Array, ""], obs_dim: int) -> EdlState:
        """Goals come of the stages before; until then rewards are NaN, not something wrong."""
        return with_goals(jnp.full((self.skills.size, obs_dim), jnp.nan), jnp.full((), jnp.nan))

    def start_last_stage(self, first: FirstStage) -> LastStageStart | None:
        """The goals of all skills, found among the states that exploration left, or read if they have been."""
        found = codes.find(self.config, self.skills.size, first)
        if found is None:
            return None
        return LastStageStart(method=jax.jit(jax.vmap(with_goals))(found.goal, found.spread))

    def reward(self, state: EdlState, batch: Transition) -> Float[Array, " batch"]:
        """r = -||s' - goal of z||^2 / spread: -1 is what the states that were found would earn of their own goals."""
        return -_squared_distance(state, batch) / state.spread

    def update(self, state: EdlState, batch: Transition) -> tuple[EdlState, Metrics]:
        """Goals stay as they are."""
        return state, {"goal_distance": jnp.mean(jnp.sqrt(_squared_distance(state, batch)))}

    kept = ("encoder", "spread")
    goal_rule: ClassVar[GoalRule] = "goal"


def _squared_distance(state: EdlState, batch: Transition) -> Float[Array, " batch"]:
    goals = state.encoder.layers[0].weight.T
    return jnp.sum((batch.next_obs - goals[jnp.argmax(batch.skill, axis=1)]) ** 2, axis=1)
