"""The ablation study of the appendix: what each component of LSD's reward is worth, measured as coverage.

The paper mixes three components freely, 24 cells in all, and shows them as one figure on Ant without numbers. Every
cell is trained with the same recipe, so cells differ in the reward alone. The results file grows by one cell at a time:
a command that was stopped, called again, trains what is not in it yet.
"""

import dataclasses
import io
import itertools
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from rich.console import Console

from wanderlust import devices, discovery
from wanderlust.config import RunConfig, SkillConfig, with_changes
from wanderlust.errors import UserError
from wanderlust.evaluate import evaluate
from wanderlust.files import read_text, write_atomic, write_json
from wanderlust.methods.ablation import FORMS, USES
from wanderlust.recipes import DEFAULT, get_recipe
from wanderlust.runs import Run, provenance

EPISODES = 200
"""Random skills per seed behind a coverage."""


class Cell(NamedTuple):
    """One mixture of the three components."""

    form: str
    states: str
    spectral: bool

    @property
    def name(self) -> str:
        """As the command line and the files call it."""
        return f"{self.form}-{self.states}-{'spectral' if self.spectral else 'free'}"


LSD = Cell("inner-product", "step", True)
GRID = {
    cell.name: cell
    for cell in itertools.starmap(Cell, itertools.product(tuple(FORMS)[::-1], tuple(USES)[::-1], (True, False)))
}
"""All cells, LSD first."""
ONE_APART = {name: cell for name, cell in GRID.items() if sum(a != b for a, b in zip(cell, LSD, strict=True)) <= 1}
"""LSD, and the cells that differ from it in one component."""

KNOWN_AS = {
    LSD: "LSD",
    Cell("normal", "next-state", False): "DIAYN",
    Cell("normal", "next-state", True): "DIAYN with SN",
    Cell("von-mises-fisher", "state", False): "VISR",
}
SYMBOLS = {"state": "φ(s)", "next-state": "φ(s')", "change": "φ(s' - s)", "step": "φ(s') - φ(s)"}


class Files(NamedTuple):
    """Where the results of an environment go."""

    json: Path
    markdown: Path
    figure: Path

    @staticmethod
    def under(out: Path, env: str) -> "Files":
        """Their places in a folder."""
        return Files(*(out / f"ablation_{env}.{kind}" for kind in ("json", "md", "png")))


def reproduce(
    out: Path,
    work: Path,
    env: str = "ant",
    recipe: str = DEFAULT,
    only: tuple[str, ...] = (),
    everything: bool = False,
    seeds: int = 3,
    budget_steps: int | None = None,
    changes: tuple[str, ...] = (),
    quiet: bool = False,
) -> tuple[dict[str, Any], str]:
    """Train and measure the cells that the results under `out` lack; return the results, and as a table.

    Runs go under `work`. A cell whose training fails is told of and left out; the next call tries it again.
    """
    cells = _chosen(only, everything)
    shared = _shared_config(env, recipe, seeds, budget_steps, changes)
    files = Files.under(out, env)
    results = _results_so_far(files.json, shared)
    say = Console(file=sys.stderr, quiet=quiet, highlight=False, markup=False, soft_wrap=True).print
    failed = {}
    for n, cell in enumerate(cells, 1):
        head = f"cell {n} of {len(cells)}, {cell.name}"
        if cell.name in results["cells"]:
            say(f"{head}: in {files.json} already")
            continue
        say(f"{head}: {shared.seeds} seeds, {shared.schedule.epochs:,} epochs")
        run = _opened(_config(shared, cell), work / env / cell.name)
        try:
            _train(run, quiet)
        except UserError as error:
            failed[cell.name] = str(error)
            say(f"{head}: failed: {error}")
            continue
        measured = _measure(cell, run)
        results = _results_so_far(files.json, shared)  # another command may have added cells meanwhile
        results["cells"][cell.name] = measured
        results["provenance"] = provenance(shared)
        write_json(files.json, results)
        _write_table_and_figure(files, failed)
        say(f"{head}: {_cell(measured, 'coverage_mode')} bins with mode actions")
    if not results["cells"]:
        raise UserError(f"no cell could be trained: {next(iter(failed.values()))}")
    text = _write_table_and_figure(files, failed)
    return {**json.loads(files.json.read_text()), "failed": failed}, text


# --- what is trained -----------------------------------------------------------------------------------------------


def _chosen(only: tuple[str, ...], everything: bool) -> list[Cell]:
    if only and everything:
        raise UserError("--all and --only exclude each other: choose every cell, or some of them")
    for name in only:
        if name not in GRID:
            raise UserError(
                f"there is no cell {name!r}; a cell is FORM-STATES-CONSTRAINT, e.g. {LSD.name}, with FORM one of "
                f"{', '.join(FORMS)}, STATES one of {', '.join(USES)}, CONSTRAINT spectral or free"
            )
    return [GRID[name] for name in dict.fromkeys(only)] or list((GRID if everything else ONE_APART).values())


def _shared_config(env: str, recipe: str, seeds: int, budget_steps: int | None, changes: tuple[str, ...]) -> RunConfig:
    """What all cells have in common; its method is the cell of LSD."""
    if budget_steps is not None and budget_steps < 1:
        raise UserError(f"--budget-steps is {budget_steps}; it must be at least 1")
    changed = {change.partition("=")[0] for change in changes}
    if taken := sorted(changed & {"method.name", "method.form", "method.states", "method.spectral"}):
        raise UserError(f"--set {taken[0]}: that is what the cells differ in; choose cells with --only")
    config = dataclasses.replace(get_recipe(recipe, env, "ablation", SkillConfig()), seeds=seeds)
    config = with_changes(config, changes)
    if config.skills.kind == "discrete":
        raise UserError("--set skills.kind: the grid is of continuous skills")
    if budget_steps is not None:
        epochs = -(-budget_steps // config.schedule.collection)
        config = dataclasses.replace(config, schedule=dataclasses.replace(config.schedule, epochs=epochs))
    devices.prepare(config.seeds)
    if "engine" not in changed and discovery.needs_gpu(config):
        advice = "use --recipe laptop, or add --set engine=c, which is slow"
        raise UserError(f"--recipe {recipe} needs a GPU, and JAX sees none; {advice}")
    return discovery.settle(config, driver_follows="driver" not in changed)


def _config(shared: RunConfig, cell: Cell) -> RunConfig:
    return dataclasses.replace(shared, method=dataclasses.replace(shared.method, **cell._asdict()))


def _opened(config: RunConfig, path: Path) -> Run:
    """The run of a cell, made or found."""
    if not path.exists():
        return discovery.start(config, path)
    run = Run.open(path)
    if run.config != config:
        raise UserError(f"{path} holds a run with another configuration; choose another --work folder")
    return run


def _train(run: Run, quiet: bool) -> None:
    """Train a run to its end, unless it is there. Of its checkpoints, which hold the replay, only the last is kept."""
    unfinished = max(run.checkpoints(), default=0) < run.config.schedule.epochs
    if unfinished and discovery.run_training(run, quiet=quiet).reason == "interrupted":
        raise KeyboardInterrupt(f"stopped; the same command goes on from the checkpoint in {run.path}")
    for earlier in list(run.checkpoints().values())[:-1]:
        earlier.unlink()


def _measure(cell: Cell, run: Run) -> dict[str, Any]:
    schedule, last = run.config.schedule, run.metrics()[-1]
    evaluation = evaluate(run, EPISODES, engine=run.config.engine)
    where = provenance(run.config)
    return {
        **cell._asdict(),
        "known_as": KNOWN_AS.get(cell),
        "epochs": schedule.epochs,
        "env_steps_per_seed": evaluation["env_steps"],
        "updates_per_seed": {
            "sac": schedule.epochs * schedule.sac_steps,
            "phi": schedule.epochs * schedule.method_steps,
        },
        "training_seconds": last["seconds"],
        "trained_at_commit": run.commit(),
        "measured": {key: where[key] for key in ("command", "commit", "time", "device")},
        "metrics": evaluation["metrics"],
    }


# --- the file of results -------------------------------------------------------------------------------------------


def _results_so_far(path: Path, shared: RunConfig) -> dict[str, Any]:
    """The results in a file, or none yet; a file of another configuration is refused, not overwritten."""
    config = json.loads(json.dumps(dataclasses.asdict(shared)))
    if not path.exists():
        return {
            "item": "ablation",
            "config": config,
            "seeds": list(range(shared.seed, shared.seed + shared.seeds)),
            "episodes_per_seed": EPISODES,
            "cells": {},
        }
    try:
        results = json.loads(read_text(path, "the results so far"))
        cells, theirs = dict(results["cells"]), _flat(results["config"])
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UserError(f"{path} is damaged: it is no table of an ablation; delete it to start anew") from None
    ours = _flat(config)
    for key in {**ours, **theirs}:
        if ours.get(key) != theirs.get(key):
            raise UserError(
                f"{path} was made with {key} {theirs.get(key)}, not {ours.get(key)}; choose another --out folder, or "
                "delete it to start anew"
            )
    return {**results, "cells": cells}


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found = {}
    for key, value in config.items():
        found.update(_flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value})
    return found


# --- table and figure, from that file alone ------------------------------------------------------------------------


def _write_table_and_figure(files: Files, failed: dict[str, str]) -> str:
    results = json.loads(read_text(files.json, "the results"))
    cells = {name: results["cells"][name] for name in GRID if name in results["cells"]}
    text = _markdown(results, cells, failed)
    write_atomic(files.markdown, text)
    write_atomic(files.figure, _picture(results, cells))
    return text


def _markdown(results: dict[str, Any], cells: dict[str, Any], failed: dict[str, str]) -> str:
    config, where = results["config"], results["provenance"]
    seconds = sum(cell["training_seconds"] for cell in cells.values())
    lines = [
        f"# Ablation of LSD on {config['env']['name']}",
        "",
        f"`{where['command']}`: recipe {config['recipe']}, seeds {_range(results['seeds'])}, each with "
        f"{_amount(cells)}; 1x1 bins covered by {results['episodes_per_seed']} random skills, mean over seeds"
        f"{' ± half the 95% interval' if len(results['seeds']) > 1 else ''}. Commit {where['commit']}, "
        f"{where['device']['kind']} ({where['device']['cpu_cores']} cores), engine {config['engine']}, "
        f"training {seconds / 60:.1f} min in all.",
        "",
        "| cell | known as | form | of | constraint | mode actions | sampled actions |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, cell in cells.items():
        words = (
            name,
            cell["known_as"] or "",
            cell["form"],
            SYMBOLS[cell["states"]],
            "spectral" if cell["spectral"] else "none",
            _cell(cell, "coverage_mode"),
            _cell(cell, "coverage_sampled"),
        )
        lines.append(f"| {' | '.join(words)} |")
    lines += [f"\n`{name}` failed: {why}" for name, why in failed.items()]
    return "\n".join(lines) + "\n"


def _amount(cells: dict[str, Any]) -> str:
    steps = sorted({cell["env_steps_per_seed"] for cell in cells.values()})  # bodies that fall may take fewer
    updates = {(cell["updates_per_seed"]["sac"], cell["updates_per_seed"]["phi"]) for cell in cells.values()}
    sac, phi = max(updates)
    many = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    return f"{many} environment steps, {sac:,} SAC updates and {phi:,} of phi"


def _range(seeds: list[int]) -> str:
    return f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])


def _cell(cell: dict[str, Any], measure: str) -> str:
    value = cell["metrics"][measure]
    return f"{value['mean']:.0f}" + (f" ± {value['ci95']:.0f}" if len(value["per_seed"]) > 1 else "")


def _picture(results: dict[str, Any], cells: dict[str, Any]) -> bytes:
    """Bars of both measures for every cell, with the 95% interval and a dot for each seed; LSD on top."""
    figure = Figure(figsize=(8, 1.6 + 0.55 * len(cells)), layout="constrained")
    axes = figure.subplots()
    many = len(results["seeds"]) > 1
    for k, (measure, colour) in enumerate((("coverage_mode", "tab:blue"), ("coverage_sampled", "tab:orange"))):
        values = [cell["metrics"][measure] for cell in cells.values()]
        rows = [row + 0.38 * (k - 0.5) for row in range(len(values))]
        label = f"{measure.removeprefix('coverage_')} actions"
        axes.barh(rows, [v["mean"] for v in values], 0.36, color=colour, alpha=0.6, label=label)
        if many:
            half = [v["ci95"] for v in values]
            axes.errorbar([v["mean"] for v in values], rows, xerr=half, fmt="none", ecolor="0.5", capsize=2)
        for row, value in zip(rows, values, strict=True):
            axes.plot(value["per_seed"], [row] * len(value["per_seed"]), "k.", markersize=4)
    names = [f"{name} ({cell['known_as']})" if cell["known_as"] else name for name, cell in cells.items()]
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"bins covered by {results['episodes_per_seed']} random skills")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8)
    spread = f"{len(results['seeds'])} seeds, mean and 95% interval" if many else f"seed {results['seeds'][0]}"
    figure.suptitle(f"{results['config']['env']['name']}, {spread}\n{_amount(cells)} per seed", fontsize=9)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=140)
    return picture.getvalue()
