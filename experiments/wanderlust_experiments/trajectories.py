"""The picture of all trajectories: where the skills of every row go, side by side at one scale."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from wanderlust.report.plots.paths import note, show_baseline, show_paths, skill_places
from wanderlust.report.plots.style import (
    baseline_entry,
    head,
    legend,
    line,
    name_axes,
    sheet,
    skill_colours,
    start_entry,
    styled,
)
from wanderlust.runs.files import ArrayFile
from wanderlust.sweeps.figures import FigureFiles, figure_files
from wanderlust.sweeps.tables import JsonObject, amount

RANDOM = "random"
"""The row without a policy."""


def rollouts(folder: Path) -> Path:
    """The file of a row's episodes, in its folder."""
    return folder / "evaluation" / "rollouts.safetensors"


@styled
def trajectories(
    results: JsonObject,
    rows: Mapping[str, JsonObject],
    runs: Path,
    unit: str = " (m)",
    scenery: Callable[[Axes], None] | None = None,
) -> FigureFiles | None:
    """Where the random skills of every row's first seed go, one panel each, all at one scale; before a scenery, if any.

    Nothing if the runs are gone; a row alone whose run is gone has an empty panel.
    """
    files = {name: ArrayFile(rollouts(runs / name)) for name in rows if rollouts(runs / name).exists()}
    if not files:
        return None
    columns = -(-len(rows) // -(-len(rows) // 5))
    made = sheet(len(rows), columns, side=2.1 if len(rows) > 2 else None)
    floor = files[RANDOM].read("position")[0] if RANDOM in files else None
    plane, on_wheel, discrete = True, False, False
    for axes, (name, row) in zip(made.panels, rows.items(), strict=True):
        axes.set_title(f"{name}: {row['metrics']['coverage_mode']['per_seed'][0]:,.0f} bins", fontsize=8.5)
        if name not in files:
            note(axes, "its run is gone")
            continue
        position, skill = files[name].read("position")[0], files[name].read("skill")[0]
        kind = files[name].about["skills"]
        plane, discrete = position.shape[-1] > 1, discrete or kind == "discrete"
        on_wheel = on_wheel or (kind in ("continuous", "box") and skill.shape[-1] > 1)
        if scenery is not None:
            scenery(axes)
        if floor is not None and kind != "none":
            show_baseline(axes, floor, over_skills=True)
        _show_row(axes, position, skill, kind)
    env, seed, episodes = results["config"]["env"]["name"], results["seeds"][0], results["episodes_per_seed"]
    head(made.figure, f"{env}, seed {seed}: {episodes} random skills with mode actions", f"after {amount(rows)}")
    name_axes(made, f"x{unit}", f"y{unit}" if plane else "skills")
    several = [line("0.45", "a colour for each\ndiscrete skill", linewidth=2.4)] if discrete else []
    legend(made.strip, [start_entry(), *([] if floor is None else [baseline_entry()]), *several], on_wheel)
    return figure_files(made.figure)


def _show_row(axes: Axes, position: NDArray[np.floating], skill: NDArray[np.floating], kind: str) -> None:
    """The episodes of one row; on a line over its skills, all rows from 0 to 1."""
    if kind == "none":
        show_paths(axes, position, "0.55", np.linspace(0.0, 1.0, position.shape[1]))
        return
    places = skill_places(skill, kind)
    spread = (places - places.min()) / max(float(np.ptp(places)), 1e-9)
    show_paths(axes, position, skill_colours(skill, kind), spread)
