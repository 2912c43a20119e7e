"""The reproduction of the PointEnv tables, made tiny: what is trained, reused, refused and written."""

import json

import numpy as np
import pytest

from trained import tree
from wanderlust.errors import UserError
from wanderlust.runs.run import Run
from wanderlust.train import stages
from wanderlust_experiments import point_goals

TINY = (
    "method.hidden=[16, 16]",
    "sac.hidden=[16, 16]",
    "schedule.epochs=4",
    "schedule.worlds=4",
    "schedule.sac_batch=16",
    "log_every=2",
    "checkpoint_every=2",
)


def shrink(patch: pytest.MonkeyPatch) -> None:
    """One radius, one range a task, few episodes: every task is a program of its own to compile."""
    patch.setattr(point_goals, "ROWS", tuple(r._replace(goal=r.goal[:1], multi=r.multi[:1]) for r in point_goals.ROWS))
    patch.setattr(point_goals, "RADII", (3.0,))
    patch.setattr(point_goals, "GOAL_RANGES", (10,))
    patch.setattr(point_goals, "MULTI_RANGES", (10,))
    patch.setattr(point_goals, "EPISODES", 20)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A reproduction, and where it is."""
    folder = tmp_path_factory.mktemp("reproduction")
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        result, text = point_goals.reproduce(folder / "out", folder / "work", seeds=2, changes=TINY, quiet=True)
    return folder, result, text


def test_the_rows_are_the_paper_s():
    """The appendix says what is trained from where, and which goals are tried."""
    rows = {row.label: row for row in point_goals.ROWS}
    assert list(rows) == ["LSD", "DIAYN", "DIAYN-XYO"]
    assert [row.start_range for row in rows.values()] == [10.0, 10.0, 0.0]
    assert point_goals.GOAL_RANGES == (10, 20, 40, 80)
    assert point_goals.MULTI_RANGES == (10, 20, 40)
    for row in rows.values():
        assert len(row.goal) == 4
        assert len(row.multi) == 3
        config = point_goals._config(row, 8, ())
        assert (config.recipe, str(config.method), config.env.start_range) == ("paper", row.method, row.start_range)
        assert (config.seeds, str(config.skills)) == (8, "2d")


def test_every_row_is_trained_as_asked(done):
    folder, _, _ = done
    for row in point_goals.ROWS:
        run = Run.open(folder / "work" / row.method)
        assert max(run.checkpoints()) == run.config.schedule.epochs == 4
        assert run.config.env.start_range == row.start_range
        assert run.config.seeds == 2
        assert run.config.recipe == "paper"


def test_what_is_written(done):
    folder, result, text = done
    assert sorted(tree(folder / "out")) == ["point_goals.json", "point_goals.md"]
    assert json.loads((folder / "out" / "point_goals.json").read_text()) == result
    assert (folder / "out" / "point_goals.md").read_text() == text
    assert result["seeds"] == [0, 1]
    assert result["changes"] == list(TINY)
    assert {"commit", "versions", "device", "precision"} <= set(result["provenance"])
    assert [row["label"] for row in result["rows"]] == ["LSD", "DIAYN", "DIAYN-XYO"]
    for row in result["rows"]:
        for task, most in (("PointGoal", 1.0), ("PointMultiGoals", 4.0)):
            score = row["by_radius"]["3"][task]["10"]
            assert len(score["per_seed"]) == 2
            assert all(0 <= value <= most for value in score["per_seed"])
            assert score["mean"] == pytest.approx(np.mean(score["per_seed"]))
            assert score["standard_error"] == pytest.approx(np.std(score["per_seed"], ddof=1) / np.sqrt(2))
            assert score["skill_norm"] > 0
    lsd = result["rows"][0]["by_radius"]["3"]["PointGoal"]["10"]
    assert lsd["skill_norm"] == pytest.approx(np.sqrt(np.pi / 2), rel=1e-3)  # E||z|| for two dimensions


def test_the_tables_show_ours_beside_the_paper_s(done):
    _, result, text = done
    assert "method.hidden=[16, 16]" in text  # a table that is not the paper's setting says so
    for row in result["rows"]:
        for task in ("PointGoal", "PointMultiGoals"):
            score = row["by_radius"]["3"][task]["10"]
            mean, error = row["paper"][task]["10"]
            assert f"| {row['label']}, ours | {score['mean']:.2f} ± {score['standard_error']:.2f} |" in text
            assert f"| {row['label']}, paper | {mean:.2f} ± {error:.2f} |" in text


def test_finished_runs_are_reused(done, monkeypatch, tmp_path):
    folder, result, _ = done
    before = tree(folder / "work")
    shrink(monkeypatch)
    monkeypatch.setattr(stages, "train_run", lambda *_, **__: pytest.fail("trained again"))
    again, _ = point_goals.reproduce(tmp_path, folder / "work", seeds=2, changes=TINY, quiet=True)
    assert again["rows"] == result["rows"]
    assert tree(folder / "work") == before


@pytest.mark.parametrize(("seeds", "changes"), [(3, TINY), (2, (*TINY, "sac.discount=0.5"))])
def test_runs_of_another_configuration_are_refused(done, tmp_path, seeds, changes):
    folder, _, _ = done
    before = tree(folder / "work")
    with pytest.raises(UserError, match=r"lsd holds a run with another configuration; choose another --work") as caught:
        point_goals.reproduce(tmp_path / "out", folder / "work", seeds=seeds, changes=changes, quiet=True)
    assert "\n" not in str(caught.value)
    assert tree(folder / "work") == before
    assert not (tmp_path / "out").exists()


def test_a_change_that_cannot_be_made_leaves_nothing(tmp_path):
    for change in ("sac.gamma=0.5", "sac.discount", "sac.discount=2"):
        with pytest.raises(UserError, match=r"sac\.(gamma|discount)"):
            point_goals.reproduce(tmp_path / "out", tmp_path / "work", seeds=1, changes=(change,), quiet=True)
    assert tree(tmp_path) == {}
