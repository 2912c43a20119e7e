"""Learning curves and bars: means over seeds with 95% intervals, and every seed as a thin line or a point."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wanderlust.errors import UserError
from wanderlust.evaluation.metrics import summarise
from wanderlust.report.plots.colours import BASELINE, INK, MISSED, MUTED, REACHED
from wanderlust.report.plots.evaluated import Evaluated
from wanderlust.report.plots.style import few_ticks, head, plain, save, short, styled
from wanderlust.runs.files import read_object, read_rows
from wanderlust.runs.metrics import read_metrics

PROBED = 200
"""Episodes of random skills behind the coverage in metrics.jsonl (`train/probe.py`)."""


def show_mean(
    axes: Axes, x: Sequence[float], per_seed: Sequence[Sequence[float]], colour: Any = REACHED, label: str | None = None
) -> None:
    """The mean over seeds, its 95% interval, and each seed as a thin line."""
    curve = [summarise(list(values)) for values in per_seed]
    mean = np.array([c.mean for c in curve])
    if curve and curve[0].seeds > 1:
        half = np.array([c.ci95 for c in curve])
        axes.fill_between(x, mean - half, mean + half, color=colour, alpha=0.18, linewidth=0, gid="interval")
        axes.plot(x, [list(values) for values in per_seed], color=colour, linewidth=0.6, alpha=0.45)
    axes.plot(x, mean, color=colour, linewidth=1.7, label=label, marker="o" if len(mean) == 1 else "", markersize=4)


@styled
def draw_learning_curve(run: Path) -> Path:
    """Coverage and reward over environment steps; the mean over seeds, its 95% interval, and every seed."""
    needed = {"env_steps", "coverage", "reward"}
    rows = [row for row in read_metrics(run / "metrics.jsonl") if needed <= set(row)]
    rows = [row for row in rows if len(row["coverage"]) == len(rows[-1]["coverage"])]
    if not rows:
        raise UserError(f"{run / 'metrics.jsonl'} is missing or damaged: there is no learning curve to draw")
    found, steps = Evaluated.open(run), [row["env_steps"] for row in rows]
    figure = Figure(figsize=(8.6, 3.3), layout="constrained")
    for axes, name in zip(figure.subplots(1, 2), ("coverage", "reward"), strict=True):
        show_mean(axes, steps, [row[name] for row in rows])
        axes.set(xlabel="environment steps per seed")
        axes.set_title(f"bins covered by {PROBED} random skills" if name == "coverage" else "reward of a step")
        few_ticks(axes)
        if name == "coverage":
            axes.set_ylim(bottom=0)
            if found.facts["episodes"] == PROBED and "coverage" in found.random:
                mark_level(axes, found.random["coverage"], "random actions")
    seeds = len(rows[0]["coverage"])
    spread = f"{seeds} seeds: mean, 95% interval, thin lines are seeds" if seeds > 1 else _seeds(found.facts["seeds"])
    head(figure, f"How {found.name} learns", spread)
    return save(figure, run / "evaluation" / "learning_curve.png")


def mark_level(axes: Axes, level: float, name: str, colour: Any = MUTED, style: Any = (0, (4, 2))) -> None:
    """A level to compare with, named where it is drawn."""
    axes.axhline(
        level,
        color=colour,
        linewidth=1.0,
        linestyle=style,
        zorder=1.8,
        gid=name,
        label=f"{name}: {short(round(level, 2))}",
    )
    axes.legend(loc="best", handlelength=1.8)


def _seeds(seeds: Sequence[int]) -> str:
    return f"{len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"


# --- bars -------------------------------------------------------------------------------------------------------------

Bar = tuple[str, Sequence[float], Any]
"""A name, a value per seed, a colour."""


@styled
def draw_bars(run: Path) -> Path:
    """Coverage and ||s_T - s_0|| beside those of random actions: means with 95% intervals, and every seed."""
    found = Evaluated.open(run)
    per_seed = {name: value["per_seed"] for name, value in found.facts["metrics"].items() if value.get("per_seed")}
    rules = (
        ("bins covered", (("mode actions", "coverage_mode"), ("sampled actions", "coverage_sampled")), "coverage"),
        ("normalised $\\|s_T-s_0\\|$", (("skills", "travelled"),), "travelled"),
        (f"distance{found.unit}", (("skills", "distance"),), "distance"),
    )
    figure = Figure(figsize=(8.6, 2.3), layout="constrained")
    for axes, (title, measures, random) in zip(figure.subplots(1, 3, width_ratios=(1.3, 1, 1)), rules, strict=True):
        bars: list[Bar] = [
            (name, per_seed[key], colour)
            for (name, key), colour in zip(measures, (REACHED, "#6fa8d6"), strict=False)
            if key in per_seed
        ]
        bars += [("random actions", [found.random[random]], BASELINE)] if random in found.random else []
        show_bars(axes, bars)
        axes.set_title(title)
    spread = "mean, 95% interval, dots are seeds" if len(found.facts["seeds"]) > 1 else _seeds(found.facts["seeds"])
    head(figure, f"How far the skills of {found.name} go", f"{found.below}; {spread}")
    return save(figure, run / "evaluation" / "bars.png")


def show_bars(axes: Axes, bars: Sequence[Bar], numbers: bool = True) -> None:
    """Horizontal bars, the first on top: means, 95% intervals, a dot for each seed."""
    for place, (_, values, colour) in enumerate(bars):
        summary = summarise([math.nan if v is None else float(v) for v in values])
        axes.barh(place, summary.mean, 0.62, color=colour, alpha=0.85, linewidth=0)
        if summary.seeds > 1:
            low = min(summary.ci95, summary.mean) if summary.mean >= 0 else summary.ci95
            half = [[low], [summary.ci95]]
            axes.errorbar(summary.mean, place, xerr=half, fmt="none", ecolor=INK, elinewidth=1.0, capsize=2.5)
            axes.plot(values, [place] * len(values), ".", color=INK, markersize=3.5, alpha=0.75, gid="seeds")
        elif numbers:
            axes.annotate(
                f" {summary.mean:,.0f}" if abs(summary.mean) >= 100 else f" {summary.mean:.3g}",
                (max(summary.mean, 0.0), place),
                va="center",
                fontsize=7.5,
            )
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    few_ticks(axes, 4, along=("x",))
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.18)
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]) if axes.dataLim.x0 < 0 else 0.0)


# --- tasks ------------------------------------------------------------------------------------------------------------


@styled
def draw_returns(folder: Path) -> Path:
    """What a controller earned while it learned, and what random skills earn; with 95% intervals over seeds."""
    rows, facts = read_rows(folder / "curve.jsonl"), read_object(folder / "result.json", "the result to draw")
    figure = Figure(figsize=(7.2, 3.5), layout="constrained")
    axes = figure.subplots()
    show_mean(axes, [row["env_steps"] for row in rows], [row["return"] for row in rows], label="while it learns")
    levels: Mapping[str, tuple[float, Any, Any]] = {
        "measured at the end": (facts["return"]["mean"], REACHED, (0, (5, 2))),
        "random skills": (facts["random"]["mean"], MUTED, (0, (1, 1.5))),
        **{
            name: (facts[key]["bound"], MISSED, style)
            for key, style, name in (
                ("speed_bound", "-.", "bound at mean speed"),
                ("start_bound", (0, (6, 2, 1, 2, 1, 2)), "bound from rest"),
            )
            if key in facts
        },
    }
    for name, (level, colour, style) in levels.items():
        axes.axhline(level, color=colour, linestyle=style, linewidth=1.1, label=f"{name}: {short(round(level, 2))}")
    few_ticks(axes)
    axes.set(xlabel="environment steps per seed", ylabel="return")
    figure.legend(loc="outside right upper", handlelength=2.6)
    head(
        figure,
        solved_title(facts),
        _seeds(facts["seeds"]) + (": mean, 95% interval, thin lines are seeds" if len(facts["seeds"]) > 1 else ""),
    )
    return save(figure, folder / "learning_curve.png")


def solved_title(facts: Any) -> str:
    """A task, its controller and what it earned."""
    spread = f" ± {facts['return']['ci95']:.2f}" if len(facts["seeds"]) > 1 else ""
    return f"{plain(facts['task'])}, {plain(facts['controller'])}: return {facts['return']['mean']:.2f}{spread}"
