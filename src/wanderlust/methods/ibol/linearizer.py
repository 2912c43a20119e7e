"""The linearizer: the lower level of IBOL (Kim, Park and Kim, ICML 2021), and a method of its own.

Its skills are goals: directions in the (normalised) state space, one number in [-1, 1] for every entry. The policy is
rewarded for moving the state along the goal, measured over blocks of steps, so that to whoever sets goals the body
looks as if its dynamics were linear. Nothing is learned beside the policy.
"""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from wanderlust.config import LinearizerConfig
from wanderlust.envs.spec import Transition
from wanderlust.errors import UserError
from wanderlust.methods.base import Method, Metrics
from wanderlust.methods.skills import BoxSkills, SkillSpace

# --- state -----------------------------------------------------------------------------------------------------


class LinearizerState(NamedTuple):
    """Running statistics of the moves that rewards measure."""

    mean: Float[Array, ""]
    variance: Float[Array, ""]
    begun: Bool[Array, ""]
    """Whether anything has been measured: the first batch sets the statistics, later ones move them."""


@dataclasses.dataclass(frozen=True)
class Linearizer(Method):
    """Goals in a box, a reward for blocks of steps, no network."""

    learns_network = False
    config: LinearizerConfig
    skills: SkillSpace

    def __post_init__(self) -> None:
        if not isinstance(self.skills, BoxSkills):
            raise UserError(
                "the skills of a linearizer are goals, one number for each entry of the state: leave out "
                "--discrete (skills.kind must be box)"
            )

    @property
    def block(self) -> int:
        return self.config.block

    @property
    def hold(self) -> int:
        return self.config.hold

    def init(self, key: Key[Array, ""], obs_dim: int) -> LinearizerState:
        if obs_dim != self.skills.size:
            raise UserError(
                f"skills.size is {self.skills.size}; a goal has as many entries as the state that is seen, {obs_dim}"
            )
        return LinearizerState(jnp.zeros(()), jnp.ones(()), jnp.zeros((), bool))

    # --- reward ------------------------------------------------------------------------------------------------

    def reward(self, state: LinearizerState, batch: Transition) -> Float[Array, " batch"]:
        """The move of the whole block along the goal, per step; standardised if the configuration says so."""
        moves = self.moves(batch)
        if not self.config.standardise:
            return moves
        return (moves - state.mean) / (jnp.sqrt(state.variance) + 1e-8)

    def moves(self, batch: Transition) -> Float[Array, " batch"]:
        """<s_end - s_begin, goal> / (sqrt(d) l) over the block of l steps that each transition belongs to."""
        return jnp.sum(jnp.asarray(batch.drift) * batch.skill, axis=1) / jnp.sqrt(float(self.skills.size))

    # --- update ------------------------------------------------------------------------------------------------

    def update(self, state: LinearizerState, batch: Transition) -> tuple[LinearizerState, Metrics]:
        """Move the statistics; there is no network to learn."""
        moves = self.moves(batch)
        mean, variance = jnp.mean(moves), jnp.var(moves)
        keep = jnp.where(state.begun, self.config.keep, 0.0)
        moved = LinearizerState(
            keep * state.mean + (1.0 - keep) * mean,
            keep * state.variance + (1.0 - keep) * variance,
            jnp.ones((), bool),
        )
        return moved, {"move": mean}

    # --- downstream --------------------------------------------------------------------------------------------

    def represent(self, state: LinearizerState, obs: Float[Array, "batch obs"]) -> Float[Array, "batch code"]:
        """The state itself: it is what goals point along."""
        return obs

    def towards(
        self, state: LinearizerState, obs: Float[Array, "batch obs"], goal: Float[Array, "batch obs"]
    ) -> Float[Array, "batch skill"]:
        """The direction to the goal, as long as the box allows."""
        direction = goal - obs
        return direction / (jnp.max(jnp.abs(direction), axis=1, keepdims=True) + 1e-12)
