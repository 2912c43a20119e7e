"""What a run has learned is not lost to a damaged file, a changed configuration, a disk that is away, a power cut."""

import dataclasses
import json
import os
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import tiny_config
from trained import copy_of, trained, tree
from wanderlust import train
from wanderlust.config import to_json
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.runs import folders
from wanderlust.runs.files import ArrayFile, write_arrays
from wanderlust.runs.folders import put_in_place, staging
from wanderlust.runs.loading import load
from wanderlust.runs.metrics import Counts
from wanderlust.runs.run import Run
from wanderlust.train import guard, loop


@pytest.fixture
def run(tmp_path) -> Run:
    return copy_of(trained(), tmp_path / "run")


def refusal(call, *args, **options) -> str:
    with pytest.raises(UserError) as caught:
        call(*args, **options)
    assert "\n" not in str(caught.value)
    assert "delete" not in str(caught.value)
    return str(caught.value)


def form_of(run: Run):
    return train.saved_form(train.assemble(run.config))


# --- checkpoints --------------------------------------------------------------------------------------------------


def test_a_configuration_that_was_changed_is_named_and_put_back(run):
    """The checkpoint is good: to delete it would not help, as the one before does not fit either."""
    good = tree(run.path)
    changed = to_json(dataclasses.replace(run.config, sac=dataclasses.replace(run.config.sac, hidden=(8, 8))))
    (run.path / "config.json").write_text(changed)
    message = refusal(load, run.path)
    assert "it was trained with sac.hidden [16, 16] and not [8, 8]: put that back in " in message
    assert message.endswith(f"{run.path / 'config.json'}")
    assert "sac.hidden [16, 16]" in refusal(loop.run_training, Run.open(run.path), quiet=True)
    (run.path / "config.json").write_text(to_json(run.config))
    load(run.path)
    assert tree(run.path) == good


@pytest.mark.parametrize("block", [0, 1, 2, 5])
def test_the_checkpoint_before_a_damaged_one_is_used_and_training_writes_it_anew(run, block, capsys):
    """As after a power cut: the newest file ends at some block of the disk."""
    newest = run.checkpoints()[4]
    whole = newest.read_bytes()
    newest.write_bytes(whole[: 4096 * block])
    assert run.load(form_of(run))[0] == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert str(newest) in err and "the checkpoint before it is used, of epoch 2" in err
    if block == 2:  # and to the same end
        assert loop.run_training(Run.open(run.path), quiet=True).epoch == 4
        one, other = ArrayFile(newest), ArrayFile(trained().checkpoints()[4])
        assert all(one.read(name).tobytes() == other.read(name).tobytes() for name in other.shapes())
        aside = newest.with_name(f"{newest.name}.damaged")
        assert aside.read_bytes() == whole[: 4096 * block]


def test_when_no_checkpoint_is_whole_that_is_said(run):
    for path in run.checkpoints().values():
        path.write_bytes(b"")
    assert "none before it is whole either" in refusal(load, run)


def test_weights_that_are_no_numbers_are_not_used(run):
    newest = run.checkpoints()[4]
    file = ArrayFile(newest)
    arrays = {name: file.read(name) for name in file.shapes()}
    arrays["learner/sac/policy/mlp/layers/0/weight"] = np.full_like(
        arrays["learner/sac/policy/mlp/layers/0/weight"], np.nan
    )
    write_arrays(newest, arrays, {k: v for k, v in file.about.items() if k != "crc32"})
    assert run.load(form_of(run).learner, part="learner")[0] == 2


def test_checkpoints_that_cannot_be_seen_do_not_make_a_run_begin_anew(run, tmp_path, monkeypatch):
    rows = (run.path / "metrics.jsonl").read_bytes()
    there = run.path / "checkpoints"
    away = there.rename(tmp_path / "disk")
    assert "there is no checkpoint in" in refusal(loop.run_training, run, quiet=True)
    shutil.rmtree(run.path / "evaluation")
    longer = dataclasses.replace(run, config=dataclasses.replace(run.config, checkpoint_every=2))
    assert "has been trained to epoch 4" in refusal(loop.run_training, longer, quiet=True)
    there.symlink_to(tmp_path / "not mounted")
    assert "cannot be looked into: No such file" in refusal(loop.run_training, run, quiet=True)
    assert "is a link to" in refusal(Run.open, run.path)
    there.unlink()
    away.rename(there)

    def unreadable(self):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(type(there), "iterdir", unreadable)
        assert "cannot be looked into: Permission denied" in refusal(loop.run_training, run, quiet=True)
    assert (run.path / "metrics.jsonl").read_bytes() == rows
    assert loop.run_training(run, quiet=True).epoch == 4


def test_a_run_that_was_resumed_once_had_a_checkpoint_even_if_nothing_else_says_so(run):
    (run.path / "checkpoints" / "epoch-00000004.safetensors").unlink()
    loop.run_training(run, quiet=True)
    for name in ("metrics.jsonl", "evaluation/evaluation.json"):
        (run.path / name).unlink()
    shutil.rmtree(run.path / "checkpoints")
    assert "there is no checkpoint in" in refusal(loop.run_training, run, quiet=True)


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(tmp_path, capsys):
    run = Run.create(tmp_path / "run", tiny_config(epochs=2))
    run.log({"epoch": 2, "env_steps": 40})
    assert loop.run_training(run, quiet=True).reason == "finished"
    assert "was stopped at epoch 2, before its first checkpoint" in capsys.readouterr().err


# --- divergence ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{"sac_policy_learning_rate": 3e38}, {"method_learning_rate": 1e10}])
def test_a_learner_that_is_not_finite_is_never_saved(tmp_path, changes):
    with pytest.raises(UserError, match="float32 can hold"):
        tiny_config(sac_policy_learning_rate=1e39)
    run = Run.create(tmp_path / "run", tiny_config(epochs=8, **changes))
    message = refusal(loop.run_training, run, quiet=True)
    assert "training diverged before epoch" in message and "smaller learning rates may help" in message
    for path in run.checkpoints().values():
        file = ArrayFile(path)
        assert all(np.isfinite(file.read(name)).all() for name in file.shapes())


def test_what_is_not_finite_is_not_saved_wherever_it_is(run):
    _, state = run.load(form_of(run))
    bad = state._replace(
        replay=jax.tree.map(lambda x: x.at[0].set(jnp.nan) if x.dtype == jnp.float32 else x, state.replay)
    )
    before = tree(run.path)
    assert "replay/data/obs and " in refusal(run.save, 6, bad)
    assert tree(run.path) == before
    norm = state.learner._replace(method=jax.tree.map(lambda x: x * jnp.inf, state.learner.method))
    assert all(name.startswith("method/") for name in guard.exploded(norm)) and guard.exploded(norm)
    assert guard.exploded(state.learner) == []


# --- metrics and provenance ---------------------------------------------------------------------------------------


def test_counts_survive_the_loss_of_metrics(run, tmp_path):
    steps = run.metrics()[-1]["env_steps"]
    (run.path / "metrics.jsonl").unlink()
    (run.path / "provenance.json").unlink()
    run.checkpoints()[4].unlink()
    assert loop.run_training(run, quiet=True).epoch == 4
    last = run.metrics()[-1]
    assert (last["epoch"], last["env_steps"]) == (4, steps)
    assert last["seconds"] > trained().metrics()[0]["seconds"]
    (run.path / "metrics.jsonl").unlink()
    assert evaluate(run, episodes=2)["env_steps"] == steps == run.counts(4).env_steps


def test_rows_are_on_the_disk_before_the_checkpoint_and_so_are_names(tmp_path, monkeypatch):
    synced, real = [], os.fsync

    def fsync(handle):
        synced.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    run = Run.create(tmp_path / "run", tiny_config(epochs=2))
    synced.clear()
    run.log({"epoch": 2}, sync=True)
    run.save(2, {"x": jnp.zeros(3)}, Counts(40, 1.0, 0.5))
    assert synced[0] == "metrics.jsonl"
    assert synced[1].startswith(".epoch-00000002.safetensors.")
    assert synced[2] == "checkpoints"
    assert run.counts(2) == Counts(40, 1.0, 0.5)


def test_a_damaged_row_is_set_aside_and_the_others_stay(run, capsys):
    path = run.path / "metrics.jsonl"
    first, second = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([first[:10] + b"\xff" + first[11:], second, b'{"epoch": 6, "env_st']))
    assert [row["epoch"] for row in run.metrics()] == [4]
    run.rewind(4)
    assert path.read_bytes() == second + b"\n"
    assert "1 lines of" in capsys.readouterr().err
    assert len((run.path / "metrics.jsonl.damaged").read_bytes().splitlines()) == 1
    run.rewind(4)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "row",
    [
        {"epoch": 4, "env_steps": "many"},
        {"epoch": 4, "env_steps": [1]},
        {"epoch": True},
        {"epoch": -2},
        {"epoch": 4, "seconds": 10**400},
        {"epoch": 4, "seconds": float("nan")},
        {"epoch": 4, "coverage": ["a"]},
        {"epoch": 4, "reward": {"a": 1}},
    ],
)
def test_rows_of_the_wrong_type_are_no_rows(run, row):
    (run.path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    assert run.metrics() == []


@pytest.mark.parametrize("text", ["{", "[]", '{"resumed": 3}', "[" * 100_000, '{"began_with": {"epoch": []}}'])
def test_damaged_provenance_stops_nothing_and_is_kept(run, text, capsys):
    (run.path / "provenance.json").write_text(text)
    run.checkpoints()[4].unlink()
    assert loop.run_training(run, quiet=True).epoch == 4
    assert "how the run was made is not known" in capsys.readouterr().err
    assert (run.path / "provenance.json.damaged").read_text() == text
    assert len(run.provenance()["resumed"]) == 1


# --- folders that are being made ----------------------------------------------------------------------------------


def test_what_a_killed_start_left_is_cleared_by_the_next_one_and_what_is_in_use_is_not(tmp_path):
    dead = tmp_path / ".run.abcd.new"
    dead.mkdir()
    (dead / "config.json").write_text("{}")
    (tmp_path / ".run.mine").mkdir()
    with staging(tmp_path / "run", tmp_path) as busy:
        assert not dead.exists()
        Run.create(tmp_path / "run", tiny_config())
        assert busy.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".run.mine", "run"]


def test_what_gave_way_to_a_replacement_comes_back_if_that_was_killed(tmp_path, monkeypatch, capsys):
    """Where two names cannot change places in one step: killed between the two that it takes."""
    target, rename = tmp_path / "one", Path.rename
    target.mkdir()
    (target / "card.json").write_text("mine")

    def killed(self, other):
        if other == target:
            raise SystemExit
        return rename(self, other)

    def cannot(*_):
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(folders, "_exchange", cannot)
        patch.setattr(Path, "rename", killed)
        with pytest.raises(SystemExit), staging(target, tmp_path) as folder:
            put_in_place(folder, target)
    assert not target.exists()
    with staging(target, tmp_path):
        assert (target / "card.json").read_text() == "mine"
    assert "it is back as it was" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
