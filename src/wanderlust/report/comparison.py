"""What the files of runs say of them, side by side: where their configurations differ, and what they reached."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wanderlust.config import flat
from wanderlust.errors import UserError
from wanderlust.evaluation.metrics import MEASURES, meaning, summarise
from wanderlust.runs.card import markdown_table
from wanderlust.runs.entries import one_line, read_card
from wanderlust.runs.files import read_object
from wanderlust.runs.measured import read_evaluation
from wanderlust.runs.metrics import is_number
from wanderlust.runs.run import Run

ABSENT = "\N{EN DASH}"
"""What a table has where a run has nothing."""
RANDOM = {"coverage_mode": "coverage", "travelled": "travelled", "distance": "distance"}
"""Measures that random actions have, too, by their names there."""


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """What the files of one run say. It may be one that is still being trained."""

    label: str
    run: Run
    rows: Sequence[Mapping[str, Any]]
    """Of metrics.jsonl; an entry of the zoo has none."""
    origin: Mapping[str, Any]
    """How it was made: provenance.json, or the card of a zoo entry."""
    evaluation: Mapping[str, Any] | None = None
    results: Path | None = None
    """The folder in which `evaluation/` lies."""

    @property
    def fields(self) -> dict[str, Any]:
        """The configuration's fields by their dotted names, as JSON has them."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self.run.config)))
        return flat(plain)

    @property
    def curve(self) -> list[Mapping[str, Any]]:
        """The lines of metrics.jsonl that probed the skills."""
        return [row for row in self.rows if "coverage" in row and "env_steps" in row]

    @property
    def epoch(self) -> int | None:
        """How far training has come."""
        if self.rows:
            return int(self.rows[-1]["epoch"])
        found = self.origin.get("epoch", (self.evaluation or {}).get("epoch"))
        return found if isinstance(found, int) else None

    @property
    def env_steps(self) -> int | None:
        """Environment steps per seed."""
        steps = [row["env_steps"] for row in self.rows if "env_steps" in row]
        found = steps[-1] if steps else self.origin.get("env_steps", (self.evaluation or {}).get("env_steps"))
        return int(found) if is_number(found) else None

    @property
    def train_seconds(self) -> float | None:
        """Of training alone, compilation apart."""
        found = self.rows[-1].get("train_seconds") if self.rows else self.origin.get("train_seconds")
        return float(found) if is_number(found) else None

    @property
    def finished(self) -> bool:
        """Whether training has come to the end that was planned; an entry of the zoo is what it is."""
        return bool(self.run.entry) or (self.epoch or 0) >= self.run.config.schedule.epochs

    def measure(self, name: str) -> list[float]:
        """A measure's value for every seed; of zoo entries that were not evaluated here, the card's."""
        if self.evaluation is not None:
            found = self.evaluation.get("metrics", {}).get(name, {})
            return [float(x) for x in found.get("per_seed") or [] if is_number(x)]
        card = self.origin.get("metrics")
        known = card.get(name) if isinstance(card, Mapping) else None
        return [float(known)] if is_number(known) else []

    @property
    def bins(self) -> tuple[float, int]:
        """Side and dimensions of the bins that its coverage counts."""
        found = self.evaluation or {}
        return float(found.get("bin", 1.0)), int(found.get("place_dims", 2))

    @property
    def random(self) -> Mapping[str, float]:
        """Measures of random actions in the same world."""
        return (self.evaluation or {}).get("random") or {}


def read_record(run: Run, label: str) -> RunRecord:
    """Read what a run's files say, without a write or a lock: it may be training meanwhile."""
    origin = read_card(run.path) if run.entry else run.provenance()
    found = RunRecord(label, run, run.metrics(), origin)
    return evaluated_at(found, run.results)


def evaluated_at(record: RunRecord, results: Path) -> RunRecord:
    """The same run with the evaluation that lies in a folder, if there is one."""
    path = results / "evaluation" / "evaluation.json"
    if not (path.is_file() and (results / "evaluation" / "rollouts.safetensors").is_file()):
        return record
    return dataclasses.replace(record, evaluation=read_evaluation(path.parent), results=results)


def labels(runs: Sequence[Run]) -> list[str]:
    """A short name for each run, no two alike: the folder's, or as much of its path as sets it apart."""
    if len({str(run) for run in runs}) < len(runs):
        twice = next(str(run) for run in runs if [str(other) for other in runs].count(str(run)) > 1)
        raise UserError(f"{twice} is named twice; name each run once")
    parts = [(run.entry,) if run.entry else run.path.resolve().parts for run in runs]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [str(run) for run in runs]


# --- tables --------------------------------------------------------------------------------------------------------


def differences(fields: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The fields in which configurations differ, and no others: what each of them has, as JSON."""
    keys = dict.fromkeys(key for one in fields for key in one)
    missing = object()
    found = {}
    for key in keys:
        values = [one.get(key, missing) for one in fields]
        if any(value != values[0] for value in values[1:]):
            found[key] = [ABSENT if value is missing else _shown(value) for value in values]
    return found


def _shown(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def reached(runs: Sequence[RunRecord]) -> dict[str, list[str]]:
    """What runs came to: how long they learned, and every measure with its 95% interval over seeds."""
    table = {
        "epoch": [_of(record.epoch, "{:,}", f" of {record.run.config.schedule.epochs:,}") for record in runs],
        "environment steps per seed": [_of(record.env_steps, "{:,}") for record in runs],
        "minutes of training": [_of(_minutes(record), "{:,.3g}") for record in runs],
        "seeds": [str(record.run.config.seeds) for record in runs],
        "bins covered at the last probe": [
            spread(list(map(float, record.curve[-1]["coverage"]))) if record.curve else ABSENT for record in runs
        ],
    }
    bins = {record.bins for record in runs if record.evaluation is not None}
    one = next(iter(bins), (1.0, 2))
    for name in MEASURES:
        if any(record.measure(name) for record in runs):
            words = meaning(name, *one) if len(bins) < 2 else MEASURES[name].replace(" of 1 x 1", "")
            table[words] = [spread(record.measure(name)) for record in runs]
            if name in RANDOM and any(record.random for record in runs):
                table[f"{words.partition(',')[0]}, random actions"] = [
                    _of(record.random.get(RANDOM[name]), "{:,.4g}") for record in runs
                ]
    for name in dict.fromkeys(name for record in runs for name in tasks(record)):
        table[name] = [spread(tasks(record).get(name, [])) for record in runs]
    return {name: cells for name, cells in table.items() if any(cell != ABSENT for cell in cells)}


def tasks(record: RunRecord) -> dict[str, list[float]]:
    """The return of every task that was solved with a run's skills, per seed."""
    found = {}
    for path in sorted((record.run.results / "downstream").glob("*/result.json")):
        facts = read_object(path, "the result")
        values = facts.get("return", {}).get("per_seed", []) if isinstance(facts.get("return"), dict) else []
        if not (isinstance(values, list) and all(map(is_number, values))):
            raise UserError(f"{path} is damaged: its returns are no numbers; `wanderlust downstream` measures anew")
        words = [one_line(str(facts.get(name))) for name in ("task", "controller")]
        found[f"return of {words[0]}, {words[1]}"] = [float(x) for x in values]
    return found


def spread(values: Sequence[float], digits: int | None = None) -> str:
    """A mean over seeds and half its 95% interval."""
    if not values:
        return ABSENT
    found = summarise(list(values))
    shown = (0 if abs(found.mean) >= 1000 else 2) if digits is None else digits
    half = f" ± {found.ci95:,.{shown}f}" if found.seeds > 1 else ""
    return f"{found.mean:,.{shown}f}{half}"


def notes(runs: Sequence[RunRecord]) -> list[str]:
    """What a reader of the table has to know."""
    said = [
        f"{record.label} is not at its end: epoch {record.epoch or 0:,} of {record.run.config.schedule.epochs:,}."
        for record in runs
        if not record.finished
    ]
    said += [
        f"{record.label} has no evaluation: its measures are missing, or those of its card."
        for record in runs
        if record.evaluation is None
    ]
    for record in runs:
        at = (record.evaluation or {}).get("epoch")
        if record.evaluation is not None and None not in (at, record.epoch) and at != record.epoch:
            said.append(f"{record.label} was evaluated at epoch {at:,}.")
    if len(worlds := dict.fromkeys(record.run.config.env.name for record in runs)) > 1:
        said.append(f"The runs are of {len(worlds)} worlds ({', '.join(worlds)}): what they cover cannot be compared.")
    episodes = {(record.evaluation or {}).get("episodes") for record in runs if record.evaluation is not None}
    if len(episodes) > 1:
        said.append("Evaluations differ in their numbers of episodes, and more episodes cover more bins.")
    if any(record.run.config.seeds > 1 for record in runs):
        said.append("± is half the 95% interval over seeds.")
    return said


def _minutes(record: RunRecord) -> float | None:
    return None if record.train_seconds is None else record.train_seconds / 60


def _of(value: float | None, form: str, after: str = "") -> str:
    return ABSENT if value is None else form.format(value) + after


def markdown(runs: Sequence[RunRecord]) -> str:
    """Both tables and the notes as Markdown."""
    head = ["", *(record.label for record in runs)]
    lines = ["# " + " · ".join(record.label for record in runs), ""]
    both = (("What differs", differences([record.fields for record in runs])), ("What they reached", reached(runs)))
    for title, table in both:
        rows = [[key, *cells] for key, cells in table.items()]
        lines += [f"## {title}", ""]
        lines += markdown_table(head, rows) if rows else ["Nothing: the configurations are the same."]
        lines.append("")
    return "\n".join([*lines, *notes(runs)]) + "\n"
