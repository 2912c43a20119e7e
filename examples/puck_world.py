"""An environment of your own in one file: a puck on a plane, pushed by two motors.

cd examples; wanderlust discover puck_world:Puck --budget-seconds 60
"""

import dataclasses

import mujoco

from wanderlust.envs.worlds.body import Body

MODEL = """
<mujoco>
  <option timestep="0.02"/>
  <worldbody>
    <geom type="plane" size="50 50 1"/>
    <body pos="0 0 0.1">
      <joint name="x" type="slide" axis="1 0 0" damping="1"/>
      <joint name="y" type="slide" axis="0 1 0" damping="1"/>
      <geom type="cylinder" size="0.3 0.05" mass="1"/>
    </body>
  </worldbody>
  <actuator>
    <motor joint="x" ctrlrange="-5 5"/>
    <motor joint="y" ctrlrange="-5 5"/>
  </actuator>
</mujoco>
"""


@dataclasses.dataclass(frozen=True)
class Puck(Body):
    """It observes its position and velocity, which is what `Body` observes: qpos, then qvel."""

    summary = "a puck on a plane, pushed by two motors (4-D state, 2-D action, 100 steps of 0.1 s)"
    episode_length = 100
    position_noise, velocity_noise = 0.1, 0.1

    def load(self) -> mujoco.MjSpec:
        return mujoco.MjSpec.from_string(MODEL)
