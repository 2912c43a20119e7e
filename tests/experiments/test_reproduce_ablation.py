"""The ablation study, made tiny: which cells, what is written after each, how it goes on, and what it refuses."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from trained import tree
from wanderlust.config import to_json
from wanderlust.errors import UserError
from wanderlust.evaluation.metrics import coverage
from wanderlust.runs.files import ArrayFile
from wanderlust.runs.run import Run
from wanderlust.sweeps import grid, tables
from wanderlust.train import loop, stages
from wanderlust_experiments import ablation

TINY = ("method.hidden=[8]", "sac.hidden=[8]", "schedule.worlds=4", "schedule.sac_batch=16", "log_every=2")
CHANGES = (*TINY, "schedule.method_batch=16", "checkpoint_every=2")
STEPS = 150  # of 40 an epoch: four epochs
FIRST, SECOND = "inner-product-step-free", "normal-next-state-free"


def study(folder, *only, **options):
    """Two cells of PointEnv, two seeds, four epochs, unless said otherwise."""
    settings = {"env": "point", "seeds": 2, "budget_steps": STEPS, "changes": CHANGES, "quiet": True, **options}
    return ablation.reproduce(folder / "out", folder / "work", only=only or (FIRST, SECOND), **settings)[:2]


def fail_if_trained(*_, **__):
    pytest.fail("trained again")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A study, what it returned and where it is; never changed."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "EPISODES", 20)
        result, text = study(folder)
    return folder, result, text


@pytest.fixture
def copy(done, tmp_path):
    """A copy of the study, which may be changed."""
    for part in ("out", "work"):
        shutil.copytree(done[0] / part, tmp_path / part)
    return tmp_path


@pytest.fixture(autouse=True)
def few_episodes(monkeypatch):
    monkeypatch.setattr(grid, "EPISODES", 20)


def written(folder):
    return json.loads((folder / "out" / "ablation_point.json").read_text())


# --- which cells ----------------------------------------------------------------------------------------------------


def test_the_grid_has_24_cells_and_seven_of_them_are_at_most_one_component_from_lsd():
    assert len(ablation.GRID) == 24
    assert next(iter(ablation.GRID)) == "inner-product-step-spectral"
    assert [cell.name for cell in ablation._chosen((), everything=True)] == list(ablation.GRID)
    assert {cell.name for cell in ablation._chosen((), everything=False)} == {
        "inner-product-step-spectral",
        "normal-step-spectral",
        "von-mises-fisher-step-spectral",
        "inner-product-state-spectral",
        "inner-product-next-state-spectral",
        "inner-product-change-spectral",
        "inner-product-step-free",
    }
    assert [c.name for c in ablation._chosen((SECOND, FIRST, SECOND), everything=False)] == [SECOND, FIRST]


def test_cells_differ_in_the_reward_alone():
    shared = ablation._shared_config("point", "laptop", 3, 1001, ())
    assert (shared.seeds, shared.schedule.epochs, str(shared.skills)) == (3, 3, "2d")  # 500 steps an epoch, rounded up
    names = set()
    for cell in ablation.GRID.values():
        config = ablation._config(shared, cell)
        assert config.method.spectral == cell.spectral
        assert str(config.method) == f"ablation-{cell.name}"
        same = {"form": "inner-product", "states": "step", "spectral": True}
        assert dataclasses.replace(config, method=dataclasses.replace(config.method, **same)) == shared
        names.add(to_json(config))
    assert len(names) == 24


def test_without_a_budget_the_recipe_says_how_long():
    assert ablation._shared_config("point", "paper", 3, None, ()).schedule.epochs == 5000


# --- what is written ------------------------------------------------------------------------------------------------


def test_every_cell_is_trained_as_asked(done):
    folder, _, _ = done
    assert sorted(path.name for path in (folder / "work" / "point").iterdir()) == sorted((FIRST, SECOND))
    for name in (FIRST, SECOND):
        run = Run.open(folder / "work" / "point" / name)
        assert list(run.checkpoints()) == [4]  # they hold the replay, so one is kept
        assert (run.config.seeds, run.config.schedule.epochs) == (2, 4)
        method = run.config.method
        assert ablation.Cell(method.form, method.states, method.spectral) == ablation.GRID[name]


def test_the_results_say_what_was_measured(done):
    folder, result, _ = done
    on_disk = written(folder)
    assert {**on_disk, "failed": {}} == result
    assert on_disk["seeds"] == [0, 1]
    assert on_disk["episodes_per_seed"] == 20
    assert {"command", "commit", "device", "versions"} <= set(on_disk["provenance"])
    assert on_disk["config"]["sac"]["hidden"] == [8]
    assert list(on_disk["cells"]) == [FIRST, SECOND]
    for name, cell in on_disk["cells"].items():
        assert (cell["env_steps_per_seed"], cell["epochs"]) == (160, 4)
        assert cell["updates_per_seed"] == {"sac": 16, "phi": 16}
        assert cell["training_seconds"] > 0
        assert {"command", "commit", "time", "device"} == set(cell["measured"])
        position = ArrayFile(folder / "work/point" / name / "evaluation/rollouts.safetensors").read("position")
        mode = cell["metrics"]["coverage_mode"]
        assert position.shape[2] == 20
        assert mode["per_seed"] == [coverage(x) for x in position]
        assert mode["mean"] == pytest.approx(np.mean(mode["per_seed"]))
        spread = np.std(mode["per_seed"], ddof=1) / np.sqrt(2)
        assert mode["ci95"] == pytest.approx(12.706 * spread, rel=1e-3, abs=1e-9)  # Student's t, one degree of freedom
        assert len(cell["metrics"]["coverage_sampled"]["per_seed"]) == 2
    assert on_disk["cells"][FIRST]["known_as"] is None
    assert on_disk["cells"][SECOND]["known_as"] == "DIAYN"


def test_the_table_and_the_figure(done):
    folder, result, text = done
    assert sorted(tree(folder / "out")) == [f"ablation_point.{form}" for form in ("json", "md", "png", "svg")]
    assert (folder / "out" / "ablation_point.md").read_text() == text
    assert (folder / "out" / "ablation_point.png").read_bytes().startswith(b"\x89PNG")
    assert "160 environment steps, 16 SAC updates and 16 of phi" in text
    for name, middle in (
        (FIRST, "|  | inner-product | φ(s') - φ(s) | none |"),
        (SECOND, "| DIAYN | normal | φ(s') | none |"),
    ):
        mode, sampled = (result["cells"][name]["metrics"][f"coverage_{k}"] for k in ("mode", "sampled"))
        numbers = " | ".join(f"{v['mean']:.0f} ± {v['ci95']:.0f}" for v in (mode, sampled))
        assert f"| {name} {middle} {numbers} |" in text


def test_one_seed_has_no_interval(copy):
    results = written(copy)
    results["seeds"] = [5]
    for cell in results["cells"].values():
        for measure in cell["metrics"].values():
            measure.update(mean=measure["per_seed"][0], ci95=None, per_seed=measure["per_seed"][:1])
    shown = ablation.grid_study(copy / "out", "point")
    shown.path(".json").write_text(json.dumps(results))
    text = tables.write_table_and_figures(shown, {})
    assert "±" not in text
    assert "seed 5 with" in text
    assert f"| none | {results['cells'][FIRST]['metrics']['coverage_mode']['mean']:.0f} |" in text


# --- stopping and going on ------------------------------------------------------------------------------------------


def test_a_finished_cell_is_not_repeated_even_without_its_run(copy, monkeypatch):
    before, figure = written(copy), copy / "out" / "ablation_point.png"
    shutil.rmtree(copy / "work")
    figure.unlink()
    monkeypatch.setattr(loop, "run_training", fail_if_trained)
    result, text = study(copy)
    assert written(copy) == before
    assert figure.is_file()  # what is missing is drawn from the results
    assert not (copy / "work").exists()
    assert [cell for cell in (FIRST, SECOND) if cell in text] == [FIRST, SECOND]
    assert list(result["cells"]) == [FIRST, SECOND]


def test_a_command_stopped_in_its_second_cell_has_written_the_first(copy, monkeypatch):
    """And the same command then trains the second alone."""
    finished = written(copy)["cells"][SECOND]
    (copy / "out" / "ablation_point.json").unlink()
    shutil.rmtree(copy / "work" / "point" / SECOND)
    real, asked = loop.run_training, []

    def interrupted(run, *_, **__):
        asked.append(run.path.name)
        return loop.Outcome(2, "interrupted")

    monkeypatch.setattr(loop, "run_training", interrupted)
    with pytest.raises(KeyboardInterrupt, match="the same command continues"):
        study(copy)
    assert asked == [SECOND]  # the run of the first is there, it is only measured again
    assert list(written(copy)["cells"]) == [FIRST]
    assert (copy / "out" / "ablation_point.md").read_text().count("| inner-product-step-free |") == 1

    monkeypatch.setattr(loop, "run_training", lambda run, *a, **o: (asked.append(run.path.name), real(run, *a, **o))[1])
    result, _ = study(copy)
    assert asked == [SECOND, SECOND]
    assert list(result["cells"]) == [FIRST, SECOND]
    assert result["cells"][SECOND]["metrics"] == finished["metrics"]  # the same run, number by number


def test_an_unfinished_run_goes_on_from_its_checkpoint(copy):
    """Its epochs before the stop are not trained again: what they logged stays."""
    finished = written(copy)["cells"][SECOND]
    path = copy / "work" / "point" / SECOND
    run = Run.open(path)
    shutil.rmtree(path)
    run = stages.start(run.config, path)
    loop.run_training(run, budget_seconds=1e-9, quiet=True)
    assert list(run.checkpoints()) == [2]
    before = run.metrics()
    results = written(copy)
    del results["cells"][SECOND]
    (copy / "out" / "ablation_point.json").write_text(json.dumps(results))
    result, _ = study(copy)
    assert run.metrics()[: len(before)] == before
    assert max(run.checkpoints()) == 4
    assert len(json.loads((path / "provenance.json").read_text())["resumed"]) == 1
    assert result["cells"][SECOND]["metrics"] == finished["metrics"]


def test_a_cell_that_fails_does_not_take_the_others_along(copy, monkeypatch):
    real = loop.run_training
    (copy / "out" / "ablation_point.json").unlink()
    shutil.rmtree(copy / "work" / "point" / FIRST)

    def diverges(run, *_, **__):
        raise UserError("training diverged before epoch 2")

    monkeypatch.setattr(loop, "run_training", diverges)
    result, text = study(copy)
    assert result["failed"] == {FIRST: "training diverged before epoch 2"}
    assert list(result["cells"]) == list(written(copy)["cells"]) == [SECOND]
    assert f"`{FIRST}` failed: training diverged before epoch 2" in text
    monkeypatch.setattr(loop, "run_training", real)
    result, text = study(copy)
    assert result["failed"] == {}
    assert set(result["cells"]) == {FIRST, SECOND}
    assert text.index(FIRST) < text.index(SECOND)  # in the grid's order, not in that of training
    assert "failed" not in text


def test_a_study_in_which_every_cell_fails_writes_nothing(tmp_path, monkeypatch):
    def diverges(run, *_, **__):
        raise UserError("training diverged before epoch 2")

    monkeypatch.setattr(loop, "run_training", diverges)
    with pytest.raises(UserError, match="no cell could be trained: training diverged before epoch 2"):
        study(tmp_path, FIRST)
    assert not (tmp_path / "out").exists()


# --- what is refused ------------------------------------------------------------------------------------------------


def test_a_run_of_other_settings_is_refused(done, tmp_path):
    folder, before = done[0], tree(done[0])
    with pytest.raises(UserError, match=r"step-free holds a run with another configuration; choose another --work"):
        ablation.reproduce(
            tmp_path / "out", folder / "work", "point", only=(FIRST,), budget_steps=400, changes=CHANGES, quiet=True
        )
    assert tree(folder) == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"cells": 3}', '{"cells": {}, "config": 3}'])
def test_damaged_results_are_refused_and_kept(copy, damage):
    (copy / "out" / "ablation_point.json").write_text(damage)
    before = tree(copy)
    with pytest.raises(UserError, match=r"ablation_point\.json is damaged"):
        study(copy)
    assert tree(copy) == before


# --- the command line -----------------------------------------------------------------------------------------------


def arguments():
    changes = [word for change in CHANGES for word in ("--set", change)]
    return ("reproduce", "ablation", "--env", "point", "--seeds", 2, "--budget-steps", STEPS, *changes)


def test_the_command_shows_the_table_and_says_which_cell_it_is_at(command_line, copy, done, monkeypatch):
    monkeypatch.chdir(copy)
    results = written(copy)
    del results["cells"][SECOND]
    (copy / "out" / "ablation_point.json").write_text(json.dumps(results))
    monkeypatch.setattr(loop, "run_training", fail_if_trained)  # its run is finished, only not measured
    code, out, err = command_line(*arguments(), "--only", FIRST, "--only", SECOND, "--out", "out", "--work", "work")
    assert code == 0
    assert f"cell 1 of 2, {FIRST}: in out/ablation_point.json already\n" in err
    assert f"cell 2 of 2, {SECOND}: 2 seeds, 4 epochs\n" in err
    assert (copy / "out" / "ablation_point.md").read_text() in out
    assert (
        "written: out/ablation_point.json, out/ablation_point.md, out/ablation_point.png, out/ablation_point.svg\n"
        in out
    )
    assert written(copy)["cells"][SECOND]["metrics"] == done[1]["cells"][SECOND]["metrics"]


def test_the_command_ends_with_code_1_if_a_cell_failed(command_line, copy, monkeypatch):
    def diverges(run, *_, **__):
        raise UserError("training diverged before epoch 2")

    monkeypatch.chdir(copy)
    monkeypatch.setattr(loop, "run_training", diverges)
    code, out, err = command_line(*arguments(), "--only", "normal-state-free", "--out", "out", "--work", "work")
    assert code == 1
    assert "`normal-state-free` failed: training diverged" in out
    assert "cell 1 of 1, normal-state-free: failed: training diverged" in err
