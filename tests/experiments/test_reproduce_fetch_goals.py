"""Goal tasks over the skills of runs of Fetch, made tiny: from pruned runs, row by row, each seed by itself."""

import dataclasses
import functools
import json
import shutil

import jax
import numpy as np
import pytest
from matplotlib.axes import Axes

from helpers import tiny_config
from trained import tree
from wanderlust import train
from wanderlust.downstream import solve as solving
from wanderlust.downstream import training
from wanderlust.downstream.controllers.zero_shot import skill_speed
from wanderlust.downstream.settings import get_setting
from wanderlust.envs.worlds.fetch import FetchConfig
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.methods.music import MusicConfig
from wanderlust.runs.learned import load_learner
from wanderlust.runs.prune import prune
from wanderlust.runs.run import Run
from wanderlust.sweeps import grid
from wanderlust_experiments import fetch_goals

ENV, STEM = "fetch-push", "fetch_push_goal"
RUNS = {"dads": ("dads", False), "lsd+music": ("lsd", True), "music": ("music", False)}
ROWS = ("dads", "lsd+music")
EPISODES = 3


def row_config(method, music):
    tiny = tiny_config("lsd" if method == "music" else method, seeds=2, driver="split", engine="c", schedule_steps=50)
    tiny, own = dataclasses.replace(tiny, env=FetchConfig(ENV, 50)), MusicConfig(hidden=(8,), episodes=2)
    if method == "music":
        return dataclasses.replace(tiny, method=own)
    return dataclasses.replace(tiny, bonus=own if music else None)


def untrained(path, method, music):
    """A run whose networks are as they begin."""
    run = Run.create(path, row_config(method, music))
    run.save(4, train.to_save(train.init(train.assemble(run.config))))
    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Three runs of two seeds; one of them evaluated."""
    folder = tmp_path_factory.mktemp("whole")
    runs = {name: untrained(folder / ENV / name, *how) for name, how in RUNS.items()}
    evaluate(runs["lsd+music"], episodes=2)
    return folder


@pytest.fixture(scope="module")
def pruned(whole):
    folder = whole.parent / f"{whole.name}-pruned"
    for name in RUNS:
        prune(Run.open(whole / ENV / name), folder / ENV / name)
    return folder


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Fewer episodes, and controllers of next to no units."""

    def tiny(recipe, learner, env):
        setting = get_setting(recipe, learner, env)
        sac = dataclasses.replace(setting.learner, hidden=(8,))
        return dataclasses.replace(setting, learner=sac, episodes=2, steps=2, batch=8, log_every=1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "EPISODES", EPISODES)
        patch.setattr(fetch_goals, "get_setting", tiny)
        patch.setattr("wanderlust.downstream.training.get_setting", tiny)
        patch.setattr(solving, "skill_speed", functools.partial(skill_speed, episodes=2))
        yield


def study(work, out, **options):
    return fetch_goals.reproduce(out, work, ENV, **{"epochs": 2, "hold": 25, "quiet": True, **options})


@pytest.fixture(scope="module")
def done(pruned):
    """Two rows, from pruned runs."""
    out = pruned.parent / f"{pruned.name}-out"
    return out, *study(pruned, out, only=ROWS)


def test_a_pruned_run_is_the_run(whole, pruned):
    for name in RUNS:
        ours, theirs = (Run.open(folder / ENV / name) for folder in (pruned, whole))
        assert ours.config == theirs.config
        parts = train.assemble(ours.config)
        (epoch, mine), (_, full) = load_learner(ours, parts), load_learner(theirs, parts)
        assert epoch == 4
        near = {"atol": 2e-3, "rtol": 2e-3} if name == "lsd+music" else {"atol": 0, "rtol": 0}
        jax.tree.map(lambda a, b, near=near: np.testing.assert_allclose(a, b, **near), mine.policy, full.policy)
        small, large = (sum(len(x) for x in tree(run.path / "checkpoints").values()) for run in (ours, theirs))
        assert small < large / 3


def test_a_pruned_run_is_not_trained_any_further(pruned, whole, tmp_path):
    run = Run.open(pruned / ENV / "dads")
    with pytest.raises(UserError, match="was pruned: it has what use needs, and cannot be trained any further"):
        run.load(train.saved_form(train.assemble(run.config)))
    with pytest.raises(UserError, match="already exists"):
        prune(Run.open(whole / ENV / "dads"), run.path)
    again = prune(run, tmp_path / "again")  # a pruned run is a run
    assert (again["seeds"], again["stored"]["policy"]) == (2, "float32")  # it was not evaluated


def test_the_results(done):
    out, result, text, files = done
    assert (
        sorted(tree(out))
        == [f"{STEM}.{form}" for form in ("json", "md", "png", "svg")]
        == sorted(path.name for path in files)
    )
    assert list(result["rows"]) == list(ROWS) and result["seeds"] == [0, 1] and result["failed"] == {}
    assert result["config"]["task"] == "fetch-push-goal" and result["config"]["hold"] == 25
    for name, row in result["rows"].items():
        assert ("zero_shot" in row["metrics"]) == (name == "lsd+music")
        assert [point["epoch"] for point in row["curve"]] == [1, 2]
        assert {len(point["return"]) for point in row["curve"]} == {2}
        assert all(len(value["per_seed"]) == 2 for value in row["metrics"].values())
        assert {"command", "commit", "device"} <= set(row["measured"])
    head, _, *lines = (line.split(" | ") for line in text.splitlines() if line.startswith("|"))
    assert [line[0] for line in lines] == [f"| {name}" for name in ROWS]
    assert [line[head.index("zero-shot")] != "" for line in lines] == [False, True]


def test_a_seed_has_the_controller_it_has_alone(done, pruned, tmp_path):
    """Seed k of the skills has controller k, and one seed alone is the first of two."""
    _, result, _, _ = done
    shutil.copytree(pruned / ENV / "dads", tmp_path / ENV / "dads", ignore=shutil.ignore_patterns("downstream"))
    alone, *_ = study(tmp_path, tmp_path / "out", seeds=1)
    for both, first in zip(result["rows"]["dads"]["curve"], alone["rows"]["dads"]["curve"], strict=True):
        np.testing.assert_allclose(first["critic_loss"], both["critic_loss"][:1], rtol=1e-4)
        assert first["return"] == both["return"][:1]


def test_it_goes_on_row_by_row(done, pruned, tmp_path, monkeypatch):
    out, *_ = done
    shutil.copytree(out, tmp_path / "out")
    path = tmp_path / "out" / f"{STEM}.json"
    kept = json.loads(path.read_text())
    removed = kept["rows"].pop("dads")
    path.write_text(json.dumps(kept))
    monkeypatch.setattr(solving, "learn", lambda *_, **__: pytest.fail("learned again"))
    study(pruned, tmp_path / "out", only=ROWS)  # its controllers are in its run
    assert json.loads(path.read_text())["rows"]["dads"] == removed
    with pytest.raises(UserError, match=r"setting\.epochs 2, not 3; choose another --out folder"):
        study(pruned, tmp_path / "out", only=ROWS, epochs=3)


def test_stopped_controllers_go_on(done, pruned, tmp_path, monkeypatch):
    _, result, *_ = done
    shutil.copytree(pruned / ENV / "dads", tmp_path / ENV / "dads", ignore=shutil.ignore_patterns("downstream"))

    class Pressed:
        def __enter__(self):
            return lambda: True

        def __exit__(self, *_):
            return None

    with monkeypatch.context() as patch:
        patch.setattr(training, "stop_signals", Pressed)
        with pytest.raises(KeyboardInterrupt, match="stopped; the same command continues"):
            study(tmp_path, tmp_path / "out")
    assert (tmp_path / ENV / "dads/downstream/fetch-push-goal-sac/training.safetensors").exists()
    resumed = study(tmp_path, tmp_path / "out")[0]["rows"]["dads"]
    whole_row = result["rows"]["dads"]
    assert resumed["metrics"] == whole_row["metrics"]
    assert [p["return"] for p in resumed["curve"]] == [p["return"] for p in whole_row["curve"]]


def test_the_figure_has_a_curve_a_row_and_lines_of_lsd(done, monkeypatch):
    _, result, *_ = done
    heights, curves, line = [], [], Axes.axhline
    monkeypatch.setattr(Axes, "axhline", lambda axes, y, **how: (heights.append(y), line(axes, y, **how)))
    monkeypatch.setattr(fetch_goals, "show_mean", lambda axes, x, y, *_: (curves.append((x, y)), axes.plot(x, x)))
    rows = {"lsd": result["rows"]["lsd+music"], "dads": result["rows"]["dads"]}
    assert fetch_goals.draw(result, rows).png.startswith(b"\x89PNG")
    assert heights == [rows["lsd"]["metrics"][name]["mean"] for name in ("zero_shot", "random")]
    assert curves[1] == ([2, 4], [point["return"] for point in rows["dads"]["curve"]])


def test_what_cannot_be_is_one_line(pruned, tmp_path):
    for options, said in (
        ({"only": ("diayn",)}, "--only diayn: there is no run"),
        ({"seeds": 3}, "--seeds is 3, and .* has 2: a controller is for each seed"),
        ({"recipe": "best"}, "best"),
    ):
        with pytest.raises((UserError, KeyError), match=said):
            study(pruned, tmp_path, **options)
    with pytest.raises(UserError, match="has no runs of skills; train them with `wanderlust reproduce fetch"):
        study(tmp_path / "nothing", tmp_path)
    with pytest.raises(UserError, match="--env is ant"):
        fetch_goals.reproduce(tmp_path, pruned, "ant")
