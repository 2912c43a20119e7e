"""The linearizer: the lower level of IBOL (Kim, Park and Kim, ICML 2021), and a method of its own.

Its skills are goals: directions in the (normalised) state space, one number in [-1, 1] for every entry. The policy is
rewarded for moving the state along the goal, measured over blocks of steps, so that to whoever sets goals the body
looks as if its dynamics were linear. Nothing is learned beside the policy.
"""

import dataclasses
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from wanderlust.config import Count, CountOrZero, MethodConfig, RunConfig, Share, SkillConfig, require
from wanderlust.envs.spec import Transition
from wanderlust.errors import UserError
from wanderlust.methods.base import NOTHING, GoalRule, Method, Metrics
from wanderlust.rl.moments import Moments, moments_of


@dataclasses.dataclass(frozen=True)
class LinearizerConfig(MethodConfig):
    """The lower level of IBOL: moves the state along goals. It has no network: hidden and learning_rate do nothing."""

    name: str = "linearizer"
    block: Count = 10
    """Steps over which a move is measured; every step of a block is rewarded by the whole block's move."""
    hold: CountOrZero = 0
    """Steps of an episode after which training sets another goal; 0 keeps one for the whole episode."""
    standardise: bool = False
    """Whether rewards are brought to mean 0 and variance 1 by running statistics."""
    keep: Share = 0.99
    """What an update keeps of these statistics."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.hold % self.block == 0,
            f"method.hold is {self.hold}; it must be a multiple of method.block ({self.block}), or 0",
        )

    def check(self, run: RunConfig) -> None:
        hold = run.schedule.hold
        require(not hold, f"schedule.hold is {hold}, but linearizer has method.hold; leave it at 0")


class LinearizerState(NamedTuple):
    """Running statistics of the moves that rewards measure."""

    mean: Float[Array, ""] = NOTHING
    variance: Float[Array, ""] = NOTHING
    begun: Bool[Array, ""] = NOTHING
    """Whether anything has been measured: the first batch sets the statistics, later ones move them."""


@dataclasses.dataclass(frozen=True)
class Linearizer(Method):
    """Goals in a box, a reward for blocks of steps, no network."""

    config: LinearizerConfig

    Config = LinearizerConfig
    State = LinearizerState
    learns_network = False
    takes = ("box",)
    usual_skills = SkillConfig("box", 2)
    entropy = None

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

    def reward(self, state: LinearizerState, batch: Transition) -> Float[Array, " batch"]:
        """The move of the whole block along the goal, per step; standardised if the configuration says so."""
        moves = self.moves(batch)
        return Moments(*state[:2]).normalise(moves, on_root=1e-8) if self.config.standardise else moves

    def moves(self, batch: Transition) -> Float[Array, " batch"]:
        """<s_end - s_begin, goal> / (sqrt(d) l) over the block of l steps that each transition belongs to."""
        return jnp.sum(jnp.asarray(batch.drift) * batch.skill, axis=1) / jnp.sqrt(float(self.skills.size))

    def update(self, state: LinearizerState, batch: Transition) -> tuple[LinearizerState, Metrics]:
        """Move the statistics; there is no network to learn."""
        new, keep = moments_of(self.moves(batch)), jnp.where(state.begun, self.config.keep, 0.0)
        moments = Moments(*state[:2]).merge(new, 1.0 - keep, keep, spread=None)
        return LinearizerState(*moments, jnp.ones((), bool)), {"move": new.mean}

    kept = ()
    goal_rule: ClassVar[GoalRule] = "own"

    def represent(self, state: LinearizerState, obs: Float[Array, "batch obs"]) -> Float[Array, "batch code"]:
        """The state itself: it is what goals point along."""
        return obs

    def towards(
        self, state: LinearizerState, obs: Float[Array, "batch obs"], goal: Float[Array, "batch obs"]
    ) -> Float[Array, "batch skill"]:
        """The direction to the goal, as long as the box allows."""
        direction = goal - obs
        return direction / (jnp.max(jnp.abs(direction), axis=1, keepdims=True) + 1e-12)
