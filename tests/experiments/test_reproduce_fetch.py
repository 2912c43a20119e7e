"""The paper's figure of the Fetch worlds, made tiny: its rows, its floors, what is counted of an object, going on."""

import json
import shutil

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trained import tree
from wanderlust.api import configure
from wanderlust.config import SkillConfig
from wanderlust.recipes import get_recipe
from wanderlust.runs.files import ArrayFile
from wanderlust.sweeps import grid
from wanderlust.train import loop
from wanderlust_experiments import coverage, fetch

ENV, STEM = "fetch-pick-and-place", "fetch_pick_and_place"
CHANGES = (
    *("env.episode_length=3", "method.hidden=[8]", "method.learning_rate=0.01", "sac.hidden=[8]", "sac.alpha=0.5"),
    *("schedule.steps=3", "schedule.worlds=4", "schedule.sac_steps=2", "schedule.method_steps=2"),
    *("schedule.sac_batch=8", "schedule.method_batch=8", "schedule.replay_collections=2"),
    *("log_every=1", "look_every=9", "checkpoint_every=1"),
)
ROWS = ("lsd+music", "random", "untouched")
FILES = [f"{STEM}.{form}" for form in ("json", "md", "png", "svg")]
FILES += [f"{STEM}_trajectories.{form}" for form in ("png", "svg")]
EPISODES = 20


def study(folder):
    """Three rows, two seeds, two epochs."""
    settings = {"seeds": 2, "budget_steps": 24, "changes": CHANGES, "quiet": True}
    return fetch.reproduce(folder / "out", folder / "work", ENV, only=ROWS, **settings)


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Fewer episodes than the command's 200."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "EPISODES", EPISODES)
        yield


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fetch")
    return folder, *study(folder)


def test_a_row_with_music_is_the_method_with_its_reward_added_and_lsds_schedule():
    shared = configure("fetch-push", "lsd", recipe="paper", budget_steps=1_000)
    names = ("lsd", "dads", "lsd+music", "dads+music", "music")
    rows = {name: coverage.row_config(name, shared, "paper", SkillConfig(), ()) for name in names}
    assert {row.schedule for row in rows.values()} == {rows["lsd"].schedule}
    assert rows["lsd"].schedule.epochs == 10
    assert [rows[name].method.reward_scale for name in names] == [500.0, 150.0, 500.0, 150.0, 1.0]
    for name in ("lsd", "dads"):
        alone, with_music = rows[name], rows[f"{name}+music"]
        assert (alone.bonus, with_music.method) == (None, alone.method)
        assert with_music.bonus == get_recipe("paper", "fetch-push", name, SkillConfig(), "music").bonus
        assert with_music.bonus.coefficient == 5000.0
    assert (rows["music"].method.name, rows["music"].bonus) == ("music", None)


def test_the_rows_without_only():
    methods = {"lsd", "diayn", "dads", "music"}
    assert set(fetch.ROWS) == methods | {f"{m}+music" for m in methods - {"music"}} | {"random", "untouched"}


def test_the_floors_are_what_their_names_say(done):
    folder, result, _, _ = done
    positions = {
        name: ArrayFile(folder / "work" / ENV / name / "evaluation/rollouts.safetensors").read("position")
        for name in ("random", "untouched")
    }
    still = positions["untouched"]
    assert still.shape == (2, 4, EPISODES, 2)
    np.testing.assert_allclose(still[:, -1], still[:, 0], atol=1e-5)
    untouched, random = (result["rows"][name]["metrics"] for name in ("untouched", "random"))
    bins = [len({(int(x // 0.1), int(y // 0.1)) for x, y in one[0].astype(np.float64)}) for one in still]
    assert untouched["coverage_mode"]["per_seed"] == bins
    assert 4 <= min(bins) <= max(bins) <= 16
    assert untouched["distance"]["mean"] == pytest.approx(0.0, abs=1e-5)
    for floor in (untouched, random):
        assert [floor[name]["per_seed"] for name in ("lifted", "held")] == [[0, 0]] * 2
    np.testing.assert_array_equal(positions["random"][:, 0], still[:, 0])  # the same starts


def test_the_table_and_the_figures(done):
    folder, result, text, files = done
    assert sorted(tree(folder / "out")) == FILES == [path.name for path in files]
    assert list(result["rows"]) == list(ROWS)
    assert (result["seeds"], result["failed"]) == ([0, 1], {})
    assert {"command", "commit", "device"} <= set(result["provenance"])
    trained = result["rows"]["lsd+music"]
    assert (trained["env_steps_per_seed"], trained["updates_per_seed"]) == (24, {"sac": 4, "phi": 4})
    assert trained["differs_from_lsd"]["bonus.name"] == "music"
    head, _, *rows = (line.split(" | ") for line in text.splitlines() if line.startswith("|"))
    assert [row[0] for row in rows] == ["| lsd+music", "| random", "| untouched"]
    assert [row[-1] for row in rows] == ["fewer bins than LSD |", " |", " |"]
    for name, row in zip(ROWS, rows, strict=True):
        found = result["rows"][name]["metrics"]["coverage_mode"]
        assert row[head.index("coverage, mode actions")] == f"{found['mean']:.0f} ± {found['ci95']:.0f}"
    assert {"lifted by 5 cm", "still so at the end", "highest (m)"} <= set(head)
    assert not {"lifted by 5 cm"} & set(fetch.fetch_study(folder, folder, "fetch-push").columns)


def test_the_bars_have_a_line_at_the_floor_and_the_panels_a_table(done, monkeypatch):
    folder, result, _, _ = done
    lines = []
    monkeypatch.setattr(Axes, "axvline", lambda axes, x, **_: lines.append(x))
    monkeypatch.setattr(Axes, "legend", lambda *_, **__: None)
    draw = fetch.fetch_study(folder / "out", folder / "work" / ENV, ENV).figures[""]
    draw(result, result["rows"])
    draw(result, {"random": result["rows"]["random"]})  # there is no floor to draw
    assert lines == [result["rows"]["untouched"]["metrics"]["coverage_mode"]["mean"]]
    axes = Figure().subplots()
    fetch.draw_table("fetch-push", axes)
    (x, y), (width, height) = axes.patches[0].get_xy(), (axes.patches[0].get_width(), axes.patches[0].get_height())
    assert (x, y, width, height) == pytest.approx((1.05, 0.4, 0.5, 0.7))


def test_nothing_is_done_again(done, tmp_path, monkeypatch):
    for part in ("out", "work"):
        shutil.copytree(done[0] / part, tmp_path / part)
    monkeypatch.setattr(loop, "run_training", lambda *_, **__: pytest.fail("trained again"))
    monkeypatch.setattr(fetch, "roll_out_randomly", lambda *_, **__: pytest.fail("rolled out again"))
    before = json.loads((tmp_path / "out" / f"{STEM}.json").read_text())
    study(tmp_path)
    assert json.loads((tmp_path / "out" / f"{STEM}.json").read_text()) == before
