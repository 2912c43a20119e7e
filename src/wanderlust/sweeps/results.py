"""What the runs of a sweep reached: means over seeds with bootstrap intervals, as JSON and Markdown."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wanderlust.errors import UserError
from wanderlust.evaluation.metrics import MEASURES
from wanderlust.evaluation.statistics import Spread, orderings, spread
from wanderlust.runs.files import read_object, write_atomic, write_json
from wanderlust.runs.provenance import provenance
from wanderlust.runs.run import Run
from wanderlust.sweeps.attempt import BUDGET, FINISHED
from wanderlust.sweeps.figures import COVERAGES, draw_bars, seeds_in_words
from wanderlust.sweeps.plan import Combination, Plan
from wanderlust.sweeps.sweep import Entry

MAIN = "coverage_mode"
"""The measure by which rows are ordered."""
SHOWN = {
    "coverage_mode": ("coverage, mode actions", 0),
    "coverage_sampled": ("coverage, sampled actions", 0),
    "distance": ("distance", 2),
    "travelled": ("travelled", 2),
    "survived": ("steps survived", 0),
}
"""Columns of the table, and their digits; the JSON has every measure."""


def write_results(plan: Plan, entries: Sequence[Entry]) -> tuple[str, tuple[Path, ...]]:
    """Write what is measured so far; return the table and the files."""
    rows = _rows(entries)
    unfinished = [_unfinished(entry) for entry in entries if entry.state not in (FINISHED, BUDGET)]
    claims = _claims(rows)
    result: dict[str, Any] = {
        "provenance": provenance(entries[0].item.config),
        "sweep": dict(plan.grid),
        "rows": list(rows.values()),
        "ordered_by": MAIN,
        "orderings": claims,
        "unfinished": unfinished,
    }
    files = (plan.out / "results.json", plan.out / "results.md")
    text = _markdown(result, plan)
    write_json(files[0], result)
    write_atomic(files[1], text)
    return text, (*files, *_figures(plan, rows))


def _figures(plan: Plan, rows: Mapping[Combination, Mapping[str, Any]]) -> list[Path]:
    """Bins covered by the rows of each world, with a dot for every seed."""
    paths = []
    for world in dict.fromkeys(combination.world for combination in rows):
        mine = {
            str(Combination("", *combination[1:])).strip(): row
            for combination, row in rows.items()
            if combination.world == world
        }
        steps = sorted({one for row in mine.values() for one in row["env_steps"]})
        given = f"{steps[0]:,}" + (f" to {steps[-1]:,}" if len(steps) > 1 else "") + " environment steps per seed"
        most = max((row["seeds"] for row in mine.values()), key=len)
        picture = draw_bars(
            {name: row["metrics"] for name, row in mine.items()},
            COVERAGES,
            f"bins covered by {plan.episodes} random skills",
            f"{world}, {seeds_in_words(most)}",
            given,
        )
        paths.append(plan.out / f"results_{world.rpartition(':')[2].lower()}.png")
        write_atomic(paths[-1], picture.png)
    return paths


def _unfinished(entry: Entry) -> dict[str, Any]:
    now = entry.standing
    return {"run": entry.item.name, "state": entry.state, "epoch": now.epoch, "epochs": now.epochs, "why": entry.why}


def _rows(entries: Sequence[Entry]) -> dict[Combination, dict[str, Any]]:
    """Every row that has a measured run, with its seeds."""
    found: dict[Combination, list[tuple[Entry, dict[str, Any]]]] = {}
    for entry in entries:
        if entry.state in (FINISHED, BUDGET):
            path = Run(entry.item.folder, entry.item.config).evaluation / "evaluation.json"
            found.setdefault(entry.item.combination, []).append((entry, read_object(path, "the evaluation")))
    return {combination: _row(combination, runs) for combination, runs in found.items()}


def _row(combination: Combination, runs: Sequence[tuple[Entry, dict[str, Any]]]) -> dict[str, Any]:
    runs = sorted(runs, key=lambda one: one[0].item.config.seed)
    measured = [evaluation["metrics"] for _, evaluation in runs]
    names = [name for name in measured[0] if all(name in one for one in measured)]
    return {
        **combination._asdict(),
        "seeds": [entry.item.config.seed for entry, _ in runs],
        "runs": [str(entry.item.folder) for entry, _ in runs],
        "env_steps": [evaluation["env_steps"] + evaluation["env_steps_before"] for _, evaluation in runs],
        "training_seconds": sum(entry.standing.seconds for entry, _ in runs),
        "metrics": {name: spread([_value(one[name]) for one in measured])._asdict() for name in names},
    }


def _value(measure: Mapping[str, Any]) -> float:
    """Of one training; what files write as null is no number."""
    if measure["mean"] is None or len(measure["per_seed"]) != 1:
        raise UserError("an evaluation of the sweep is damaged: it has no one number per run; evaluate that run again")
    return float(measure["mean"])


def _claims(rows: Mapping[Combination, Mapping[str, Any]]) -> list[str]:
    """Who is ahead of whom in each world, where the seeds say so."""
    worlds = dict.fromkeys(combination.world for combination in rows)
    found = []
    for world in worlds:
        named = {
            str(Combination("", *combination[1:])): row["metrics"][MAIN]["per_seed"]
            for combination, row in rows.items()
            if combination.world == world
        }
        found += [f"{world}: {sentence}" for sentence in orderings(named)]
    return found


# --- the table ----------------------------------------------------------------------------------------------------


def _markdown(result: Mapping[str, Any], plan: Plan) -> str:
    where, rows = result["provenance"], result["rows"]
    hours = sum(row["training_seconds"] for row in rows) / 3600
    settings = any(row["setting"] for row in rows)
    heads = ["environment", "method", *(["setting"] if settings else []), "seeds", "steps per seed"]
    shown = [name for name in SHOWN if any(name in row["metrics"] for row in rows)]
    lines = [
        f"# {plan.out.name}",
        "",
        f"`{where['command']}`, commit {where['commit']}, {where['device']['kind']} ({where['device']['cpu_cores']} "
        f"cores), {hours:.1f} hours of training in all; {plan.episodes} random skills per seed. Mean over training "
        "seeds with its 95% bootstrap interval; IQM is the mean of the middle half.",
        "",
        _line([*heads, *(title for name in shown for title in (SHOWN[name][0], "IQM"))]),
        _line(["---"] * (len(heads) + 2 * len(shown))),
    ]
    for row in rows:
        words = [row["world"], row["method"], *([row["setting"]] if settings else []), str(len(row["seeds"]))]
        steps = sorted(row["env_steps"])
        words.append(f"{steps[0]:,}" + (f" to {steps[-1]:,}" if steps[-1] > steps[0] else ""))
        for name in shown:
            words += _cells(row["metrics"].get(name), SHOWN[name][1])
        lines.append(_line(words))
    lines += [
        "",
        f"Ordered by {MEASURES[MAIN]}, where interval of the difference and permutation test (p < 0.05) say so:",
    ]
    lines += [f"- {claim}" for claim in result["orderings"]] or ["- nothing: the seeds order no two rows"]
    if result["unfinished"]:
        lines += ["", "Not finished:"]
        for one in result["unfinished"]:
            why = f": {one['why']}" if one["why"] else ""
            lines.append(f"- `{one['run']}` {one['state']} at epoch {one['epoch']} of {one['epochs']}{why}")
    return "\n".join(lines) + "\n"


def _cells(measure: Mapping[str, Any] | None, digits: int) -> list[str]:
    if measure is None:
        return ["", ""]
    found = Spread(**measure)
    interval = f" ({found.low:.{digits}f} to {found.high:.{digits}f})" if math.isfinite(found.low) else ""
    return [f"{found.mean:.{digits}f}{interval}", f"{found.iqm:.{digits}f}"]


def _line(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |"
