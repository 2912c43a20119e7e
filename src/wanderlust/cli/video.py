"""The command that films skills: video."""

import dataclasses
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from tyro.conf import arg

from wanderlust.cli.reports import OnRun
from wanderlust.config import require, require_at_least, require_positive


@dataclasses.dataclass(frozen=True, kw_only=True)
class Video(OnRun):
    """Film skills: a grid of them side by side, or all of them in one scene, as MP4, GIF and a film strip.

    Nothing is trained, and no screen is needed: EGL or OSMesa renders, whichever is there (MUJOCO_GL chooses). The
    files go to RUN/video, in place of an earlier film of the same name. For example:
      wanderlust video runs/ant                             nine directions, or all discrete skills, side by side
      wanderlust video zoo:ant-agile-10 --layout together   all of them in one scene, from one start
      wanderlust video zoo:humanoid --seconds 15 --quality high --size 1080
      wanderlust video zoo:ant --skills 16 --camera above --name from-above
    """

    layout: Literal["grid", "together"] = "grid"
    """Each skill in a picture of its own, or all of them in one scene."""
    skills: Annotated[int | None, arg(metavar="N")] = None
    """How many skills; by default nine of continuous ones, and all discrete ones."""
    seconds: Annotated[float | None, arg(metavar="S")] = None
    """Simulated seconds; by default an episode, but 10 at most."""
    steps: Annotated[int | None, arg(metavar="N")] = None
    """Control steps, instead of seconds."""
    size: Annotated[int, arg(metavar="PIXELS")] = 720
    """Width of the film."""
    quality: Literal["plain", "high"] = "plain"
    """`high` smooths edges and casts soft shadows, for several times the time."""
    camera: Literal["follow", "side", "above", "still"] = "follow"
    """`follow` stays beside each body (from the side if it runs on a line), `still` stays where it starts."""
    seed: int = 0
    """Which seed of the run, counted from 0."""
    start: int = 0
    """Seed of the start of the episode, which all skills share."""
    name: Annotated[str | None, arg(metavar="NAME")] = None
    """Name of the files; by default skills, or together. A film of a name of your own is only replaced by --replace."""
    replace: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Replace a film of that name."""

    def run(self, console: Console) -> int:
        from wanderlust.report.video.film import FilmRequest, film_run

        if self.skills is not None:
            require_at_least(1, "--skills", self.skills)
        if self.steps is not None:
            require_at_least(1, "--steps", self.steps)
        if self.seconds is not None:
            require_positive("--seconds", self.seconds)
        require(self.steps is None or self.seconds is None, "--steps and --seconds exclude each other")
        require(64 <= self.size <= 4096, f"--size is {self.size}; it must be in [64, 4096]")
        require(0 <= self.start < 2**31, f"--start is {self.start}; it must be in [0, 2^31)")
        source = self.opened(console, lambda run: 1)
        options = {f.name: getattr(self, f.name) for f in dataclasses.fields(FilmRequest)}
        made = film_run(source, FilmRequest(**options))
        show_film(console, made)
        return 0


def require_film(run: Any) -> None:
    """Refuse to film a run where that cannot be done, before work is put into what is to be filmed."""
    from wanderlust.envs import make_world
    from wanderlust.report.video.film import require_means

    require_means(make_world(run.config.env))


def show_film(console: Console, made: Any) -> None:
    """Say which files a film is."""
    console.print(f"{made.pictures} pictures, {made.fps:.3g} a second, made in {made.seconds:.0f} s")
    for path in made.files:
        kind = {".mp4": "film", ".gif": "gif", ".png": "strip"}[path.suffix]
        console.print(f"{kind}: {path} ({path.stat().st_size / 1e6:.2f} MB)")
