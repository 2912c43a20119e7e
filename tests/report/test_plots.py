"""Figures: what is drawn, with which markers and names, and that it is the same on a second draw."""

import itertools
import json

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from trained import copy_of, trained
from wanderlust.envs import make_world
from wanderlust.envs.names import entry_names
from wanderlust.registry import WORLDS
from wanderlust.report import plots
from wanderlust.report.plots import curves, goals, maps, paths, style
from wanderlust.runs.files import ArrayFile, write_arrays, write_json


@pytest.fixture
def figures(monkeypatch):
    """Figures as they are written, by the name of their file."""
    seen = {}

    def keep(figure, path, svg=True):
        seen[path.name] = figure
        return path

    for module in (paths, maps, curves, goals):
        monkeypatch.setattr(module, "save", keep)
    return seen


@pytest.fixture
def run(tmp_path):
    """A run of two seeds that may be changed."""
    return copy_of(trained(seeds=2), tmp_path / "run")


def panels(figure):
    return [axes for axes in figure.findobj(Axes) if axes.get_visible() and axes.axison]


def named(axes, gid):
    return axes.findobj(lambda artist: artist.get_gid() == gid)


# --- the style ------------------------------------------------------------------------------------------------------


def test_every_figure_is_written_twice_and_is_the_same_when_drawn_again(run):
    draws = (plots.draw_trajectories, plots.draw_bars)  # pixels in SVG, and text and lines alone
    drawn = [draw(run.path) for draw in draws]
    first = {path: path.read_bytes() for png in drawn for path in (png, png.with_suffix(".svg"))}
    for path, data in first.items():
        assert data.startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml")
        assert b"<dc:date>" not in data
        path.unlink()
    for draw in draws:
        draw(run.path)
    assert {path: path.read_bytes() for path in first} == first


def test_what_the_user_has_set_for_matplotlib_neither_counts_nor_changes(run):
    plots.draw_phi(run.path)
    before = (run.evaluation / "phi.svg").read_bytes()
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        plots.draw_phi(run.path)
        assert matplotlib.rcParams["font.size"] == 30
    assert (run.evaluation / "phi.svg").read_bytes() == before


@style.styled
def _ticks(low, high, width):
    figure = Figure(figsize=(width, width), layout="constrained")
    axes = figure.subplots()
    style.few_ticks(axes, 4)
    axes.set(xlim=(low, high), ylim=(low, high))
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
    return sorted((box.x0, box.x1) for box in boxes), [label.get_text() for label in axes.get_xticklabels()]


@pytest.mark.parametrize("span", [(-0.01, 0.013), (-73.0, 81.0), (0, 4_106_240), (0, 987_654_321), (-12_345, 12_345)])
def test_labels_of_ticks_lie_apart_in_the_smallest_panel(span):
    boxes, _ = _ticks(*span, 1.75)
    assert len(boxes) >= 2
    assert all(left[1] + 2 < right[0] for left, right in itertools.pairwise(boxes))


def test_large_numbers_have_short_names():
    assert [style.short(x) for x in (0, 0.25, 950, 9000, 40_000, 2_500_000, -3e9)] == [
        *("0", "0.25", "950", "9000", "40k", "2.5M"),
        "\N{MINUS SIGN}3G",
    ]


# --- trajectories -----------------------------------------------------------------------------------------------------


def test_trajectories_have_metres_a_start_random_actions_and_a_wheel(run, figures):
    plots.draw_trajectories(run.path)
    figure = figures["trajectories.png"]
    assert figure.findobj(lambda artist: artist.get_gid() == "wheel")
    words = [text.get_text() for text in figure.findobj(matplotlib.text.Text)]
    assert {"x (m)", "y (m)", "start", "random actions", "$z_{1}$", "$z_{2}$"} <= set(words)
    seeds = [axes for axes in panels(figure) if axes.get_title(loc="left").startswith("seed ")]
    assert len(seeds) == 2
    rollouts = ArrayFile(run.evaluation / "rollouts.safetensors")
    for k, axes in enumerate(seeds):
        (random,), (start,) = named(axes, "random"), named(axes, "start")
        assert np.allclose(start.get_xydata()[0], rollouts.read("position")[k][0].mean(axis=0))
        mine = [lines for lines in axes.findobj(LineCollection) if lines is not random]
        assert np.allclose(mine[0].get_segments(), np.swapaxes(rollouts.read("position")[k], 0, 1))
        assert np.allclose(random.get_segments(), np.swapaxes(rollouts.read("random"), 0, 1))
        assert random.get_zorder() < mine[0].get_zorder()
        colours = style.skill_colours(rollouts.read("skill")[k], "continuous")
        assert np.allclose(mine[0].get_colors()[:, :3], colours)


def on_a_line(run, kind="continuous"):
    """Make a run's evaluation one of a body that runs along a line."""
    rollouts = ArrayFile(run.evaluation / "rollouts.safetensors")
    arrays = {name: rollouts.read(name) for name in rollouts.shapes()}
    arrays = {n: x[..., :1] if n in ("position", "random") else x for n, x in arrays.items()}
    write_arrays(run.evaluation / "rollouts.safetensors", arrays, {"skills": kind})
    return arrays


def test_starts_that_are_not_in_one_place_are_marked_one_by_one(figures):
    """The objects of Fetch lie anywhere on the table: one marker in their middle would be where none of them is."""
    figure, ends = Figure(), np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    apart, together = figure.subplots(1, 2)
    for axes, starts in ((apart, 0.3 * ends), (together, 0.003 * ends)):
        paths.show_paths(axes, np.stack([starts, 5 * ends * (0.4 if axes is apart else 1.0)]), ["k"] * 3)
    marked = [np.concatenate([line.get_xydata() for line in named(axes, "start")]) for axes in (apart, together)]
    assert sorted(map(tuple, marked[0])) == sorted(map(tuple, 0.3 * ends))
    assert np.allclose(marked[1], np.mean(0.003 * ends, axis=0))


def test_a_body_on_a_line_is_shown_over_its_skills(run, figures):
    arrays = on_a_line(run)
    plots.draw_trajectories(run.path)
    seeds = [a for a in panels(figures["trajectories.png"]) if a.get_title(loc="left").startswith("seed ")]
    degrees = np.degrees(np.arctan2(arrays["skill"][0][:, 1], arrays["skill"][0][:, 0])) % 360
    lines = np.array(seeds[0].findobj(LineCollection)[0].get_segments())
    assert np.allclose(lines[:, :, 1], degrees[:, None], atol=1e-3)
    assert np.allclose(lines[:, :, 0], arrays["position"][0][:, :, 0].T)


def test_skills_are_drawn_one_by_one_with_their_numbers(tmp_path, figures):
    run = copy_of(trained(discrete=4), tmp_path / "run")
    assert plots.draw_skills(run.path).name == "skills.png"
    rollouts = ArrayFile(run.evaluation / "rollouts.safetensors")
    position, which = rollouts.read("position")[0], np.argmax(rollouts.read("skill")[0], axis=-1)
    shown = panels(figures["skills.png"])
    assert [axes.get_title(loc="left").split()[0] for axes in shown] == ["0", "1", "2", "3"]
    for n, axes in enumerate(shown):
        mine = [lines for lines in axes.findobj(LineCollection) if lines.get_gid() != "random"]
        drawn = np.array(mine[0].get_segments()) if mine else np.zeros((0, 6, 2))
        assert np.allclose(drawn, np.swapaxes(position[:, which == n], 0, 1))


def test_continuous_skills_have_no_panels_of_their_own(run):
    assert plots.draw_skills(run.path) is None
    assert not (run.evaluation / "skills.png").exists()


# --- the map, and correlations ----------------------------------------------------------------------------------------


def test_phi_is_shown_at_the_end_and_as_it_moved(run, figures):
    plots.draw_phi(run.path)
    rollouts = ArrayFile(run.evaluation / "rollouts.safetensors")
    first, last = rollouts.read("phi_first"), rollouts.read("phi_last")
    shown = panels(figures["phi.png"])[:4]
    drawn = [max(axes.collections, key=lambda points: points.get_zorder()).get_offsets() for axes in shown]
    for k in range(2):
        assert np.allclose(drawn[k], last[k])
        assert np.allclose(drawn[2 + k], last[k] - first[k])
        assert np.allclose(named(shown[k], "random")[0].get_offsets(), rollouts.read("phi_random")[k])


def test_correlations_are_pearsons(figures):
    rng = np.random.default_rng(0)
    states, skills = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
    states[:, 1], states[:, 2] = -2 * skills[:, 0] + 5, 7.0
    found = maps.correlations(states, skills)
    assert np.allclose(found[:2], np.corrcoef(states[:, :2].T, skills.T)[:2, 2:])
    assert found[1, 0] == pytest.approx(-1)
    assert np.isnan(found[2]).all()  # what does not vary has no correlation


def test_matrices_name_their_axes(run, figures):
    plots.draw_correlations(run.path)
    axes = panels(figures["correlations.png"])[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "y"]
    columns = ["$z_{1}$", "$z_{2}$", "$\\phi_{1}$", "$\\phi_{2}$"]
    assert [label.get_text() for label in axes.get_xticklabels()] == columns
    rollouts = ArrayFile(run.evaluation / "rollouts.safetensors")
    both = np.concatenate([rollouts.read("skill")[0], rollouts.read("phi_last")[0]], axis=1)
    assert np.allclose(axes.images[0].get_array(), maps.correlations(rollouts.read("last")[0], both))


@pytest.mark.parametrize(
    ("world", "some"),
    [
        ("ant", {0: "x", 3: "qw", 7: "hip_1", 15: "velocity x", 20: "spin z", 28: "ankle_4 velocity"}),
        ("half-cheetah", {0: "rootx", 3: "bthigh", 9: "rootx velocity", 17: "ffoot velocity"}),
        ("fetch-push", {0: "agent x", 3: "object x", 9: "fingers x", 14: "object velocity x"}),
        ("point", {0: "x", 1: "y"}),
    ],
)
def test_entries_are_named_after_joints_or_groups(world, some):
    made = make_world(WORLDS.get(world).configure(world))
    names = entry_names(made)
    assert len(names) == len(set(names)) == made.spec.obs_dim
    assert {n: names[n] for n in some} == some


# --- curves and bars --------------------------------------------------------------------------------------------------


def test_curves_show_the_mean_its_interval_and_every_seed():
    axes = Figure().subplots()
    plots.show_mean(axes, [0, 10], [[1.0, 3.0], [4.0, 8.0]], "black")
    drawn = [line.get_ydata().tolist() for line in axes.lines]
    assert drawn == [[1.0, 4.0], [3.0, 8.0], [2.0, 6.0]]  # thin lines of seeds, and their mean
    (interval,) = named(axes, "interval")
    low, high = (f(interval.get_paths()[0].vertices[:, 1]) for f in (min, max))
    assert (high - 6.0, 6.0 - low) == pytest.approx(
        (12.706 * 2.0, 12.706 * 2.0), rel=1e-3
    )  # t of one degree of freedom


def test_one_seed_has_no_interval():
    axes = Figure().subplots()
    plots.show_mean(axes, [0, 10], [[1.0], [4.0]])
    assert not named(axes, "interval")
    assert len(axes.lines) == 1


def test_bars_have_a_dot_for_every_seed_and_random_actions_below(run, figures):
    plots.draw_bars(run.path)
    facts = json.loads((run.evaluation / "evaluation.json").read_text())
    bins = panels(figures["bars.png"])[0]
    assert [label.get_text() for label in bins.get_yticklabels()] == [
        "mode actions",
        "sampled actions",
        "random actions",
    ]
    widths = [bar.get_width() for bar in bins.patches]
    measured = [facts["metrics"][name]["mean"] for name in ("coverage_mode", "coverage_sampled")]
    assert widths == pytest.approx([*measured, facts["random"]["coverage"]])
    dots = [line.get_xdata() for line in named(bins, "seeds")]
    assert [list(map(float, x)) for x in dots] == [
        facts["metrics"][n]["per_seed"] for n in ("coverage_mode", "coverage_sampled")
    ]


# --- goals ------------------------------------------------------------------------------------------------------------


def test_reached_and_missed_goals_differ_in_shape_filling_and_ground(tmp_path, figures):
    legs = [{"goal": [1.0, 1.0], "reached": True, "steps": 1}, {"goal": [5.0, -3.0], "reached": False, "steps": 2}]
    path = [[0.0, 0.0], [1.0, 1.0], [2.0, 0.0], [3.0, -1.0]]
    write_json(tmp_path / "reach" / "reach.json", {"name": "a", "radius": 0.5, "legs": legs, "path": path})
    plots.draw_reach(tmp_path)
    axes = panels(figures["path.png"])[0]
    (hit,), (miss,) = named(axes, "reached"), named(axes, "missed")
    assert hit.get_marker() != miss.get_marker()
    assert hit.get_markerfacecolor() == hit.get_markeredgecolor()
    assert miss.get_markerfacecolor() == "#ffffff"  # empty
    assert miss.get_markeredgecolor() != hit.get_markeredgecolor()
    assert axes.patches[0].get_linestyle() != axes.patches[1].get_linestyle()
    assert (hit.get_xydata().tolist(), miss.get_xydata().tolist()) == ([[1.0, 1.0]], [[5.0, -3.0]])
    assert {"start", "reached", "missed"} <= {t.get_text() for t in figures["path.png"].findobj(matplotlib.text.Text)}
    assert axes.get_xlabel() == "x (m)"


# --- older and strange files ------------------------------------------------------------------------------------------


def test_an_evaluation_without_random_actions_is_drawn_without_them(run):
    facts = json.loads((run.evaluation / "evaluation.json").read_text())
    for name in ("random", "entries", "unit"):
        facts.pop(name)
    write_json(run.evaluation / "evaluation.json", facts)
    rollouts = ArrayFile(run.evaluation / "rollouts.safetensors")
    arrays = {name: rollouts.read(name) for name in ("position", "skill", "phi_first", "phi_last")}
    write_arrays(run.evaluation / "rollouts.safetensors", arrays, {"skills": "continuous"})
    assert {path.stem for path in plots.draw_run(run.path)} == {"trajectories", "phi", "bars", "learning_curve"}


def test_names_from_files_are_text_and_not_mathematics(run):
    facts = json.loads((run.evaluation / "evaluation.json").read_text())
    write_json(
        run.evaluation / "evaluation.json", {**facts, "name": "$\\frac{$ x_1^ 走", "entries": ["$\\nosuch$", "y"]}
    )
    assert len(plots.draw_run(run.path)) == 5
