"""The 3-D scene: a body, the floor, where it was, where it goes, where random skills lead, and the disc of skills.

The scene follows the body by moving everything else: cameras stay where people put them.
"""

import time

import numpy as np
import viser
from numpy.typing import NDArray

from wanderlust.report.explorer.disc import Disc
from wanderlust.report.explorer.geometry import Shape, annulus, shapes
from wanderlust.report.explorer.mechanics import Mechanics
from wanderlust.report.explorer.paths import Paths
from wanderlust.report.explorer.pictures import skill_colours
from wanderlust.report.explorer.simulation import Footprint, Simulation

SMOOTH = 0.4
"""Seconds over which the scene evens out how the body moves, so that it does not shake with its steps."""
SLOW = 0.25
"""Seconds between two drawings of the trail."""
GOAL, NEXT_GOALS = (9, 105, 218), (110, 160, 220)
FLOOR, CELL, SECTION = (246, 248, 250), (226, 230, 235), (200, 206, 213)


class Scene:
    """What a viser server shows of a simulation."""

    def __init__(self, server: viser.ViserServer, simulation: Simulation) -> None:
        self._api = server.scene
        self._server = server
        mechanics = simulation.mechanics
        self.unit = mechanics.radius
        """A length that fits the world: within it a goal is reached."""
        self.follow = True
        self.offset = np.zeros(2)
        """What is at the origin of the scene: the place that the camera looks at."""
        self._still = simulation.place[:2].copy() if mechanics.carries_object else None
        self._drawn, self._slowly, self._steps = time.monotonic(), 0.0, 0
        self._seen, self._moves = (np.zeros(2), 0, 0.0), np.zeros(2)
        """Where the body was, after which step and when; and how fast it moves on the plane, evened out."""
        self._goals: tuple[tuple[float, ...], ...] = ()
        self._bodies: dict[int, viser.FrameHandle] = {}
        self.disc: Disc | None = None
        """Of 2-D skills."""
        self._hidden: frozenset[str] = frozenset()
        self._light(mechanics)
        self._root = self._api.add_frame("/world", show_axes=False)
        self._add_bodies(mechanics)
        self._line = self._lines("/world/ahead", GOAL, 3.0)
        self._trail = self._lines("/world/trail", (0, 0, 0), 4.0)
        self._head = self._lines("/world/head", (0, 0, 0), 4.0)
        self._spread: viser.LineSegmentsHandle | None = None

    # --- made once -----------------------------------------------------------------------------------------------

    def _light(self, mechanics: Mechanics) -> None:
        api, camera = self._api, self._server.initial_camera
        api.configure_default_lights(cast_shadow=True)
        unit = self.unit
        if mechanics.carries_object:
            look, away, cell = np.array([-0.05, -0.05, mechanics.ground + 0.1]), np.array([1.0, -1.5, 1.05]), 0.5
        elif mechanics.plane == 1:
            look, away, cell = np.array([0.0, 0.0, 0.5]), np.array([0.0, -5.5, 1.6]) * unit, unit
        else:
            look, away, cell = np.array([0.0, 0.0, 0.25]), np.array([-5.0, -6.2, 5.0]) * unit, unit
        camera.look_at, camera.position, camera.fov = look, look + away, np.radians(48.0)
        far = 60.0 * cell
        api.configure_fog(0.35 * far, far, color=(255, 255, 255))
        self._cell = cell
        self._floor = api.add_grid(
            "/floor",
            infinite_grid=True,
            cell_size=cell,
            section_size=5 * cell,
            cell_color=CELL,
            section_color=SECTION,
            cell_thickness=1.0,
            section_thickness=1.4,
            plane_color=FLOOR,
            plane_opacity=1.0,
            fade_distance=far,
            fade_strength=1.5,
            shadow_opacity=0.28,
            position=(0.0, 0.0, 0.0 if mechanics.carries_object else mechanics.ground),
        )

    def _add_bodies(self, mechanics: Mechanics) -> None:
        if mechanics.model is None:
            self._bodies[0] = self._api.add_frame("/world/body0", show_axes=False)
            self._api.add_icosphere("/world/body0/dot", radius=0.35 * self.unit, color=(9, 105, 218))
            return
        for number, shape in enumerate(shapes(mechanics.model)):
            if shape.body not in self._bodies:
                self._bodies[shape.body] = self._api.add_frame(f"/world/body{shape.body}", show_axes=False)
            self._add_shape(number, shape)

    def _add_shape(self, number: int, shape: Shape) -> None:
        self._api.add_mesh_simple(
            f"/world/body{shape.body}/shape{number}",
            vertices=shape.vertices,
            faces=shape.faces,
            color=shape.colour,
            opacity=shape.opacity if shape.opacity < 1 else None,
        )

    def _lines(self, name: str, colour: tuple[int, int, int], thickness: float) -> viser.LineSegmentsHandle:
        nothing = np.zeros((1, 2, 3), np.float32)
        colours = np.broadcast_to(np.array(colour, np.uint8), (1, 2, 3)).copy()
        return self._api.add_line_segments(
            name, nothing, colours, thickness=thickness, thickness_units="screen", visible=False
        )

    # --- what a set of skills adds -------------------------------------------------------------------------------

    @property
    def _disc_radius(self) -> float:
        return (3.0 if self._still is not None else 1.8) * self.unit

    def show_disc(self, turn: NDArray[np.float64] | None) -> None:
        """Draw the disc of 2-D skills, turned by `turn` [2, 2]; None takes it away."""
        if self.disc is not None:
            self.disc.remove()
        self.disc = None if turn is None else Disc(self._api, self._disc_radius, turn)
        self._apply_hidden()

    def show_paths(self, paths: Paths | None, kind: str, ground: float) -> None:
        """Draw where random skills go; None takes it away."""
        if self._spread is not None:
            self._spread.remove()
            self._spread = None
        if paths is None:
            return
        every = max(1, len(paths.place) // 50)
        lines = paths.place[::every].astype(np.float32)
        lines[..., 2] = np.maximum(lines[..., 2], ground) + 0.004 * self.unit
        colour = skill_colours(paths.skill, kind)[:, :3]
        pale = np.round(255 * (0.55 * colour + 0.45)).astype(np.uint8)
        points = np.stack([lines[:-1], lines[1:]], axis=2).reshape(-1, 2, 3)
        colours = np.broadcast_to(pale[None, :, None, :], (len(lines) - 1, len(pale), 2, 3)).reshape(-1, 2, 3)
        self._spread = self._api.add_line_segments(
            "/world/spread", points, colours.copy(), thickness=2.0, thickness_units="screen"
        )
        self._apply_hidden()

    def hide(self, what: str, hidden: bool) -> None:
        """Hide the disc or the paths, or show them again."""
        self._hidden = self._hidden | {what} if hidden else self._hidden - {what}
        self._apply_hidden()

    def _apply_hidden(self) -> None:
        if self._spread is not None:
            self._spread.visible = "paths" not in self._hidden
        if self.disc is not None:
            self.disc.show("disc" not in self._hidden)

    # --- drawn again and again -----------------------------------------------------------------------------------

    def draw(self, simulation: Simulation) -> None:
        """Bring the scene to where the simulation is."""
        now, place = time.monotonic(), simulation.place
        part = min(1.0, (now - self._drawn) / SMOOTH)
        with self._server.atomic():
            self._move_view(simulation, part)
            self._move_bodies(simulation)
            self._move_disc(simulation)
            if tuple(simulation.goals) != self._goals:
                self._draw_goals(simulation)
            self._draw_ahead(simulation, place)
            if now - self._slowly > SLOW or not simulation.trail:
                self._slowly, self._steps = now, simulation.steps
                self._show_steps(self._trail, simulation, list(simulation.trail)[::2])
            since = max(1, simulation.steps - self._steps + 2)
            self._show_steps(self._head, simulation, list(simulation.trail)[-since:], place)
        self._drawn = now

    def jump(self, simulation: Simulation) -> None:
        """Put the view where the body is, at once."""
        self.offset = simulation.place[:2].copy()
        self._move_view(simulation, 1.0)

    def _move_view(self, simulation: Simulation, part: float) -> None:
        place, now = simulation.place, time.monotonic()
        if simulation.paused or simulation.steps < self._seen[1]:
            self._moves = np.zeros(2)
        elif simulation.steps > self._seen[1]:
            speed = (place[:2] - self._seen[0]) / max(now - self._seen[2], 1e-3)
            self._moves = self._moves + part * (speed - self._moves)
        if simulation.steps != self._seen[1]:
            self._seen = (place[:2].copy(), simulation.steps, now)
        if self._still is not None:
            self.offset = self._still
        elif self.follow:
            gap = place[:2] + SMOOTH * self._moves - self.offset  # ahead of it by as much as it lags behind
            self.offset = place[:2].copy() if np.linalg.norm(gap) > 8 * self.unit else self.offset + part * gap
        x, y = (float(v) for v in self.offset)
        self._root.position = (-x, -y, 0.0)
        section = 5 * self._cell
        self._floor.position = (-(x % section), -(y % section), float(self._floor.position[2]))

    def _move_bodies(self, simulation: Simulation) -> None:
        mechanics = simulation.mechanics
        if mechanics.model is None:
            self._bodies[0].position = simulation.place + np.array([0.0, 0.0, 0.35 * self.unit])
            return
        positions, turns = mechanics.poses(simulation.state)
        for body, frame in self._bodies.items():
            frame.position = positions[body]
            frame.wxyz = turns[body]

    def _move_disc(self, simulation: Simulation) -> None:
        if self.disc is None:
            return
        at = np.zeros(3)
        if self._still is not None:
            at[:2] = (0.0, -12.0 * self.unit)
        elif not self.follow:
            at[:2] = simulation.place[:2] - self.offset
        at[2] = simulation.mechanics.ground + 0.008 * self.unit
        self.disc.move(at, simulation.skill)

    def _draw_goals(self, simulation: Simulation) -> None:
        for number in range(len(self._goals)):
            self._api.remove_by_name(f"/world/goal{number}")
        self._goals = tuple(simulation.goals)
        for number, goal in enumerate(self._goals):
            at = simulation.goal_place(goal) + np.array([0.0, 0.0, 0.006 * self.unit])
            colour = NEXT_GOALS if number else GOAL
            vertices, faces = annulus(self.unit, 0.9, 48, 48) if simulation.mechanics.plane > 1 else _bar(self.unit)
            self._api.add_frame(f"/world/goal{number}", show_axes=False, position=at)
            self._api.add_mesh_simple(
                f"/world/goal{number}/mark", vertices, faces, color=colour, material="toon5",
                side="double", cast_shadow=False,
            )  # fmt: skip
            self._api.add_label(
                f"/world/goal{number}/number", str(simulation.reached + number + 1), anchor="center-center",
                font_screen_scale=1.2,
            )  # fmt: skip

    def _draw_ahead(self, simulation: Simulation, place: NDArray[np.float64]) -> None:
        """The line from the body over its goals."""
        self._line.visible = bool(self._goals) and not simulation.waits
        if not self._line.visible:
            return
        stops = [place, *(simulation.goal_place(goal) for goal in self._goals)]
        corners = np.array(stops, np.float32)
        corners[:, 2] = np.maximum(corners[:, 2], simulation.mechanics.ground) + 0.01 * self.unit
        if not simulation.mechanics.carries_object:
            corners[:, 2] = simulation.mechanics.ground + 0.01 * self.unit
        points = np.stack([corners[:-1], corners[1:]], axis=1)
        self._line.points = points
        self._line.colors = np.broadcast_to(np.array(GOAL, np.uint8), points.shape).copy()

    def _show_steps(
        self,
        lines: viser.LineSegmentsHandle,
        simulation: Simulation,
        prints: list[Footprint],
        end: NDArray[np.float64] | None = None,
    ) -> None:
        """Draw where it went, in the colours of the skills that led there."""
        places = np.array([p.place for p in prints] + ([] if end is None else [end]), np.float32)
        lines.visible = len(places) > 1
        if not lines.visible:
            return
        if not simulation.mechanics.carries_object:
            places[:, 2] = simulation.mechanics.ground
        places[:, 2] += 0.012 * self.unit
        kind = "discrete" if simulation.skills.discrete else "continuous"
        skill = np.array([p.skill for p in prints])[: len(places) - 1]
        colour = np.round(255 * skill_colours(skill, kind)[:, :3]).astype(np.uint8)
        lines.points = np.stack([places[:-1], places[1:]], axis=1)
        lines.colors = np.repeat(colour[:, None], 2, axis=1)


def _bar(radius: float) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    """A flat strip across the line on which a body runs."""
    vertices = np.array([[-radius, -2, 0], [radius, -2, 0], [radius, 2, 0], [-radius, 2, 0]], np.float32)
    return vertices, np.array([[0, 1, 2], [0, 2, 3]], np.uint32)
