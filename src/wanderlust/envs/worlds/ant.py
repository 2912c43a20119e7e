"""Ant, as the paper's code has it: a four-legged body on the plane."""

import dataclasses

import mujoco

from wanderlust.envs.base import Capacity
from wanderlust.envs.mjcf import drop_islands, name_floor_contacts, open_gymnasium
from wanderlust.envs.spec import Groups
from wanderlust.envs.worlds.body import Body, Twin

# fmt: off
MEAN = (
    0.00486117, 0.011312, 0.7022248, 0.8454677, -0.00102548, -0.00300276, 0.00311523, -0.00139029, 0.8607109,
    -0.00185301, -0.8556998, 0.00343217, -0.8585605, -0.00109082, 0.8558013, 0.00278213, 0.00618173, -0.02584622,
    -0.00599026, -0.00379596, 0.00526138, -0.0059213, 0.27686235, 0.00512205, -0.27617684, -0.0033233, -0.2766923,
    0.00268359, 0.27756855,
)
STD = (
    0.62473416, 0.61958003, 0.1717569, 0.28629342, 0.20020866, 0.20572574, 0.34922406, 0.40098143, 0.3114514,
    0.4024826, 0.31057045, 0.40343934, 0.3110796, 0.40245822, 0.31100526, 0.81786263, 0.8166509, 0.9870919,
    1.7525449, 1.7468817, 1.8596431, 4.502961, 4.4070187, 4.522444, 4.3518476, 4.5105968, 4.3704205, 4.5175962,
    4.3704395,
)
# fmt: on
"""As published: of 10,000 random-policy rollouts of 50 steps without early termination."""


@dataclasses.dataclass(frozen=True)
class Ant(Body):
    """Four legs; it never terminates."""

    groups = Groups(position=(0, 1), orientation=(3, 4, 5, 6))
    position_noise, velocity_noise, velocity_is_normal = 0.1, 0.1, True
    statistics = (MEAN, STD)
    capacity = Capacity(contacts=25, rows=72)  # 11 and 48 in the worst case that tests/envs/test_engines.py finds
    gymnasium = Twin(
        "Ant-v5",
        {
            "exclude_current_positions_from_observation": False,
            "include_cfrc_ext_in_observation": False,
            "terminate_when_unhealthy": False,
        },
    )

    def load(self) -> mujoco.MjSpec:
        return open_gymnasium("ant.xml")

    def speed_up(self, spec: mujoco.MjSpec) -> None:
        drop_islands(spec)
        name_floor_contacts(spec)
