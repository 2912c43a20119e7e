"""Paths to goals: of `wanderlust reach`, and of the episodes of a task."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from numpy.typing import NDArray

from wanderlust.report.plots.colours import ALONG, INK, distinct
from wanderlust.report.plots.curves import draw_returns, solved_title
from wanderlust.report.plots.evaluated import of_seeds
from wanderlust.report.plots.paths import show_paths
from wanderlust.report.plots.style import (
    AREAS,
    GOALS,
    MOST_PANELS,
    equal_scales,
    few_ticks,
    goal_entries_of,
    head,
    legend,
    mark_start,
    name_axes,
    plain,
    save,
    sheet,
    start_entry,
    styled,
)
from wanderlust.runs.files import ArrayFile, read_object

Array = NDArray[np.floating]


@styled
def draw_reach(run: Path) -> Path:
    """The path to the goals of the last `wanderlust reach`: reached ones are discs, missed ones crosses."""
    facts = read_object(run / "reach" / "reach.json", "the path to draw")
    path, unit = np.array(facts["path"]), f" ({facts.get('unit', 'm')})" if facts.get("unit", "m") else ""
    on_a_line, in_space = path.shape[-1] == 1, path.shape[-1] == 3
    figure = Figure(figsize=(6.2, 6.6 if in_space else 5.0), layout="constrained")
    axes, *below = figure.subplots(1 + in_space, squeeze=False, height_ratios=(3, 1)[: 1 + in_space])[:, 0]
    if in_space:
        _show_height(below[0], path[:, 2], facts, unit)
    flat = np.column_stack([path[:, 0], np.arange(len(path))]) if on_a_line else path[:, :2]
    segments = np.stack([flat[:-1], flat[1:]], axis=1)
    trail = LineCollection(list(segments), cmap=ALONG, linewidths=1.7, array=np.arange(len(segments)), zorder=3)
    axes.add_collection(trail)
    used, legs = 0, facts["legs"]
    for n, leg in enumerate(legs, 1):
        used += leg["steps"]
        place = (leg["goal"][0], used) if on_a_line else tuple(leg["goal"][:2])
        _show_goal(axes, place, bool(leg["reached"]), facts["radius"], on_a_line)
        axes.annotate(str(n), place, xytext=(6, 6), textcoords="offset points", fontsize=8, zorder=6, color=INK)
    axes.autoscale_view()
    axes.margins(0.08)
    mark_start(axes, flat[0])
    few_ticks(axes, 6)
    axes.set(xlabel=f"x{unit}", ylabel="step" if on_a_line else f"y{unit}")
    if not on_a_line:
        equal_scales(axes)
    colours = figure.colorbar(trail, ax=axes, label="step", shrink=0.55, aspect=18, anchor=(0.0, 0.0))
    colours.outline.set_visible(False)
    figure.legend(
        handles=[start_entry(), *goal_entries_of([leg["reached"] for leg in legs])], loc="outside right upper"
    )
    reached = sum(leg["reached"] for leg in legs)
    head(
        figure,
        f"{plain(facts['name'])}: {reached} of {len(legs)} goals reached zero-shot",
        f"radius {facts['radius']:.3g}{unit.replace('(', '').replace(')', '')}",
    )
    return save(figure, run / "reach" / "path.png")


def _show_goal(axes: Axes, place: tuple[float, float], reached: bool, radius: float, on_a_line: bool) -> None:
    """A goal and the ground around it that counts."""
    how = AREAS[reached]
    if on_a_line:
        axes.axvspan(place[0] - radius, place[0] + radius, zorder=1, **how)
    else:
        axes.add_patch(Circle(place, radius, zorder=2, **how))
    axes.plot(*place, linestyle="none", zorder=5, gid="reached" if reached else "missed", **GOALS[reached])


def _show_height(axes: Axes, height: Array, facts: Any, unit: str) -> None:
    """The height over time, and that of every goal that has one while it is followed."""
    axes.plot(np.arange(len(height)), height, color=INK, linewidth=1.3, zorder=3)
    first = 0
    for leg in facts["legs"]:
        if len(leg["goal"]) == 3:
            low = leg["goal"][2] - facts["radius"]
            axes.add_patch(Rectangle((first, low), leg["steps"], 2 * facts["radius"], **AREAS[bool(leg["reached"])]))
        first += leg["steps"]
    few_ticks(axes)
    axes.set(xlabel="step", ylabel=f"height{unit}")


def draw_solved(folder: Path) -> list[Path]:
    """Every figure of a task that was solved (`wanderlust downstream`)."""
    curve = [draw_returns(folder)] if (folder / "curve.jsonl").exists() else []
    return [*curve, draw_task_paths(folder)]


@styled
def draw_task_paths(folder: Path) -> Path:
    """Where bodies went in a few episodes of each seed; each has a colour, which its goals share."""
    data, facts = ArrayFile(folder / "paths.safetensors"), read_object(folder / "result.json", "the result to draw")
    position, entries = data.read("position"), data.read("entries")
    shown = min(position.shape[1], MOST_PANELS)
    made = sheet(shown)
    colours, goals = distinct(position.shape[2]), data.about["goals"] == "1"
    for i, axes in enumerate(made.panels):
        show_paths(axes, position[:, i], colours, width=1.1)
        if goals:
            for episode, colour in enumerate(colours):
                for goal in np.unique(entries[:, i, episode], axis=0):  # seen from above
                    radius = float(data.about["radius"])
                    axes.add_patch(Circle(goal[:2], radius, facecolor=(*colour, 0.25), edgecolor=colour, linewidth=0.8))
            axes.autoscale_view()
        axes.set_title(f"seed {facts['seeds'][i]}: {facts['return']['per_seed'][i]:.2f}")
    below = f"{position.shape[2]} episodes of each seed, a colour for each" + (" and its goals" if goals else "")
    head(made.figure, solved_title(facts), below + of_seeds(shown, position.shape[1]))
    name_axes(made, "x (m)", "y (m)" if position.shape[-1] > 1 else "step")
    legend(made.strip, [start_entry()])
    return save(made.figure, folder / "paths.png")
