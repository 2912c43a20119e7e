"""One writer per run folder, also when a lost machine's process lives on."""

import errno
import os
import threading

import jax.numpy as jnp
import pytest

from helpers import tiny_config
from trained import tree
from wanderlust.errors import UserError
from wanderlust.runs import writer
from wanderlust.runs.run import Run
from wanderlust.runs.writer import WRITER, TakenOverError

ROW = {"epoch": 2}


@pytest.fixture
def run(tmp_path):
    return Run.create(tmp_path / "run", tiny_config())


def test_a_writer_is_named_while_it_writes_and_not_afterwards(run):
    with run.lock():
        assert (run.path / WRITER).exists()
        with pytest.raises(UserError, match=rf"another process is training .* \(process {os.getpid()} on "), run.lock():
            pass
    assert not (run.path / WRITER).exists()


def test_only_the_same_claim_takes_a_folder_over(run):
    with run.lock("this sweep") as held:
        with pytest.raises(UserError, match="another process is training"), run.lock("another sweep"):
            pass
        held.log(ROW)


def test_the_heir_waits_until_the_one_before_has_let_go(run, monkeypatch):
    monkeypatch.setattr(writer, "WAIT", 0.001)
    inside, order = threading.Event(), []

    def inherit():
        with run.lock("sweep") as heir:
            order.append("heir")
            inside.set()
            heir.log(ROW)
            assert (run.path / WRITER).exists()

    with run.lock("sweep") as held:
        held.log({"epoch": 1})
        thread = threading.Thread(target=inherit)
        thread.start()
        while True:  # until the heir has put its own attempt there
            try:
                held.check_ours()
            except TakenOverError:
                break
        before = tree(run.path)
        for write in (lambda: held.log(ROW), lambda: held.save(2, {"x": jnp.zeros(2)}), lambda: held.rewind(0)):
            with pytest.raises(TakenOverError, match="another process has taken over"):
                write()
        assert tree(run.path) == before
        assert not inside.wait(0.05)
        order.append("before")
    thread.join(10)
    assert order == ["before", "heir"]
    assert [row["epoch"] for row in run.metrics()] == [1, 2]
    assert not (run.path / WRITER).exists()


def test_without_locks_the_name_in_the_folder_decides(run, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOTSUP, "no locks here")

    monkeypatch.setattr(writer.fcntl, "flock", no_locks)
    with run.lock("sweep") as lost:
        lost.log(ROW)
        with run.lock("sweep") as heir:
            with pytest.raises(TakenOverError):
                lost.log({"epoch": 4})
            heir.log({"epoch": 4})
    assert [row["epoch"] for row in run.metrics()] == [2, 4]


@pytest.fixture
def quick_beats(monkeypatch):
    monkeypatch.setattr(writer, "BEAT", 0.005)
    monkeypatch.setattr(writer, "STALE", 0.2)


@pytest.mark.parametrize("how", ["no locks", "another machine"])
def test_a_writer_whose_lock_is_not_seen_is_known_by_its_beats_until_it_crashes(
    run, monkeypatch, quick_beats, capsys, how
):
    """As on a shared folder: without locks, or with locks that each machine keeps to itself."""

    def not_seen(*_):
        if how == "no locks":
            raise OSError(errno.ENOTSUP, "no locks here")

    monkeypatch.setattr(writer.fcntl, "flock", not_seen)
    machines = iter(["one", "two", "two", "three", "three", "three", "three"])
    if how == "another machine":
        monkeypatch.setattr(writer, "_machine", lambda: next(machines))
    with run.lock() as held:
        with pytest.raises(UserError, match=rf"another process is training .* \(process {os.getpid()} on "), run.lock():
            pass
        assert "looking for 0 s whether it still is" in capsys.readouterr().err
        held.log(ROW)
        left = (run.path / WRITER).read_bytes()
    (run.path / WRITER).write_bytes(left)  # as a crash leaves it: nothing touches it any more
    with run.lock() as heir:
        heir.log({"epoch": 4})
        with pytest.raises(TakenOverError):
            held.log({"epoch": 6})
    assert [row["epoch"] for row in run.metrics()] == [2, 4]
    assert not [thread for thread in threading.enumerate() if thread.name == "writer"]


def test_after_a_crash_on_this_machine_nobody_waits(run, monkeypatch):
    with run.lock():
        left = (run.path / WRITER).read_bytes()
    (run.path / WRITER).write_bytes(left)
    monkeypatch.setattr(writer.time, "sleep", None)  # calling it is a TypeError
    with run.lock() as held:
        held.log(ROW)


def test_a_stage_stops_when_the_run_around_it_is_taken_over(run, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOTSUP, "no locks here")

    monkeypatch.setattr(writer.fcntl, "flock", no_locks)
    stage = Run.create(run.path / "explore", run.config)
    with run.lock("sweep") as held, Run(stage.path, stage.config, writer=held.writer).lock() as inner:
        inner.log(ROW)
        with run.lock("sweep"), pytest.raises(TakenOverError, match="taken over"):
            inner.log(ROW)
