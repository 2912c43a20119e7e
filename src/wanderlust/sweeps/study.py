"""What comparisons have in common: rows trained one after the other with all seeds in one program, and measured.

The results file grows by one row at a time: a command that was stopped, called again, trains what is not in it yet.
Table and figures are made from that file. What the rows are, and what is shown of them, is each study's own.
"""

import dataclasses
import io
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from matplotlib.figure import Figure
from rich.console import Console

from wanderlust.config import RunConfig, SkillConfig, with_changes
from wanderlust.envs import devices
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.recipes import get_recipe
from wanderlust.runs.files import check_writable, read_text, write_atomic, write_json
from wanderlust.runs.provenance import provenance
from wanderlust.runs.run import Run
from wanderlust.train import loop, stages

EPISODES = 200
"""Random skills per seed behind a coverage."""

Facts = dict[str, Any]
"""What the results file says of a row, or of the whole study."""
Draw = Callable[[Facts, Mapping[str, Facts]], bytes | None]
"""A picture of the results and their rows, if there is anything to draw."""


class Row(Protocol):
    """Something to compare."""

    @property
    def plan(self) -> str:
        """What getting its numbers takes, in a few words."""
        ...

    @property
    def about(self) -> Facts:
        """What tells it from the other rows; a row in the results file must have the same."""
        ...

    def check(self, folder: Path) -> None:
        """Refuse a folder that holds something else."""
        ...

    def measured(self, folder: Path, episodes: int, quiet: bool) -> Facts:
        """Its numbers, from the run in a folder, which is made, finished or only read."""
        ...


@dataclasses.dataclass(frozen=True)
class Study:
    """How the results of a comparison are called and shown."""

    item: str
    """The command's name."""
    stem: str
    """How the names of its files begin."""
    title: str
    row_is: str
    """What a row is called, e.g. `cell`; the results file has them under the plural."""
    measure_is: str
    """What the numbers in the table are."""
    order: tuple[str, ...]
    """Rows in the order of the table; others follow."""
    columns: Mapping[str, Callable[[str, Facts], str]]
    """Titles of the table's columns, and what stands there for a row."""
    figures: Mapping[str, Draw]
    """Pictures by the suffix of their file's name."""
    out: Path

    @property
    def rows_are(self) -> str:
        return f"{self.row_is}s"

    @property
    def files(self) -> "Files":
        """Where the results go."""
        figures = tuple(self.out / f"{self.stem}{suffix}.png" for suffix in self.figures)
        return Files(self.out / f"{self.stem}.json", self.out / f"{self.stem}.md", figures)


class Files(NamedTuple):
    """Where results go."""

    json: Path
    markdown: Path
    figures: tuple[Path, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, (self.json, self.markdown, *self.figures)))


def carry_out(
    study: Study, rows: Mapping[str, Row], shared: RunConfig, work: Path, episodes: int, quiet: bool
) -> tuple[Facts, str]:
    """Train and measure the rows that the results lack; return the results, and as a table.

    Runs go under `work`. A row whose training fails is told of and left out; the next call tries it again.
    """
    say = Console(file=sys.stderr, quiet=quiet, highlight=False, markup=False, soft_wrap=True).print
    path, failed = study.files.json, {}
    results = _results_so_far(study, shared, episodes)
    for name, row in rows.items():  # all that can be refused is, before hours are spent on the first
        _refuse_stale(study, name, row, results[study.rows_are])
        if name not in results[study.rows_are]:
            row.check(work / name)
    check_writable(study.out)
    for n, (name, row) in enumerate(rows.items(), 1):
        head = f"{study.row_is} {n} of {len(rows)}, {name}"
        if name in results[study.rows_are]:
            say(f"{head}: in {path} already")
            continue
        say(f"{head}: {row.plan}")
        try:
            measured = row.measured(work / name, episodes, quiet)
        except TrainingError as error:
            failed[name] = str(error)
            say(f"{head}: failed: {error}")
            continue
        except KeyboardInterrupt as stop:
            raise stop if stop.args else KeyboardInterrupt("stopped; the same command goes on") from None
        results = _results_so_far(study, shared, episodes)  # another command may have added rows meanwhile
        results[study.rows_are][name] = {**row.about, **measured}
        results["provenance"] = provenance(shared)
        write_json(path, results)
        write_table_and_figures(study, failed)
        say(f"{head}: covers {number(measured, 'coverage_mode')} bins")
    if not results[study.rows_are]:
        raise UserError(f"no {study.row_is} could be trained: {next(iter(failed.values()))}")
    text = write_table_and_figures(study, failed)
    return {**json.loads(path.read_text()), "failed": failed}, text


# --- what is trained -----------------------------------------------------------------------------------------------


class TrainingError(UserError):
    """One row could not be trained; others may."""


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
    learns_only_a_policy = config.method.name in ("edl", "linearizer")
    return 0 if learns_only_a_policy else config.schedule.epochs * config.schedule.method_steps


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
    return loop.settle(config, driver_follows="driver" not in changed)


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
        raise KeyboardInterrupt(f"stopped; the same command goes on from the checkpoint in {run.path}")
    for one in stages.runs(run):
        for checkpoint in list(one.checkpoints().values())[:-1]:
            checkpoint.unlink()


# --- the file of results -------------------------------------------------------------------------------------------


def _results_so_far(study: Study, shared: RunConfig, episodes: int) -> Facts:
    """The results in a file, or none yet; a file of another configuration is refused, not overwritten."""
    path, config = study.files.json, _plain(dataclasses.asdict(shared))
    if not path.exists():
        return {
            "item": study.item,
            "config": config,
            "seeds": list(range(shared.seed, shared.seed + shared.seeds)),
            "episodes_per_seed": episodes,
            study.rows_are: {},
        }
    try:
        results = json.loads(read_text(path, "the results so far"))
        rows, theirs = dict(results[study.rows_are]), flat(results["config"])
        if rows:
            _markdown(study, results, rows, {})
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UserError(
            f"{path} is damaged: it is no table of `reproduce {study.item}`; delete it to start anew"
        ) from None
    ours = flat(config)
    for key in {**ours, **theirs}:
        if ours.get(key) != theirs.get(key):
            raise UserError(
                f"{path} was made with {key} {theirs.get(key)}, not {ours.get(key)}; choose another --out folder, or "
                "delete it to start anew"
            )
    return {**results, study.rows_are: rows}


def _refuse_stale(study: Study, name: str, row: Row, found: Mapping[str, Facts]) -> None:
    """A row of the results must be the one that would be trained now: recipes may have changed since."""
    for key, value in _plain(row.about).items():
        if name in found and found[name].get(key) != value:
            raise UserError(
                f"{study.files.json} has {name} with {key} {found[name].get(key)}, not {value}; choose another --out "
                "folder, or delete it to start anew"
            )


def _plain(facts: Facts) -> Facts:
    """As it would come back from a file."""
    plain: Facts = json.loads(json.dumps(facts))
    return plain


def flat(config: Facts, prefix: str = "") -> Facts:
    """The fields of a configuration by their dotted names."""
    found = {}
    for key, value in config.items():
        found.update(flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value})
    return found


# --- table and figures, from that file ------------------------------------------------------------------------------


def write_table_and_figures(study: Study, failed: Mapping[str, str]) -> str:
    """Show what is in the results file; return the table."""
    files = study.files
    results = json.loads(read_text(files.json, "the results"))
    found = results[study.rows_are]
    rows = {name: found[name] for name in (*study.order, *found) if name in found}
    text = _markdown(study, results, rows, failed)
    write_atomic(files.markdown, text)
    for path, draw in zip(files.figures, study.figures.values(), strict=True):
        if picture := draw(results, rows):
            write_atomic(path, picture)
    return text


def _markdown(study: Study, results: Facts, rows: Mapping[str, Facts], failed: Mapping[str, str]) -> str:
    config, where = results["config"], results["provenance"]
    seconds = sum(row["training_seconds"] for row in rows.values())
    commits, commands = ({row["measured"][key]: None for row in rows.values()} for key in ("commit", "command"))
    lines = [
        f"# {study.title}",
        "",
        f"`{where['command']}`{' and others like it' if len(commands) > 1 else ''}: recipe {config['recipe']}, "
        f"{_range(results['seeds'])} with "
        f"{amount(rows)}; {study.measure_is.format(episodes=results['episodes_per_seed'])}, mean over seeds"
        f"{' ± half the 95% interval' if len(results['seeds']) > 1 else ''}. Commit {', '.join(map(str, commits))}, "
        f"{where['device']['kind']} ({where['device']['cpu_cores']} cores), engine {config['engine']}, "
        f"training {seconds / 60:.1f} min in all.",
        "",
        f"| {' | '.join(study.columns)} |",
        f"|{'---|' * len(study.columns)}",
    ]
    for name, row in rows.items():
        lines.append(f"| {' | '.join(words(name, row) for words in study.columns.values())} |")
    lines += [f"\n{results['note']}"] if "note" in results else []
    lines += [f"\n`{name}` failed: {why}" for name, why in failed.items()]
    return "\n".join(lines) + "\n"


def amount(rows: Mapping[str, Facts]) -> str:
    """How much each seed of the rows that are trained was given."""
    trained = [row for row in rows.values() if row["epochs"]]
    if not trained:
        return "no training"
    steps = _from_to(row["env_steps_per_seed"] for row in trained)  # bodies that fall may take fewer
    # methods of two stages may have fewer updates; one whose last stage learns only a policy has none of phi there
    sac, phi = (_from_to(row["updates_per_seed"][of] for row in trained) for of in ("sac", "phi"))
    return f"{steps} environment steps, {sac} SAC updates and {phi} of phi"


def _from_to(numbers: Iterable[int]) -> str:
    found = sorted(numbers)
    return f"{found[0]:,}" if found[0] == found[-1] else f"{found[0]:,} to {found[-1]:,}"


def _range(seeds: list[int]) -> str:
    return f"seeds {seeds[0]} to {seeds[-1]}, each" if len(seeds) > 1 else f"seed {seeds[0]}"


def count(number: int, of: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number:,} {of}{'' if number == 1 else 's'}"


def number(row: Facts, measure: str, digits: int = 0) -> str:
    """A mean, and half its interval if there is one."""
    value = row["metrics"][measure]
    if value["mean"] is None:  # how files write what is infinite or no number
        return "not finite"
    half = f" ± {value['ci95']:.{digits}f}" if len(value["per_seed"]) > 1 else ""
    return f"{value['mean']:.{digits}f}{half}"


COVERAGES = {"coverage_mode": "mode actions", "coverage_sampled": "sampled actions"}


def bars(
    results: Facts,
    rows: Mapping[str, Facts],
    measures: Mapping[str, str],
    axis: str,
    label: Callable[[str, Facts], str] = lambda name, _: name,
) -> bytes:
    """Bars of some measures for every row, with the 95% interval and a dot for each seed; the first row on top."""
    figure = Figure(figsize=(8, 1.6 + 0.55 * len(rows)), layout="constrained")
    axes = figure.subplots()
    many, width = len(results["seeds"]) > 1, 0.76 / len(measures)
    for k, (measure, means) in enumerate(measures.items()):
        values = [row["metrics"][measure] for row in rows.values()]
        middles, halves = ([_drawable(value[part]) for value in values] for part in ("mean", "ci95"))
        heights = [n + width * (k - (len(measures) - 1) / 2) for n in range(len(values))]
        axes.barh(heights, middles, 0.95 * width, color=f"C{k}", alpha=0.6, label=means)
        if many:
            axes.errorbar(middles, heights, xerr=halves, fmt="none", ecolor="0.5", capsize=2)
        for height, value in zip(heights, values, strict=True):
            dots = [_drawable(x) for x in value["per_seed"]]
            axes.plot(dots, [height] * len(dots), "k.", markersize=4)
    names = [label(name, row) for name, row in rows.items()]
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel(axis.format(episodes=results["episodes_per_seed"]))
    axes.grid(axis="x", alpha=0.3)
    if len(measures) > 1:
        axes.legend(fontsize=8)
    spread = f"{len(results['seeds'])} seeds, mean and 95% interval" if many else f"seed {results['seeds'][0]}"
    figure.suptitle(f"{results['config']['env']['name']}, {spread}\n{amount(rows)} per seed", fontsize=9)
    return picture_of(figure)


def _drawable(number: float | None) -> float:
    """A gap where there is no number."""
    return math.nan if number is None else number


def picture_of(figure: Figure) -> bytes:
    """A figure as PNG."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=140)
    return picture.getvalue()
