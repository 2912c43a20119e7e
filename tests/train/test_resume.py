"""A run that was stopped, interrupted or killed, and went on, ends bit by bit where one left alone ends."""

import json
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from helpers import tiny_config
from trained import copy_of, start_python, trained
from wanderlust.config import to_json
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.runs.files import ArrayFile
from wanderlust.runs.publish import publish
from wanderlust.runs.run import Run
from wanderlust.train import loop, stages

LONG = tiny_config(epochs=600, log_every=10, checkpoint_every=50)


def assert_same_end(one: Run, other: Run) -> None:
    """The whole final state and every row of the metrics agree, but for the time they took."""
    assert max(one.checkpoints()) == max(other.checkpoints()) == one.config.schedule.epochs
    a, b = (ArrayFile(run.checkpoints()[run.config.schedule.epochs]) for run in (one, other))
    assert a.shapes() == b.shapes()
    for name in a.shapes():
        assert a.read(name).dtype == b.read(name).dtype
        assert a.read(name).tobytes() == b.read(name).tobytes(), f"{name} differs"
    times = ("seconds", "train_seconds")
    without_time = [[{k: v for k, v in row.items() if k not in times} for row in r.metrics()] for r in (one, other)]
    assert without_time[0] == without_time[1]
    for name in times:
        assert [row[name] for row in other.metrics()] == sorted(row[name] for row in other.metrics())


def test_stopped_after_every_chunk_and_resumed(tmp_path):
    config = tiny_config(epochs=7, checkpoint_every=4)  # the last chunk is a short one
    whole = stages.start(config, tmp_path / "whole")
    assert loop.run_training(whole, quiet=True) == loop.Outcome(7, "finished")
    parts = stages.start(config, tmp_path / "parts")
    outcomes = [loop.run_training(parts, budget_seconds=1e-9, quiet=True)]
    while outcomes[-1].reason != "finished":
        outcomes.append(loop.run_training(loop.resume(parts.path), budget_seconds=1e-9, quiet=True))
    assert [(o.epoch, o.reason) for o in outcomes] == [(2, "budget"), (4, "budget"), (6, "budget"), (7, "finished")]
    assert [row["epoch"] for row in parts.metrics()] == [2, 4, 6, 7]
    assert_same_end(whole, parts)


def test_a_run_that_stops_before_its_first_look_looks_then(tmp_path):
    run = stages.start(tiny_config(epochs=8, look_every=100), tmp_path / "run")
    assert loop.run_training(run, budget_seconds=1e-9, quiet=True).reason == "budget"
    assert [len(row["coverage"]) for row in run.metrics()] == [1]


def test_going_on_from_an_older_checkpoint_ends_the_same(tmp_path):
    run = copy_of(trained(), tmp_path / "run")
    run.checkpoints()[4].unlink()  # as after a damaged newest checkpoint was deleted
    assert loop.run_training(loop.resume(run.path), quiet=True).reason == "finished"
    assert_same_end(trained(), run)


def test_a_finished_run_has_nothing_left_to_do(tmp_path, monkeypatch):
    run = copy_of(trained(), tmp_path / "run")
    monkeypatch.setattr("wanderlust.train.make_driver", lambda _: pytest.fail("a driver may start processes"))
    before = run.checkpoints()[4].read_bytes()
    assert loop.run_training(loop.resume(run.path), quiet=True) == loop.Outcome(4, "finished")
    assert run.checkpoints()[4].read_bytes() == before
    assert run.metrics() == trained().metrics()


# --- processes that are killed ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Run:
    return finished(stages.start(LONG, tmp_path_factory.mktemp("uninterrupted") / "run"))


def finished(run: Run) -> Run:
    """The same run at its end, evaluated, in this process."""
    assert loop.run_training(run, quiet=True).reason == "finished"
    evaluate(run)
    return run


def stopped(how: signal.Signals, rows: int, folder: Path, *args: str | Path) -> tuple[int, str, str]:
    """Start a training process and send it a signal once its metrics have this many rows."""
    process = start_python("-m", "wanderlust", "discover", *args, cwd=folder)
    metrics = folder / "run" / "metrics.jsonl"
    try:
        give_up = time.monotonic() + 60
        while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= rows):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < give_up
            time.sleep(0.002)
        process.send_signal(how)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, out, err


def test_killed_at_any_moment_then_interrupted_and_resumed(tmp_path, uninterrupted):
    (tmp_path / "config.json").write_text(to_json(LONG))
    first = random.randint(1, 20)
    second = first + random.randint(5, 20)
    print(f"killed after {first} rows and interrupted after {second}")
    assert stopped(signal.SIGKILL, first, tmp_path, "--config", "config.json", "--out", "run")[0] == -signal.SIGKILL
    run = Run.open(tmp_path / "run")
    assert not run.checkpoints() or max(run.checkpoints()) < LONG.schedule.epochs

    # Ctrl-C saves, and says how to go on
    code, out, err = stopped(signal.SIGINT, second, tmp_path, "--resume", "run")
    assert code == 130, err
    assert "Traceback" not in out + err
    epoch = max(run.checkpoints())
    assert 0 < epoch < LONG.schedule.epochs
    assert epoch % LONG.log_every == 0
    assert f"stopped at epoch {epoch} and saved; continue with: " in out
    assert out.endswith("wanderlust discover --resume run\n")
    assert run.metrics()[-1]["epoch"] == epoch
    assert_same_end(uninterrupted, finished(loop.resume(run.path)))
    # so that the evaluation is of the same learner, too
    a, b = (ArrayFile(r.evaluation / "rollouts.safetensors") for r in (uninterrupted, run))
    assert np.array_equal(a.read("position"), b.read("position"))


# --- beginning with what another run has learned ---------------------------------------------------------------------


def test_a_run_begins_with_the_networks_of_another_and_with_numbers_of_its_own(tmp_path):
    config = tiny_config(epochs=2, schedule_hold=3)
    run = stages.start(config, tmp_path / "run", trained().path)
    before, after = ArrayFile(trained().checkpoints()[4]), ArrayFile(run.checkpoints()[0])
    learner = [name for name in before.shapes() if name.startswith("learner")]
    assert len(learner) > 10
    for name in learner:
        assert before.read(name).tobytes() == after.read(name).tobytes(), f"{name} differs"
    assert before.read("replay/size").min() > 0 == after.read("replay/size").max()  # what it has seen it has forgotten
    facts = json.loads((run.path / "provenance.json").read_text())["began_with"]
    assert (facts["epoch"], facts["env_steps"]) == (4, trained().metrics()[-1]["env_steps"])
    stopped = loop.run_training(run, budget_seconds=1e-9, quiet=True)
    assert stopped.epoch == 2 and run.config.schedule.hold == 3
    third = stages.start(config, tmp_path / "third", run.path)
    last = json.loads((third.path / "provenance.json").read_text())["began_with"]
    assert (last["epoch"], last["began_with"]) == (2, facts)  # and what that one began with
    measured = evaluate(third, episodes=2)
    assert measured["env_steps_before"] == facts["env_steps"] + run.metrics()[-1]["env_steps"]
    alone = json.loads((trained().evaluation / "evaluation.json").read_text())
    assert (measured["env_steps"], alone["env_steps_before"]) == (0, 0)
    moved = ArrayFile(run.checkpoints()[2])
    assert any(moved.read(name).tobytes() != after.read(name).tobytes() for name in learner)


def test_a_run_begins_with_an_entry_of_the_zoo_and_its_policy_waits_for_the_critics(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDERLUST_ZOO", str(tmp_path / "zoo"))
    publish(trained(), "mine", zoo=tmp_path / "zoo")
    # two gradient steps an epoch: the first two epochs are the critics' alone
    config = tiny_config(method="lsd-o", epochs=4, sac_policy_after=4)
    run = stages.start(config, tmp_path / "run", "zoo:mine")
    before, first = ArrayFile(trained().checkpoints()[4]), ArrayFile(run.checkpoints()[0])
    policy = [name for name in first.shapes() if name.startswith("learner/sac/policy/")]
    phi = [name for name in first.shapes() if name.startswith("learner/method/encoder/")]
    assert len(policy) > 4 and len(phi) > 4
    for name in (*policy, *phi):  # stored in half precision
        np.testing.assert_allclose(first.read(name), before.read(name), atol=1e-3)
    critics = [name for name in first.shapes() if name.startswith("learner/sac/critics/")]
    assert any(np.abs(first.read(name) - before.read(name)).max() > 1e-3 for name in critics)
    assert json.loads((run.path / "provenance.json").read_text())["began_with"]["command"] == "zoo:mine"
    loop.run_training(run, quiet=True)
    second, last = (ArrayFile(run.checkpoints()[epoch]) for epoch in (2, 4))
    assert all(second.read(name).tobytes() == first.read(name).tobytes() for name in policy)
    assert any(second.read(name).tobytes() != first.read(name).tobytes() for name in critics)
    assert any(last.read(name).tobytes() != first.read(name).tobytes() for name in policy)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (tiny_config(seeds=2), "it has seeds 1 and not 2"),
        (tiny_config(method="diayn"), "it has method lsd and not diayn"),
        (tiny_config(method="lsd-xyo"), "it has method lsd and not lsd-xy;"),
        (tiny_config(sac_hidden=(5, 5)), r"--begin-with .* instead of \(1, 4, 5\)$"),  # and no word of deleting it
    ],
)
def test_what_was_learned_of_something_else_is_refused_before_anything_is_made(tmp_path, other, words):
    with pytest.raises(UserError, match=words):
        stages.start(other, tmp_path / "run", trained().path)
    assert not (tmp_path / "run").exists()


def test_a_run_that_cannot_be_given_its_beginning_is_not_made(tmp_path, monkeypatch):
    """It would go on from nothing, and nobody would know."""

    def full_disk(self, epoch, state):
        raise UserError("no space left")

    monkeypatch.setattr(Run, "save", full_disk)
    with pytest.raises(UserError, match="no space left"):
        stages.start(tiny_config(), tmp_path / "run", trained().path)
    assert not list(tmp_path.iterdir())
