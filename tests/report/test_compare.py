"""`wanderlust compare`: exactly what differs, what was reached, and nothing touched."""

import dataclasses
import json
import re

import pytest

from helpers import tiny_config
from trained import copy_of, trained, tree
from wanderlust import cli
from wanderlust.config import to_json
from wanderlust.evaluation.metrics import summarise
from wanderlust.report.comparison import differences, labels, spread
from wanderlust.report.plots import side_by_side
from wanderlust.runs.run import Run


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """Two runs, the second of another configuration, in the working folder."""
    monkeypatch.chdir(tmp_path)
    first, second = copy_of(trained(seeds=2), tmp_path / "one"), copy_of(trained(seeds=2), tmp_path / "two")
    sac = dataclasses.replace(second.config.sac, discount=0.5, hidden=(8, 8))
    (second.path / "config.json").write_text(to_json(dataclasses.replace(second.config, sac=sac, recipe="other")))
    return first, Run.open(second.path)


def command(*words):
    with pytest.raises(SystemExit) as stop:
        cli.main([str(word) for word in words])
    return stop.value.code


def test_exactly_the_differing_fields_are_named():
    one = {"a": 1, "b.c": [1, 2], "same": None}
    other = {"a": 1, "b.c": [1, 3], "same": None, "new": "x|y"}
    assert differences([one, other]) == {"b.c": ["[1, 2]", "[1, 3]"], "new": ["\N{EN DASH}", "x|y"]}
    assert differences([one]) == differences([one, one]) == {}
    assert differences([{"a": False}, {"a": 0.5}, {"a": False}]) == {"a": ["false", "0.5", "false"]}


def test_runs_are_called_by_as_little_of_their_paths_as_tells_them_apart(tmp_path):
    config = tiny_config()
    runs = [
        Run(tmp_path / "a" / "x", config),
        Run(tmp_path / "b" / "x", config),
        Run(tmp_path, config, entry="zoo:ant"),
    ]
    assert labels(runs) == ["a/x", "b/x", "zoo:ant"]
    assert labels(runs[:1]) == ["x"]


def test_a_spread_is_a_mean_and_half_its_interval():
    half = summarise([1.0, 2.0, 4.0]).ci95
    assert spread([1.0, 2.0, 4.0]) == f"2.33 ± {half:.2f}"
    assert (spread([3.0]), spread([]), spread([7882.0])) == ("3.00", "\N{EN DASH}", "7,882")


def test_two_runs_side_by_side(pair, capsys):
    before = [tree(run.path) for run in pair]
    assert command("compare", "one", "two", "--episodes", 20) == 0
    out = capsys.readouterr().out
    folder = pair[0].path.parent / "comparisons" / "one-and-two"
    found = json.loads((folder / "comparison.json").read_text())
    assert found["differences"] == {
        "sac.hidden": ["[16, 16]", "[8, 8]"],
        "sac.discount": [json.dumps(pair[0].config.sac.discount), "0.5"],
        "recipe": [pair[0].config.recipe, "other"],
    }
    facts = json.loads((pair[0].evaluation / "evaluation.json").read_text())
    covered = facts["metrics"]["coverage_mode"]
    assert found["reached"]["bins of 1 x 1 covered, mode actions"] == [spread(covered["per_seed"])] * 2
    assert found["reached"]["epoch"] == ["4 of 4"] * 2
    shown = re.sub(r"\s+", " ", out)
    assert all(key in shown for key in (*found["differences"], spread(covered["per_seed"])))
    assert {path.name for path in folder.iterdir()} == {f"comparison.{form}" for form in ("json", "md", "png", "svg")}
    assert [tree(run.path) for run in pair] == before  # nothing was written into the runs
    assert "| sac.discount |" in (folder / "comparison.md").read_text()


def test_nothing_is_replaced_unasked(pair, capsys):
    (pair[0].path.parent / "mine").mkdir()
    (pair[0].path.parent / "mine" / "notes").write_text("mine")
    before = tree(pair[0].path.parent)
    assert command("compare", "one", "two", "--out", "mine", "--quick") == 2
    assert capsys.readouterr().err == "wanderlust: mine already exists; choose another --out, or --replace it\n"
    assert tree(pair[0].path.parent) == before
    assert command("compare", "one", "two", "--out", "mine", "--quick", "--replace") == 0
    assert "notes" not in {path.name for path in (pair[0].path.parent / "mine").iterdir()}


def test_a_run_that_is_training_is_compared_and_not_disturbed(pair, capsys):
    """Its folder is held by a trainer, it has no evaluation yet, and its last line is half written."""
    training = pair[1]
    for path in training.evaluation.iterdir():
        path.unlink()
    training.evaluation.rmdir()
    schedule = dataclasses.replace(training.config.schedule, epochs=50)
    (training.path / "config.json").write_text(to_json(dataclasses.replace(pair[0].config, schedule=schedule)))
    with open(training.path / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 6, "env_st')
    before = tree(training.path)
    with training.lock():
        assert command("compare", "one", "two", "--episodes", 20, "--out", "c") == 0
    out = capsys.readouterr().out
    assert tree(training.path) == before
    found = json.loads((training.path.parent / "c" / "comparison.json").read_text())
    assert found["differences"] == {"schedule.epochs": ["4", "50"]}
    assert found["reached"]["epoch"] == ["4 of 4", "4 of 50"]
    assert "two is not at its end: epoch 4 of 50." in out
    measured = found["reached"]["bins of 1 x 1 covered, mode actions"]
    assert measured[0] == measured[1]  # the same weights: its newest checkpoint was evaluated beside the comparison
    assert (training.path.parent / "c" / "evaluations" / "1-two" / "evaluation" / "evaluation.json").is_file()


def test_a_run_before_its_first_checkpoint_has_what_its_files_say(pair, capsys):
    fresh = pair[1]
    for name in ("evaluation", "checkpoints"):
        for path in (fresh.path / name).iterdir():
            path.unlink()
    assert command("compare", "one", "two", "--episodes", 20, "--out", "c") == 0
    assert "two has no evaluation" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "no run given; name the folders of runs, or zoo:NAME"),
        (("one", "one"), "one is named twice; name each run once"),
        (("one", "nowhere"), "there is no run folder nowhere; `wanderlust discover` makes one and says where"),
        (("one", "--episodes", "0"), "--episodes is 0; it must be at least 1"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(pair, capsys, words, line):
    before = tree(pair[0].path.parent)
    assert command("compare", *words) == 2
    assert capsys.readouterr().err == f"wanderlust: {line}\n"
    assert tree(pair[0].path.parent) == before


def test_the_figure_has_curves_over_steps_and_minutes_and_trajectories_at_one_scale(pair, monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(side_by_side, "save", lambda figure, path: seen.append(figure) or path)
    rows = pair[0].metrics()
    runs = [side_by_side.Drawn(run.path.name, "point", rows, (None, None, []), run.path) for run in pair]
    side_by_side.draw_comparison(runs, tmp_path / "c.png")
    steps, minutes, *paths = [axes for axes in seen[0].findobj(type(seen[0].axes[0])) if axes.axison][:4]
    middle = [line for line in steps.lines if line.get_linewidth() > 1]
    assert [line.get_xdata().tolist() for line in middle] == [
        [row["env_steps"] for row in rows if "coverage" in row]
    ] * 2
    assert minutes.lines[-1].get_xdata().max() == pytest.approx(rows[-1]["train_seconds"] / 60)
    assert {(axes.get_xlim(), axes.get_ylim()) for axes in paths} == {(paths[0].get_xlim(), paths[0].get_ylim())}
    assert [axes.get_title(loc="left") for axes in paths] == ["one", "two"]


def test_worlds_whose_bins_differ_have_panels_of_their_own(pair, monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(side_by_side, "save", lambda figure, path: seen.append(figure) or path)
    rows = pair[0].metrics()
    runs = [side_by_side.Drawn(world, world, rows, (None, None, []), None) for world in ("point", "ant", "point ")]
    side_by_side.draw_comparison(runs, tmp_path / "c.png")
    curves = [axes for axes in seen[0].findobj(type(seen[0].axes[0])) if axes.axison][:6]
    titles = [axes.get_title(loc="left") for axes in curves[::2]]
    assert titles == [f"bins covered by random skills, {world}" for world in ("point", "ant", "point ")]
    assert all(sum(line.get_linewidth() > 1 for line in axes.lines) == 1 for axes in curves)
