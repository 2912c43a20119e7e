"""A world's model dressed for pictures: an endless floor with a texture, a bright sky, and what a camera looks at."""

import copy
import functools
from collections.abc import Collection
from typing import Any, Literal, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from wanderlust.envs import MujocoWorld
from wanderlust.envs.mjcf import compiled
from wanderlust.report.explorer.geometry import floor_of, floors
from wanderlust.report.explorer.mechanics import find_root

Quality = Literal["plain", "high"]
SHADOWS: dict[Quality, int] = {"plain": 1024, "high": 4096}
"""Side of the map of shadows, in pixels."""
SAMPLES: dict[Quality, int] = {"plain": 0, "high": 4}
"""Of every pixel, for smooth edges."""
NAME = "wanderlust picture"
FLOOR, FLOOR_TOO, LINES = (0.905, 0.92, 0.935), (0.835, 0.855, 0.875), (0.77, 0.795, 0.82)
SKY, HORIZON = (0.74, 0.82, 0.91), (0.97, 0.98, 0.99)
FAR = 80.0
"""Sizes of the body to which one can see."""


class Subject(NamedTuple):
    """What a film of a model is about."""

    body: int
    """The body that the camera follows; 0 if nothing in the world gets about."""
    radius: float
    """Of the ball that holds it all."""
    ground: float
    """Height of the floor."""


def subject_of(model: mujoco.MjModel) -> Subject:
    """The body that gets about: that of the first free joint, or of slides along the floor; with what hangs on it."""
    root = find_root(model)
    body = int(model.dof_bodyid[root.dofs[0]]) if root is not None and root.dofs else 0
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mine = [g for g in range(model.ngeom) if model.geom_type[g] != int(mujoco.mjtGeom.mjGEOM_PLANE)]
    mine = [g for g in mine if not body or _hangs_on(model, int(model.geom_bodyid[g]), body)]
    middle = data.subtree_com[body]
    sizes = [np.linalg.norm(data.geom_xpos[g] - middle) + model.geom_rbound[g] for g in mine]
    return Subject(body, float(max(sizes, default=model.stat.extent)), floor_of(model) or 0.0)


def _hangs_on(model: mujoco.MjModel, body: int, root: int) -> bool:
    while body > root:
        body = int(model.body_parentid[body])
    return body == root


def picture_model(
    world: MujocoWorld, width: int, height: int, quality: Quality = "plain", columns: int = 1
) -> mujoco.MjModel:
    """A model to render pictures of so many pixels with; its state is the one of the world's own model."""
    known: Any = world  # with a hash
    model = copy.copy(_dressed(known))
    model.vis.global_.offwidth, model.vis.global_.offheight = width, height
    model.vis.quality.shadowsize, model.vis.quality.offsamples = SHADOWS[quality], SAMPLES[quality]
    if quality == "plain":  # round things need fewer corners in small pictures
        corners = int(np.clip(width / columns / 20, 12, 28))
        model.vis.quality.numslices, model.vis.quality.numstacks = corners, corners // 2
    return model


@functools.lru_cache(maxsize=8)
def _dressed(world: MujocoWorld) -> mujoco.MjModel:
    model = _with_textures(world)
    material = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_MATERIAL, NAME)
    subject = subject_of(model)
    for geom in floors(model):
        if material >= 0:
            model.geom_matid[geom], model.geom_rgba[geom] = material, 1.0
    model.mat_reflectance[:] = 0.0
    for body in np.flatnonzero(model.body_mocapid >= 0):  # handles, to be moved and not to be seen
        model.geom_rgba[model.geom_bodyid == body, 3] = 0.0
    size = max(subject.radius, 0.1)
    model.vis.map.zfar = max(model.vis.map.zfar, FAR * size / model.stat.extent)
    model.vis.map.znear = min(model.vis.map.znear, 0.05 * size / model.stat.extent)
    for geom in floors(model):  # as far as one can see, of few pieces; `lay_floors` keeps the middle where one looks
        model.geom_size[geom] = model.vis.map.zfar * model.stat.extent / np.array([1.0, 1.0, 4.0])
        if model.geom_matid[geom] >= 0:
            model.mat_texuniform[model.geom_matid[geom]] = True
    model.vis.map.haze = 0.35
    model.vis.rgba.haze = *HORIZON, 1.0
    model.vis.headlight.active = 0
    return model


def _with_textures(world: MujocoWorld) -> mujoco.MjModel:
    """The model with a floor and a sky of ours, where it can be made anew; else the model as it is."""
    load: Any = getattr(world, "load", None)
    if load is None:
        return copy.copy(world.model)
    spec = load()
    kinds, builtin = mujoco.mjtTexture, mujoco.mjtBuiltin
    for texture in [one for one in spec.textures if one.type == kinds.mjTEXTURE_SKYBOX]:
        spec.delete(texture)
    spec.add_texture(
        name=f"{NAME} sky", type=kinds.mjTEXTURE_SKYBOX, builtin=builtin.mjBUILTIN_GRADIENT,
        rgb1=SKY, rgb2=HORIZON, width=64, height=384,
    )  # fmt: skip
    spec.add_texture(
        name=f"{NAME} floor", type=kinds.mjTEXTURE_2D, builtin=builtin.mjBUILTIN_CHECKER,
        rgb1=FLOOR, rgb2=FLOOR_TOO, mark=mujoco.mjtMark.mjMARK_EDGE, markrgb=LINES, width=256, height=256,
    )  # fmt: skip
    tile = _tile(subject_of(world.model).radius)
    material = spec.add_material(
        name=NAME, texuniform=True, texrepeat=[0.5 / tile, 0.5 / tile], reflectance=0.0, specular=0.0, shininess=0.0
    )
    material.textures[int(mujoco.mjtTextureRole.mjTEXROLE_RGB)] = f"{NAME} floor"
    model = compiled(spec)
    own = world.model
    same = (model.nq, model.nv, model.na, model.nbody, model.nmocap) == (own.nq, own.nv, own.na, own.nbody, own.nmocap)
    return model if same else copy.copy(own)


def _tile(radius: float) -> float:
    """Side of a square of the floor, in metres: 1 for bodies of about that size."""
    return float(10.0 ** np.round(np.log10(max(radius, 0.05)))) if radius > 0.25 else 0.5


def lay_floors(model: mujoco.MjModel, flat: Collection[int], scene: mujoco.MjvScene, at: NDArray[np.float64]) -> None:
    """Move the `flat` planes below what is looked at, by whole lengths of their texture: so they have no end.

    MuJoCo draws a plane without a size as thousands of squares, which cost more than all else in a picture.
    """
    for floor in scene.geoms[: scene.ngeom]:
        if floor.type != int(mujoco.mjtGeom.mjGEOM_PLANE):
            continue
        floor.category = int(mujoco.mjtCatBit.mjCAT_DECOR)  # takes shadows and casts none: on itself they are noise
        if floor.objid not in flat:
            continue
        repeat = model.mat_texrepeat[floor.matid] if floor.matid >= 0 else np.zeros(2)
        for axis, often in zip(floor.mat.T[:2], repeat, strict=True):
            length = 2.0 / often if often > 0.0 else 1.0
            floor.pos = floor.pos + axis * length * np.round(axis @ (at - floor.pos) / length)
        if scene.ngeom < scene.maxgeom:  # haze lies only over planes without a size, of which nothing else is drawn
            haze, plane = scene.geoms[scene.ngeom], mujoco.mjtGeom.mjGEOM_PLANE
            mujoco.mjv_initGeom(haze, plane, np.zeros(3), floor.pos, floor.mat.reshape(-1), floor.rgba)
            scene.ngeom += 1


# --- light --------------------------------------------------------------------------------------------------------

DOWN: NDArray[np.float64] = np.array([0.35, 0.45, -1.0]) / np.linalg.norm([0.35, 0.45, -1.0])


def light(scene: mujoco.MjvScene, at: NDArray[np.float64], away: float, shadows: bool) -> None:
    """One light from everywhere, and one that may cast shadows and stays with what is looked at."""
    directional = int(mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)
    scene.nlight = 2
    every, sun = scene.lights[0], scene.lights[1]
    every.dir, every.pos, every.castshadow = (0.2, -0.3, -0.9), (0.0, 0.0, 50.0), 0
    every.ambient, every.diffuse = [0.42] * 3, [0.22] * 3
    sun.dir, sun.pos, sun.castshadow = DOWN, at - away * DOWN, int(shadows)
    sun.ambient, sun.diffuse = [0.0] * 3, [0.45] * 3
    for one in (every, sun):
        one.type, one.headlight, one.specular, one.attenuation = directional, 0, [0.08] * 3, (1.0, 0.0, 0.0)
    flags = scene.flags
    flags[int(mujoco.mjtRndFlag.mjRND_SHADOW)], flags[int(mujoco.mjtRndFlag.mjRND_HAZE)] = int(shadows), 1
    flags[int(mujoco.mjtRndFlag.mjRND_REFLECTION)] = flags[int(mujoco.mjtRndFlag.mjRND_FOG)] = 0
