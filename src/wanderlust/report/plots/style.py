"""What all figures share: type, axes, legends, the wheel, and how they are written.

A figure is written as PNG and as SVG. The same numbers give the same bytes, whenever they are drawn.
"""

import functools
import io
import textwrap
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from wanderlust.report.plots.colours import BASELINE, INK, MISSED, MUTED, PAPER, REACHED, RULE, distinct, on_wheel
from wanderlust.runs.files import write_atomic

P = ParamSpec("P")
R = TypeVar("R")

MOST_PANELS = 8
"""Seeds shown side by side in one figure."""
MOST_VERTICES = 12_000
"""Lines of more points than these are drawn as pixels, also into SVG, which would have megabytes of them."""
DPI = 140
"""Of PNG."""
STRIP = 1.35
"""Inches, beside the panels, for wheel and legend: they never lie on data."""

ONE_PLACE = 0.04
"""Starts that lie nearer to their middle than this share of the figure are one place."""
START: dict[str, Any] = {
    "marker": "o",
    "markersize": 5.5,
    "color": PAPER,
    "markeredgecolor": INK,
    "markeredgewidth": 1.3,
}
GOALS: dict[bool, dict[str, Any]] = {
    True: {"marker": "o", "markersize": 7, "color": REACHED, "markeredgecolor": REACHED, "markeredgewidth": 1.4},
    False: {"marker": "X", "markersize": 8.5, "color": PAPER, "markeredgecolor": MISSED, "markeredgewidth": 1.4},
}
"""Reached: a full disc. Missed: an empty cross."""
AREAS: dict[bool, dict[str, Any]] = {
    True: {"facecolor": (*matplotlib.colors.to_rgb(REACHED), 0.16), "edgecolor": REACHED, "linewidth": 1.0},
    False: {"facecolor": "none", "edgecolor": MISSED, "linewidth": 1.0, "linestyle": (0, (3, 2))},
}
"""The ground that counts as reached around a goal."""

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "mathtext.fontset": "dejavusans",
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "svg.hashsalt": "wanderlust",
    "svg.fonttype": "path",
    "figure.constrained_layout.h_pad": 0.05,
    "figure.constrained_layout.w_pad": 0.05,
}


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Draw, and write, in the one style of this package; what the user has set for matplotlib stays as it was."""

    @functools.wraps(draw)
    def in_style(*args: P.args, **kwargs: P.kwargs) -> R:
        with matplotlib.rc_context(), warnings.catch_warnings():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(STYLE)
            warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)  # a name in any script
            return draw(*args, **kwargs)

    return in_style


# --- sheets -----------------------------------------------------------------------------------------------------------


class Sheet(NamedTuple):
    """A figure of panels, with room for a legend beside them."""

    figure: Figure
    body: SubFigure
    strip: SubFigure
    panels: list[Axes]


def sheet(
    count: int,
    columns: int | None = None,
    side: float | None = None,
    height: float | None = None,
    share: bool = True,
    strip: float = STRIP,
) -> Sheet:
    """A figure of `count` panels, each `side` wide and `height` high in inches, all at one scale if they `share` it."""
    columns = min(count, columns or 4)
    rows = -(-count // columns)
    side = side or (4.4 if count == 1 else 2.7)
    figure = Figure(figsize=(side * columns + strip + 0.3, (height or side) * rows + 0.75), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=(side * columns + 0.3, strip))
    body, beside = halves
    grid = body.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)
    for n, spare in enumerate(list(grid.flat)[count:], count):
        spare.axis("off")
        if share:  # the panel above is now the last of its column
            grid.flat[n - columns].xaxis.set_tick_params(labelbottom=True)
    for axes in grid.flat[:count]:
        few_ticks(axes, 5 if count == 1 else 4)
    return Sheet(figure, body, beside, list(grid.flat[:count]))


def head(figure: Figure | SubFigure, title: str, below: str = "") -> None:
    """A title, and a smaller line under it, at the left; broken where the figure is too narrow for them."""
    width = figure.get_figure(root=True).get_size_inches()[0]
    titles, lines = textwrap.wrap(title, int(12.5 * width)), textwrap.wrap(below, int(15.5 * width))
    blank = ["" if n else " " for n in range(len(lines))]
    figure.suptitle("\n".join([*titles, *blank]), x=0.012, ha="left", fontsize=10.5, linespacing=1.45)
    down = ScaledTranslation(0.0, -(0.06 + 0.212 * len(titles)), figure.dpi_scale_trans)
    how: dict[str, Any] = {"va": "top", "ha": "left", "fontsize": 8.5, "color": MUTED, "linespacing": 1.4}
    figure.text(0.012, 1.0, "\n".join(lines), transform=figure.transSubfigure + down, **how)


def plain(text: object) -> str:
    """Text from a file, of which nothing is taken for mathematics."""
    return "".join(c if c.isprintable() else " " for c in str(text)).replace("$", "\\$")


def name_axes(made: Sheet, x: str, y: str) -> None:
    """Names of the axes: of a panel alone, or of all panels together."""
    if len(made.panels) == 1:
        made.panels[0].set(xlabel=x, ylabel=y)
    else:
        made.body.supxlabel(x, fontsize=8.5)
        made.body.supylabel(y, fontsize=8.5)


def equal_scales(axes: Axes) -> None:
    """A metre is as long on one axis as on the other."""
    shared = len(axes.get_shared_x_axes().get_siblings(axes)) > 1
    axes.set_aspect("equal", adjustable="box" if shared else "datalim")


def few_ticks(axes: Axes, most: int = 5, along: Sequence[str] = ("x", "y")) -> None:
    """Ticks few enough for their labels to lie apart, with short names for large numbers."""
    for axis in ({"x": axes.xaxis, "y": axes.yaxis}[name] for name in along):
        axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10], min_n_ticks=2))
        axis.set_major_formatter(FuncFormatter(short))


def short(number: float, _: int | None = None) -> str:
    """2,500,000 as 2.5M, 40,000 as 40k."""
    for size, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= size:
            return f"{number / min(size, 1e3 if name == 'k' else size):.6g}{name}".replace("-", "\N{MINUS SIGN}")
    return f"{number:.6g}".replace("-", "\N{MINUS SIGN}")


# --- legends ----------------------------------------------------------------------------------------------------------


def legend(strip: SubFigure, handles: Sequence[Artist], wheel: bool = False, numbers: Sequence[Artist] = ()) -> None:
    """What markers and colours mean, in the strip beside the panels; with a wheel for directions, or numbers."""
    high = strip.bbox.height / strip.get_dpi()
    if wheel:
        draw_wheel(strip.add_axes((0.1, 1 - 1.75 / high, 0.8, 1.05 / high)))
    down = 1.9 if wheel else 0.75
    how: dict[str, Any] = {"loc": "upper left", "labelspacing": 0.65, "borderaxespad": 0.2}
    if handles:
        strip.legend(handles=list(handles), bbox_to_anchor=(0.0, 1 - down / high), handlelength=1.5, **how)
    if numbers:
        columns = min(4, -(-len(numbers) // 10))
        how |= {"handlelength": 1.5 if columns == 1 else 0.9, "columnspacing": 0.9, "handletextpad": 0.5}
        below = 1 - (down + 0.25 * len(handles)) / high
        strip.legend(handles=list(numbers), bbox_to_anchor=(0.0, below), ncols=columns, **how)


def draw_wheel(axes: Axes) -> None:
    """A small wheel: the colour of every direction of z."""
    x = np.linspace(-1.5, 1.5, 181)
    radius, turns = np.hypot(*np.meshgrid(x, x)), np.arctan2(*np.meshgrid(x, x)[::-1]) / (2 * np.pi) % 1.0
    edge = np.clip(np.minimum((1.0 - radius) / 0.03, (radius - 0.56) / 0.03) + 0.5, 0.0, 1.0)
    axes.imshow(
        np.dstack([on_wheel(turns), edge]), extent=(-1.5, 1.5, -1.5, 1.5), origin="lower", interpolation="bilinear"
    )
    axes.set_axis_off()
    axes.set_gid("wheel")
    arrow: dict[str, Any] = {
        "arrowstyle": "-|>",
        "color": INK,
        "linewidth": 0.8,
        "shrinkA": 0,
        "shrinkB": 0,
        "mutation_scale": 7,
    }
    for end, name, spot in (((0.42, 0.0), "1", (1.28, 0.0)), ((0.0, 0.42), "2", (0.0, 1.27))):
        axes.annotate("", end, (0.0, 0.0), arrowprops=arrow)
        axes.text(*spot, f"$z_{{{name}}}$", ha="center", va="center", fontsize=8.5)


def line(colour: Any, label: str, **how: Any) -> Line2D:
    """An entry of a legend."""
    return Line2D([], [], **({"color": colour, "linewidth": 1.6, "label": label} | how))


def start_entry() -> Line2D:
    """The start marker's entry."""
    return Line2D([], [], linestyle="none", label="start", **START)


def baseline_entry() -> Line2D:
    """Random actions' entry."""
    return line(BASELINE, "random actions", linewidth=3)


def goal_entries_of(found: Sequence[bool]) -> list[Line2D]:
    """Entries for the goals there are."""
    names = {True: "reached", False: "missed"}
    return [
        Line2D([], [], linestyle="none", label=names[kind], **GOALS[kind]) for kind in (True, False) if kind in found
    ]


def mark_start(axes: Axes, place: Sequence[float] | NDArray[np.floating], scale: float = 1.0) -> None:
    """The start marker."""
    how = START | {"markersize": scale * START["markersize"], "markeredgewidth": scale * START["markeredgewidth"]}
    axes.plot([place[0]], [place[1]], linestyle="none", zorder=5, gid="start", **how)


def mark_starts(axes: Axes, starts: NDArray[np.floating], places: NDArray[np.floating], scale: float = 1.0) -> None:
    """The start marker; a small one for each start where they do not begin in one place, as objects on a table do."""
    middle = np.mean(starts, axis=0)
    size = float(np.max(np.ptp(places.reshape(-1, places.shape[-1]), axis=0), initial=1e-9))
    if float(np.max(np.linalg.norm(starts - middle, axis=-1), initial=0.0)) < ONE_PLACE * size:
        mark_start(axes, middle, scale)
        return
    for start in np.unique(starts, axis=0):
        mark_start(axes, start, 0.45 * scale)


# --- colours of skills ------------------------------------------------------------------------------------------------


def skill_colours(skill: NDArray[np.floating], kind: str) -> NDArray[np.floating]:
    """A colour per skill: of its direction on the wheel, or one of N distinct ones."""
    if kind == "discrete":
        return distinct(skill.shape[-1])[np.argmax(skill, axis=-1)]
    return on_wheel(turn_of(skill))


def turn_of(skill: NDArray[np.floating]) -> NDArray[np.floating]:
    """The direction of the first two dimensions, in turns from 0 to 1."""
    other = skill[:, 1] if skill.shape[-1] > 1 else np.zeros(len(skill))
    return np.asarray(np.arctan2(other, skill[:, 0]) / (2 * np.pi) % 1.0)


def skill_entries(size: int, kind: str, most: int = 40) -> list[Line2D]:
    """Entries of discrete skills by their numbers, or of the two signs of one dimension; else the wheel says it."""
    if kind == "discrete":
        return [line(colour, str(n), linewidth=2.4) for n, colour in enumerate(distinct(size)[:most])]
    if size == 1:
        return [
            line(on_wheel(np.array(turn)), label, linewidth=2.4) for turn, label in ((0.0, "z > 0"), (0.5, "z < 0"))
        ]
    return []


# --- writing ----------------------------------------------------------------------------------------------------------


def save(figure: Figure, path: Path, svg: bool = True) -> Path:
    """Write a figure as PNG and, beside it, as SVG; return the PNG's path."""
    write_atomic(path, png_of(figure))
    if svg:
        write_atomic(path.with_suffix(".svg"), svg_of(figure))
    return path


def png_of(figure: Figure) -> bytes:
    """A figure as PNG."""
    picture = io.BytesIO()
    _lay_out(figure)
    figure.savefig(picture, format="png", dpi=DPI, metadata={"Software": None})
    return picture.getvalue()


def svg_of(figure: Figure) -> bytes:
    """A figure as SVG, without the time it was made and what made it."""
    picture = io.BytesIO()
    _lay_out(figure)
    figure.savefig(picture, format="svg", dpi=160, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return picture.getvalue()


def _lay_out(figure: Figure) -> None:
    """Lay a figure out once, and round where things are: the solver's last digits are not the same every time."""
    if figure.get_layout_engine() is None:
        return
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.findobj(Axes):
        axes.set_position(np.round(axes.get_position(original=True).bounds, 5).tolist(), which="both")
    for text in (text for part in (figure, *figure.findobj(SubFigure)) for text in part.texts):
        x, y = text.get_position()
        text.set_position((round(float(x), 5), round(float(y), 5)))
