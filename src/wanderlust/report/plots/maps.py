"""The learned map, and what skills and states have to do with each other."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from wanderlust.report.plots.colours import AWAY, BASELINE, MUTED, RULE
from wanderlust.report.plots.evaluated import Evaluated, of_seeds
from wanderlust.report.plots.style import (
    baseline_entry,
    equal_scales,
    head,
    legend,
    mark_starts,
    name_axes,
    plain,
    save,
    sheet,
    skill_colours,
    skill_entries,
    start_entry,
    styled,
)

MOST_MAPS = 4
"""Seeds in one figure of maps or correlations."""
MOST_ENTRIES = 120
"""Entries of a state that a matrix shows."""
Array = NDArray[np.floating]


@styled
def draw_phi(run: Path) -> Path:
    """phi of the final states, and how far phi has moved since the start; the first two dimensions, by skill."""
    found = Evaluated.open(run)
    first, last, skill, random = (found.find(name) for name in ("phi_first", "phi_last", "skill", "phi_random"))
    assert first is not None and last is not None and skill is not None
    count, dims = len(last), last.shape[-1]
    shown = min(count, MOST_MAPS)
    rows = (("$\\phi(s_T)$", last, random), ("$\\phi(s_T)-\\phi(s_0)$", last - first, None))
    one = shown == 1
    made = sheet(2 * shown, columns=2 if one else shown, side=3.2 if one else 2.5, share=False)
    for n, (axes, k) in enumerate(zip(made.panels, (*range(shown), *range(shown)), strict=True)):
        what, points, baseline = rows[n // shown]
        if baseline is not None:
            axes.scatter(*_plane(baseline[k]), color=BASELINE, s=9, linewidths=0, zorder=2, gid="random")
        axes.scatter(*_plane(points[k]), c=skill_colours(skill[k], found.kind), s=13, linewidths=0, zorder=3)
        starts = np.stack(_plane(first[k] if n < shown else np.zeros_like(first[k])), axis=-1)
        mark_starts(axes, starts, np.stack(_plane(points[k]), axis=-1))
        equal_scales(axes)
        axes.set_title(what if one else f"{what}, seed {found.facts['seeds'][k]}")
    part = f", first 2 of {dims} dimensions" if dims > 2 else ""
    head(made.figure, f"The map $\\phi$ of {found.name}{part}", found.below + of_seeds(shown, count))
    name_axes(made, "$\\phi_1$", "$\\phi_2$" if dims > 1 else "")
    entries = [start_entry(), *([] if random is None else [baseline_entry()])]
    on_wheel = found.kind != "discrete" and skill.shape[-1] > 1
    legend(made.strip, entries, on_wheel, skill_entries(skill.shape[-1], found.kind))
    return save(made.figure, run / "evaluation" / "phi.png")


def _plane(points: Array) -> tuple[Array, Array]:
    return points[:, 0], points[:, 1] if points.shape[-1] > 1 else np.zeros(len(points))


@styled
def draw_correlations(run: Path) -> Path | None:
    """Correlations of every entry of the final state with every dimension of the skill and of phi, with their names."""
    found = Evaluated.open(run)
    last, skill, phi = found.find("last"), found.read("skill"), found.read("phi_last")
    if last is None or last.shape[1] < 3:
        return None
    names = [plain(name) for name in found.facts.get("entries", [])][:MOST_ENTRIES]
    entries = min(last.shape[-1], MOST_ENTRIES)
    shown, columns = min(len(last), MOST_MAPS), skill.shape[-1] + phi.shape[-1]
    width = max(1.5, 0.20 * columns + 0.5)
    figure = Figure(figsize=(width * shown + 2.4, 0.155 * entries + 1.5), layout="constrained")
    panels = figure.subplots(1, shown, squeeze=False, sharey=True)[0]
    for k, axes in enumerate(panels):
        matrix = correlations(last[k][:, :entries], np.concatenate([skill[k], phi[k]], axis=-1))
        image = _show_matrix(axes, matrix, skill.shape[-1], phi.shape[-1], found.kind)
        axes.set_title(f"seed {found.facts['seeds'][k]}", fontsize=8.5)
    _name_entries(panels[0], names or [f"s{n + 1}" for n in range(entries)])
    colours = figure.colorbar(image, ax=panels, shrink=min(1.0, 12 / entries), aspect=14, ticks=(-1, -0.5, 0, 0.5, 1))
    colours.ax.set_title("r", fontsize=8.5)
    colours.outline.set_visible(False)
    z = "each skill" if found.kind == "discrete" else "z"
    below = f"Pearson's r of the final state with {z} and $\\phi(s_T)$; {found.facts['episodes']:,} random skills"
    head(figure, f"What the skills of {found.name} decide", below + of_seeds(shown, len(last)))
    return save(figure, run / "evaluation" / "correlations.png")


def correlations(states: Array, skills: Array) -> Array:
    """Pearson's r of each column of one with each of the other; NaN where one of them does not vary."""
    a, b = (np.asarray(x, np.float64) - np.mean(x, axis=0, dtype=np.float64) for x in (states, skills))
    sizes = np.sqrt(np.sum(a**2, axis=0))[:, None] * np.sqrt(np.sum(b**2, axis=0))[None]
    still = sizes <= 1e-9 * max(1.0, float(np.max(sizes, initial=0.0)))
    return np.where(still, np.nan, a.T @ b / np.where(still, 1.0, sizes))


def _show_matrix(axes: Axes, matrix: Array, skills: int, dims: int, kind: str) -> Any:
    axes.grid(False)
    axes.set_facecolor(RULE)  # where nothing varies there is no correlation
    image = axes.imshow(matrix, cmap=AWAY, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    zero = 0 if kind == "discrete" else 1  # discrete skills are counted from 0
    zs = [str(n) if kind == "discrete" else f"$z_{{{n + 1}}}$" for n in range(skills)]
    names = [*zs, *(f"$\\phi_{{{n + zero}}}$" for n in range(dims))]
    axes.set_xticks(range(skills + dims), names, fontsize=7.5, rotation=90 if skills + dims > 40 else 0)
    axes.axvline(skills - 0.5, color="white", linewidth=2.5)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return image


def _name_entries(axes: Axes, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names, fontsize=7, color=MUTED)
