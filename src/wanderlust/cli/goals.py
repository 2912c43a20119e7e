"""Commands that put skills to work: reach, downstream."""

import dataclasses
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Column, Table
from tyro.conf import UseAppendAction, arg

from wanderlust.cli.reports import OnRun
from wanderlust.cli.video import require_film, show_film


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReachGoals(OnRun):
    """Send the body, or the object it moves, to goals, one after the other, with no further training; draw the path.

    For example:
      wanderlust reach runs/demo --goal 12 4 --goal -5 9 --goal 0 0
      wanderlust reach zoo:ant-drive --goal 12 4 --goal -5 9  `wanderlust list` shows the zoo
    """

    goal: Annotated[tuple[tuple[float, ...], ...], UseAppendAction, arg(metavar="X [Y [Z]]")] = ()
    """A goal on the plane, or on the line for bodies that run along one; for Fetch the place of the object in metres,
    with or without its height. Repeat it for several, followed in order."""
    radius: Annotated[float | None, arg(metavar="R")] = None
    """How near counts as reached; by default as far as the body's skills take it in four steps, at least 1; 0.05 for
    Fetch."""
    steps_per_goal: Annotated[int | None, arg(metavar="N")] = None
    """Steps before the next goal is tried; by default three times what the straight way takes at the skills' own speed,
    and 100 where nothing walks."""
    until_reached: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Go on until a goal is reached, for up to 10,000 steps each."""
    seed: int = 0
    """Which seed of the run, counted from 0."""
    video: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Film the way, too: film.mp4, film.gif and film.png beside the path."""

    def run(self, console: Console) -> int:
        from wanderlust.downstream.controllers.reach import reach
        from wanderlust.report.plots import draw_reach

        run = self.opened(console)
        if self.video:
            require_film(run)
        limit, until = self.steps_per_goal, self.until_reached
        result = reach(run, list(self.goal), self.radius, limit, self.seed, self.engine, until)
        picture = draw_reach(run.results)
        digits = 2 if result["radius"] >= 1 else 3
        unit = f" {result['unit']}" if result["unit"] else ""
        pace = f", skills go {result['speed']:.2g}{unit} a step" if result["speed"] else ""
        console.print(f"a goal is reached within {result['radius']:.{digits}f}{unit}{pace}")
        for n, leg in enumerate(result["legs"], 1):
            place = ", ".join(f"{x:g}" for x in leg["goal"])
            away, closest = (f"{leg[key]:.{digits}f}{unit}" for key in ("distance", "closest"))
            missed = f"missed by {away} after {leg['steps']} steps, nearest {closest}"
            how = f"reached in {leg['steps']} steps" if leg["reached"] else missed
            how += ", and fell" if leg["fell"] else ""
            console.print(f"goal {n} ({place}): {how}")
        if any(not leg["reached"] and not leg["fell"] for leg in result["legs"]) and not until:
            console.print("for goals that were missed: add --until-reached, or --radius for what counts as reached")
        console.print(f"path: {picture}")
        if self.video:
            from wanderlust.report.video.tasks import film_reach

            show_film(console, film_reach(run))
        return 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Downstream(OnRun):
    """Solve a task with skills: a controller chooses them, with or without learning to; measure and draw it.

    For example:
      wanderlust downstream runs/first --task point-goal                          zero-shot: no further training
      wanderlust downstream zoo:ant --task ant-multi-goals --controller sac       learn to choose continuous skills
      wanderlust downstream zoo:ant-16 --task ant-rotation --controller ppo       learn to choose discrete ones
      wanderlust downstream zoo:ant --task ant-multi-goals --controller sac --measure-only --episodes 1000
    """

    task: str
    """The task; `wanderlust list` shows them all."""
    controller: str = "zero-shot"
    """What chooses skills: zero-shot, sac (continuous skills), ppo (discrete skills), mppi (dads) or random."""
    recipe: Annotated[str | None, arg(metavar="NAME")] = None
    """Numbers of a controller that learns: paper, fast (on a GPU the default) or laptop (elsewhere)."""
    seed: Annotated[int, arg(metavar="K")] = 0
    """The (first) seed of controllers."""
    seeds: Annotated[int | None, arg(metavar="N")] = None
    """How many controllers, side by side; by default as many as the run has seeds, or 4 if it has one."""
    epochs: Annotated[int | None, arg(metavar="N")] = None
    """Training epochs; by default the recipe's."""
    worlds: Annotated[int | None, arg(metavar="N")] = None
    """Episodes of an epoch, per seed; by default the recipe's."""
    hold: Annotated[int | None, arg(metavar="K")] = None
    """Control steps that a skill is held; by default 25, 125 for Humanoid, 10 for PointEnv and Fetch."""
    episodes: int = 200
    """Episodes to measure, per seed."""
    measure_only: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Measure again what was learned before, without training."""
    resume: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Continue training that was stopped or killed."""
    replace: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Replace the controller and the result of this task that are there already."""
    video: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Film the first episodes of the first seed, too: film.mp4, film.gif and film.png beside the result."""

    def run(self, console: Console) -> int:
        from wanderlust.downstream.request import result_folder, usual_seeds
        from wanderlust.downstream.solve import solve
        from wanderlust.report.plots import draw_solved

        source = self.opened(console, lambda run: self.seeds or usual_seeds(run))
        if self.video:
            require_film(source)
        elsewhere = ("run_folder", "out", "video")
        options = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in elsewhere}
        result = solve(source, **options, film=self.video)
        folder = result_folder(source, result["task"], result["controller"])
        many = len(result["seeds"]) > 1
        returns = Column("return, mean ± 95% interval" if many else "return", justify="right")
        title = f"{result['task']}, at most {result['most']:g}"
        table = Table("controller", returns, title=title, title_justify="left")
        for name, value in ((self.controller, result["return"]), ("random skills", result["random"])):
            table.add_row(name, f"{value['mean']:.2f}" + (f" ± {value['ci95']:.2f}" if many else ""))
        console.print(table, soft_wrap=False)
        for key, when in (("speed_bound", "over a whole episode"), ("start_bound", "in their first steps, from rest")):
            if bound := result.get(key):
                console.print(
                    f"{when} these skills move {bound['speed']:.3g} a step, so that a goal within "
                    f"{bound['distance']:.3g} can be reached in its time: {bound['share']:.0%} of the goals, a return "
                    f"of {bound['bound']:.2f} at most"
                )
        for path in (folder / "result.json", *draw_solved(folder)):
            console.print(f"{'figure' if path.suffix == '.png' else 'result'}: {path}")
        if self.video:
            from wanderlust.report.video.tasks import film_task

            show_film(console, film_task(source, self.task, folder))
        return 0
