"""Figures that several of the paper's comparisons have."""

import math
from collections.abc import Callable, Mapping

from matplotlib.figure import Figure

from wanderlust.report.plots.colours import INK, MUTED, REACHED
from wanderlust.report.plots.style import few_ticks, head, png_of, styled, svg_of
from wanderlust.sweeps.tables import Facts, Picture, amount

COVERAGES = {"coverage_mode": "mode actions", "coverage_sampled": "sampled actions"}
SHADES = (REACHED, "#7fb2dc", "#d4600c")
"""Of the measures side by side: they differ in lightness."""


@styled
def bars(
    results: Facts,
    rows: Mapping[str, Facts],
    measures: Mapping[str, str],
    axis: str,
    label: Callable[[str, Facts], str] = lambda name, _: name,
    floor: str = "",
) -> Picture:
    """Bars of some measures for every row, with the 95% interval and a dot for each seed; the first row on top.

    A line is drawn at the first measure of the row that is the `floor`, if there is such a row.
    """
    figure = Figure(figsize=(8.2, 1.5 + (0.2 + 0.17 * len(measures)) * len(rows)), layout="constrained")
    axes = figure.subplots()
    many, width = len(results["seeds"]) > 1, 0.76 / len(measures)
    for k, (measure, means) in enumerate(measures.items()):
        values = [row["metrics"][measure] for row in rows.values()]
        middles, halves = ([_drawable(value[part]) for value in values] for part in ("mean", "ci95"))
        heights = [n + width * (k - (len(measures) - 1) / 2) for n in range(len(values))]
        axes.barh(heights, middles, 0.92 * width, color=SHADES[k % len(SHADES)], linewidth=0, label=means)
        if many:
            axes.errorbar(middles, heights, xerr=halves, fmt="none", ecolor=MUTED, elinewidth=1.0, capsize=2)
        for height, value in zip(heights, values, strict=True):
            dots = [_drawable(x) for x in value["per_seed"]]
            axes.plot(dots, [height] * len(dots), ".", color=INK, markersize=3.5)
    if floor in rows:
        lowest = _drawable(rows[floor]["metrics"][next(iter(measures))]["mean"])
        axes.axvline(lowest, color=INK, linestyle="--", linewidth=1, label=f"{floor}: {lowest:.0f}")
    names = [label(name, row) for name, row in rows.items()]
    few_ticks(axes, 7, along=("x",))
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(left=0)
    axes.set_xlabel(axis.format(episodes=results["episodes_per_seed"]))
    if len(measures) > 1 or floor in rows:
        figure.legend(loc="outside right upper", ncols=1)
    spread = f"{len(results['seeds'])} seeds, mean and 95% interval" if many else f"seed {results['seeds'][0]}"
    head(figure, f"{results['config']['env']['name']}, {spread}", f"{amount(rows)} per seed")
    return picture_of(figure)


def _drawable(number: float | None) -> float:
    """A gap where there is no number."""
    return math.nan if number is None else number


def picture_of(figure: Figure) -> Picture:
    """A figure as PNG and SVG."""
    return Picture(png_of(figure), svg_of(figure))
