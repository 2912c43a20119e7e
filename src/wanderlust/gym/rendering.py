"""What environments show of their worlds: pictures, or a window on one of them."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wanderlust.envs import MujocoWorld, World
from wanderlust.envs.mjcf import set_physics
from wanderlust.errors import UserError
from wanderlust.report.video.canvas import Camera, Canvas, Mark, Picture, Scenery
from wanderlust.report.video.flat import draw_point
from wanderlust.report.video.opengl import backend, has_display
from wanderlust.report.video.shooting import ANGLES, ROOM, TABLE
from wanderlust.report.video.stage import picture_model, subject_of

MODES = ("human", "rgb_array")
SIDE = 480
"""Pixels of a picture, which is square."""
FOLLOW = 0.2
"""Share of the way to the body that a camera goes in one picture."""


def modes_of(world: World) -> list[str]:
    """The render modes that can be had: a window needs MuJoCo's viewer, and a display."""
    return [mode for mode in MODES if mode != "human" or (isinstance(world, MujocoWorld) and has_display())]


def check_mode(who: str, world: World, mode: str | None) -> None:
    """Refuse a render mode that is none, or that cannot be had here."""
    if mode is None:
        return
    if mode not in MODES:
        raise UserError(f"{who}: render_mode is {mode!r}; it must be one of {', '.join(map(repr, MODES))} or None")
    if mode == "human":
        if not isinstance(world, MujocoWorld):
            raise UserError(f"{who}: {world.spec.name} has no window, only pictures: render_mode='rgb_array'")
        if not has_display():
            raise UserError(f"{who}: render_mode='human' needs a display, and there is none; use 'rgb_array'")
    elif isinstance(world, MujocoWorld):
        backend()


class Pictures:
    """Pictures of worlds side by side, each with a camera of its own that follows the body."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._canvas = Canvas(world, SIDE, SIDE) if isinstance(world, MujocoWorld) else None
        self._looks: dict[int, NDArray[np.float64]] = {}

    def take(
        self, physics: NDArray[Any], position: NDArray[Any], marks: Sequence[Sequence[Mark]]
    ) -> tuple[Picture, ...]:
        """One of every world."""
        if self._canvas is None:
            return tuple(draw_point(place, around, SIDE) for place, around in zip(position, marks, strict=True))
        return tuple(
            np.ascontiguousarray(self._canvas.render([Scenery([state], self._camera(k, state), marks=marks[k])]))
            for k, state in enumerate(physics)
        )

    def close(self) -> None:
        """Give the canvas back."""
        if self._canvas is not None:
            self._canvas.close()

    def _camera(self, k: int, state: NDArray[Any]) -> Camera:
        assert self._canvas is not None
        place, subject, spec = self._canvas.place_of(state), self._canvas.subject, self._world.spec
        if spec.focus:
            return Camera(self._looks.setdefault(k, place + np.array([-0.05, 0.0, 0.08])), TABLE[2], *TABLE[:2])
        before = self._looks.get(k, place)
        jumped = np.linalg.norm(place - before) > 4.0 * subject.radius
        self._looks[k] = look = place if jumped else before + FOLLOW * (place - before)
        view = ANGLES["follow" if len(spec.groups["position"]) > 1 else "side"]
        return Camera(look, ROOM * subject.radius, *view)


class Window:
    """MuJoCo's own viewer on one world, at real time."""

    def __init__(self, world: MujocoWorld, seconds: float) -> None:
        import mujoco
        import mujoco.viewer

        self._model, self._seconds = picture_model(world, SIDE, SIDE), seconds
        self._model.vis.headlight.active = 1
        self._data = mujoco.MjData(self._model)
        others = set(threading.enumerate())
        self._viewer: Any = mujoco.viewer.launch_passive(
            self._model, self._data, show_left_ui=False, show_right_ui=False
        )
        self._drawing = [thread for thread in threading.enumerate() if thread not in others]
        body = subject_of(self._model).body
        with self._viewer.lock():
            if body and not world.spec.focus:
                self._viewer.cam.type, self._viewer.cam.trackbodyid = mujoco.mjtCamera.mjCAMERA_TRACKING, body
        self._due = time.monotonic()

    def show(self, state: NDArray[Any]) -> None:
        """Show a state when its time has come; nothing once people have closed the window."""
        import mujoco

        if not self._viewer.is_running():
            return
        with self._viewer.lock():
            set_physics(self._model, self._data, state)
            mujoco.mj_forward(self._model, self._data)
        self._viewer.sync()
        now = time.monotonic()
        self._due = max(self._due + self._seconds, now - self._seconds)
        time.sleep(max(0.0, self._due - now))

    def close(self) -> None:
        """Close it, and wait for what draws it: a program that ends meanwhile would end in an error of the display."""
        self._viewer.close()
        for thread in self._drawing:
            thread.join(timeout=5.0)
