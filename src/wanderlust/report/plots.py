"""Figures, drawn from the files of a run and from nothing else."""

import io
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from numpy.typing import NDArray

from wanderlust.errors import UserError
from wanderlust.evaluation.metrics import summarise
from wanderlust.runs.files import ArrayFile, read_object, read_rows, write_atomic

MOST_PANELS = 8
"""Seeds shown side by side in one figure."""


def draw_run(run: Path, learned: bool = True) -> list[Path]:
    """Every figure of an evaluated run; one that was not `learned` there, a zoo entry, has no learning curve."""
    return [draw_trajectories(run), draw_phi(run), *([draw_learning_curve(run)] if learned else [])]


def draw_trajectories(run: Path, to: Path | None = None, seed: int | None = None) -> Path:
    """Where random skills go on the plane, coloured by the skill's direction; of all seeds, or of one."""
    data = ArrayFile(run / "evaluation" / "rollouts.safetensors")
    position, skill = data.read("position"), data.read("skill")
    facts, first = _evaluation(run), seed or 0
    position = position if seed is None else position[seed : seed + 1]
    figure, panels = _panels(len(position))
    for i, axes in enumerate(panels, first):
        show_paths(axes, position[i - first], skill_colours(skill[i], data.about["skills"]))
        axes.set_title(f"seed {facts['seeds'][i]}: {facts['metrics']['coverage_mode']['per_seed'][i]} bins", fontsize=9)
    figure.suptitle(
        f"{facts['name']}: {facts['episodes']} random skills after {facts['env_steps']:,} steps{_of(position)}"
    )
    figure.supxlabel("x")
    figure.supylabel("y" if position.shape[-1] > 1 else "time")
    return _save(figure, to or run / "evaluation" / "trajectories.png")


def show_paths(axes: Axes, position: NDArray[np.floating], colours: NDArray[np.floating] | str) -> None:
    """Draw episodes [time, episodes, dims] on the plane; for bodies on a line, x against time."""
    lines = np.swapaxes(position, 0, 1)
    if lines.shape[-1] == 1:
        time = np.broadcast_to(np.arange(lines.shape[1])[None, :, None], lines.shape)
        lines = np.concatenate([lines, time], axis=-1)
    axes.add_collection(LineCollection(list(lines), colors=colours, linewidths=0.8, alpha=0.85))
    axes.autoscale_view()
    axes.set_aspect("equal" if position.shape[-1] > 1 else "auto")


def draw_phi(run: Path) -> Path:
    """phi of the final states, coloured by the skill's direction (its first two dimensions)."""
    data = ArrayFile(run / "evaluation" / "rollouts.safetensors")
    last, skill = data.read("phi_last"), data.read("skill")
    facts = _evaluation(run)
    figure, panels = _panels(len(last))
    for i, axes in enumerate(panels):
        y = last[i][:, 1] if last.shape[-1] > 1 else np.zeros(len(last[i]))
        axes.scatter(last[i][:, 0], y, c=skill_colours(skill[i], data.about["skills"]), s=10)
        axes.set_aspect("equal")
        axes.set_title(f"seed {facts['seeds'][i]}", fontsize=9)
    dims = last.shape[-1]
    part = f", first 2 of {dims} dimensions" if dims > 2 else ""
    figure.suptitle(f"{facts['name']}: $\\phi(s_T)$ of {facts['episodes']} random skills{part}{_of(last)}")
    figure.supxlabel("$\\phi_1$")
    figure.supylabel("$\\phi_2$" if dims > 1 else "")
    return _save(figure, run / "evaluation" / "phi.png")


def draw_learning_curve(run: Path) -> Path:
    """Coverage and reward over environment steps: the mean over seeds and its 95% confidence interval."""
    needed = {"env_steps", "coverage", "reward"}
    rows = [row for row in read_rows(run / "metrics.jsonl") if needed <= set(row)]
    if not rows:
        raise UserError(f"{run / 'metrics.jsonl'} is missing or damaged: there is no learning curve to draw")
    steps = [row["env_steps"] for row in rows]
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, name in zip(figure.subplots(1, 2), ("coverage", "reward"), strict=True):
        show_mean(axes, steps, [row[name] for row in rows])
        measure = "bins covered by 200 random skills" if name == "coverage" else "intrinsic reward per step"
        axes.set(xlabel="environment steps per seed", ylabel=measure)
        axes.grid(alpha=0.3)
    seeds = len(rows[0]["coverage"])
    figure.suptitle(f"{_evaluation(run)['name']}, {seeds} seed{'s, mean and 95% interval' if seeds > 1 else ''}")
    return _save(figure, run / "evaluation" / "learning_curve.png")


def draw_reach(run: Path) -> Path:
    """The path to the goals of the last `wanderlust reach`."""
    facts = read_object(run / "reach" / "reach.json", "the path to draw")
    path = np.array(facts["path"])
    on_a_line, in_space = path.shape[-1] == 1, path.shape[-1] == 3
    figure = Figure(figsize=(5.6, 7.0 if in_space else 5.2), layout="constrained")
    axes, *below = figure.subplots(1 + in_space, squeeze=False, height_ratios=(3, 1)[: 1 + in_space])[:, 0]
    if in_space:
        _show_height(below[0], path[:, 2], facts)
    # seen from above; on a line the other axis is time
    path = np.column_stack([path[:, 0], np.arange(len(path))]) if on_a_line else path[:, :2]
    segments = np.stack([path[:-1], path[1:]], axis=1)
    trail = LineCollection(list(segments), cmap="viridis", linewidths=1.6, array=np.arange(len(segments)))
    axes.add_collection(trail)
    axes.plot(*path[0], marker="s", markersize=9, fillstyle="none", linestyle="none", color="black", label="start")
    used = 0
    for n, leg in enumerate(facts["legs"], 1):
        colour = "tab:green" if leg["reached"] else "tab:red"
        goal, used = leg["goal"], used + leg["steps"]
        if on_a_line:
            axes.axvspan(goal[0] - facts["radius"], goal[0] + facts["radius"], color=colour, alpha=0.15)
            goal = [goal[0], used]
        else:
            goal = goal[:2]
            axes.add_patch(Circle(goal, facts["radius"], color=colour, alpha=0.3))
        axes.annotate(str(n), goal, ha="left", va="bottom", xytext=(7, 7), textcoords="offset points")
    axes.autoscale_view()
    if on_a_line:
        axes.set(xlabel="x", ylabel="step")
    else:
        axes.set_aspect("equal", adjustable="datalim")
    axes.grid(alpha=0.3)
    axes.legend(loc="best", fontsize=8)
    figure.colorbar(trail, ax=axes, label="step")
    reached = sum(leg["reached"] for leg in facts["legs"])
    axes.set_title(f"{facts['name']}: {reached} of {len(facts['legs'])} goals reached zero-shot", fontsize=10)
    return _save(figure, run / "reach" / "path.png")


def _show_height(axes: Axes, height: NDArray[np.floating], facts: Any) -> None:
    """The height over time, and that of every goal that has one while it is followed."""
    axes.plot(np.arange(len(height)), height, color="tab:blue")
    first = 0
    for leg in facts["legs"]:
        last = first + leg["steps"]
        if len(leg["goal"]) == 3:
            low, high = leg["goal"][2] - facts["radius"], leg["goal"][2] + facts["radius"]
            axes.fill_between([first, last], low, high, color="tab:green" if leg["reached"] else "tab:red", alpha=0.3)
        first = last
    axes.set(xlabel="step", ylabel="height")
    axes.grid(alpha=0.3)


def draw_solved(folder: Path) -> list[Path]:
    """Every figure of a task that was solved (`wanderlust downstream`)."""
    curve = [draw_returns(folder)] if (folder / "curve.jsonl").exists() else []
    return [*curve, draw_played(folder)]


def draw_returns(folder: Path) -> Path:
    """What a controller earned while it learned, over environment steps, and what random skills earn."""
    rows, facts = read_rows(folder / "curve.jsonl"), read_object(folder / "result.json", "the result to draw")
    figure = Figure(figsize=(5.6, 3.8), layout="constrained")
    axes = figure.subplots()
    show_mean(axes, [row["env_steps"] for row in rows], [row["return"] for row in rows])
    axes.axhline(facts["return"]["mean"], color="tab:blue", linestyle="--", linewidth=1, label="measured at the end")
    axes.axhline(facts["random"]["mean"], color="tab:gray", linestyle=":", label="random skills")
    for key, style, label in (("speed_bound", "-.", "bound at mean speed"), ("start_bound", "--", "bound from rest")):
        if key in facts:
            axes.axhline(facts[key]["bound"], color="tab:green", linestyle=style, linewidth=1, label=label)
    axes.set(xlabel="environment steps per seed", ylabel="return")
    axes.grid(alpha=0.3)
    axes.legend(loc="best", fontsize=8)
    axes.set_title(_solved_title(facts), fontsize=10)
    return _save(figure, folder / "learning_curve.png")


def draw_played(folder: Path) -> Path:
    """Where bodies went in a few episodes of each seed; each has a colour, which its goals share."""
    data, facts = ArrayFile(folder / "paths.safetensors"), read_object(folder / "result.json", "the result to draw")
    position, entries = data.read("position"), data.read("entries")
    figure, panels = _panels(position.shape[1])
    colours = np.asarray(matplotlib.colormaps["tab20"](np.arange(position.shape[2])))
    for i, axes in enumerate(panels):
        show_paths(axes, position[:, i], colours)
        if data.about["goals"] == "1":
            for episode, colour in enumerate(colours):
                for goal in np.unique(entries[:, i, episode], axis=0):  # seen from above
                    axes.add_patch(Circle(goal[:2], float(data.about["radius"]), color=colour, alpha=0.3))
            axes.autoscale_view()
        axes.set_title(f"seed {facts['seeds'][i]}: {facts['return']['per_seed'][i]:.2f}", fontsize=9)
    figure.suptitle(f"{_solved_title(facts)}{_of(np.swapaxes(position, 0, 1))}", fontsize=10)
    figure.supxlabel("x")
    figure.supylabel("y" if position.shape[-1] > 1 else "time")
    return _save(figure, folder / "paths.png")


def _solved_title(facts: Any) -> str:
    seeds = len(facts["seeds"])
    spread = f" ± {facts['return']['ci95']:.2f}, {seeds} seeds" if seeds > 1 else ""
    return f"{facts['task']}, {facts['controller']}: return {facts['return']['mean']:.2f}{spread}"


def show_mean(
    axes: Axes, x: list[float], per_seed: list[list[float]], colour: str = "tab:blue", label: str | None = None
) -> None:
    """The mean over seeds and its 95% confidence interval."""
    curve = [summarise(values) for values in per_seed]
    mean = np.array([c.mean for c in curve])
    axes.plot(x, mean, color=colour, label=label)
    if curve[0].seeds > 1:
        half = np.array([c.ci95 for c in curve])
        axes.fill_between(x, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)


def skill_colours(skill: NDArray[np.floating], kind: str) -> NDArray[np.floating]:
    """A colour per skill: the hue of its direction, or one of N distinct hues."""
    if kind == "discrete":
        count = skill.shape[-1]
        table = matplotlib.colormaps["tab10" if count <= 10 else "tab20" if count <= 20 else "hsv"]
        index = np.argmax(skill, axis=-1)
        return np.asarray(table(index if count <= 20 else index / count))
    other = skill[:, 1] if skill.shape[-1] > 1 else np.zeros(len(skill))
    angle = np.arctan2(other, skill[:, 0]) / (2 * np.pi) % 1.0
    return np.asarray(matplotlib.colormaps["hsv"](angle))


def _evaluation(run: Path) -> Any:
    return read_object(run / "evaluation" / "evaluation.json", "the run's evaluation")


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    shown = min(count, MOST_PANELS)
    columns = min(shown, 4)
    rows = -(-shown // columns)
    side = 5.2 if shown == 1 else 3.2
    figure = Figure(figsize=(side * columns, side * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for spare in grid.flat[shown:]:
        spare.axis("off")
    return figure, list(grid.flat[:shown])


def _of(per_seed: NDArray[np.floating]) -> str:
    """What a title says where not all seeds are shown."""
    return f" (first {MOST_PANELS} of {len(per_seed)} seeds)" if len(per_seed) > MOST_PANELS else ""


def _save(figure: Figure, path: Path) -> Path:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=140)
    write_atomic(path, picture.getvalue())
    return path
