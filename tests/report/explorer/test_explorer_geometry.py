"""The triangles that stand for MuJoCo's shapes: where they are, how much they enclose, and which way they face."""

import mujoco
import numpy as np
import pytest

from wanderlust.config import EnvConfig
from wanderlust.envs import make_world
from wanderlust.registry import WORLDS
from wanderlust.report.explorer.geometry import box, capsule, cylinder, ellipsoid, floor_of, shapes


def enclosed(vertices, faces):
    """The volume inside triangles that face outward."""
    a, b, c = np.moveaxis(np.asarray(vertices, np.float64)[faces], 1, 0)
    return np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6


@pytest.mark.parametrize(
    ("made", "volume", "half"),
    [
        (box(np.array([1.0, 2.0, 3.0])), 48.0, (1, 2, 3)),
        (ellipsoid(np.array([1.0, 2.0, 3.0])), 8 * np.pi, (1, 2, 3)),
        (capsule(0.5, 2.0), np.pi * (1.0 + 1.0 / 6.0), (0.5, 0.5, 2.5)),
        (cylinder(0.5, 2.0), np.pi, (0.5, 0.5, 2.0)),
    ],
)
def test_shapes_enclose_their_volume_and_face_outward(made, volume, half):
    vertices, faces = made
    assert 0.94 * volume < enclosed(vertices, faces) <= volume + 1e-9
    assert np.allclose(np.abs(vertices).max(axis=0), half, rtol=0.02)
    a, b, c = np.moveaxis(vertices[faces], 1, 0)
    across = np.cross(b - a, c - a)
    assert np.allclose(across.sum(axis=0), 0.0, atol=1e-9)  # closed: as much faces one way as the other
    assert np.allclose(np.maximum(across, 0).sum(axis=0), -np.minimum(across, 0).sum(axis=0))


def model(body: str, assets: str = "") -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(f"<mujoco><asset>{assets}</asset><worldbody>{body}</worldbody></mujoco>")


def test_a_mesh_is_where_mujoco_has_it_with_sharp_edges():
    corners = " ".join(f"{x} {y} {z}" for x in (0, 2) for y in (0, 4) for z in (0, 6))
    made = model(
        '<body pos="5 0 0"><joint type="slide"/><geom type="mesh" mesh="m" pos="1 0 0" euler="0 0 90"/></body>',
        f'<mesh name="m" vertex="{corners}"/>',
    )
    (shape,) = shapes(made)
    assert enclosed(shape.vertices, shape.faces) == pytest.approx(48.0, rel=1e-4)
    # turned by 90 degrees and moved by one metre, in the frame of its body
    assert np.allclose(shape.vertices.min(axis=0), (-3, 0, 0), atol=1e-4)
    assert np.allclose(shape.vertices.max(axis=0), (1, 2, 6), atol=1e-4)
    assert len(shape.vertices) == 24  # three normals at each of eight corners


def test_a_height_field_faces_up_and_planes_are_floors_or_plates():
    made = model(
        '<geom type="hfield" hfield="h"/><geom type="plane" size="0 0 1" pos="0 0 -0.5"/>'
        '<geom type="plane" size="1 2 1" euler="90 0 0" rgba="1 0 0 1"/>',
        '<hfield name="h" nrow="3" ncol="4" size="2 1 0.5 0.1" elevation="0 0 0 0 0 1 1 0 0 0 0 0"/>',
    )
    field, plate = shapes(made)
    a, b, c = np.moveaxis(field.vertices[field.faces], 1, 0)
    assert (np.cross(b - a, c - a)[:, 2] > 0).all()
    assert field.vertices[:, 2].max() == pytest.approx(0.5) and np.ptp(field.vertices[:, 0]) == pytest.approx(4.0)
    assert plate.colour == (255, 0, 0) and np.ptp(plate.vertices[:, 2]) == pytest.approx(4.0)
    assert floor_of(made) == -0.5


def test_what_is_hidden_is_not_drawn_and_colours_are_those_of_materials():
    made = model(
        '<body><geom size="1" group="3"/><geom size="1" rgba="1 1 1 0"/><geom size="1" material="blue"/>'
        '<geom size="1" rgba="0 1 0 0.4"/></body>',
        '<material name="blue" rgba="0 0 1 1"/>',
    )
    assert [(shape.colour, shape.opacity) for shape in shapes(made)] == [((0, 0, 255), 1.0), ((0, 255, 0), 0.4)]


@pytest.mark.parametrize("name", ["ant", "humanoid", "half-cheetah", "fetch-push"])
def test_worlds_of_ours_have_shapes_of_the_size_that_mujoco_knows(name):
    config: EnvConfig = WORLDS.get(name).configure(name)
    made = make_world(config).model
    found = shapes(made)
    assert {shape.body for shape in found} <= set(range(made.nbody))
    drawn = [g for g in range(made.ngeom) if made.geom_group[g] <= 2 and made.geom_rgba[g, 3] and made.geom_rbound[g]]
    farthest = max(made.geom_rbound[g] + np.linalg.norm(made.geom_pos[g]) for g in drawn)
    assert max(np.linalg.norm(shape.vertices, axis=1).max() for shape in found) <= farthest + 1e-3
