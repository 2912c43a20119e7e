"""Rows of a comparison, trained one after the other or side by side, all seeds in one program, and measured.

The results file grows by one row at a time: a command that was stopped, called again, trains what is not in it yet.
What the rows are, and what is shown of them, is each study's own.
"""

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from wanderlust.config import RunConfig, flat
from wanderlust.envs.devices import cores
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.methods import make_method
from wanderlust.methods.skills import make_skills
from wanderlust.report.terminal import Terminal
from wanderlust.runs.files import check_writable, read_text, write_json
from wanderlust.runs.metrics import Counts
from wanderlust.runs.provenance import provenance
from wanderlust.runs.run import Run
from wanderlust.sweeps import sweep
from wanderlust.sweeps.attempt import keep_last
from wanderlust.sweeps.local import Processes
from wanderlust.sweeps.plan import Combination, Item, Plan
from wanderlust.sweeps.standing import opened, standing
from wanderlust.sweeps.table import shown
from wanderlust.sweeps.tables import JsonObject, Study, count, markdown, number, write_table_and_figures
from wanderlust.train import stages

EPISODES = 200
"""Random skills per seed behind a coverage."""


class TrainingError(UserError):
    """One row could not be trained; others may."""


@dataclasses.dataclass(frozen=True)
class Row:
    """Something to compare: skills that are trained, unless a subclass measures something else."""

    config: RunConfig
    about: JsonObject
    """What tells it from the other rows; a row in the results file must have the same."""
    trains: ClassVar[bool] = True
    """Whether getting its numbers takes the training of a run of its own."""

    @property
    def plan(self) -> str:
        """What getting its numbers takes, in a few words."""
        first = stages.earlier(self.config)
        epochs = self.config.schedule.epochs + (first.schedule.epochs if first else 0)
        return f"{count(self.config.seeds, 'seed')}, {count(epochs, 'epoch')}"

    def headline(self, measured: JsonObject) -> str:
        """Its most telling number, in a few words."""
        return f"covers {number(measured, 'coverage_mode')} bins"

    def run(self, folder: Path) -> Run | None:
        """The run in a folder, if there is one; one of something else is refused."""
        return opened(folder, self.config)

    def measured(self, folder: Path, episodes: int, quiet: bool) -> JsonObject:
        """Its numbers, from the run in a folder, which is made, finished or only read."""
        run = self.run(folder) or stages.start(self.config, folder)
        train_to_end(run, quiet)
        every = stages.runs(run)
        counts = [one.counts(max(one.checkpoints())) or Counts() for one in every]
        evaluation = evaluate(run, episodes, engine=run.config.engine)
        before = sum(count.env_steps for count in counts[:-1])
        updates = sum(one.config.schedule.epochs * one.config.schedule.sac_steps for one in every)
        trained = [count.train_seconds for count in counts]
        return {
            "epochs": sum(one.config.schedule.epochs for one in every),
            "env_steps_per_seed": before + evaluation["env_steps"],
            "updates_per_seed": {"sac": updates, "phi": sum(_phi_updates(one.config) for one in every)},
            "training_seconds": sum(count.seconds for count in counts),
            # of all seeds together, physics included; compilation is not
            "training_seconds_per_1000_updates": 1000 * sum(trained) / updates,
            "trained_at_commit": run.provenance().get("commit"),
            "measured": measured_where(run.config),
            "metrics": evaluation["metrics"],
        }


def _phi_updates(config: RunConfig) -> int:
    learns = make_method(config.method, make_skills(config.skills)).learns_network
    return config.schedule.epochs * config.schedule.method_steps if learns else 0


def measured_where(config: RunConfig) -> JsonObject:
    """By what command, code and machine a row was measured."""
    where = provenance(config)
    return {key: where[key] for key in ("command", "commit", "time", "device")}


def train_to_end(run: Run, quiet: bool) -> None:
    """Train a run to its end, unless it is there. Of its checkpoints, which hold the replay, only the last is kept."""
    try:
        stopped = standing(run).trains and stages.train_run(run, quiet=quiet).reason == "interrupted"
    except UserError as error:
        raise TrainingError(str(error)) from error
    if stopped:
        raise KeyboardInterrupt(f"stopped; the same command continues from the checkpoint in {run.path}")
    keep_last(run)


def train_side_by_side(runs: Mapping[str, RunConfig], work: Path, workers: int, quiet: bool) -> None:
    """Train several runs at a time, each in a process of its own, by the rules of a sweep.

    What fails is left to be tried once more, and reported, by whoever measures the runs.
    """
    items = tuple(Item(name, Combination(config.env.name, name), config, work / name) for name, config in runs.items())
    each = max(1, cores() // workers)
    plan = Plan(work, items, {}, retries=0, cores_per_run=each, episodes=EPISODES)
    place = Processes(work / "logs", each, workers)
    with shown(plan, place.size, quiet) as watch:
        ended = sweep.carry_out(plan, place, watch)
    if any(entry.state == sweep.STOPPED for entry in ended):
        raise KeyboardInterrupt("stopped; the same command continues")


def carry_out(
    study: Study,
    rows: Mapping[str, Row],
    shared: RunConfig,
    work: Path,
    quiet: bool,
    config: JsonObject | None = None,
    workers: int = 1,
) -> tuple[JsonObject, str]:
    """Train and measure the rows that the results lack; return the results, and as a table.

    Runs go under `work`. A row whose training fails is named and left out; the next call tries it again. `config` is
    what the results are of, if that is not the configuration of a run that all rows share. With several `workers` the
    rows that are missing are trained side by side first.
    """
    config = _plain(config or dataclasses.asdict(shared))
    say = Terminal(file=sys.stderr, quiet=quiet).print
    path, failed = study.path(".json"), {}
    results = _results_so_far(study, shared, config)
    for name, row in rows.items():  # all that can be refused is, before hours are spent on the first
        if name not in results[study.rows_are]:
            row.run(work / name)
        else:
            _refuse_other(f"{path} has {name}", _plain(row.about), results[study.rows_are][name])
    check_writable(study.out)
    lacking = {name: row.config for name, row in rows.items() if row.trains and name not in results[study.rows_are]}
    if workers > 1 and lacking:
        train_side_by_side(lacking, work, workers, quiet)
    for n, (name, row) in enumerate(rows.items(), 1):
        head = f"{study.row_is} {n} of {len(rows)}, {name}"
        if name in results[study.rows_are]:
            say(f"{head}: in {path} already")
            continue
        say(f"{head}: {row.plan}")
        try:
            measured = row.measured(work / name, EPISODES, quiet)
        except TrainingError as error:
            failed[name] = str(error)
            say(f"{head}: failed: {error}")
            continue
        except KeyboardInterrupt as stop:
            raise stop if stop.args else KeyboardInterrupt("stopped; the same command continues") from None
        results = _results_so_far(study, shared, config)  # another command may have added rows meanwhile
        results[study.rows_are][name] = {**row.about, **measured}
        results["provenance"] = provenance(shared)
        write_json(path, results)
        write_table_and_figures(study, failed)
        say(f"{head}: {row.headline(measured)}")
    if not results[study.rows_are]:
        raise UserError(f"no {study.row_is} could be trained: {next(iter(failed.values()))}")
    text = write_table_and_figures(study, failed)
    return {**json.loads(path.read_text()), "failed": failed}, text


# --- the file of results ---------------------------------------------------------------------------------------------


def _results_so_far(study: Study, shared: RunConfig, config: JsonObject) -> JsonObject:
    """The results in a file, or none yet; a file of another configuration is refused, not overwritten."""
    path = study.path(".json")
    if not path.exists():
        return {
            "item": study.item,
            "config": config,
            "seeds": list(range(shared.seed, shared.seed + shared.seeds)),
            "episodes_per_seed": EPISODES,
            study.rows_are: {},
        }
    try:
        results = json.loads(read_text(path, "the results so far"))
        rows, theirs = dict(results[study.rows_are]), flat(results["config"])
        if rows:
            markdown(study, results, rows, {})
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UserError(
            f"{path} is damaged: it is no table of `reproduce {study.item}`; move it away to start anew"
        ) from None
    ours = flat(config)
    _refuse_other(f"{path} was made", dict.fromkeys(theirs) | ours, theirs)
    return {**results, study.rows_are: rows}


def _refuse_other(what: str, ours: JsonObject, theirs: JsonObject) -> None:
    """What stands in the results must be what would be trained now: recipes may have changed since."""
    for key, value in ours.items():
        if theirs.get(key) != value:
            raise UserError(
                f"{what} with {key} {theirs.get(key)}, not {value}; choose another --out folder, or move it "
                "away to start anew"
            )


def _plain(facts: JsonObject) -> JsonObject:
    """As it would come back from a file."""
    plain: JsonObject = json.loads(json.dumps(facts))
    return plain
