"""A short form of `benchmarks/soak.py`: a run that ends at any call that writes goes on to the same end.

In this process, so that it takes no second: from the call on nothing is written any more, as after a kill. That of a
process that was really killed is `train/test_resume.py`.
"""

import contextlib
import os
from pathlib import Path

import pytest

from helpers import tiny_config
from trained import trained
from wanderlust.runs.files import ArrayFile
from wanderlust.runs.run import Run
from wanderlust.train import loop

CALLS = ("fsync", "replace", "unlink", "rename", "truncate")


class Ended(BaseException):
    """The process is gone."""


def train_until(run: Run, at: int | None) -> int:
    """Train, and end at so many calls that write; how many there were."""
    seen, opened = 0, []

    def watched(real):
        def call(*args, **options):
            nonlocal seen
            seen += 1
            if at is not None and seen >= at:
                raise Ended
            return real(*args, **options)

        return call

    def remembered(*args, **options):
        opened.append(open_(*args, **options))
        return opened[-1]

    open_ = os.open
    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, watched(getattr(os, name)))
        patch.setattr(os, "open", remembered)
        with contextlib.suppress(Ended):
            loop.run_training(run, quiet=True)
    for handle in opened:  # a process that is gone holds no lock
        with contextlib.suppress(OSError):
            if str(Path(f"/proc/self/fd/{handle}").readlink()) == str(run.path):
                os.close(handle)
    return seen


def test_a_run_that_ends_at_any_call_that_writes_goes_on_to_the_same_end(tmp_path):
    whole = trained()
    theirs = ArrayFile(whole.checkpoints()[4])
    calls = train_until(Run.create(tmp_path / "count", tiny_config()), None)
    assert calls > 10
    for at in range(1, calls + 1, 2):
        run = Run.create(tmp_path / f"run-{at}", tiny_config())
        train_until(run, at)
        assert loop.run_training(Run.open(run.path), quiet=True).epoch == 4
        ours = ArrayFile(run.checkpoints()[4])
        assert ours.shapes() == theirs.shapes()
        assert all(ours.read(name).tobytes() == theirs.read(name).tobytes() for name in theirs.shapes()), at
        assert [row["epoch"] for row in run.metrics()] == [2, 4]
        assert not [path for path in run.path.rglob("*.tmp") if path.parent.name != "evaluation"]
