"""Pruned runs: small, used as whole ones are, not trained any further."""

import json
import shutil

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

import wanderlust
from helpers import only_times
from trained import copy_of, trained, tree
from wanderlust import train
from wanderlust.errors import UserError
from wanderlust.runs.learned import load_learner
from wanderlust.runs.prune import prune
from wanderlust.runs.run import Run
from wanderlust.sweeps.grid import Row

CHECKPOINT = "checkpoints/epoch-00000004.safetensors"


@pytest.mark.parametrize("method", ["lsd", "dads", "diayn"])
def test_use_finds_all_it_needs_of_every_seed(method, tmp_path):
    run = trained(method, seeds=2)
    facts = prune(run, tmp_path / "small")
    small = Run.open(tmp_path / "small")
    assert (small.config, facts["epoch"], facts["seeds"]) == (run.config, 4, 2)
    parts = train.assemble(run.config)
    for mine, theirs in zip(*(jax.tree.leaves(load_learner(one, parts)[1]) for one in (small, run)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=2e-3)
    kept, whole = (max(one.checkpoints().values()).stat().st_size for one in (small, run))
    assert kept < whole / 4
    ours, theirs = (wanderlust.load(one, seed=1) for one in (small, run))
    obs = np.array([[1.0, 2.0]], np.float32)
    np.testing.assert_allclose(ours.act(obs, [1.0, 0.0]), theirs.act(obs, [1.0, 0.0]), atol=0.01)


def test_what_is_kept_beside(tmp_path):
    run = trained(seeds=2)
    size = prune(run, tmp_path / "small")["bytes"]
    found = {name: data for name, data in tree(tmp_path / "small").items() if not name.endswith("/")}
    beside = {"metrics.jsonl", "provenance.json", "evaluation/evaluation.json", "evaluation/rollouts.safetensors"}
    assert set(found) == {"config.json", CHECKPOINT, *beside}
    assert size == sum(map(len, found.values()))
    for name in beside:
        assert found[name] == (run.path / name).read_bytes()


def test_a_run_that_was_not_evaluated_keeps_full_precision(tmp_path):
    run = copy_of(trained(seeds=2), tmp_path / "run")
    assert set(prune(run, tmp_path / "half")["stored"].values()) == {"float16"}
    shutil.rmtree(run.evaluation)
    assert set(prune(run, tmp_path / "full")["stored"].values()) == {"float32"}
    small, parts = Run.open(tmp_path / "full"), train.assemble(run.config)
    for mine, theirs in zip(*(jax.tree.leaves(load_learner(one, parts)[1]) for one in (small, run)), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_study_measures_it_and_does_not_train_it(tmp_path, monkeypatch):
    run = trained(seeds=2)
    prune(run, tmp_path / "small")
    monkeypatch.setattr("wanderlust.train.stages.train_run", lambda *_, **__: pytest.fail("trained"))
    measured = Row(run.config, {}).measured(tmp_path / "small", 5, quiet=True)
    assert measured["env_steps_per_seed"] == run.metrics()[-1]["env_steps"]


def test_by_command(command_line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = trained(seeds=2)
    code, out, err = command_line("prune", run.path, "--out", "small")
    assert (code, err) == (0, "")
    assert out.startswith("small: epoch 4, 2 seeds, ") and "policy (float16)" in out and out.endswith("MB\n")
    assert "small is finished already" in command_line("discover", "--resume", "small")[1]
    shutil.rmtree(tmp_path / "small/evaluation")
    code, _, err = command_line("discover", "--resume", "small")
    assert code == 2 and "small was pruned: it has what use needs, and cannot be trained any further" in err
    code, _, err = command_line("prune", run.path, "--out", "small")
    assert code == 2 and "small already exists; choose another --out" in err
    code, out, err = command_line("evaluate", "small", "--episodes", 3)
    assert (
        code == 0
        and only_times(err)
        and len(json.loads((tmp_path / "small/evaluation/evaluation.json").read_text())["seeds"]) == 2
    )


def test_a_pruned_run_can_be_pruned_again_and_an_entry_of_the_zoo_is(tmp_path):
    prune(trained(seeds=2), tmp_path / "once")
    prune(Run.open(tmp_path / "once"), tmp_path / "twice")
    once, twice = (load_file(tmp_path / name / CHECKPOINT) for name in ("once", "twice"))
    assert once.keys() == twice.keys()
    for name, array in once.items():
        np.testing.assert_array_equal(array, twice[name])
    with pytest.raises(UserError, match="zoo:hand is pruned already"):
        prune(Run(tmp_path / "once", trained(seeds=2).config, entry="zoo:hand"), tmp_path / "thrice")
