"""The shapes of a MuJoCo model as triangles, for a viewer that knows nothing of MuJoCo."""

from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from wanderlust.errors import UserError

SHOWN_GROUPS = (0, 1, 2)
"""Geoms that MuJoCo's own viewer shows at first; the others are for collisions, as a rule."""
AROUND = 24
"""Corners of a circle."""
UNSET = (0.5, 0.5, 0.5, 1.0)
"""RGBA of a geom for which a model says none."""
CREASE = 0.7
"""Cosine of the angle between two faces of a mesh from which on their edge is sharp."""
KINDS = mujoco.mjtGeom

Triangles = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Vertices [n, 3] and faces [m, 3]. Faces that meet at an edge have vertices of their own: that keeps edges sharp."""


class Shape(NamedTuple):
    """What one body looks like, as far as it has one colour; in the frame of the body."""

    body: int
    vertices: NDArray[np.float32]
    faces: NDArray[np.uint32]
    colour: tuple[int, int, int]
    opacity: float


def shapes(model: mujoco.MjModel) -> list[Shape]:
    """All that is to be seen of a model but infinite planes: one shape per body and colour."""
    parts: dict[tuple[int, tuple[int, int, int], float], list[Triangles]] = {}
    for geom in range(model.ngeom):
        rgba = geom_colour(model, geom)
        made = _geom(model, geom) if rgba[3] > 0 and model.geom_group[geom] in SHOWN_GROUPS else None
        if made is not None:
            red, green, blue = (round(255 * float(x)) for x in rgba[:3])
            key = (int(model.geom_bodyid[geom]), (red, green, blue), round(float(rgba[3]), 2))
            parts.setdefault(key, []).append(_placed(made, model.geom_pos[geom], model.geom_quat[geom]))
    return [Shape(body, *_joined(some), colour, opacity) for (body, colour, opacity), some in parts.items()]


def geom_colour(model: mujoco.MjModel, geom: int) -> NDArray[np.float64]:
    """RGBA of a geom: its own, or its material's if it has none; of what has a texture, times the texture's mean."""
    rgba = model.geom_rgba[geom].astype(np.float64)
    material = int(model.geom_matid[geom])
    if material < 0:
        return rgba
    if np.array_equal(rgba, UNSET):
        rgba = model.mat_rgba[material].astype(np.float64)
    texture = int(model.mat_texid[material][int(mujoco.mjtTextureRole.mjTEXROLE_RGB)])
    if texture >= 0:
        channels, first = int(model.tex_nchannel[texture]), int(model.tex_adr[texture])
        count = int(model.tex_width[texture] * model.tex_height[texture])
        pixels = model.tex_data[first : first + count * channels].reshape(count, channels)
        rgba[:3] *= pixels[:, :3].mean(axis=0) / 255.0 if channels >= 3 else pixels.mean() / 255.0
    return np.clip(rgba, 0.0, 1.0)


def floors(model: mujoco.MjModel) -> list[int]:
    """The planes that lie flat in the world."""
    planes = np.flatnonzero((model.geom_type == int(KINDS.mjGEOM_PLANE)) & (model.geom_bodyid == 0))
    return [int(geom) for geom in planes if abs(_matrix(model.geom_quat[geom])[2, 2]) > 0.999]


def floor_of(model: mujoco.MjModel) -> float | None:
    """Height of the floor: of the first plane that lies flat in the world; None if there is none."""
    return next((float(model.geom_pos[geom, 2]) for geom in floors(model)), None)


def _geom(model: mujoco.MjModel, geom: int) -> Triangles | None:
    """The triangles of a geom in its own frame; None for what is not drawn."""
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    if kind == int(KINDS.mjGEOM_SPHERE):
        return ellipsoid(np.full(3, size[0]))
    if kind == int(KINDS.mjGEOM_ELLIPSOID):
        return ellipsoid(size)
    if kind == int(KINDS.mjGEOM_CAPSULE):
        return capsule(size[0], size[1])
    if kind == int(KINDS.mjGEOM_CYLINDER):
        return cylinder(size[0], size[1])
    if kind == int(KINDS.mjGEOM_BOX):
        return box(size)
    if kind == int(KINDS.mjGEOM_PLANE):
        flat = model.geom_bodyid[geom] == 0 and abs(_matrix(model.geom_quat[geom])[2, 2]) > 0.999
        return None if flat or not (size[0] and size[1]) else box(np.array([size[0], size[1], 1e-3]))
    if kind == int(KINDS.mjGEOM_MESH):
        return _mesh(model, int(model.geom_dataid[geom]))
    if kind == int(KINDS.mjGEOM_HFIELD):
        return _height_field(model, int(model.geom_dataid[geom]))
    return None


# --- the shapes, around their own origin ---------------------------------------------------------------------------


def ellipsoid(radii: NDArray[np.float64]) -> Triangles:
    """Half axes along x, y and z."""
    rings = np.linspace(0.0, np.pi, AROUND // 2 + 1)
    return _turned(np.sin(rings), np.cos(rings), radii)


def capsule(radius: float, half: float) -> Triangles:
    """Along z, with `half` of its length between the caps."""
    rings = np.linspace(0.0, np.pi, AROUND // 2 + 2)
    heights = np.where(np.arange(len(rings)) < len(rings) / 2, half, -half) + radius * np.cos(rings)
    return _turned(radius * np.sin(rings), heights, np.ones(3))


def cylinder(radius: float, half: float) -> Triangles:
    """Along z."""
    side = _turned(np.full(2, radius), np.array([half, -half]), np.ones(3))
    caps = [_turned(np.array([0.0, radius])[::sign], np.full(2, sign * half), np.ones(3)) for sign in (1, -1)]
    return _joined_wide([side, *caps])


def box(half: NDArray[np.float64]) -> Triangles:
    """Half sides along x, y and z; every face has corners of its own."""
    sides = []
    for axis in range(3):
        for sign in (1.0, -1.0):
            corners = np.full((4, 3), sign)
            corners[:, (axis + 1) % 3] = sign * np.array([-1, 1, 1, -1])
            corners[:, (axis + 2) % 3] = [-1, -1, 1, 1]
            sides.append((corners * half, np.array([[0, 1, 2], [0, 2, 3]])))
    return _joined_wide(sides)


def _turned(radius: NDArray[np.float64], height: NDArray[np.float64], scale: NDArray[np.float64]) -> Triangles:
    """A line, from the top down, turned around z."""
    angle = np.linspace(0.0, 2 * np.pi, AROUND, endpoint=False)
    x, y = radius[:, None] * np.cos(angle), radius[:, None] * np.sin(angle)
    z = np.broadcast_to(height[:, None], x.shape)
    vertices = np.stack([x, y, z], axis=-1).reshape(-1, 3) * scale
    return vertices, _quads(len(radius), AROUND, closed=True)


def _quads(rows: int, columns: int, closed: bool) -> NDArray[np.int64]:
    """Two triangles for each cell of a grid of vertices, the rows one below the other."""
    index = np.arange(rows * columns).reshape(rows, columns)
    right = np.roll(index, -1, axis=1) if closed else index[:, 1:]
    left = index if closed else index[:, :-1]
    a, b, c, d = left[:-1], left[1:], right[1:], right[:-1]
    return np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, d], -1).reshape(-1, 3)])


def _mesh(model: mujoco.MjModel, mesh: int) -> Triangles:
    """A mesh whose faces share the corners at which they meet smoothly, and no others."""
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    vertices = model.mesh_vert[first : first + count].astype(np.float64)
    first, count = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
    return creased(vertices, model.mesh_face[first : first + count].astype(np.int64))


def creased(vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> Triangles:
    """The same triangles, with corners of their own along sharp edges."""
    a, b, c = np.moveaxis(vertices[faces], 1, 0)
    normal = np.cross(b - a, c - a)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
    corner = np.arange(faces.size).reshape(faces.shape)
    # every edge of every face, from its lower to its higher vertex: face, and its corners at both
    at = np.concatenate([faces[:, [i, (i + 1) % 3]] for i in range(3)])
    corners = np.concatenate([corner[:, [i, (i + 1) % 3]] for i in range(3)])
    of = np.tile(np.arange(len(faces)), 3)
    swap = at[:, 0] > at[:, 1]
    at[swap], corners[swap] = at[swap][:, ::-1], corners[swap][:, ::-1]
    order = np.lexsort((at[:, 1], at[:, 0]))
    at, corners, of = at[order], corners[order], of[order]
    smooth = (at[1:] == at[:-1]).all(axis=1) & (np.sum(normal[of[1:]] * normal[of[:-1]], axis=1) > CREASE)
    joined = np.concatenate([np.stack([corners[:-1, k], corners[1:, k]], 1)[smooth] for k in range(2)])
    graph = coo_array((np.ones(len(joined), bool), (joined[:, 0], joined[:, 1])), shape=(faces.size, faces.size))
    count, index = connected_components(graph, directed=False)
    found = np.zeros((count, 3))
    found[index] = vertices[faces.ravel()]
    return found, index.reshape(-1, 3).astype(np.int64)


def _height_field(model: mujoco.MjModel, field: int) -> Triangles:
    """The surface of a height field."""
    rows, columns = int(model.hfield_nrow[field]), int(model.hfield_ncol[field])
    half_x, half_y, top, _ = model.hfield_size[field]
    first = int(model.hfield_adr[field])
    z = top * model.hfield_data[first : first + rows * columns].reshape(rows, columns)
    x, y = np.meshgrid(np.linspace(-half_x, half_x, columns), np.linspace(-half_y, half_y, rows))
    vertices = np.stack([x, y, z], axis=-1).reshape(-1, 3)
    return vertices, _quads(rows, columns, closed=False)[:, ::-1]


def annulus(radius: float, hollow: float, sectors: int, parts: int) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    """A flat ring, or the first `parts` of its sectors, the first one around the x axis."""
    angle = 2 * np.pi / sectors * (np.arange(parts + 1) - 0.5)
    around = np.stack([np.cos(angle), np.sin(angle), np.zeros(parts + 1)], axis=1)
    vertices = radius * np.concatenate([hollow * around, around])
    return vertices.astype(np.float32), _quads(2, parts + 1, closed=False).astype(np.uint32)


# --- putting them together -------------------------------------------------------------------------------------------


def _matrix(quaternion: NDArray[np.float64]) -> NDArray[np.float64]:
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, np.asarray(quaternion, np.float64))
    return matrix.reshape(3, 3)


def _placed(made: Triangles, at: NDArray[np.float64], turn: NDArray[np.float64]) -> Triangles:
    vertices, faces = made
    return vertices @ _matrix(turn).T + at, faces


def _joined_wide(parts: list[Triangles]) -> Triangles:
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in parts[:-1])])
    faces = [faces + start for (_, faces), start in zip(parts, starts, strict=True)]
    return np.concatenate([vertices for vertices, _ in parts]), np.concatenate(faces)


def _joined(parts: list[Triangles]) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    vertices, faces = _joined_wide(parts)
    if not np.isfinite(vertices).all():
        raise UserError("the model has a shape whose size is not a number; there is nothing to draw")
    return vertices.astype(np.float32), faces.astype(np.uint32)
