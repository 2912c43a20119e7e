"""Small MuJoCo worlds of the tests' own."""

import dataclasses
import functools
from typing import ClassVar

import jax
import mujoco
import numpy as np

from wanderlust.envs.spec import Groups
from wanderlust.envs.worlds.body import Body, BodyConfig

ARM = """
<mujoco>
  {extension}
  <option timestep="0.004"/>
  <worldbody>
    <body name="arm" pos="0 0 1">
      <joint name="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.05"/>
      <site name="tip" pos="0 0 -0.4"/>
    </body>
    <body name="hand" mocap="true" pos="0.5 0 1"/>
    <body name="load" pos="0.5 0 1"><freejoint/><geom size="0.05" mass="1"/></body>
  </worldbody>
  <equality><weld body1="hand" body2="load"/></equality>
  <actuator>
    <general name="motor" joint="hinge" dyntype="filter" dynprm="0.1" gainprm="5" ctrlrange="-2 2" {delay}/>
    {plugin}
  </actuator>
  <sensor><framepos objtype="site" objname="tip"/><actuatorfrc actuator="motor"/></sensor>
</mujoco>
"""
PID = """
<plugin joint="hinge" plugin="mujoco.pid" actdim="1">
  <config key="kp" value="4"/><config key="ki" value="20"/><config key="imax" value="3"/>
</plugin>
"""


@dataclasses.dataclass(frozen=True)
class Arm(Body):
    """A motor that builds up its force, and a load that hangs on a mocap body."""

    frame_skip: ClassVar[int] = 3
    episode_length: ClassVar[int] = 20
    groups = Groups(position=(0,))
    position_noise, velocity_noise = 0.1, 0.1

    def load(self):
        return mujoco.MjSpec.from_string(ARM.format(extension="", delay="", plugin=""))


@dataclasses.dataclass(frozen=True)
class DelayedArm(Arm):
    """The same with controls that arrive late, and a second motor that a plugin drives."""

    def load(self):
        extension = '<extension><plugin plugin="mujoco.pid"/></extension>'
        delay = 'delay="0.02" nsample="8"'
        return mujoco.MjSpec.from_string(ARM.format(extension=extension, delay=delay, plugin=PID))


@functools.cache
def arm(kind=Arm):
    return kind(BodyConfig("arm", 20))


def arm_starts(world, count=3):
    """Starts with the mocap bodies of each world in a place of its own."""
    state = jax.tree.map(np.array, jax.vmap(world.initial)(jax.random.split(jax.random.key(0), count)))
    state.physics[:, -7:-4] += 0.05 * np.arange(count, dtype=np.float32)[:, None]
    return state
