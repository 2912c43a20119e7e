"""`make_vec` steps any registered world that MuJoCo steps: one that is no `Body`, observes something else, and ends."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from wanderlust.config import EnvConfig
from wanderlust.envs.base import WorldState
from wanderlust.envs.spec import EnvSpec, Groups
from wanderlust.errors import UserError
from wanderlust.gym.vector import make_vec

MODEL = mujoco.MjModel.from_xml_string(
    """<mujoco><option timestep="0.01"/><worldbody><body>
    <joint name="slide" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body></worldbody>
    <actuator><motor joint="slide" ctrlrange="-1 1" ctrllimited="true" gear="100"/></actuator></mujoco>"""
)


@dataclasses.dataclass(frozen=True)
class Slider:
    """A mass on a rail; an episode ends half a metre from its start."""

    config: EnvConfig
    Config: ClassVar[type[EnvConfig]] = EnvConfig
    model = model_for_c = MODEL
    frame_skip, capacity = 4, None

    @classmethod
    def configure(cls, name):
        return EnvConfig(name, 30)

    @property
    def spec(self):
        return EnvSpec("slider", 1, 1, self.config.episode_length, Groups(position=(0,)), (0.0,), (1.0,))

    def initial(self, key):
        return WorldState(jnp.zeros(3).at[1].set(0.1 * jax.random.uniform(key)), jnp.zeros(0))

    def observe(self, state):
        return state.physics[1:2]

    measure = observe

    def terminated(self, state):
        return jnp.abs(state.physics[1]) > 0.5

    def from_origin(self):
        return self


def test_a_world_of_another_kind_is_stepped_and_ends():
    envs = make_vec(f"{__name__}:Slider", 3, threads=1)
    assert envs.metadata["render_fps"] == 25 and envs.single_observation_space.shape == (1,)
    start = envs.reset(seed=0)[0]
    assert np.all((start >= 0) & (start < 0.1)) and len(np.unique(start)) == 3
    action = np.array([[1.0], [-1.0], [0.0]], np.float32)
    ended = []
    for _ in range(30):
        obs, _, terminated, truncated, _ = envs.step(action)
        np.testing.assert_array_equal(terminated & ~truncated, np.abs(obs[:, 0]) > 0.5)
        ended.append(terminated)
    assert np.any(ended, axis=0).tolist() == [True, True, False] and truncated.tolist() == [False, False, True]


def test_it_has_no_friction_cones_to_choose():
    with pytest.raises(UserError, match="make_vec: there is no field cone"):
        make_vec(f"{__name__}:Slider", 1, cone="elliptic")
