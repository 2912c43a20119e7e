"""Runs side by side: how their coverage grows over steps and over minutes, and where their skills go."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from wanderlust.evaluation.metrics import summarise
from wanderlust.report.plots.colours import distinct
from wanderlust.report.plots.curves import show_mean
from wanderlust.report.plots.evaluated import Evaluated
from wanderlust.report.plots.paths import note, show_baseline, show_paths, skill_places, skills_label
from wanderlust.report.plots.style import (
    STRIP,
    baseline_entry,
    few_ticks,
    head,
    legend,
    line,
    plain,
    save,
    skill_colours,
    start_entry,
    styled,
)

ACROSS = 4
"""Panels in a row."""


class Drawn(NamedTuple):
    """What is drawn of one run."""

    label: str
    world: str
    rows: Sequence[Any]
    """Lines of metrics.jsonl with a coverage."""
    final: tuple[float | None, float | None, Sequence[float]]
    """Environment steps, training seconds and coverage of every seed, for a run without such lines."""
    results: Path | None
    """Where its evaluation lies."""


@styled
def draw_comparison(runs: Sequence[Drawn], path: Path) -> Path:
    """Curves of coverage on top, trajectories of each run's first seed below."""
    rows, columns = -(-len(runs) // ACROSS), min(len(runs), ACROSS)
    side, worlds = 2.6, list(dict.fromkeys(run.world for run in runs))
    width, high = max(8.4, side * columns + STRIP), 0.9 + 2.7 * len(worlds)
    figure = Figure(figsize=(width, high + side * rows + 0.3), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=(high, side * rows + 0.3))
    top, bottom = halves
    several = any(len(row["coverage"]) > 1 for run in runs for row in run.rows[:1])
    said = ["means and 95% intervals, thin lines are seeds"] if several else []
    said += ["a diamond is a run that kept no curve"] if any(not run.rows for run in runs) else []
    said += [f"bins of {len(worlds)} worlds cannot be compared"] if len(worlds) > 1 else []
    title = f"{len(runs)} runs side by side" if len(runs) > 1 else plain(runs[0].label)
    head(top, title, "; ".join(said))
    _curves(top, runs, worlds)
    body, strip = bottom.subfigures(1, 2, width_ratios=(width - STRIP, STRIP))
    grid = body.subplots(rows, columns, squeeze=False)
    for spare in list(grid.flat)[len(runs) :]:
        spare.axis("off")
    kinds = [_trajectories(axes, run) for axes, run in zip(grid.flat, runs, strict=False)]
    _same_scales(list(grid.flat[: len(runs)]), runs)
    discrete = [line("0.45", "a colour for each\ndiscrete skill", linewidth=2.4)] if "discrete" in kinds else []
    legend(strip, [start_entry(), baseline_entry(), *discrete], any(k in ("continuous", "box") for k in kinds))
    return save(figure, path)


def _curves(top: Any, runs: Sequence[Drawn], worlds: Sequence[str]) -> None:
    """Coverage over environment steps and over minutes of training, a row of panels for each world."""
    colours = distinct(len(runs))
    grid = top.subplots(len(worlds), 2, sharey="row", squeeze=False)
    for world, row in zip(worlds, grid, strict=True):
        for run, colour in zip(runs, colours, strict=True):
            if run.world == world:
                _curve(row, run, colour)
        for axes in row:
            axes.set_ylim(bottom=0)
            axes.set_xlim(left=0)
            few_ticks(axes)
            if not axes.lines:
                note(axes, "not known")
        row[0].set_title("bins covered by random skills" + (f", {plain(world)}" if len(worlds) > 1 else ""))
    for axes, name in zip(grid[-1], ("environment steps per seed", "minutes of training"), strict=True):
        axes.set_xlabel(name)
    handles = [line(colour, plain(run.label)) for run, colour in zip(runs, colours, strict=True)]
    top.legend(handles=handles, loc="outside right upper")


def _curve(row: Sequence[Axes], run: Drawn, colour: Any) -> None:
    """Of one run, over steps and over minutes; a marker for one that kept no curve."""
    over_steps, over_minutes = row
    covered = [row["coverage"] for row in run.rows]
    if covered:
        show_mean(over_steps, [row["env_steps"] for row in run.rows], covered, colour)
        timed = [row for row in run.rows if "train_seconds" in row]
        minutes = [row["train_seconds"] / 60 for row in timed]
        show_mean(over_minutes, minutes, [row["coverage"] for row in timed], colour)
        return
    steps, seconds, final = run.final
    for axes, at in ((over_steps, steps), (over_minutes, None if seconds is None else seconds / 60)):
        if at is not None and len(final):
            _show_point(axes, at, final, colour)


def _show_point(axes: Axes, at: float, values: Sequence[float], colour: Any) -> None:
    found = summarise(list(values))
    half = found.ci95 if found.seeds > 1 else 0.0
    axes.errorbar(at, found.mean, yerr=half, color=colour, marker="D", markersize=6, capsize=3, elinewidth=1.2)


def _trajectories(axes: Axes, run: Drawn) -> str:
    """Of the first seed of one run; returns the kind of its skills."""
    axes.set_title(plain(run.label), fontsize=8.5)
    few_ticks(axes, 4)
    if run.results is None:
        axes.set_axis_off()
        note(axes, "not evaluated")
        return ""
    found = Evaluated.open(run.results)
    position, skill, random = found.read("position")[0], found.read("skill")[0], found.find("random")
    if random is not None:
        show_baseline(axes, random, over_skills=True)
    places = skill_places(skill, found.kind) if position.shape[-1] == 1 else None
    show_paths(axes, position, skill_colours(skill, found.kind), places)
    if places is not None and found.kind == "discrete":
        axes.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set_xlabel(f"x{found.unit}")
    axes.set_ylabel(f"y{found.unit}" if places is None else skills_label(skill, found.kind))
    return found.kind


def _same_scales(panels: Sequence[Axes], runs: Sequence[Drawn]) -> None:
    """Runs of one world are drawn at one scale."""
    for world in {run.world for run in runs}:
        mine = [axes for axes, run in zip(panels, runs, strict=True) if run.world == world and run.results is not None]
        for axes in mine:
            equal = axes.get_aspect() != "auto"
            for get, put in (("get_xlim", "set_xlim"), ("get_ylim", "set_ylim")):
                limits = np.array([getattr(other, get)() for other in mine])
                low, high = float(limits[:, 0].min()), float(limits[:, 1].max())
                if equal or get == "get_xlim":
                    getattr(axes, put)(low, high)
            if equal:
                axes.set_aspect("equal", adjustable="box")
