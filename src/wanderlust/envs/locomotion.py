"""The paper's bodies: Ant, HalfCheetah and Humanoid, as its code has them (positions, velocities, and nothing else).

The observation is qpos and then qvel, raw. Where each entry comes from is the model's business; the table below is
what the published environments add to it.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from wanderlust.config import BodyConfig
from wanderlust.envs.base import Physical
from wanderlust.envs.models import Bars, load_model
from wanderlust.envs.presets import PRESETS
from wanderlust.types import EnvSpec


class Habits(NamedTuple):
    """What the published environment does around the model."""

    position_noise: float
    """An episode starts at the model's own pose, every entry of qpos moved by U(-noise, noise), x, y and all."""
    velocity_noise: float
    """... and every entry of qvel by U(-noise, noise), or by noise times N(0, 1)."""
    velocity_is_normal: bool
    healthy_height: tuple[float, float] | None
    """The torso's height outside of which an episode ends; None if it never does."""
    position_dims: tuple[int, ...]
    """A body moves on a plane (x and y) or along a line (x)."""
    orientation_dims: tuple[int, ...]


HABITS = {
    "ant": Habits(0.1, 0.1, True, None, (0, 1), (3, 4, 5, 6)),
    "half-cheetah": Habits(0.1, 0.1, True, None, (0,), (2,)),
    "humanoid": Habits(0.01, 0.01, False, (1.0, 2.0), (0, 1), (3, 4, 5, 6)),
}

FRAME_SKIP = 5
"""Physics steps of one control step, the same for all three."""


@dataclasses.dataclass(frozen=True)
class Body:
    """A body on a floor without end. It does not step itself: an engine does."""

    config: BodyConfig
    bars: Bars = ()
    """Where bars lie across its way; a task's doing (CheetahHurdle), not the configuration's."""

    @property
    def spec(self) -> EnvSpec:
        model = load_model(self.config)
        mean, std = PRESETS[self.config.name]
        return EnvSpec(
            name=self.config.name,
            obs_dim=model.nq + model.nv,
            action_dim=model.nu,
            episode_length=self.config.episode_length,
            position_dims=self._habits.position_dims,
            obs_mean=mean,
            obs_std=std,
            orientation_dims=self._habits.orientation_dims,
        )

    @property
    def control_seconds(self) -> float:
        """Simulated time of one control step."""
        return FRAME_SKIP * float(load_model(self.config).opt.timestep)

    def initial(self, key: Key[Array, ""]) -> Physical:
        model, habits = load_model(self.config), self._habits
        position_key, velocity_key = jax.random.split(key)
        moved = jax.random.uniform(position_key, (model.nq,), minval=-1.0, maxval=1.0)
        if habits.velocity_is_normal:
            pushed = jax.random.normal(velocity_key, (model.nv,))
        else:
            pushed = jax.random.uniform(velocity_key, (model.nv,), minval=-1.0, maxval=1.0)
        qpos = jnp.asarray(model.qpos0, jnp.float32) + habits.position_noise * moved
        return Physical(qpos=qpos, qvel=habits.velocity_noise * pushed)

    def observe(self, state: Physical) -> Float[Array, " obs"]:
        return jnp.concatenate([state.qpos, state.qvel])

    def terminated(self, state: Physical) -> Bool[Array, ""]:
        if self._habits.healthy_height is None:
            return jnp.zeros((), bool)
        low, high = self._habits.healthy_height
        height = state.qpos[..., 2]  # of one world, or of a batch in NumPy (`gym_vector.py`)
        return (height < low) | (height > high)

    def from_origin(self) -> "Body":
        return self  # these bodies always start there, give or take the noise

    def with_bars(self, bars: Bars) -> "Body":
        """The same body with bars across its way; what it observes does not change."""
        return dataclasses.replace(self, bars=bars)

    @property
    def _habits(self) -> Habits:
        return HABITS[self.config.name]
