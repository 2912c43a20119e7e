"""A run on disk: what is in its folder, that writes are whole or not there, and what broken files lead to."""

import errno
import json
import os
import platform
import re
import shutil
import subprocess
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from helpers import tiny_config
from trained import copy_of, run_python, trained, tree
from wanderlust import train
from wanderlust.config import RunConfig, from_json, to_json
from wanderlust.errors import UserError
from wanderlust.runs import provenance
from wanderlust.runs.checkpoints import FORMAT
from wanderlust.runs.files import ArrayFile, append_line, write_arrays, write_atomic, write_json
from wanderlust.runs.loading import load
from wanderlust.runs.run import Run
from wanderlust.train import loop


def one_line(call, *args, **options) -> str:
    """The one line with which something is refused."""
    with pytest.raises(UserError) as caught:
        call(*args, **options)
    assert str(caught.value).strip()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- one process at a time ---


def test_a_run_is_trained_by_one_process_at_a_time(tmp_path):
    run = copy_of(trained(), tmp_path / "run")
    with run.lock():
        assert "another process is training" in one_line(loop.run_training, run, quiet=True)
    loop.run_training(run, quiet=True)  # and is free again afterwards


# --- what a run leaves ------------------------------------------------------------------------------------------


def test_the_folder_of_a_run():
    run = trained()
    assert sorted(tree(run.path)) == [
        "checkpoints/",
        "checkpoints/epoch-00000002.safetensors",
        "checkpoints/epoch-00000004.safetensors",
        "config.json",
        "evaluation/",
        "evaluation/evaluation.json",
        "evaluation/rollouts.safetensors",
        "metrics.jsonl",
        "provenance.json",
    ]
    assert from_json(RunConfig, (run.path / "config.json").read_text(), "") == run.config == tiny_config()
    assert Run.open(run.path) == run
    assert Run.open(str(run.path)).path == run.path


def test_a_commit_is_marked_if_anything_in_the_package_was_changed_since(tmp_path, monkeypatch):
    monkeypatch.delenv("WANDERLUST_COMMIT", raising=False)
    package = tmp_path / "src" / "wanderlust"
    there, other = package / "runs" / "provenance.py", package / "methods" / "own.py"
    for file, text in ((there, Path(provenance.__file__).read_text()), (other, "x = 1\n")):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(provenance, "__file__", str(there))
    clean = provenance.commit()
    assert clean is not None and re.fullmatch("[0-9a-f]{40}", clean)
    (tmp_path / "notes.txt").write_text("not of the package")
    assert provenance.commit() == clean
    other.write_text("x = 2\n")
    assert provenance.commit() == f"{clean}+"


def test_provenance_says_where_and_with_what():
    record = json.loads((trained().path / "provenance.json").read_text())
    assert record["versions"]["python"] == platform.python_version()
    assert record["versions"]["jax"] == jax.__version__
    assert set(record["versions"]) >= {"wanderlust", "jax", "jaxlib", "equinox", "optax", "numpy"}
    assert record["device"]["platform"] == "cpu"
    assert record["device"]["kind"]
    assert record["device"]["cpu_cores"] == os.cpu_count()
    assert record["precision"]["arrays"] == "float32"
    assert record["command"]
    assert record["driver"] == "fused"
    assert time.strptime(record["time"], "%Y-%m-%dT%H:%M:%SZ")
    assert "commit" in record
    if (Path(__file__).parents[2] / ".git").exists() and shutil.which("git"):
        assert len(record["commit"].removesuffix("+")) == 40


def test_metrics_have_a_row_per_chunk_and_a_value_per_seed():
    run = trained(seeds=3)
    rows = run.metrics()
    assert [row["epoch"] for row in rows] == [2, 4]
    assert [row["env_steps"] for row in rows] == [2 * 4 * 5, 4 * 4 * 5]
    for row in rows:
        names = {"reward", "coverage", "critic_loss", "q", "entropy", "alpha", "phi_loss", "steps"}
        assert set(row) == names | {"epoch", "env_steps", "seconds", "train_seconds"}
        assert all(len(row[name]) == 3 and np.all(np.isfinite(row[name])) for name in names)
        assert len(set(row["reward"])) == 3  # seeds differ
    assert 0 <= rows[0]["seconds"] <= rows[1]["seconds"]


def test_a_checkpoint_holds_the_whole_state_and_comes_back_bit_by_bit(tmp_path):
    run = Run.create(tmp_path / "run", tiny_config(seeds=3))
    skeleton = train.saved_form(train.assemble(run.config))
    epoch, state = trained(seeds=3).load(skeleton)
    assert epoch == 4
    run.save(7, state)
    epoch, again = run.load(skeleton)
    assert epoch == 7
    assert jax.tree.structure(again) == jax.tree.structure(state) == jax.tree.structure(skeleton)
    for before, after in zip(jax.tree.leaves(state), jax.tree.leaves(again), strict=True):
        if jnp.issubdtype(before.dtype, jax.dtypes.prng_key):
            before, after = jax.random.key_data(before), jax.random.key_data(after)
        assert before.dtype == after.dtype
        assert np.asarray(before).tobytes() == np.asarray(after).tobytes()
    # a part of it is the same as that part of the whole
    _, learner = run.load(skeleton.learner, part="learner")
    assert all(map(np.array_equal, jax.tree.leaves(learner), jax.tree.leaves(state.learner)))


def test_two_checkpoints_are_kept(tmp_path):
    run = Run.create(tmp_path / "run", tiny_config())
    for epoch in (2, 4, 6, 8, 100_000_000):
        run.save(epoch, {"x": jnp.arange(3.0)})
    assert list(run.checkpoints()) == [8, 100_000_000]
    assert len(list((run.path / "checkpoints").iterdir())) == 2
    assert run.load({"x": jax.ShapeDtypeStruct((3,), jnp.float32)})[0] == 100_000_000


def test_rewinding_forgets_later_rows_and_half_a_line(tmp_path):
    run = copy_of(trained(), tmp_path / "run")
    with open(run.path / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 6, "env_st')
    assert [row["epoch"] for row in run.metrics()] == [2, 4]
    run.rewind(2)
    assert (run.path / "metrics.jsonl").read_text().count("\n") == 1
    run.log({"epoch": 4})
    assert [row["epoch"] for row in run.metrics()] == [2, 4]


# --- writes that fail -------------------------------------------------------------------------------------------


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("before", [None, b"what was there"])
@pytest.mark.parametrize("where", ["fsync", "replace", "fdopen"])
def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch, where, before):
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(before)
    files = tree(tmp_path)
    monkeypatch.setattr(os, where, full_disk)
    message = one_line(write_atomic, path, b"x" * 2_000_000)
    monkeypatch.undo()
    assert "no space left" in message
    assert str(path) in message
    assert "2.0 MB" in message
    assert tree(tmp_path) == files


def test_a_full_disk_while_saving_keeps_the_checkpoints_there_are(tmp_path, monkeypatch):
    run = copy_of(trained(), tmp_path / "run")
    files = tree(run.path)
    monkeypatch.setattr(os, "fsync", full_disk)
    message = one_line(run.save, 6, {"x": jnp.zeros(3)})
    assert "no space left" in message
    assert "epoch-00000006.safetensors" in message
    assert tree(run.path) == files


def test_a_full_disk_leaves_no_run_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", full_disk)
    assert "no space left" in one_line(Run.create, tmp_path / "run", tiny_config())
    assert tree(tmp_path) == {}


def test_a_line_that_does_not_fit_is_taken_back(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    append_line(path, "first")

    class Full:
        """A file on a disk that fills up in the middle of a line."""

        def __init__(self, file):
            self.file = file

        def write(self, data):
            self.file.write(data[: len(data) // 2])
            self.file.flush()
            full_disk()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def __getattr__(self, name):
            return getattr(self.file, name)

    monkeypatch.setattr("builtins.open", lambda *a, **k: Full(Path(a[0]).open(a[1])))  # noqa: SIM115
    message = one_line(append_line, path, "second")
    monkeypatch.undo()
    assert "no space left" in message
    assert path.read_text() == "first\n"


def test_another_error_of_the_disk_is_named(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    assert one_line(write_atomic, tmp_path / "file", "x") == f"cannot write to {tmp_path / 'file'}: Input/output error"
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_ctrl_c_in_the_middle_of_a_write_leaves_the_old_file(tmp_path, monkeypatch, moment):
    write_atomic(tmp_path / "file", "old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, moment, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "file", "new")
    assert tree(tmp_path) == {"file": b"old"}


def test_a_kill_in_the_middle_of_a_save_leaves_the_checkpoints_there_are(tmp_path):
    run = copy_of(trained(), tmp_path / "run")
    files = tree(run.path)
    program = """
import os, signal, sys
import jax.numpy as jnp
from wanderlust.runs.run import Run
run = Run.open(sys.argv[1])
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
run.save(6, {"x": jnp.zeros(3)})
"""
    code, _, _ = run_python("-c", program, run.path, cwd=tmp_path)
    assert code == -9
    assert list(run.checkpoints()) == [2, 4]
    assert {name: data for name, data in tree(run.path).items() if not name.endswith(".tmp")} == files
    # what the kill left does not stay for ever, and does not stand in the way
    with run.lock():
        run.save(6, {"x": jnp.zeros(3)})
    assert list(run.checkpoints()) == [4, 6]
    assert [name for name in tree(run.path) if name.endswith(".tmp")] == []


def test_json_on_disk_has_no_nan(tmp_path):
    write_json(tmp_path / "a.json", {"a": float("nan"), "b": [np.float32("inf"), 1.5], "c": np.int64(3)})
    text = (tmp_path / "a.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"a": None, "b": [None, 1.5], "c": 3}


# --- folders ----------------------------------------------------------------------------------------------------


def test_an_existing_folder_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    files = tree(tmp_path)
    for name in ("empty", "file"):
        message = one_line(Run.create, tmp_path / name, tiny_config())
        assert f"{tmp_path / name} already exists" in message
    assert tree(tmp_path) == files


def test_folders_above_a_run_are_made(tmp_path):
    run = Run.create(tmp_path / "a" / "b", tiny_config())
    assert sorted(tree(tmp_path)) == ["a/", "a/b/", "a/b/config.json", "a/b/provenance.json"]
    assert run.path.stat().st_mode & 0o777 == 0o755


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    files = tree(tmp_path)
    for path in (tmp_path / "file" / "run", tmp_path / "file" / "a" / "run", tmp_path / ("x" * 300)):
        assert str(path) in one_line(Run.create, path, tiny_config())
    assert "nowhere" in one_line(Run.create, tmp_path / "nowhere", tiny_config())
    assert tree(tmp_path) == files


def test_what_is_no_run_is_refused(tmp_path):
    assert str(tmp_path / "no") in one_line(Run.open, tmp_path / "no")
    assert str(tmp_path / "config.json") in one_line(Run.open, tmp_path)
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    assert str(tmp_path / "config.json") in one_line(Run.open, tmp_path)
    (tmp_path / "config.json").write_text("{")
    assert str(tmp_path / "config.json") in one_line(Run.open, tmp_path)
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").mkdir()
    assert str(tmp_path / "config.json") in one_line(Run.open, tmp_path)


# --- broken checkpoints -----------------------------------------------------------------------------------------


def flipped(data: bytes) -> bytes:
    """One bit of the arrays changed; the header is whole."""
    at = len(data) - 100
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def foreign_safetensors(data: bytes) -> bytes:
    return safetensors.numpy.save({"x": np.zeros(3, np.float32)})


def strange_checksums(data: bytes) -> bytes:
    about = {"format": FORMAT, "epoch": "4", "crc32": "[1]"}
    return safetensors.numpy.save(safetensors.numpy.load(data), about)


BREAKAGES = {
    "flipped bit": flipped,
    "header": lambda data: data[:20] + b"\x00" + data[21:],
    "truncated": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "empty": lambda data: b"",
    "text": lambda data: b"this is no checkpoint\n" * 50,
    "zeros": lambda data: bytes(len(data)),
    "another safetensors file": foreign_safetensors,
    "strange checksums": strange_checksums,
    "huge header": lambda data: (2**62).to_bytes(8, "little") + data[8:],
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_broken_checkpoint_is_one_line_that_names_it(tmp_path, breakage, capsys):
    run = copy_of(trained(), tmp_path / "run")
    newest = run.checkpoints()[4]
    newest.write_bytes(BREAKAGES[breakage](newest.read_bytes()))
    skeleton = train.saved_form(train.assemble(run.config))
    assert run.load(skeleton)[0] == 2
    said = capsys.readouterr().err
    assert str(newest) in said
    assert said.endswith("the checkpoint before it is used, of epoch 2\n")
    run.checkpoints()[2].unlink()
    assert str(newest) in one_line(run.load, skeleton)


def test_a_folder_in_the_place_of_a_checkpoint_is_one_line(tmp_path):
    run = copy_of(trained(), tmp_path / "run")
    for path in run.checkpoints().values():
        path.unlink()
    (run.path / "checkpoints" / "epoch-00000004.safetensors").mkdir()
    assert "epoch-00000004.safetensors" in one_line(load, run)


def test_a_checkpoint_under_another_name_is_refused(tmp_path):
    run = copy_of(trained(), tmp_path / "run")
    run.checkpoints()[4].rename(run.path / "checkpoints" / "epoch-00000003.safetensors")
    assert "epoch-00000003.safetensors" in one_line(load, run)


def test_a_checkpoint_of_another_format_is_refused(tmp_path):
    run = copy_of(trained(), tmp_path / "run")
    file = ArrayFile(run.checkpoints()[4])
    arrays = {name: file.read(name) for name in file.shapes()}
    write_arrays(run.checkpoints()[4], arrays, {"format": "wanderlust-checkpoint-99", "epoch": "4"})
    assert "epoch-00000004.safetensors" in one_line(load, run)


def test_arrays_of_another_type_are_refused(tmp_path):
    run = copy_of(trained(), tmp_path / "run")
    file = ArrayFile(run.checkpoints()[4])
    arrays = {name: file.read(name) for name in file.shapes()}
    weight = "learner/sac/policy/mlp/layers/0/weight"
    arrays[weight] = arrays[weight].astype(np.float64)
    write_arrays(run.checkpoints()[4], arrays, file.about)
    message = one_line(load, run)
    assert "epoch-00000004.safetensors" in message
    assert weight in message


@pytest.mark.parametrize(
    "other",
    [tiny_config(sac_hidden=(8, 8)), tiny_config(discrete=4), tiny_config(seeds=2), tiny_config("diayn")],
    ids=["width", "skills", "seeds", "method"],
)
def test_the_checkpoint_of_another_configuration_is_refused(tmp_path, other):
    run = Run.create(tmp_path / "run", other)
    shutil.copytree(trained().path / "checkpoints", run.path / "checkpoints")
    skeleton = train.saved_form(train.assemble(other))
    message = one_line(run.load, skeleton)
    assert str(run.checkpoints()[4]) in message
    assert "does not fit the run's configuration" in message
    assert str(run.checkpoints()[4]) in one_line(load, run)


def test_a_run_without_a_checkpoint_says_what_to_do(tmp_path):
    run = Run.create(tmp_path / "run", tiny_config())
    assert f"{run.path} has no checkpoint yet" in one_line(load, run)
    assert f"--resume {run.path}" in one_line(load, run)


def test_sizes_are_compared_before_anything_is_allocated(tmp_path):
    """Networks of 10^14 weights against a small file: refused at once, not after filling the memory."""
    run = copy_of(trained(), tmp_path / "run")
    data = json.loads(to_json(run.config))
    data["sac"]["hidden"] = data["method"]["hidden"] = [10**7, 10**7]
    (run.path / "config.json").write_text(json.dumps(data))
    began = time.monotonic()
    assert "does not fit the run's configuration" in one_line(load, run.path)
    assert time.monotonic() - began < 5
    assert "does not fit the run's configuration" in one_line(loop.run_training, Run.open(run.path), quiet=True)


# --- broken metrics ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe\x00", b"5\n", b'{"epoch": 2}\n'])
def test_lost_or_broken_metrics_do_not_end_in_a_traceback(tmp_path, content):
    """They are not needed to go on: a resumed run goes on without them, or refuses in one line that names them."""
    run = copy_of(trained(), tmp_path / "run")
    metrics = run.path / "metrics.jsonl"
    metrics.unlink()
    if content is not None:
        metrics.write_bytes(content)
    try:
        assert loop.run_training(run, quiet=True).epoch == 4
    except UserError as error:
        assert str(metrics) in str(error)
