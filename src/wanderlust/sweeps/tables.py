"""How the results of a comparison are called and shown: a JSON file, and a Markdown table and figures made from it."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wanderlust.runs.files import read_text, write_atomic

JsonObject = dict[str, Any]
"""What the results file says of a row, or of the whole study."""


class FigureFiles(NamedTuple):
    """A figure in both forms in which it is written."""

    png: bytes
    svg: bytes


Draw = Callable[[JsonObject, Mapping[str, JsonObject]], FigureFiles | None]
"""A picture of the results and their rows, if there is anything to draw."""


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
    columns: Mapping[str, Callable[[str, JsonObject], str]]
    """Titles of the table's columns, and what stands there for a row."""
    figures: Mapping[str, Draw]
    """Pictures by the suffix of their file's name."""
    out: Path
    given: Callable[[Mapping[str, JsonObject]], str] | None = None
    """How much each seed of the rows was given, if that is not what training skills takes (`amount`)."""

    @property
    def rows_are(self) -> str:
        return f"{self.row_is}s"

    def path(self, ending: str) -> Path:
        """Where a part of the results goes."""
        return self.out / f"{self.stem}{ending}"

    @property
    def files(self) -> tuple[Path, ...]:
        """Where the results go: JSON, table, figures as PNG and SVG."""
        pictures = (f"{suffix}.{form}" for suffix in self.figures for form in FigureFiles._fields)
        return tuple(map(self.path, (".json", ".md", *pictures)))


def write_table_and_figures(study: Study, failed: Mapping[str, str]) -> str:
    """Show what is in the results file; return the table."""
    results = json.loads(read_text(study.path(".json"), "the results"))
    found = results[study.rows_are]
    rows = {name: found[name] for name in (*study.order, *found) if name in found}
    text = markdown(study, results, rows, failed)
    write_atomic(study.path(".md"), text)
    for suffix, draw in study.figures.items():
        if picture := draw(results, rows):
            for form, data in picture._asdict().items():
                write_atomic(study.path(f"{suffix}.{form}"), data)
    return text


def markdown(study: Study, results: JsonObject, rows: Mapping[str, JsonObject], failed: Mapping[str, str]) -> str:
    """The table, and how its numbers were made."""
    config, where = results["config"], results["provenance"]
    seconds = sum(row["training_seconds"] for row in rows.values())
    commits, commands = ({row["measured"][key]: None for row in rows.values()} for key in ("commit", "command"))
    lines = [
        f"# {study.title}",
        "",
        f"`{where['command']}`{' and others like it' if len(commands) > 1 else ''}: recipe {config['recipe']}, "
        f"{_range(results['seeds'])} with "
        f"{(study.given or amount)(rows)}; {study.measure_is.format(episodes=results['episodes_per_seed'])}, mean over "
        f"seeds{' ± half the 95% interval' if len(results['seeds']) > 1 else ''}. "
        f"Commit {', '.join(map(str, commits))}, "
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


def amount(rows: Mapping[str, JsonObject]) -> str:
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


def number(row: JsonObject, measure: str, digits: int = 0) -> str:
    """A mean, and half its interval if there is one."""
    value = row["metrics"][measure]
    if value["mean"] is None:  # how files write what is infinite or no number
        return "not finite"
    half = f" ± {value['ci95']:.{digits}f}" if len(value["per_seed"]) > 1 else ""
    return f"{value['mean']:.{digits}f}{half}"
