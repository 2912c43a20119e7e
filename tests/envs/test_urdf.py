"""URDF files: meshes by the names of packages, repairs, motors, a floor and a free base."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

import wanderlust
from wanderlust.envs.models import opening
from wanderlust.errors import UserError

INERTIAL = '<inertial><mass value="1"/><inertia ixx="{}" ixy="0" ixz="0" iyy="{}" iyz="0" izz="{}"/></inertial>'
ROBOT = """<robot name="two">
<link name="base">{good}<collision><geometry><box size=".2 .2 .1"/></geometry></collision>
 <visual><geometry><mesh filename="package://bot_description/meshes/pretty.dae"/></geometry></visual></link>
<link name="upper">{good}<collision><geometry><mesh filename="package://bot_description/meshes/{mesh}"/></geometry>
 </collision></link>
<link name="lower">{bad}<visual><geometry><mesh filename="lost.dae"/></geometry></visual></link>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
 <limit lower="-1" upper="1" effort="12" velocity="3"/></joint>
<joint name="elbow" type="continuous"><parent link="upper"/><child link="lower"/><origin xyz=".3 0 0"/>
 <axis xyz="0 1 0"/></joint>
<gazebo><plugin filename="libevil.so" name="evil"/></gazebo>
<transmission name="t"/>
</robot>"""
CORNERS = np.array([[0, 0, 0], [0.3, 0, 0], [0, 0.3, 0], [0, 0, 0.3]])
FACES = ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3))


@pytest.fixture
def package(tmp_path) -> Path:
    """A ROS package with a URDF, a mesh as text and one that MuJoCo does not read."""
    home = tmp_path / "bot_description"
    for folder in ("urdf", "meshes"):
        (home / folder).mkdir(parents=True)
    facets = "".join(
        "facet normal 0 0 0\nouter loop\n"
        + "".join("vertex {} {} {}\n".format(*CORNERS[k]) for k in face)
        + "endloop\nendfacet\n"
        for face in FACES
    )
    (home / "meshes" / "arm.stl").write_text(f"solid arm\n{facets}endsolid arm\n")
    (home / "meshes" / "pretty.dae").write_text("<COLLADA/>")
    path = home / "urdf" / "two.urdf"
    path.write_text(ROBOT.format(good=INERTIAL.format(1, 1, 1), bad=INERTIAL.format(0, 0, 0), mesh="arm.stl"))
    return path


def test_what_is_repaired_and_said(package):
    world = wanderlust.world_from_mjcf(package)
    model = world.model
    assert {model.actuator(n).name for n in range(model.nu)} == {"shoulder motor", "elbow motor"}
    gears = {model.actuator(n).name: model.actuator_gear[n, 0] for n in range(model.nu)}
    assert gears["shoulder motor"] == 12.0 and gears["elbow motor"] >= 1.0
    assert model.joint("shoulder").damping[0] == pytest.approx(12 / 3)
    assert model.nmesh == 1 and model.mesh_facenum[0] == 4  # the text became a mesh
    assert model.body("lower").inertia.min() >= 1e-6
    assert model.opt.integrator == int(mujoco.mjtIntegrator.mjINT_IMPLICITFAST)
    said = "; ".join(world.repairs)
    for words in (
        "1 mesh paths of packages resolved", "1 shapes that are only looked at left out", "visual lost.dae of lower",
        "1 links of no or hardly any inertia", "1 joints damped", "2 motors added, one for each joint; 1 without",
    ):  # fmt: skip
        assert words in said, said
    assert world.config.root == "none" and world.config.position == ("shoulder",)
    assert not {name for name in world.files() if name.endswith((".dae", ".so"))}
    assert b"libevil" not in world.files()["model/two.urdf"]


def test_a_base_that_moves_on_a_floor_is_there_if_asked_for(package):
    world = wanderlust.world_from_mjcf(package, free_base=True, floor=True)
    assert world.config.root == "base" and world.config.position == ("x", "y") and world.model.nv == 8
    assert world.facts.lifted > 0  # it stood in the floor
    assert {"base moves freely", "a floor at height 0"} <= set(world.repairs)


def test_what_cannot_be_repaired_is_refused_or_said(package, tmp_path):
    text = package.read_text()
    package.write_text(text.replace("arm.stl", "gone.stl"))
    assert "collision package://bot_description/meshes/gone.stl" in "; ".join(opening.collect(package).repairs)
    (tmp_path / "secret.stl").write_text("solid")
    package.write_text(text.replace("package://bot_description/meshes/arm.stl", "../../secret.stl"))
    with pytest.raises(UserError, match="which is outside"):
        opening.collect(package)
    package.write_text(text.replace("<robot", '<robot xmlns:xacro="x"').replace("<gazebo>", "<xacro:m/><gazebo>"))
    with pytest.raises(UserError, match=r"xacro FILE > robot\.urdf"):
        opening.collect(package)
    package.write_text(text.replace("revolute", "fixed").replace("continuous", "fixed"))
    with pytest.raises(UserError, match="no degrees of freedom"):
        wanderlust.world_from_mjcf(package)
