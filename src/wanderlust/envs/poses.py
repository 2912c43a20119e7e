"""Poses that a body can start in: any orientation, joints anywhere within their ranges, nothing in the floor."""

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

CLEARANCE = 0.01
"""Metres between the floor and the lowest point of a pose."""
DEEPEST = 0.01
"""Metres by which parts of a body may overlap in a pose."""

_G = mujoco.mjtGeom


def random_poses(model: mujoco.MjModel, count: int, draw: np.random.Generator) -> NDArray[np.float64]:
    """Up to `count` values of qpos: those of so many draws in which nothing overlaps by more than `DEEPEST`."""
    data, found, roots = mujoco.MjData(model), [], _roots(model)
    for _ in range(count):
        data.qpos[:] = _drawn(model, roots, draw)
        mujoco.mj_kinematics(model, data)
        _raise(model, data, roots, CLEARANCE - lowest_point(model, data))
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_collision(model, data)
        if data.ncon == 0 or data.contact.dist.min() > -DEEPEST:
            found.append(data.qpos.copy())
    return np.array(found).reshape(len(found), model.nq)


def lift_out(model: mujoco.MjModel, data: Any) -> float:
    """Raise a body whose start is in the floor, if its root lets it; by how many metres. `data` is after mj_forward."""
    roots, before = _roots(model), data.qpos.copy()
    still = model.body_weldid[model.geom_bodyid] == 0
    raised = 0.0
    for _ in range(10):
        deep = [c.dist for c in data.contact if c.exclude == 0 and still[c.geom1] != still[c.geom2]]
        if min(deep, default=0.0) > -DEEPEST:
            break
        _raise(model, data, roots, -min(deep))
        raised -= min(deep)
        mujoco.mj_forward(model, data)
    return raised if np.any(data.qpos != before) else 0.0


def lowest_point(model: mujoco.MjModel, data: mujoco.MjData) -> float:
    """Height of the lowest point of all that moves and can touch something, after mj_kinematics."""
    can_touch = (model.geom_contype | model.geom_conaffinity) != 0
    moves = (model.body_weldid[model.geom_bodyid] != 0) & can_touch
    heights = [data.geom_xpos[k, 2] - _reach_down(model, data, int(k)) for k in np.flatnonzero(moves)]
    return float(min(heights, default=0.0))


def _reach_down(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> float:
    """How far a geom reaches below its centre; for shapes that have no formula here, at most that far."""
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    down = np.abs(data.geom_xmat[geom].reshape(3, 3)[2])  # how far each axis of the geom leads up or down
    if kind == int(_G.mjGEOM_SPHERE):
        return float(size[0])
    if kind == int(_G.mjGEOM_CAPSULE):
        return float(size[0] + size[1] * down[2])
    if kind == int(_G.mjGEOM_CYLINDER):
        return float(size[0] * np.hypot(down[0], down[1]) + size[1] * down[2])
    if kind == int(_G.mjGEOM_BOX):
        return float(size @ down)
    if kind == int(_G.mjGEOM_ELLIPSOID):
        return float(np.linalg.norm(size * down))
    return float(model.geom_rbound[geom])


def _drawn(model: mujoco.MjModel, roots: list[int], draw: np.random.Generator) -> NDArray[np.float64]:
    """Joints uniform in their ranges, the root turned anyhow; what has no range stays as it is in the model."""
    qpos: NDArray[np.float64] = model.qpos0.copy()
    for joint in range(model.njnt):
        kind, at = int(model.jnt_type[joint]), int(model.jnt_qposadr[joint])
        if kind == int(mujoco.mjtJoint.mjJNT_FREE):
            qpos[at + 3 : at + 7] = _rotation(draw)
        elif kind == int(mujoco.mjtJoint.mjJNT_BALL):
            qpos[at : at + 4] = _rotation(draw)
        elif model.jnt_limited[joint]:
            qpos[at] = draw.uniform(*model.jnt_range[joint])
        elif kind == int(mujoco.mjtJoint.mjJNT_HINGE) and joint in roots:
            qpos[at] += draw.uniform(-np.pi, np.pi)
    return qpos


def _rotation(draw: np.random.Generator) -> NDArray[np.float64]:
    """A quaternion, uniform over rotations."""
    drawn = draw.normal(size=4)
    return drawn / np.linalg.norm(drawn)


def _roots(model: mujoco.MjModel) -> list[int]:
    """The joints that move a body against the world itself."""
    parents = model.body_parentid[model.jnt_bodyid]
    return [int(joint) for joint in np.flatnonzero(parents == 0)]


def _raise(model: mujoco.MjModel, data: Any, roots: list[int], by: float) -> None:
    """Lift the body, if a joint of its root lets it."""
    for joint in roots:
        kind, at = int(model.jnt_type[joint]), int(model.jnt_qposadr[joint])
        if kind == int(mujoco.mjtJoint.mjJNT_FREE):
            data.qpos[at + 2] += by
            return
        if kind == int(mujoco.mjtJoint.mjJNT_SLIDE) and abs(up := float(model.jnt_axis[joint][2])) > 0.99:
            data.qpos[at] += by / up
            return
