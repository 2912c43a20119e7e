"""Where skills go: all of them on the plane, or one panel for each discrete skill."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from wanderlust.report.plots.colours import BASELINE, INK, MUTED, PAPER, distinct
from wanderlust.report.plots.evaluated import Evaluated, of_seeds
from wanderlust.report.plots.style import (
    MOST_PANELS,
    MOST_VERTICES,
    baseline_entry,
    equal_scales,
    head,
    legend,
    mark_start,
    mark_starts,
    name_axes,
    plain,
    save,
    sheet,
    skill_colours,
    skill_entries,
    start_entry,
    styled,
    turn_of,
)

MOST_SKILLS = 40
"""Panels of discrete skills."""
MOST_TICKS = 24
"""Discrete skills that an axis names one by one."""
Array = NDArray[np.floating]


@styled
def draw_trajectories(run: Path, to: Path | None = None, seed: int | None = None) -> Path:
    """Where random skills go, by colour of skill, over random actions; of all seeds, or of one.

    Bodies on the plane are seen from above; of those on a line x is shown over the skills.
    """
    found = Evaluated.open(run)
    position, skill, random = found.read("position"), found.read("skill"), found.find("random")
    first, count = seed or 0, len(position) if seed is None else 1
    shown = range(first, first + min(count, MOST_PANELS))
    made = sheet(len(shown), side=None if position.shape[-1] > 1 else 3.4 if len(shown) > 1 else 4.8)
    bins = (found.measure("coverage_mode") or {}).get("per_seed", [])
    on_a_line = position.shape[-1] == 1
    for k, axes in zip(shown, made.panels, strict=True):
        if random is not None:
            show_baseline(axes, random, over_skills=True)
        places = skill_places(skill[k], found.kind) if on_a_line else None
        show_paths(axes, position[k], skill_colours(skill[k], found.kind), places)
        if found.kind == "discrete" and not on_a_line:
            _number_ends(axes, position[k][-1], skill[k])
        covered = f": {bins[k]:,.0f} bins" if k < len(bins) else ""
        axes.set_title(f"seed {found.facts['seeds'][k]}{covered}")
        if on_a_line and found.kind == "discrete" and skill.shape[-1] <= MOST_TICKS:
            axes.set_yticks(range(skill.shape[-1]))
    head(made.figure, f"Where the skills of {found.name} go", found.below + of_seeds(len(shown), count))
    name_axes(made, f"x{found.unit}", skills_label(skill, found.kind) if on_a_line else f"y{found.unit}")
    entries = [start_entry(), *([] if random is None else [baseline_entry()])]
    on_wheel = found.kind != "discrete" and skill.shape[-1] > 1
    legend(made.strip, entries, on_wheel, skill_entries(skill.shape[-1], found.kind))
    if to is not None:
        return save(made.figure, to, svg=False)
    return save(made.figure, run / "evaluation" / "trajectories.png")


@styled
def draw_skills(run: Path, seed: int = 0) -> Path | None:
    """One panel for each discrete skill of a seed; nothing for continuous skills."""
    found = Evaluated.open(run)
    if found.kind != "discrete":
        return None
    position, skill, random = found.read("position")[seed], found.read("skill")[seed], found.find("random")
    size, which = skill.shape[-1], np.argmax(skill, axis=-1)
    shown = min(size, MOST_SKILLS)
    made = sheet(shown, columns=min(8, -(-shown // 2) if shown > 3 else shown), side=1.75, share=False)
    kinds = found.facts.get("kinds", {}).get("per_seed", [])
    for n, axes in enumerate(made.panels):
        if random is not None:
            show_baseline(axes, random)
        show_paths(axes, position[:, which == n], distinct(size)[n], width=1.3, marker=0.55)
        axes.set_title(f"{n}  {plain(kinds[seed][n])}" if seed < len(kinds) else str(n), fontsize=8)
    more = f" (first {shown} of {size})" if size > shown else ""
    head(
        made.figure,
        f"Each skill of {found.name}{more}",
        f"seed {found.facts['seeds'][seed]}; {found.below}; each at a scale of its own",
    )
    name_axes(made, f"x{found.unit}", f"y{found.unit}" if position.shape[-1] > 1 else "step")
    legend(made.strip, [start_entry(), *([] if random is None else [baseline_entry()])])
    return save(made.figure, run / "evaluation" / "skills.png")


# --- on one panel -----------------------------------------------------------------------------------------------------


def show_paths(
    axes: Axes, position: Array, colours: Any, places: Array | None = None, width: float = 0.8, marker: float = 1.0
) -> None:
    """Draw episodes [time, episodes, dims] and where they start.

    On the plane they are seen from above. On a line, each is drawn at its place among the skills if `places` says
    where, else x against the step.
    """
    if not position.shape[1]:
        return
    lines, start = _lines(position, places)
    many = lines.shape[0] * lines.shape[1] > MOST_VERTICES
    axes.add_collection(
        LineCollection(list(lines), colors=colours, linewidths=width, alpha=0.9, rasterized=many, zorder=3)
    )
    if places is not None and position.shape[-1] == 1:
        axes.scatter(lines[:, -1, 0], lines[:, -1, 1], c=colours, s=7, zorder=4, linewidths=0)
        axes.axvline(start[0], color=INK, linewidth=0.8, zorder=2.5)
        start = np.array([start[0], np.min(places)])
    axes.autoscale_view()
    if position.shape[-1] > 1:
        mark_starts(axes, lines[:, 0], lines, marker)
        equal_scales(axes)
    else:
        mark_start(axes, start, marker)


def _lines(position: Array, places: Array | None) -> tuple[Array, Array]:
    """Points of every episode on the sheet, and where episodes start on average."""
    lines = np.swapaxes(position, 0, 1)[..., :2]
    if lines.shape[-1] == 1:
        at = np.arange(lines.shape[1])[None, :] if places is None else places[:, None]
        lines = np.concatenate([lines, np.broadcast_to(at[..., None], lines.shape)], axis=-1)
    return lines, np.asarray(lines[:, 0].mean(axis=0))


def show_baseline(axes: Axes, position: Array, over_skills: bool = False) -> None:
    """Where random actions lead, light and behind all else; on a line over skills, the stretch they cover."""
    if position.shape[-1] == 1 and over_skills:
        axes.axvspan(float(position.min()), float(position.max()), color=BASELINE, alpha=0.6, linewidth=0, gid="random")
        return
    lines, _ = _lines(position, None)
    many = lines.shape[0] * lines.shape[1] > MOST_VERTICES
    drawn = LineCollection(list(lines), colors=BASELINE, linewidths=0.6, rasterized=many, zorder=1.5, gid="random")
    axes.add_collection(drawn)
    axes.autoscale_view()


def skill_places(skill: Array, kind: str) -> Array:
    """Where on the axis of skills each episode is drawn: its number, its direction in degrees, or z itself."""
    if kind == "discrete":
        which, places = np.argmax(skill, axis=-1), np.zeros(len(skill))
        for n in range(skill.shape[-1]):
            mine = which == n
            places[mine] = n + np.linspace(-0.3, 0.3, mine.sum() + 2)[1:-1]
        return places
    return 360.0 * turn_of(skill) if skill.shape[-1] > 1 else np.asarray(skill[:, 0], np.float64)


def skills_label(skill: Array, kind: str) -> str:
    """What that axis is called."""
    if kind == "discrete":
        return "skill"
    return "direction of z (degrees)" if skill.shape[-1] > 1 else "z"


def _number_ends(axes: Axes, ends: Array, skill: Array, colour: str = INK) -> None:
    """The number of every discrete skill at the middle of its ends; not of those that stay near the start."""
    which, farthest = np.argmax(skill, axis=-1), reach_of([ends])
    for n in np.unique(which):
        x, y = np.median(ends[which == n], axis=0)[:2]
        if max(abs(x), abs(y)) < 0.08 * farthest:
            continue
        halo = [patheffects.withStroke(linewidth=2.2, foreground=PAPER)]
        axes.text(x, y, str(n), color=colour, fontsize=7.5, ha="center", va="center", zorder=6, path_effects=halo)


def note(axes: Axes, text: str) -> None:
    """A word where there is nothing to draw."""
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, fontsize=8, color=MUTED)


def reach_of(positions: Sequence[Array]) -> float:
    """How far from the origin any of these positions lie, at most."""
    return max((float(np.nanmax(np.abs(p))) for p in positions if p.size), default=1.0)
