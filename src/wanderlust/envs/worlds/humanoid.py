"""Humanoid, as the paper's code has it: a walking body that must not fall."""

import dataclasses

import mujoco
from jaxtyping import Array, Bool

from wanderlust.envs.base import Capacity, WorldState
from wanderlust.envs.mjcf import drop_islands, open_gymnasium
from wanderlust.envs.spec import Groups
from wanderlust.envs.worlds.body import Body, Twin

# fmt: off
MEAN = (
    -0.081131503, -0.00073915249, 0.95715916, 0.95207644, 0.0020175683, -0.063051097, -0.012828799, -0.00054687279,
    -0.24450898, 0.0077590477, -0.032982033, -0.017136147, -0.172638, -1.6152242, -0.034986842, -0.03445816,
    -0.16019167, -1.5958424, 0.30278003, -0.27908441, -0.34809363, -0.29139769, 0.28643531, -0.34040874, -0.3849102,
    2.6394178e-05, -1.2304888, 0.036492027, -0.68305099, -0.086309865, 0.0093602976, -0.54201365, 0.011908096,
    -0.096945368, -0.040906958, -0.30476081, -3.3397417, -0.08643239, -0.061523411, -0.26818362, -3.3175933,
    0.74578458, -0.96735454, -1.1773691, -0.77269357, 0.95517111, -1.1721193,
)
STD = (
    0.12630117, 0.09309318, 0.31789413, 0.07312579, 0.12920779, 0.21994449, 0.1426761, 0.18718153, 0.43414274,
    0.32560128, 0.1282181, 0.23556797, 0.4009979, 0.97610635, 0.12872458, 0.23611404, 0.4062315, 0.9686742,
    0.3580939, 0.42217487, 0.49625927, 0.3586807, 0.4218451, 0.50105387, 0.5517619, 0.43790612, 0.8357725, 1.3804333,
    2.4758842, 2.2540345, 3.15485, 4.4246655, 2.8681147, 2.6601605, 3.5328803, 5.8904147, 6.434801, 2.6590736,
    3.5234997, 5.899381, 6.412176, 2.5906591, 3.0781884, 3.3108664, 2.5866294, 3.0885093, 3.2871766,
)
# fmt: on
"""As published: of 10,000 random-policy rollouts of 50 steps without early termination."""

_EXTRAS = ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")


@dataclasses.dataclass(frozen=True)
class Humanoid(Body):
    """Two legs and two arms; an episode ends when the torso is too low or too high."""

    episode_length = 1000
    option_length = 125
    example_goals = ((5.0, 0.0),)  # it falls before it gets much farther
    groups = Groups(position=(0, 1), orientation=(3, 4, 5, 6))
    fall = "its torso is lower than 1 m or higher than 2 m, which ends episodes"
    position_noise, velocity_noise = 0.01, 0.01
    statistics = (MEAN, STD)
    capacity = Capacity(contacts=32, rows=120)  # 19 and 76 in the worst case that tests/envs/test_engines.py finds
    gymnasium = Twin(
        "Humanoid-v5",
        {
            "exclude_current_positions_from_observation": False,
            **{f"include_{extra}_in_observation": False for extra in _EXTRAS},
        },
    )

    def load(self) -> mujoco.MjSpec:
        return open_gymnasium("humanoid.xml")

    def speed_up(self, spec: mujoco.MjSpec) -> None:
        drop_islands(spec)

    def fallen(self, state: WorldState) -> Bool[Array, ""]:
        return self.terminated(state)

    def terminated(self, state: WorldState) -> Bool[Array, ""]:
        height = state.physics[..., 3]
        return (height < 1.0) | (height > 2.0)
