"""PointEnv (the paper's appendix, "Results on PointEnv"): a point that moves by its action.

State s in R^2, action a in [-1, 1]^2, next state s + a, episodes of 10 steps, start (0, 0) or uniform in a box.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from wanderlust.config import PointConfig
from wanderlust.envs.base import Physical
from wanderlust.types import EnvSpec


@dataclasses.dataclass(frozen=True)
class PointWorld:
    """A point on the plane. It never terminates; the observation is its position, not normalised."""

    config: PointConfig = PointConfig()

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="point",
            obs_dim=2,
            action_dim=2,
            episode_length=self.config.episode_length,
            position_dims=(0, 1),
            obs_mean=(0.0, 0.0),
            obs_std=(1.0, 1.0),
        )

    def initial(self, key: Key[Array, ""]) -> Physical:
        r = self.config.start_range
        return Physical(qpos=jax.random.uniform(key, (2,), minval=-r, maxval=r), qvel=jnp.zeros(0))

    def observe(self, state: Physical) -> Float[Array, " obs"]:
        return state.qpos

    def terminated(self, state: Physical) -> Bool[Array, ""]:
        return jnp.zeros((), bool)

    def step(self, state: Physical, action: Float[Array, " action"]) -> Physical:
        return state._replace(qpos=state.qpos + jnp.clip(action, -1.0, 1.0))
