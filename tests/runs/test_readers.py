"""Whoever reads a run that is training does not disturb it, and is not disturbed by it."""

import pytest

from helpers import tiny_config
from trained import trained, tree
from wanderlust import train
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.report.comparison import markdown, read_record
from wanderlust.runs.files import ArrayFile
from wanderlust.runs.loading import load
from wanderlust.runs.run import Run
from wanderlust.sweeps.standing import standing
from wanderlust.train import loop
from wanderlust.train.journal import Journal


def test_readers_of_a_run_that_is_training_leave_it_as_it_is(tmp_path, monkeypatch):
    whole, run, keep, seen = trained(), Run.create(tmp_path / "run", tiny_config()), Journal.keep, []

    def of_training():
        return {name: data for name, data in tree(run.path).items() if not name.startswith("evaluation/")}

    def kept(self, row, *args, **options):
        keep(self, row, *args, **options)
        before, opened = of_training(), Run.open(run.path)
        assert evaluate(opened, episodes=20)["epoch"] == row["epoch"]
        assert load(opened).sample(1).shape == (1, 2)
        assert f"epoch {row['epoch']} of 4" in markdown([read_record(opened, "one")]) or row["epoch"] == 4
        assert standing(opened).epoch == row["epoch"]
        assert of_training() == before
        seen.append(row["epoch"])

    monkeypatch.setattr(Journal, "keep", kept)
    assert loop.run_training(run, quiet=True).reason == "finished"
    assert seen == [2, 4]
    ours, theirs = (ArrayFile(one.checkpoints()[4]) for one in (run, whole))
    assert all(ours.read(name).tobytes() == theirs.read(name).tobytes() for name in theirs.shapes())


def test_a_checkpoint_that_gives_way_while_it_is_read_is_no_error(monkeypatch):
    run, real, seen = trained(), Run.checkpoints, []

    def late(self):
        seen.append(1)
        gone = {6: self.path / "checkpoints" / "epoch-00000006.safetensors"}
        return {**real(self), **(gone if len(seen) == 1 else {})}

    monkeypatch.setattr(Run, "checkpoints", late)
    form = train.saved_form(train.assemble(run.config)).learner
    assert run.load(form, part="learner")[0] == 4 and len(seen) == 2
    seen.clear()
    monkeypatch.setattr(Run, "checkpoints", lambda self: seen.clear() or late(self))
    with pytest.raises(Exception, match="there is no file"):  # which stays away
        run.load(form, part="learner")
