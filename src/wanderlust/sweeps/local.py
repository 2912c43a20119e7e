"""Rows of a comparison, trained on this machine, all seeds in one program."""

import dataclasses
from pathlib import Path
from typing import Any

from wanderlust.config import RunConfig
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.methods import make_method
from wanderlust.methods.skills import make_skills
from wanderlust.runs.provenance import provenance
from wanderlust.runs.run import Run
from wanderlust.sweeps.tables import Facts, count
from wanderlust.train import stages


class TrainingError(UserError):
    """One row could not be trained; others may."""


@dataclasses.dataclass(frozen=True)
class Row:
    """Something to compare: skills that are trained, unless a subclass measures something else."""

    config: RunConfig
    about: Facts
    """What tells it from the other rows; a row in the results file must have the same."""

    @property
    def plan(self) -> str:
        """What getting its numbers takes, in a few words."""
        first = stages.earlier(self.config)
        epochs = self.config.schedule.epochs + (first.schedule.epochs if first else 0)
        return f"{count(self.config.seeds, 'seed')}, {count(epochs, 'epoch')}"

    def run(self, folder: Path) -> Run | None:
        """The run in a folder, if there is one; one of something else is refused."""
        run = Run.open(folder) if folder.exists() else None
        if run is not None and run.config != self.config:
            raise UserError(f"{folder} holds a run with another configuration; choose another --work folder")
        return run

    def measured(self, folder: Path, episodes: int, quiet: bool) -> Facts:
        """Its numbers, from the run in a folder, which is made, finished or only read."""
        run = self.run(folder) or stages.start(self.config, folder)
        _train(run, quiet)
        every = stages.runs(run)
        lasts = [one.metrics()[-1] for one in every]
        evaluation = evaluate(run, episodes, engine=run.config.engine)
        before = sum(int(last["env_steps"]) for last in lasts[:-1])
        updates = sum(one.config.schedule.epochs * one.config.schedule.sac_steps for one in every)
        trained: list[Any] = [last.get("train_seconds") for last in lasts]
        return {
            "epochs": sum(one.config.schedule.epochs for one in every),
            "env_steps_per_seed": before + evaluation["env_steps"],
            "updates_per_seed": {"sac": updates, "phi": sum(_phi_updates(one.config) for one in every)},
            "training_seconds": sum(last["seconds"] for last in lasts),
            # of all seeds together, physics included; compilation is not
            "training_seconds_per_1000_updates": None if None in trained else 1000 * sum(trained) / updates,
            "trained_at_commit": run.provenance().get("commit"),
            "measured": measured_where(run.config),
            "metrics": evaluation["metrics"],
        }


def _phi_updates(config: RunConfig) -> int:
    learns = make_method(config.method, make_skills(config.skills)).learns_network
    return config.schedule.epochs * config.schedule.method_steps if learns else 0


def measured_where(config: RunConfig) -> Facts:
    """By what command, code and machine a row was measured."""
    where = provenance(config)
    return {key: where[key] for key in ("command", "commit", "time", "device")}


def _train(run: Run, quiet: bool) -> None:
    """Train a run to its end, unless it is there. Of its checkpoints, which hold the replay, only the last is kept."""
    unfinished = max(run.checkpoints(), default=0) < run.config.schedule.epochs
    try:
        stopped = unfinished and stages.train_run(run, quiet=quiet).reason == "interrupted"
    except UserError as error:
        raise TrainingError(str(error)) from error
    if stopped:
        raise KeyboardInterrupt(f"stopped; the same command continues from the checkpoint in {run.path}")
    for one in stages.runs(run):
        for checkpoint in list(one.checkpoints().values())[:-1]:
            checkpoint.unlink()
