"""From what happened to pictures: which bodies go into which cell, and where cameras stand."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wanderlust.envs import MujocoWorld, World
from wanderlust.report.video.canvas import Camera, Canvas, Mark, Picture, Ribbon, Scenery
from wanderlust.report.video.labels import Tag, head_height, put_head, type_size
from wanderlust.report.video.stage import Quality

Layout = Literal["grid", "together"]
View = Literal["follow", "side", "above", "still"]
FPS = 30.0
"""Most pictures a second."""
EVEN = 0.35
"""Seconds over which a camera evens out how a body moves."""
ROOM = 3.7
"""How far away a camera stands, in sizes of the body."""
ANGLES: dict[View, tuple[float, float]] = {
    "follow": (62.0, -22.0),
    "side": (90.0, -8.0),
    "above": (90.0, -75.0),
    "still": (62.0, -26.0),
}
"""Azimuth and elevation, in degrees. North is up where one looks from above."""
TABLE = (138.0, -28.0, 1.25)
"""The same and the distance where hands move an object."""
CORNERS = 70
"""Points of a way on the floor, at most."""


def nothing(step: int, body: int) -> tuple[Mark, ...]:
    """No marks."""
    return ()


@dataclasses.dataclass(frozen=True)
class Take:
    """What happened, ready to be filmed: one or more bodies side by side."""

    world: World
    physics: NDArray[Any]
    """[time, bodies, physics]"""
    position: NDArray[np.floating]
    """[time, bodies, 1 or 2] Where they are on the plane, or on the line."""
    alive: NDArray[np.bool_]
    """[time, bodies] False from when the world has ended the episode on."""
    names: Sequence[str]
    colours: NDArray[np.floating] | None
    """[bodies, 3] Of names and ways."""
    title: str
    seconds: float
    """Simulated, of a step."""
    marks: Callable[[int, int], Sequence[Mark]] = nothing
    """(step, body) -> what is on the floor."""
    words: Callable[[int, int], str] | None = None
    """(step, body) -> the line below its name; by default how far it has come."""
    goals: Sequence[Mark] = ()
    """All that is ever on the floor, for films from above."""

    @property
    def stride(self) -> int:
        """Steps between two pictures."""
        return max(1, round(1.0 / (FPS * self.seconds)))

    @property
    def fps(self) -> float:
        """Pictures a second, at real time."""
        return 1.0 / (self.stride * self.seconds)

    @property
    def times(self) -> range:
        """The steps that are shown."""
        return range(0, len(self.physics), self.stride)


@dataclasses.dataclass(frozen=True)
class Shooting:
    """How a take is filmed."""

    width: int = 720
    """Pixels."""
    quality: Quality = "plain"
    layout: Layout = "grid"
    view: View = "follow"
    columns: int = 0
    """Of the grid; 0 for about as many as rows."""
    paint: bool | None = None
    """Paint bodies in the colours of their names; by default where they are together."""


class Size(NamedTuple):
    """Of a film, in pixels."""

    width: int
    height: int
    columns: int
    head: int


def size_of(take: Take, how: Shooting) -> Size:
    """How large the pictures of a film are: cells of a grid are square, or 16:9 for one body; all sides even."""
    count = len(take.names)
    head = head_height(how.width)
    if how.layout == "together" or count == 1:
        return Size(how.width, 2 * round(how.width * 9 / 32) + head, 1, head)
    columns = how.columns or int(np.ceil(np.sqrt(count)))
    cell = 2 * (how.width // (2 * columns))
    shown = cell if len(take.world.spec.groups["position"]) > 1 else 2 * round(0.35 * cell)
    return Size(columns * cell, -(-count // columns) * shown + head, columns, head)


class Shoot:
    """A take on a canvas. Close it, or use it in a `with`."""

    def __init__(self, take: Take, how: Shooting) -> None:
        self.take, self.how, self.size = take, how, size_of(take, how)
        size = self.size
        assert isinstance(take.world, MujocoWorld)
        self.canvas = Canvas(take.world, size.width, size.height - size.head, how.quality, size.columns)
        count = len(take.names)
        self.places = np.array([[self.canvas.place_of(p) for p in row] for row in take.physics])
        self.away = np.linalg.norm((self.places - self.places[:1])[..., :2], axis=-1)
        self._looks = _evened(self.places, EVEN / take.seconds)
        self._looks[..., 2] = _evened(self.places, 4 * EVEN / take.seconds)[..., 2]
        cell = size.width // size.columns
        letters = min(type_size(size.width), max(9, cell // 16)) if size.columns > 1 else type_size(size.width)
        colours = take.colours if take.colours is not None else [None] * count
        self._tags = [Tag(name, colour, letters) for name, colour in zip(take.names, colours, strict=True)]

    def __enter__(self) -> "Shoot":
        return self

    def __exit__(self, *_: object) -> None:
        self.canvas.close()

    def pictures(self) -> Iterator[Picture]:
        """All of them, in order."""
        for step in self.take.times:
            yield self.picture(step)

    def picture(self, step: int) -> Picture:
        """The picture of a step, with its labels."""
        together = self.how.layout == "together"
        scenes = [self._everyone(step)] if together else [self._alone(step, n) for n in range(len(self.take.names))]
        size = self.size
        picture: Picture = np.empty((size.height, size.width, 3), np.uint8)
        picture[size.head :] = self.canvas.render(scenes, size.columns)
        put_head(picture, self.take.title, f"{step * self.take.seconds:.1f} s")
        if not together:
            wide = size.width // size.columns
            high = (size.height - size.head) // -(-len(scenes) // size.columns)
            for n, tag in enumerate(self._tags):
                row, column = divmod(n, size.columns)
                tag.put(picture, column * wide, size.head + row * high, self.said(step, n))
        return picture

    def scene(self, step: int, body: int, size: tuple[int, int]) -> Picture:
        """One body alone, or all together, in a picture without words."""
        shown = self._everyone(step) if self.how.layout == "together" else self._alone(step, body)
        return self.canvas.render([shown], size=size)

    def said(self, step: int, body: int) -> str:
        """Below a name: how far it has come, and whether the episode is over."""
        if self.take.words is not None:
            return self.take.words(step, body)
        over = "" if self.take.alive[step, body] else "  over"
        return f"{self._far(self.away[step, body])}{over}"

    def _far(self, metres: float) -> str:
        return f"{100 * metres:.0f} cm" if self.take.world.spec.focus else f"{metres:.1f} m"

    # --- scenes ------------------------------------------------------------------------------------------------------

    def _alone(self, step: int, body: int) -> Scenery:
        physics = self.take.physics[step, body]
        painted = self.how.paint and self.take.colours is not None
        colours = [self._colour(body)] if painted else []
        camera = self._camera(step, body)
        return Scenery([physics], camera, colours, self._ways(step, [body]), self.take.marks(step, body))

    def _everyone(self, step: int) -> Scenery:
        bodies = range(len(self.take.names))
        painted = self.how.paint is not False and self.take.colours is not None
        colours = [self._colour(n) for n in bodies] if painted else []
        marks = [mark for n in bodies for mark in self.take.marks(step, n)]
        physics = list(self.take.physics[step])
        return Scenery(physics, self._wide_camera(step), colours, self._ways(step, list(bodies)), marks)

    def _colour(self, body: int) -> NDArray[np.float64]:
        assert self.take.colours is not None
        return np.asarray(self.take.colours[body], np.float64)

    def _ways(self, step: int, bodies: Sequence[int]) -> list[Ribbon]:
        if self.take.colours is None or step == 0 or self.take.world.spec.focus:
            return []
        every = -(-len(self.take.physics) // CORNERS)
        times = [*range(0, step, every), step]
        width = (0.09 if self.how.layout == "grid" else 0.16) * self.canvas.subject.radius
        return [Ribbon(self.places[times, n], self._colour(n), width, layer) for layer, n in enumerate(bodies)]

    # --- cameras -----------------------------------------------------------------------------------------------------

    def _angles(self) -> tuple[float, float]:
        line = len(self.take.world.spec.groups["position"]) < 2
        return ANGLES["side" if line and self.how.view == "follow" else self.how.view]

    def _camera(self, step: int, body: int) -> Camera:
        subject, world = self.canvas.subject, self.take.world
        azimuth, elevation = self._angles()
        if world.spec.focus:
            return Camera(self.places[0, body] + np.array([-0.05, 0.0, 0.08]), TABLE[2], *TABLE[:2])
        if not subject.body:
            stat = self.canvas.model.stat
            return Camera(np.array(stat.center), 2.0 * stat.extent, azimuth, elevation)
        if self.how.view == "still":
            return self._wide_camera(step, [body])
        return Camera(self._looks[step, body], ROOM * subject.radius, azimuth, elevation)

    def _wide_camera(self, step: int, bodies: Sequence[int] | None = None) -> Camera:
        """From where all can be seen that the film will have shown by now; it draws back as they go."""
        which = list(range(len(self.take.names))) if bodies is None else list(bodies)
        ahead = min(len(self.away) - 1, step + round(1.0 / self.take.seconds))
        far = _evened(np.maximum.accumulate(self.away[:, which].max(axis=1)), 1.0 / self.take.seconds)[ahead]
        view: View = "still" if self.how.view == "follow" else self.how.view
        azimuth, elevation = ANGLES[view]
        start = self.places[0, which].mean(axis=0)
        return Camera(start, (ROOM + 1.0) * self.canvas.subject.radius + 1.32 * far, azimuth, elevation)


def _evened(path: NDArray[Any], steps: float) -> NDArray[np.float64]:
    """A path in time, evened out over about so many steps, neither early nor late."""
    from scipy.ndimage import gaussian_filter1d

    return np.asarray(gaussian_filter1d(np.asarray(path, np.float64), max(steps, 1e-3), axis=0, mode="nearest"))
