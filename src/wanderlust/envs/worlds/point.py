"""PointEnv (the paper's appendix, "Results on PointEnv"): a point that moves by its action.

State s in R^2, action a in [-1, 1]^2, next state s + a, episodes of 10 steps, start (0, 0) or uniform in a box.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from wanderlust.config import EnvConfig
from wanderlust.envs.base import WorldState
from wanderlust.envs.spec import EnvSpec, Groups
from wanderlust.errors import UserError


@dataclasses.dataclass(frozen=True)
class PointConfig(EnvConfig):
    """PointEnv: s' = s + a."""

    name: str = "point"
    episode_length: int = 10
    start_range: float = 0.0
    """Episodes start uniformly in [-start_range, start_range]^2; 0 is the fixed start (0, 0)."""
    normalise: bool = True
    """Networks see the state divided by its standard deviation under a random policy, as on the paper's robots."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.start_range <= 1e6:
            raise UserError(f"env.start_range is {self.start_range}; it must be in [0, 1e6]")

    def start_within(self, reach: float) -> EnvConfig | None:
        return dataclasses.replace(self, start_range=reach)


@dataclasses.dataclass(frozen=True)
class Point:
    """A point on the plane. It never terminates; the observation is its position."""

    config: PointConfig
    at_origin: bool = False
    """Start at (0, 0) whatever the configuration says, as the goal tasks do."""

    Config: ClassVar[type[PointConfig]] = PointConfig
    option_length: ClassVar[int] = 10
    recipe_overrides: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @classmethod
    def configure(cls, name: str) -> PointConfig:
        """The configuration of this world under its registered name."""
        return PointConfig(name)

    @property
    def spec(self) -> EnvSpec:
        std = self._random_policy_std() if self.config.normalise else 1.0
        return EnvSpec(
            name="point",
            obs_dim=2,
            action_dim=2,
            episode_length=self.config.episode_length,
            groups=Groups(position=(0, 1)),
            obs_mean=(0.0, 0.0),
            obs_std=(std, std),
        )

    def initial(self, key: Key[Array, ""]) -> WorldState:
        r = 0.0 if self.at_origin else self.config.start_range
        return WorldState(physics=jax.random.uniform(key, (2,), minval=-r, maxval=r), sensors=jnp.zeros(0))

    def observe(self, state: WorldState) -> Float[Array, " obs"]:
        return state.physics

    def measure(self, state: WorldState) -> Float[Array, " obs"]:
        return state.physics

    def terminated(self, state: WorldState) -> Bool[Array, ""]:
        return jnp.zeros((), bool)

    def from_origin(self) -> "Point":
        return dataclasses.replace(self, at_origin=True)

    def step(self, state: WorldState, action: Float[Array, " action"]) -> WorldState:
        return state._replace(physics=state.physics + jnp.clip(action, -1.0, 1.0))

    def _random_policy_std(self) -> float:
        """In closed form: a start uniform in [-r, r], then t steps of variance 1/3 each, t uniform in 1..T."""
        start = self.config.start_range**2 / 3
        walk = (self.config.episode_length + 1) / 2 / 3
        return math.sqrt(start + walk)
