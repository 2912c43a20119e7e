"""Small model files for several test files."""

from importlib import resources
from pathlib import Path

ASSETS = resources.files("gymnasium") / "envs" / "mujoco" / "assets"

BALL = """<body name="ball" pos="1 0 .2"><freejoint/><geom type="sphere" size=".1" mass="1"/></body>"""
ARM = """<body name="upper" pos="0 0 1"><joint name="shoulder" axis="0 1 0" range="-90 90" limited="true"/>
<geom type="capsule" size=".05" fromto="0 0 0 .4 0 0"/><body name="lower" pos=".4 0 0">
<joint name="elbow" axis="0 1 0"/><geom type="capsule" size=".05" fromto="0 0 0 .4 0 0"/></body></body>"""
DRIVE = """<motor joint="shoulder" gear="9" ctrlrange="-2 4" ctrllimited="true"/><motor joint="elbow"/>"""
BUG = """<body name="bug" pos="0 0 {z}"><freejoint name="root"/><geom type="box" size=".2 .1 .05"/><body pos=".2 0 0">
<joint name="leg" axis="0 1 0" range="-45 45" limited="true"/><geom type="capsule" size=".02" fromto="0 0 0 .2 0 -.1"/>
</body></body>"""


def write(folder: Path, bodies: str, actuators: str, more: str = "", name: str = "mine.xml") -> Path:
    path = folder / name
    path.write_text(
        f'<mujoco><option timestep=".004"/><worldbody><geom name="floor" type="plane" size="0 0 1"/>{bodies}'
        f"</worldbody><actuator>{actuators}</actuator>{more}</mujoco>"
    )
    return path
