"""Films of what has no MuJoCo model: points that move on the plane, seen from above, in the style of our figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from PIL import Image

from wanderlust.report.plots.colours import INK, PAPER
from wanderlust.report.plots.style import DPI, few_ticks, head, mark_start, styled
from wanderlust.report.video.canvas import Mark, Picture
from wanderlust.report.video.shooting import Take
from wanderlust.report.video.writing import tiled, write_png

BETWEEN = 4
"""Pictures of one step: a formula says where a point is only once a step."""
MANY = 40
"""From so many steps on, one picture of each will do."""
LEAST = 320
"""Pixels of the width, so that there is room for axes."""
REST = 15
"""Pictures at the end in which nothing moves."""
MOMENTS = 6


def between(take: Take) -> int:
    """Pictures of one step of a take."""
    return BETWEEN if len(take.position) < MANY else 1


@styled
def draw_flat(take: Take, width: int, strip: Path) -> tuple[list[Picture], Path]:
    """All pictures of a take, and the strip as a file."""
    steps, bodies = take.position.shape[:2]
    position = np.asarray(take.position, np.float64)[..., :2]
    if position.shape[-1] < 2:
        position = np.concatenate([position, np.broadcast_to(np.arange(bodies)[:, None], (steps, bodies, 1))], axis=-1)
    colours: Any = INK if take.colours is None else take.colours
    wide, high = (2 * round(part * max(width, LEAST)) for part in (0.5, 0.42))
    figure = Figure(figsize=(wide / DPI, high / DPI), dpi=DPI, layout="constrained")
    canvas, axes = FigureCanvasAgg(figure), figure.subplots()
    head(figure, take.title)
    reach = 1.12 * max(float(np.abs(position - position[0].mean(axis=0)).max()), 1e-3)
    middle = position[0].mean(axis=0)
    axes.set(xlim=(middle[0] - reach * 1.7, middle[0] + reach * 1.7), ylim=(middle[1] - reach, middle[1] + reach))
    axes.set_aspect("equal")
    few_ticks(axes)
    for goal in take.goals:
        axes.add_patch(
            Circle(tuple(goal.place[:2]), goal.radius, facecolor=(*goal.colour, 0.25), edgecolor=goal.colour)
        )
    ways = LineCollection([], colors=colours, linewidths=1.8, zorder=3)
    axes.add_collection(ways, autolim=False)
    dots = axes.scatter(
        position[0, :, 0], position[0, :, 1], c=colours, s=46, zorder=4, edgecolors=PAPER, linewidths=0.9
    )
    mark_start(axes, middle, 0.8)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    times = np.linspace(0.0, steps - 1.0, between(take) * (steps - 1) + 1)
    pictures = []
    for t in times:
        before, part = int(t), t - int(t)
        now = (1 - part) * position[before] + part * position[min(before + 1, steps - 1)]
        ways.set_segments([np.vstack([position[: before + 1, n], now[n]]) for n in range(bodies)])
        dots.set_offsets(now)
        axes.set_title(f"step {before}", loc="right")
        canvas.draw()
        pictures.append(np.asarray(canvas.buffer_rgba())[..., :3].copy())
    shown = [pictures[int(k)] for k in np.linspace(0, len(pictures) - 1, min(MOMENTS, len(pictures))).round()]
    smaller = [np.asarray(Image.fromarray(p).resize((p.shape[1] // 2, p.shape[0] // 2))) for p in shown]
    return pictures + [pictures[-1]] * REST, write_png(strip, tiled(smaller, 3, 6))


@styled
def draw_point(place: Any, marks: Sequence[Mark], side: int) -> Picture:
    """A picture of one point on the plane, and of what is marked there; as wide as it has to be."""
    figure = Figure(figsize=(side / DPI, side / DPI), dpi=DPI, layout="constrained")
    canvas, axes = FigureCanvasAgg(figure), figure.subplots()
    where = np.asarray(place, np.float64)[:2]
    x, y = where if len(where) == 2 else (*where, 0.0)
    far = max([10.0, abs(x), abs(y), *(float(np.abs(mark.place[:2]).max()) + mark.radius for mark in marks)])
    size = 5.0 * 2.0 ** np.ceil(np.log2(1.05 * far / 5.0))
    axes.set(xlim=(-size, size), ylim=(-size, size))
    axes.set_aspect("equal")
    few_ticks(axes)
    for mark in marks:
        axes.add_patch(
            Circle(tuple(mark.place[:2]), mark.radius, facecolor=(*mark.colour, 0.25), edgecolor=mark.colour)
        )
    axes.plot([x], [y], "o", color=INK, markersize=7, zorder=4)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
