"""Figures, drawn from the files of a run and from nothing else, in one style.

Every figure is written as PNG and as SVG, and the same files give the same bytes.
"""

from pathlib import Path

from wanderlust.report.plots.curves import draw_bars, draw_learning_curve, draw_returns, show_bars, show_mean
from wanderlust.report.plots.goals import draw_reach, draw_solved, draw_task_paths
from wanderlust.report.plots.maps import correlations, draw_correlations, draw_phi
from wanderlust.report.plots.paths import draw_skills, draw_trajectories, show_baseline, show_paths
from wanderlust.report.plots.style import png_of, save, skill_colours, styled, svg_of


def draw_run(run: Path, learned: bool = True) -> list[Path]:
    """Every figure of an evaluated run; one that was not `learned` there, a zoo entry, has no learning curve."""
    figures = [draw_trajectories(run), draw_skills(run), draw_phi(run), draw_correlations(run), draw_bars(run)]
    curve = [draw_learning_curve(run)] if learned else []
    return [*(path for path in figures if path is not None), *curve]
