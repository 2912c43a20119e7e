"""Figures that several of the paper's comparisons have."""

import io
import math
from collections.abc import Callable, Mapping

from matplotlib.figure import Figure

from wanderlust.sweeps.tables import Facts, amount

COVERAGES = {"coverage_mode": "mode actions", "coverage_sampled": "sampled actions"}


def bars(
    results: Facts,
    rows: Mapping[str, Facts],
    measures: Mapping[str, str],
    axis: str,
    label: Callable[[str, Facts], str] = lambda name, _: name,
    floor: str = "",
) -> bytes:
    """Bars of some measures for every row, with the 95% interval and a dot for each seed; the first row on top.

    A line is drawn at the first measure of the row that is the `floor`, if there is such a row.
    """
    figure = Figure(figsize=(8, 1.6 + 0.55 * len(rows)), layout="constrained")
    axes = figure.subplots()
    many, width = len(results["seeds"]) > 1, 0.76 / len(measures)
    for k, (measure, means) in enumerate(measures.items()):
        values = [row["metrics"][measure] for row in rows.values()]
        middles, halves = ([_drawable(value[part]) for value in values] for part in ("mean", "ci95"))
        heights = [n + width * (k - (len(measures) - 1) / 2) for n in range(len(values))]
        axes.barh(heights, middles, 0.95 * width, color=f"C{k}", alpha=0.6, label=means)
        if many:
            axes.errorbar(middles, heights, xerr=halves, fmt="none", ecolor="0.5", capsize=2)
        for height, value in zip(heights, values, strict=True):
            dots = [_drawable(x) for x in value["per_seed"]]
            axes.plot(dots, [height] * len(dots), "k.", markersize=4)
    if floor in rows:
        lowest = _drawable(rows[floor]["metrics"][next(iter(measures))]["mean"])
        axes.axvline(lowest, color="0.2", linestyle="--", linewidth=1, label=f"{floor}: {lowest:.0f}")
    names = [label(name, row) for name, row in rows.items()]
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel(axis.format(episodes=results["episodes_per_seed"]))
    axes.grid(axis="x", alpha=0.3)
    if len(measures) > 1 or floor in rows:
        axes.legend(fontsize=8)
    spread = f"{len(results['seeds'])} seeds, mean and 95% interval" if many else f"seed {results['seeds'][0]}"
    figure.suptitle(f"{results['config']['env']['name']}, {spread}\n{amount(rows)} per seed", fontsize=9)
    return picture_of(figure)


def _drawable(number: float | None) -> float:
    """A gap where there is no number."""
    return math.nan if number is None else number


def picture_of(figure: Figure) -> bytes:
    """A figure as PNG."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=140)
    return picture.getvalue()
