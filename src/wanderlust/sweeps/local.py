"""Rows that are trained on this machine, all seeds in one program."""

import dataclasses
from pathlib import Path
from typing import Any

from wanderlust.config import RunConfig, SkillConfig, with_changes
from wanderlust.envs import devices
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.methods import make_method
from wanderlust.methods.skills import make_skills
from wanderlust.recipes import get_recipe
from wanderlust.runs.provenance import provenance
from wanderlust.runs.run import Run
from wanderlust.sweeps.grid import TrainingError
from wanderlust.sweeps.tables import Facts, count
from wanderlust.train import loop, stages


@dataclasses.dataclass(frozen=True)
class Trained:
    """A row that is trained."""

    config: RunConfig
    about: Facts

    @property
    def plan(self) -> str:
        first = stages.earlier(self.config)
        epochs = self.config.schedule.epochs + (first.schedule.epochs if first else 0)
        return f"{count(self.config.seeds, 'seed')}, {count(epochs, 'epoch')}"

    def check(self, folder: Path) -> None:
        if folder.exists():
            _found(self.config, folder)

    def measured(self, folder: Path, episodes: int, quiet: bool) -> Facts:
        run = _opened(self.config, folder)
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
            "trained_at_commit": run.commit(),
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


def shared_config(
    method: str,
    env: str,
    recipe: str,
    skills: SkillConfig,
    seeds: int,
    budget_steps: int | None,
    changes: tuple[str, ...],
) -> RunConfig:
    """What all rows have in common; its method is only the first of them."""
    if budget_steps is not None and budget_steps < 1:
        raise UserError(f"--budget-steps is {budget_steps}; it must be at least 1")
    changed = {change.partition("=")[0] for change in changes}
    config = dataclasses.replace(get_recipe(recipe, env, method, skills), seeds=seeds)
    config = with_changes(config, changes)
    if budget_steps is not None:
        epochs = -(-budget_steps // config.schedule.collection)
        config = dataclasses.replace(config, schedule=dataclasses.replace(config.schedule, epochs=epochs))
    devices.prepare(config.seeds)
    if "engine" not in changed and loop.needs_gpu(config):
        advice = "use --recipe laptop, or add --set engine=c, which is slow"
        raise UserError(f"--recipe {recipe} needs a GPU, and JAX sees none; {advice}")
    return loop.resolve_engine(config, driver_follows="driver" not in changed)


def _opened(config: RunConfig, path: Path) -> Run:
    """The run of a row, made or found."""
    return _found(config, path) if path.exists() else stages.start(config, path)


def _found(config: RunConfig, path: Path) -> Run:
    run = Run.open(path)
    if run.config != config:
        raise UserError(f"{path} holds a run with another configuration; choose another --work folder")
    return run


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
