"""Real file systems that are small, full or read-only, and power cuts: training goes on, and nothing is lost."""

import ctypes
import os
import threading
from pathlib import Path

import pytest

from helpers import tiny_config
from trained import copy_of, trained, tree
from wanderlust import train
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.runs.files import ArrayFile
from wanderlust.runs.run import Run
from wanderlust.train import loop
from wanderlust.train.journal import Journal

NEW_NAMESPACE, RECURSIVE, PRIVATE, REMOUNT, READ_ONLY = 0x20000, 0x4000, 0x40000, 0x20, 0x1


class Disk:
    """A file system in memory of a size of its own."""

    def __init__(self, path: Path, libc: ctypes.CDLL) -> None:
        self.path, self._libc = path, libc

    def size(self, bytes_: int, flags: int = 0) -> None:
        """Make it this large; `flags` may have it read-only."""
        where, how = os.fsencode(self.path), f"size={bytes_}".encode()
        flags |= REMOUNT if self.path.is_mount() else 0
        if self._libc.mount(b"tmpfs", where, b"tmpfs", flags, how) != 0:
            raise OSError(ctypes.get_errno(), "mount")

    def fill(self, left: int) -> Path:
        """Take all room but this much."""
        there = os.statvfs(self.path)
        file = self.path / "filling"
        file.write_bytes(bytes(there.f_bavail * there.f_frsize - left))
        return file


@pytest.fixture
def on_disk(tmp_path):
    """Calls a test on a disk that only it can see: on a thread with mounts of its own, which go when it ends."""

    def run(body) -> None:
        caught: list[BaseException] = []

        def thread() -> None:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.unshare(NEW_NAMESPACE) or libc.mount(None, b"/", None, RECURSIVE | PRIVATE, None):
                caught.append(pytest.skip.Exception("mounting is not permitted here"))
                return
            try:
                disk = Disk(tmp_path / "disk", libc)
                disk.path.mkdir()
                disk.size(2**24)
                body(disk)
            except BaseException as error:
                caught.append(error)

        worker = threading.Thread(target=thread)
        worker.start()
        worker.join()
        if caught:
            raise caught[0]

    return run


def ends(run: Run) -> dict[str, bytes]:
    file = ArrayFile(run.checkpoints()[4])
    return {name: file.read(name).tobytes() for name in file.shapes()}


def timeless(run: Run) -> list[dict]:
    return [{k: v for k, v in row.items() if k not in ("seconds", "train_seconds")} for row in run.metrics()]


@pytest.mark.parametrize("left", [0, 8192], ids=["the log", "the checkpoint"])
def test_training_goes_on_on_a_full_disk_and_loses_nothing(on_disk, monkeypatch, capsys, left):
    other = trained()

    def body(disk: Disk) -> None:
        run, keep, filling = Run.create(disk.path / "run", tiny_config()), Journal.keep, []

        def kept(self, row, *args, **options):
            if row["epoch"] == 2:
                filling.append(disk.fill(left))
            else:
                assert not run.checkpoints()  # that of epoch 2 was not to be had
                filling[0].unlink()
            keep(self, row, *args, **options)

        monkeypatch.setattr(Journal, "keep", kept)
        assert loop.run_training(run).reason == "finished"
        assert ends(run) == ends(other)
        assert timeless(run) == timeless(other)
        err = capsys.readouterr().err
        assert err.count("no space left on the disk of") == 1
        assert "training goes on meanwhile" in err
        assert "can be written to again: nothing of it is lost" in err
        assert not [path for path in run.path.rglob("*") if path.name.endswith(".tmp")]

    on_disk(body)


def test_a_disk_that_stays_full_costs_one_line_and_what_came_after_the_last_checkpoint(on_disk):
    whole = trained()

    def body(disk: Disk) -> None:
        run = copy_of(whole, disk.path / "run")
        run.checkpoints()[4].unlink()
        filling = disk.fill(8192)
        with pytest.raises(UserError, match=r"no space left on the disk of .*; free some and run again"):
            loop.run_training(run, quiet=True)
        assert list(run.checkpoints()) == [2]
        filling.unlink()
        assert loop.run_training(run, quiet=True).epoch == 4
        assert ends(run) == ends(whole)

    on_disk(body)


def test_an_evaluation_that_finds_no_room_leaves_the_one_before(on_disk):
    whole = trained()

    def body(disk: Disk) -> None:
        run = copy_of(whole, disk.path / "run")
        before = tree(run.evaluation)
        filling = disk.fill(0)
        with pytest.raises(UserError, match=r"no space left on the disk of .*evaluation"):
            evaluate(run, episodes=20, seed=1)
        assert tree(run.evaluation) == before
        filling.unlink()
        evaluate(run, episodes=20, seed=1)

    on_disk(body)


def test_a_run_on_a_read_only_disk_is_read_and_what_would_write_says_so(on_disk):
    whole = trained()

    def body(disk: Disk) -> None:
        run = copy_of(whole, disk.path / "run")
        unfinished = copy_of(whole, disk.path / "unfinished")
        unfinished.checkpoints()[4].unlink()
        before = tree(disk.path)
        disk.size(2**24, READ_ONLY)
        opened = Run.open(run.path)
        assert opened.load(train.saved_form(train.assemble(run.config)))[0] == 4 and len(opened.metrics()) == 2
        for write in (
            lambda: loop.run_training(unfinished, quiet=True),
            lambda: evaluate(run, episodes=2),
            lambda: Run.create(disk.path / "new", run.config),
        ):
            with pytest.raises(UserError, match=r"cannot write to .*: Read-only file system"):
                write()
        assert tree(disk.path) == before

    on_disk(body)


def test_after_a_power_cut_anywhere_in_the_newest_checkpoint_the_one_before_is_used_and_it_is_said(tmp_path, capsys):
    run = copy_of(trained(), tmp_path / "run")
    newest = run.checkpoints()[4]
    whole, form = newest.read_bytes(), train.saved_form(train.assemble(run.config))
    cuts = range(0, len(whole), 1024)
    assert len(cuts) > 20
    for cut in cuts:
        for left in (whole[:cut], whole[:cut] + bytes(len(whole) - cut)):  # or its size alone is on the disk
            newest.write_bytes(left)
            epoch, said = run.load(form)[0], capsys.readouterr().err
            if left == whole:
                assert (epoch, said) == (4, "")
            else:
                assert epoch == 2 and said.count("\n") == 1
                assert "the checkpoint before it is used, of epoch 2" in said
