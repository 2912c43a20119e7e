"""PointEnv (the paper's appendix, "Results on PointEnv"): a point that moves by its action.

State s in R^2, action a in [-1, 1]^2, next state s + a, episodes of 10 steps, start (0, 0) or uniform in a box.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from wanderlust.config import PointConfig
from wanderlust.envs.base import Physical
from wanderlust.types import EnvSpec


@dataclasses.dataclass(frozen=True)
class PointWorld:
    """A point on the plane. It never terminates; the observation is its position."""

    config: PointConfig
    at_origin: bool = False
    """Start at (0, 0) whatever the configuration says, as the goal tasks do."""

    @property
    def spec(self) -> EnvSpec:
        std = self._random_policy_std() if self.config.normalise else 1.0
        return EnvSpec(
            name="point",
            obs_dim=2,
            action_dim=2,
            episode_length=self.config.episode_length,
            position_dims=(0, 1),
            obs_mean=(0.0, 0.0),
            obs_std=(std, std),
        )

    def initial(self, key: Key[Array, ""]) -> Physical:
        r = 0.0 if self.at_origin else self.config.start_range
        return Physical(qpos=jax.random.uniform(key, (2,), minval=-r, maxval=r), qvel=jnp.zeros(0))

    def observe(self, state: Physical) -> Float[Array, " obs"]:
        return state.qpos

    def terminated(self, state: Physical) -> Bool[Array, ""]:
        return jnp.zeros((), bool)

    def from_origin(self) -> "PointWorld":
        return dataclasses.replace(self, at_origin=True)

    def step(self, state: Physical, action: Float[Array, " action"]) -> Physical:
        return state._replace(qpos=state.qpos + jnp.clip(action, -1.0, 1.0))

    def _random_policy_std(self) -> float:
        """In closed form: a start uniform in [-r, r], then t steps of variance 1/3 each, t uniform in 1..T."""
        start = self.config.start_range**2 / 3
        walk = (self.config.episode_length + 1) / 2 / 3
        return math.sqrt(start + walk)
