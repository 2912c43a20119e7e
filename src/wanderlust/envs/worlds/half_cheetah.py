"""HalfCheetah, as the paper's code has it, also with bars across its way (CheetahHurdle)."""

import dataclasses

import mujoco

from wanderlust.envs.base import Capacity
from wanderlust.envs.mjcf import drop_islands, name_floor_contacts, open_gymnasium
from wanderlust.envs.spec import Groups
from wanderlust.envs.worlds.body import Body, Twin

# fmt: off
MEAN = (
    -0.07861924, -0.08627162, 0.08968642, 0.00960849, 0.02950368, -0.00948337, 0.01661406, -0.05476654, -0.04932635,
    -0.08061652, -0.05205841, 0.04500197, 0.02638421, -0.04570961, 0.03183838, 0.01736591, 0.0091929, -0.0115027,
)
STD = (
    0.4039283, 0.07610687, 0.23817, 0.2515473, 0.2698137, 0.26374814, 0.32229397, 0.2896734, 0.2774097, 0.73060024,
    0.77360505, 1.5871304, 5.5405455, 6.7097645, 6.8253727, 6.3142195, 6.417641, 5.9759197,
)
# fmt: on
"""As published: of 10,000 random-policy rollouts of 50 steps without early termination."""

Bars = tuple[float, ...]
"""Where bars lie across the way: their x."""


@dataclasses.dataclass(frozen=True)
class HalfCheetah(Body):
    """Two legs in a vertical plane; it never terminates."""

    bars: Bars = ()
    """A task's doing (CheetahHurdle), not the configuration's. With bars, a sensor reads where the back foot is."""

    groups = Groups(position=(0,), orientation=(2,))
    position_noise, velocity_noise, velocity_is_normal = 0.1, 0.1, True
    statistics = (MEAN, STD)
    capacity = Capacity(contacts=16, rows=72)  # 7 and 32 in the worst case of tests/envs/test_engines.py; 8 among bars
    gymnasium = Twin("HalfCheetah-v5", {"exclude_current_positions_from_observation": False})

    def load(self) -> mujoco.MjSpec:
        spec = open_gymnasium("half_cheetah.xml")
        if self.bars:
            _lay(spec, self.bars)
            spec.add_sensor(
                name="back foot",
                type=mujoco.mjtSensor.mjSENS_FRAMEPOS,
                objtype=mujoco.mjtObj.mjOBJ_XBODY,
                objname="bfoot",
            )
        return spec

    def speed_up(self, spec: mujoco.MjSpec) -> None:
        drop_islands(spec)
        name_floor_contacts(spec)

    def with_bars(self, bars: Bars) -> "HalfCheetah":
        """The same body with bars across its way; what it observes does not change."""
        return dataclasses.replace(self, bars=bars)


def _lay(spec: mujoco.MjSpec, bars: Bars) -> None:
    """Put bars across the way, as CheetahHurdle wants them: they float, from 17 to 23 cm above the floor.

    They belong to the floor, so that they neither move nor count in the mass to which HalfCheetah's file scales the
    body. A body's geoms collide with what has an affinity of 1, which in the files is the floor alone. Friction and
    softness are the file's defaults, as the floor's are.
    """
    for x in bars:
        spec.worldbody.add_geom(
            name=f"bar at {x:g}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[0.05, 1.0, 0.03],
            pos=[x, 0.0, 0.2],
            contype=1,
            conaffinity=1,
        )
