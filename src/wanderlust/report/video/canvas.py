"""Where scenes are rendered: a framebuffer without a window, and pictures of bodies in it, one or several at a time."""

import atexit
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from wanderlust.envs import MujocoWorld
from wanderlust.envs.mjcf import set_physics
from wanderlust.report.explorer.geometry import floors
from wanderlust.report.video.opengl import make_context
from wanderlust.report.video.stage import DOWN, Quality, lay_floors, light, picture_model, subject_of

Picture = NDArray[np.uint8]
"""[height, width, 3]"""
SHADOW = np.array([0.56, 0.575, 0.59])
GLOW = 16.0
MOST_GEOMS = 12_000
ONES, ORIGIN, STRAIGHT = np.ones(3), np.zeros(3), np.eye(3).reshape(-1)
ALL = int(mujoco.mjtCatBit.mjCAT_ALL)
MOVING, DECOR = int(mujoco.mjtCatBit.mjCAT_DYNAMIC), int(mujoco.mjtCatBit.mjCAT_DECOR)


class Camera(NamedTuple):
    """Where a camera is and what it looks at; angles in degrees."""

    at: NDArray[np.float64]
    distance: float
    azimuth: float
    elevation: float


class Ribbon(NamedTuple):
    """A way along the floor."""

    places: NDArray[np.float64]
    """[n, 3]"""
    colour: NDArray[np.float64]
    width: float
    layer: int = 0
    """Of ribbons that cross, which lies on top."""


class Mark(NamedTuple):
    """A disc, such as a goal is."""

    place: NDArray[np.float64]
    radius: float
    colour: NDArray[np.float64]


class Scenery(NamedTuple):
    """What one picture shows: bodies in a world, and what is drawn around them."""

    physics: Sequence[NDArray[Any]]
    """A state of the world for every body that is shown; the first one's surroundings are shown, too."""
    camera: Camera
    colours: Sequence[NDArray[np.float64] | None] = ()
    """RGB that bodies are painted in; None, or nothing, for those of the model."""
    ribbons: Sequence[Ribbon] = ()
    marks: Sequence[Mark] = ()


class Canvas:
    """Renders scenes of one world into pictures of one size. Close it, or use it in a `with`."""

    def __init__(
        self, world: MujocoWorld, width: int, height: int, quality: Quality = "plain", columns: int = 1
    ) -> None:
        self.width, self.height = width, height
        self._context: Any = None  # until it is open, and again once it is closed
        self.model = picture_model(world, width, height, quality, columns)
        self.subject = subject_of(self.model)
        self.data = mujoco.MjData(self.model)
        self._scene = mujoco.MjvScene(self.model, maxgeom=MOST_GEOMS)
        self._option = mujoco.MjvOption()
        self._option.sitegroup[:] = 0
        self._floors = floors(self.model)
        self._flat_shadows = quality == "plain" and bool(self._floors) and not world.spec.focus
        """Shadows are shapes on the floor: a quarter of what a map of shadows costs without a graphics card."""
        self._context = make_context(width, height)
        self._pixels = mujoco.MjrContext(self.model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._pixels)
        if not _open:
            atexit.register(_close_all)  # after MuJoCo's own, so that it is called while OpenGL is still there
        _open.add(self)

    def __enter__(self) -> "Canvas":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Give memory and context back."""
        if self._context is not None:
            _open.discard(self)
            self._context.make_current()
            self._pixels.free()
            self._context.free()
            self._context = None  # let go of now: later there is no OpenGL to call

    def place_of(self, physics: NDArray[Any]) -> NDArray[np.float64]:
        """Where the centre of mass of what the film is about is, in a state."""
        self._set(physics)
        return np.array(self.data.subtree_com[self.subject.body])

    def render(self, scenes: Sequence[Scenery], columns: int = 1, size: tuple[int, int] | None = None) -> Picture:
        """One picture of scenes side by side, in rows of so many; as large as the canvas, or of a smaller size."""
        self._context.make_current()
        width, height = size or (self.width, self.height)
        rows = -(-len(scenes) // columns)
        wide, high = width // columns, height // rows
        whole = mujoco.MjrRect(0, 0, width, height)
        mujoco.mjr_rectangle(whole, 1.0, 1.0, 1.0, 1.0)
        for n, scene in enumerate(scenes):
            row, column = divmod(n, columns)
            self._compose(scene)
            where = mujoco.MjrRect(column * wide, height - (row + 1) * high, wide, high)
            mujoco.mjr_render(where, self._scene, self._pixels)
        picture = np.empty((height, width, 3), np.uint8)
        mujoco.mjr_readPixels(picture, None, whole, self._pixels)
        return picture[::-1]

    def _set(self, physics: NDArray[Any]) -> None:
        """Put the bodies where a state has them: all that drawing needs, and no dynamics."""
        set_physics(self.model, self.data, physics)
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)
        mujoco.mj_flex(self.model, self.data)
        mujoco.mj_tendon(self.model, self.data)

    def _compose(self, shown: Scenery) -> None:
        camera, scene = mujoco.MjvCamera(), self._scene
        camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        camera.lookat, camera.distance = shown.camera.at, shown.camera.distance
        camera.azimuth, camera.elevation = shown.camera.azimuth, shown.camera.elevation
        for n, physics in enumerate(shown.physics):
            self._set(physics)
            before = scene.ngeom if n else 0
            if n:
                mujoco.mjv_addGeoms(self.model, self.data, self._option, mujoco.MjvPerturb(), MOVING, scene)
            else:
                mujoco.mjv_updateScene(self.model, self.data, self._option, None, camera, ALL, scene)
                lay_floors(self.model, self._floors, scene, shown.camera.at)
            colour = shown.colours[n] if n < len(shown.colours) else None
            if colour is not None:
                for geom in scene.geoms[before : scene.ngeom]:
                    if geom.category == MOVING:
                        geom.matid, geom.rgba = -1, (*colour, 1.0)
            if self._flat_shadows:
                self._add_shadows(before)
        light(scene, shown.camera.at, 3.0 * shown.camera.distance, not self._flat_shadows)
        self._pixels.shadowClip = 1.2 * shown.camera.distance
        for ribbon in shown.ribbons:
            self._add_ribbon(ribbon)
        for mark in shown.marks:
            self._add_mark(mark)

    def _add_shadows(self, first: int) -> None:
        """What moves, from this geom of the scene on, thrown onto the floor."""
        ground = self.subject.ground + 0.004 * self.subject.radius
        thrown = np.eye(3)
        thrown[:, 2] -= DOWN / DOWN[2]
        thrown[2] = 0.0
        for geom in self._scene.geoms[first : self._scene.ngeom]:
            if geom.category != MOVING or geom.rgba[3] < 0.5:
                continue
            shadow = self._next_geom(geom.type, SHADOW / GLOW)
            if shadow is None:
                return
            shadow.emission = GLOW  # of one grey: light would find no sides on what is flat
            shadow.size, shadow.dataid, shadow.mat = geom.size, geom.dataid, thrown @ geom.mat
            above = np.array(geom.pos) - (0.0, 0.0, ground)
            shadow.pos = thrown @ above + (0.0, 0.0, ground)

    def _add_ribbon(self, ribbon: Ribbon) -> None:
        places, half = np.asarray(ribbon.places, np.float64)[:, :2], 0.5 * ribbon.width
        height = self.subject.ground + (0.1 + 0.05 * ribbon.layer) * half
        ways, middles = np.diff(places, axis=0), 0.5 * (places[1:] + places[:-1])
        lengths = np.linalg.norm(ways, axis=1)
        for (x, y), (at_x, at_y), length in zip(ways.tolist(), middles.tolist(), lengths.tolist(), strict=True):
            geom = self._next_geom(mujoco.mjtGeom.mjGEOM_BOX, ribbon.colour) if length > 1e-6 else None
            if geom is None:
                continue
            cos, sin = x / length, y / length
            geom.mat = ((cos, -sin, 0.0), (sin, cos, 0.0), (0.0, 0.0, 1.0))
            geom.size, geom.pos = (0.5 * length + 0.5 * half, half, 0.1 * half), (at_x, at_y, height)

    def _add_mark(self, mark: Mark) -> None:
        geom = self._next_geom(mujoco.mjtGeom.mjGEOM_CYLINDER, mark.colour, 0.55)
        if geom is not None:
            geom.size, geom.pos = (mark.radius, mark.radius, 0.01 * mark.radius), mark.place

    def _next_geom(self, kind: mujoco.mjtGeom, colour: NDArray[np.float64], opacity: float = 1.0) -> Any:
        """A geom of the scene that is not taken; None if all are."""
        scene = self._scene
        if scene.ngeom >= scene.maxgeom:
            return None
        geom = scene.geoms[scene.ngeom]
        mujoco.mjv_initGeom(geom, kind, ONES, ORIGIN, STRAIGHT, np.array([*colour, opacity], np.float32))
        geom.category, geom.emission, geom.specular = DECOR, 0.0, 0.0
        scene.ngeom += 1
        return geom


_open: weakref.WeakSet[Canvas] = weakref.WeakSet()


def _close_all() -> None:
    for canvas in list(_open):
        canvas.close()
