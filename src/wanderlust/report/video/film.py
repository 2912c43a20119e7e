"""Films of skills: play them, film them, and write the film as MP4, GIF and strip."""

import dataclasses
import itertools
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wanderlust.envs import MujocoWorld, World, make_world
from wanderlust.errors import UserError
from wanderlust.report.explorer.mechanics import Mechanics, require_drawable
from wanderlust.report.explorer.paths import Moment, play
from wanderlust.report.plots import skill_colours
from wanderlust.report.progress import progress
from wanderlust.report.video.canvas import Picture
from wanderlust.report.video.flat import between, draw_flat
from wanderlust.report.video.opengl import backend
from wanderlust.report.video.shooting import Layout, Shoot, Shooting, Take, View
from wanderlust.report.video.stage import Quality
from wanderlust.report.video.strip import draw_strip
from wanderlust.report.video.writing import Mp4, require_av, small, write_gif
from wanderlust.runs.files import check_writable
from wanderlust.runs.loading import Skills, load
from wanderlust.runs.run import Run

NINE = 9
MOST_SKILLS = 64
"""In one film."""
LONGEST = 10.0
"""Seconds of a film, if nothing else is asked for."""
GIF_WIDTH, GIF_FPS = 400, 10.0
USUAL: dict[Layout, str] = {"grid": "skills", "together": "together"}
"""Names of films."""


@dataclasses.dataclass(frozen=True)
class FilmRequest:
    """What is to be filmed, and how."""

    layout: Layout = "grid"
    skills: int | None = None
    """How many; None for nine of continuous ones, or all discrete ones."""
    seconds: float | None = None
    steps: int | None = None
    """Control steps, instead of simulated seconds; None for both is an episode of at most `LONGEST` seconds."""
    size: int = 720
    """Width in pixels."""
    quality: Quality = "plain"
    camera: View = "follow"
    seed: int = 0
    """Of the run, counted from 0."""
    start: int = 0
    """Seed of the start."""
    name: str | None = None
    """Of the files."""
    replace: bool = False
    """Whether a film of a name of one's own may be replaced."""


@dataclasses.dataclass(frozen=True)
class Filmed:
    """The files of a film."""

    files: tuple[Path, ...]
    pictures: int
    fps: float
    seconds: float
    """It took, from the first picture on."""


def film_run(run: Run, request: FilmRequest) -> Filmed:
    """Film skills of a run; writes NAME.mp4, NAME.gif and NAME.png, the strip, in RUN/video."""
    folder, name = run.results / "video", request.name or USUAL[request.layout]
    require_means(make_world(run.config.env))
    check_name(folder, request.name, request.replace)
    run.check_seed(request.seed)
    check_writable(folder)
    skills = load(run, request.seed)
    z = shown_skills(skills, request.skills)
    take = played(skills, z, request, f"{run.config.name}   {run}")
    how = Shooting(request.size, request.quality, request.layout, request.camera)
    return film(take, how, folder, name)


def require_means(world: World) -> None:
    """Refuse to film a world where that cannot be done, before anything is computed."""
    require_drawable(world)
    require_av()
    if isinstance(world, MujocoWorld):
        backend()


def check_name(folder: Path, name: str | None, replace: bool) -> None:
    """Refuse a name that is no name of a file, or is taken."""
    if name is None:
        return
    if not re.fullmatch(r"[\w][\w.-]{0,99}", name):
        raise UserError(f"--name is {name!r}; it must be letters, digits, '-', '_' and '.', e.g. from-above")
    taken = [path for end in ("mp4", "gif", "png") if (path := folder / f"{name}.{end}").exists()]
    if taken and not replace:
        raise UserError(f"{taken[0]} already exists; choose another --name, or --replace it")


def shown_skills(skills: Skills, count: int | None, seed: int = 0) -> NDArray[np.float32]:
    """The skills of a film: all discrete ones, or nine directions; or as many as are asked for."""
    return skills.spread(min(count or NINE, MOST_SKILLS), seed)[: count or MOST_SKILLS]


def names_of(skills: Skills, z: NDArray[np.float32]) -> list[str]:
    """What a film calls skills: their numbers, their directions on the plane, or their places in the film."""
    if skills.discrete:
        return [f"skill {n}" for n in np.argmax(z, axis=1)]
    if z.shape[1] == 2:
        return [f"z at {round(np.degrees(np.arctan2(y, x))) % 360}°" for x, y in z]
    if z.shape[1] == 1:
        return [f"z = {x:.2f}".replace("-", "\N{MINUS SIGN}") for x in z[:, 0]]
    return [f"z {n}" for n in range(1, len(z) + 1)]


def played(skills: Skills, z: NDArray[np.float32], request: FilmRequest, title: str) -> Take:
    """Skills side by side from the same start."""
    mechanics = Mechanics(skills.world)
    usual = min(skills.spec.episode_length, max(1, round(LONGEST / mechanics.seconds)))
    asked = None if request.seconds is None else max(1, round(request.seconds / mechanics.seconds))
    steps = request.steps or asked or usual
    log: list[Moment] = []
    with progress(steps, "step") as line:
        line.note("compiling, or fetching from the cache")
        for moment in itertools.islice(play(skills, mechanics, z, mechanics.start(request.start)), steps + 1):
            log.append(moment)
            if len(log) % 20 == 0 or len(log) > steps:
                line.update(len(log) - 1, f"{len(z)} skills, {(len(log) - 1) * mechanics.seconds:.1f} s")
            if not moment.alive.any():
                break
    kind = "discrete" if skills.discrete else "continuous"
    colours = skill_colours(z, kind)[:, :3]
    physics, alive = np.stack([moment.physics for moment in log]), np.stack([moment.alive for moment in log])
    names, position = names_of(skills, z), mechanics.position(np.stack([moment.obs for moment in log]))
    return Take(mechanics.world, physics, position, alive, names, colours, title, mechanics.seconds)


def film(take: Take, how: Shooting, folder: Path, name: str) -> Filmed:
    """Film a take: NAME.mp4, NAME.gif and NAME.png, the strip, in a folder."""
    began, strip_at = time.monotonic(), folder / f"{name}.png"
    if not isinstance(take.world, MujocoWorld):
        pictures, strip = draw_flat(take, how.width, strip_at)
        fps = between(take) / take.seconds
        files = write(pictures, len(pictures), fps, folder, name)
        return Filmed((*files, strip), len(pictures), fps, time.monotonic() - began)
    with Shoot(take, how) as shoot:
        files = write(shoot.pictures(), len(take.times), take.fps, folder, name)
        strip = draw_strip(shoot, strip_at)
    return Filmed((*files, strip), len(take.times), take.fps, time.monotonic() - began)


def write(pictures: Iterable[Picture], count: int, fps: float, folder: Path, name: str) -> Sequence[Path]:
    """Write pictures as MP4 and as GIF while they come."""
    movie, every = Mp4(fps), max(1, round(fps / GIF_FPS))
    kept: list[Any] = []
    with progress(count, "picture") as line:
        for n, picture in enumerate(pictures):
            movie.add(picture)
            if n % every == 0:
                kept.append(small(picture, GIF_WIDTH))
            if n % 10 == 9 or n == count - 1:
                line.update(n + 1, f"to {folder / name}.mp4")
        line.note(f"writing {folder / name}.gif")
        return movie.write(folder / f"{name}.mp4"), write_gif(folder / f"{name}.gif", kept, every / fps)
