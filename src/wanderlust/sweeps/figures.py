"""Figures that comparisons have in common."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from wanderlust.evaluation.statistics import Spread, spread
from wanderlust.report.plots.colours import INK, MUTED, REACHED
from wanderlust.report.plots.style import few_ticks, head, png_of, styled, svg_of
from wanderlust.sweeps.tables import FigureFiles, JsonObject, amount

COVERAGES = {"coverage_mode": "mode actions", "coverage_sampled": "sampled actions"}
SHADES = (REACHED, "#7fb2dc", "#d4600c")
"""Of the measures side by side: they differ in lightness."""


def bars(
    results: JsonObject,
    rows: Mapping[str, JsonObject],
    measures: Mapping[str, str],
    axis: str,
    label: Callable[[str, JsonObject], str] = lambda name, _: name,
    floor: str = "",
) -> FigureFiles:
    """Bars of some measures for every row of a comparison, and a line at the first measure of the `floor`, if any."""
    named = {label(name, row): row["metrics"] for name, row in rows.items()}
    lowest = label(floor, rows[floor]) if floor in rows else ""
    about = f"{results['config']['env']['name']}, {seeds_in_words(results['seeds'])}"
    axis = axis.format(episodes=results["episodes_per_seed"])
    return draw_bars(named, measures, axis, about, f"{amount(rows)} per seed", lowest)


def seeds_in_words(seeds: Sequence[int]) -> str:
    """What bars, whiskers and dots are."""
    return f"{len(seeds)} seeds, mean and 95% bootstrap interval" if len(seeds) > 1 else f"seed {seeds[0]}"


@styled
def draw_bars(
    rows: Mapping[str, Mapping[str, Any]],
    measures: Mapping[str, str],
    axis: str,
    about: str,
    given: str,
    floor: str = "",
) -> FigureFiles:
    """Bars of means, with the bootstrap interval over seeds and a dot for each seed; the first row on top."""
    figure = Figure(figsize=(8.2, 1.5 + (0.2 + 0.17 * len(measures)) * len(rows)), layout="constrained")
    axes = figure.subplots()
    width = 0.76 / len(measures)
    for k, (measure, means) in enumerate(measures.items()):
        seen = [[_drawable(value) for value in row[measure]["per_seed"]] for row in rows.values()]
        found = [spread(values) if all(map(math.isfinite, values)) else NOTHING for values in seen]
        heights = [n + width * (k - (len(measures) - 1) / 2) for n in range(len(found))]
        means_of = [one.mean for one in found]
        axes.barh(heights, means_of, 0.92 * width, color=SHADES[k % len(SHADES)], linewidth=0, label=means)
        if any(math.isfinite(one.low) for one in found):
            ends = [[max(0.0, one.mean - one.low), max(0.0, one.high - one.mean)] for one in found]
            axes.errorbar(
                means_of,
                heights,
                xerr=list(zip(*ends, strict=True)),
                fmt="none",
                ecolor=MUTED,
                elinewidth=1.0,
                capsize=2,
            )
        for height, values in zip(heights, seen, strict=True):
            axes.plot(values, [height] * len(values), ".", color=INK, markersize=3.5)
    if floor in rows:
        lowest = _drawable(rows[floor][next(iter(measures))]["mean"])
        axes.axvline(lowest, color=INK, linestyle="--", linewidth=1, label=f"{floor}: {lowest:.0f}")
    few_ticks(axes, 7, along=("x",))
    axes.set_yticks(range(len(rows)), list(rows), fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(left=0)
    axes.set_xlabel(axis)
    if len(measures) > 1 or floor in rows:
        figure.legend(loc="outside right upper", ncols=1)
    head(figure, about, given)
    return figure_files(figure)


NOTHING = Spread(math.nan, math.nan, math.nan, math.nan, ())


def _drawable(number: float | None) -> float:
    """A gap where there is no number."""
    return math.nan if number is None else number


def figure_files(figure: Figure) -> FigureFiles:
    """A figure as PNG and SVG."""
    return FigureFiles(png_of(figure), svg_of(figure))
