"""The report of one run, or of several side by side, put together from what their files say."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from wanderlust.errors import UserError
from wanderlust.evaluation.metrics import MEASURES, meaning
from wanderlust.report import html, plots
from wanderlust.report.comparison import RANDOM, RunRecord, differences, notes, reached, spread, tasks
from wanderlust.report.plots.side_by_side import Drawn, draw_comparison
from wanderlust.runs.card import without_folders
from wanderlust.runs.measured import open_rollouts

CAPTIONS = {
    "trajectories": "Where random skills go, by the colour of the skill. Grey: random actions in the same world.",
    "skills": "Each discrete skill on its own, at a scale of its own. Grey: random actions, the same in every panel.",
    "phi": "The learned map of the final states, and by how much the map has moved since the start.",
    "correlations": "How entries of the final state go with dimensions of the skill and of the map: Pearson's r.",
    "bars": "How much of the plane random skills cover, and how far they go, beside random actions.",
    "learning_curve": "Coverage and reward while the skills were learned.",
    "path": "The way to goals that were never trained for, one after the other.",
    "returns": "What a controller that chooses skills earned while it learned.",
    "paths": "Some episodes of the task.",
}
Commands = Sequence[tuple[str, str]]
"""What a command does, and the command."""


class Reported(NamedTuple):
    """One run, and what can be done with it next."""

    record: RunRecord
    reproduce: Commands
    next_steps: Commands
    verdict: Sequence[str] = ()
    """Of its evaluation, a line each (`evaluation.verdict`); nothing where there is none."""


def report(runs: Sequence[Reported], version: str) -> str:
    """The page, as HTML."""
    with tempfile.TemporaryDirectory(prefix="wanderlust-report-") as folder:
        parts = list(_one(runs[0], Path(folder)) if len(runs) == 1 else _several(runs, Path(folder)))
    parts.append(
        html.footer(f"Written by wanderlust {version}. This page holds all that it shows and fetches nothing.")
    )
    return html.page(" · ".join(one.record.label for one in runs), "\n".join(parts))


def _one(one: Reported, folder: Path) -> Iterator[str]:
    record = one.record
    yield html.header("Skill report", record.label, described(record), _meta(record))
    yield html.verdict(verdict_of(one))
    yield html.tiles(_tiles(record))
    if films := films_of(record):
        yield html.heading("What it looks like")
        for film, caption in films.items():
            yield html.film(film, caption)
    yield html.heading("Figures")
    drawn = draw_all(record, folder / "0")
    for n, (path, caption) in enumerate(drawn.values(), 1):
        yield html.figure(path, n, caption)
    if not drawn:
        yield html.paragraph("There is nothing to draw yet: the run has not been evaluated.")
    yield html.heading("Measures")
    yield _measures(record)
    for said in notes([record]):
        yield html.paragraph(said)
    yield html.heading("What was run")
    yield _origin(record)
    yield _configuration(record)
    yield html.heading("Do it again")
    yield html.commands(one.reproduce)
    yield html.heading("Go on")
    yield html.commands(one.next_steps)


def _several(runs: Sequence[Reported], folder: Path) -> Iterator[str]:
    records = [one.record for one in runs]
    names = [one.label for one in records]
    yield html.header("Skill report", " · ".join(names), f"{len(runs)} runs side by side", [])
    for each in runs:
        yield html.verdict(verdict_of(each), each.record.label)
    yield html.heading("What differs")
    differing = differences([one.fields for one in records])
    yield (
        html.table(["", *names], differing, wide=len(runs) > 2)
        if differing
        else html.paragraph("Nothing: the configurations are the same.")
    )
    yield html.heading("What they reached")
    yield html.table(["", *names], reached(records), wide=len(runs) > 2)
    for said in notes(records):
        yield html.paragraph(said)
    yield html.heading("Figures")
    number = 1
    together = draw_comparison([drawn_of(one) for one in records], folder / "comparison.png")
    yield html.figure(
        together, number, "Coverage over environment steps and over minutes; trajectories of first seeds."
    )
    drawn = [draw_all(one, folder / str(n)) for n, one in enumerate(records)]
    for name in dict.fromkeys(name for one in drawn for name in one):
        shown = []
        for one, figures in zip(records, drawn, strict=True):
            if name in figures:
                number += 1
                path, caption = figures[name]
                shown.append(html.figure(path, number, f"{one.label}. {caption}", alone=False))
        yield html.row(shown, min(len(records), 3))
    for one in records:
        for film, caption in films_of(one).items():
            yield html.film(film, f"{one.label}: {caption[0].lower()}{caption[1:]}")
    for each in runs:
        yield html.heading(each.record.label)
        yield html.paragraph(described(each.record) + ".")
        yield _origin(each.record)
        yield _configuration(each.record)
        yield html.commands([*each.reproduce, *each.next_steps])


# --- what is said of a run ----------------------------------------------------------------------------------------


def described(record: RunRecord) -> str:
    """What was learned, of which body, by what."""
    config = record.run.config
    kind = {"discrete": f"{config.skills.size} discrete skills", "box": f"{config.skills.size}-D skills in a box"}
    skills = kind.get(config.skills.kind, f"{config.skills.size}-D skills")
    return f"{skills} of {config.env.name}, discovered without a reward by {config.rewards} (recipe {config.recipe})"


def verdict_of(one: Reported) -> list[str]:
    """The verdict of the evaluation if it has one, a line each; else what its measures come to in plain words."""
    if not one.verdict:
        return [_in_words(one.record)]
    return [*one.verdict, *([] if one.record.finished else ["Training is not at its end."])]


def _in_words(record: RunRecord) -> str:
    covered, far, along = (record.measure(name) for name in ("coverage_mode", "distance", "alignment"))
    if not covered:
        probed = record.curve[-1]["coverage"] if record.curve else []
        seen = f" At the last probe random skills covered {spread(list(map(float, probed)), 0)} bins." if probed else ""
        return f"These skills have not been evaluated yet.{seen}"
    episodes = (record.evaluation or {}).get("episodes", 200)
    said = f"{episodes:,} random skills cover {spread(covered, 0)} bins"
    floor = record.random.get("coverage")
    if floor:
        times = sum(covered) / len(covered) / floor
        said += (
            f", {times:.1f} times as many as random actions ({floor:,.0f})"
            if times >= 1.05
            else (f", no more than random actions ({floor:,.0f})")
        )
    said += f", and end {spread(far, 1)} m from their start on average." if far else "."
    if along:
        said += f" The map moves along the skill with a cosine of {spread(along)}."
    counts = ((record.evaluation or {}).get("kinds") or {}).get("counts") or []
    if counts:
        said += f" What they do: {', '.join(f'{count} {kind}' for kind, count in counts[0].items())}."
    return said if record.finished else f"{said} Training is not at its end."


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    size, unit = (1, "s") if seconds < 180 else (60, "minutes") if seconds < 3 * 3600 else (3600, "hours")
    return f"{seconds / size:,.1f} {unit}"


def _meta(record: RunRecord) -> list[str]:
    config, seconds = record.run.config, record.train_seconds
    commit = record.origin.get("commit")
    return [
        f"{config.seeds} seeds" if config.seeds > 1 else f"seed {config.seed}",
        f"{record.env_steps:,} environment steps{' per seed' if config.seeds > 1 else ''}" if record.env_steps else "",
        f"{duration(seconds)} of training" if seconds else "",
        f"commit {str(commit)[:10]}" if commit else "",
        str(record.origin.get("time") or "")[:10],
    ]


def _tiles(record: RunRecord) -> list[tuple[str, str]]:
    facts = []
    for name, what, digits in (
        ("coverage_mode", "bins covered", 0),
        ("distance", "metres from start to end", 1),
        ("alignment", "cosine of the map's way and z", 2),
        ("survived", "steps survived", 0),
    ):
        if values := record.measure(name):
            floor = record.random.get(RANDOM.get(name, ""))
            beside = f"; random actions: {floor:,.{digits}f}" if floor is not None else ""
            facts.append((spread(values, digits), what + beside))
    for name, values in tasks(record).items():
        facts.append((spread(values), name))
    return facts[:6]


def _measures(record: RunRecord) -> str:
    seeds = (record.evaluation or {}).get("seeds") or [record.run.config.seed]
    few = 1 < len(seeds) <= 8
    rows = {}
    for name in MEASURES:
        if values := record.measure(name):
            floor = record.random.get(RANDOM.get(name, ""))
            each = [f"{value:,.4g}" for value in values] if few and len(values) == len(seeds) else []
            rows[meaning(name, *record.bins)] = [spread(values), "" if floor is None else f"{floor:,.4g}", *each]
    for name, values in tasks(record).items():
        rows[name] = [spread(values), "", *([""] * len(seeds) if few else [])]
    mean = "mean ± 95% interval" if len(seeds) > 1 else "value"
    return html.table(
        ["measure", mean, "random actions", *([f"seed {s}" for s in seeds] if few else [])], rows, wide=few
    )


def _origin(record: RunRecord) -> str:
    origin, config = record.origin, record.run.config
    device, versions = origin.get("device") or {}, origin.get("versions") or {}
    shown = {key: versions[key] for key in ("python", "jax", "mujoco", "wanderlust") if versions.get(key)}
    resumed = origin.get("resumed") or 0
    times = len(resumed) if isinstance(resumed, list) else resumed
    began = origin.get("began_with") or {}
    rows = {
        "command": str(origin.get("command") or "unknown"),
        "began with": str(began.get("command") or "another run") if began else "",
        "resumed": f"{times} times" if times else "",
        "commit": str(origin.get("commit") or "unknown"),
        "started": str(origin.get("time") or "unknown"),
        "machine": f"{device.get('kind', 'unknown')}, {device.get('cpu_cores', '?')} CPU cores",
        "engine, precision": f"{config.engine}, {config.precision}",
        "versions": ", ".join(f"{name} {version}" for name, version in shown.items()) or "unknown",
        "epochs": f"{record.epoch or 0:,} of {config.schedule.epochs:,}",
    }
    return html.table(["", ""], {name: [text] for name, text in rows.items() if text}, numbers=False)


def _configuration(record: RunRecord) -> str:
    rows = {name: [value if isinstance(value, str) else json.dumps(value)] for name, value in record.fields.items()}
    return html.folded(
        f"The whole configuration, {len(rows)} fields", html.table(["field", "value"], rows, numbers=False)
    )


def reproduction(record: RunRecord) -> list[tuple[str, str]]:
    """The commands that made it."""
    command, commit = record.origin.get("command"), str(record.origin.get("commit") or "")
    lines = []
    if commit:
        changed = ", which had changes that were not committed" if commit.endswith("+") else ""
        lines.append((f"the source as it was{changed}", f"git checkout {commit.rstrip('+')}"))
    if command:
        lines.append(("the run", without_folders(str(command))))
    return lines


# --- pictures -----------------------------------------------------------------------------------------------------


def films_of(record: RunRecord) -> dict[Path, str]:
    """The films that were made, with captions: of the skills, on the way to goals, of tasks; MP4 before GIF."""
    results = record.run.results
    own = [path for kind in ("mp4", "gif") if (path := results / "video" / f"skills.{kind}").is_file()][:1]
    more = sorted(path for path in (results / "video").glob("*.mp4") if path.stem != "skills")[: 1 if own else 2]
    found = dict.fromkeys([*own, *more], "Some of the skills, each from the same start.")
    if (way := results / "reach" / "film.mp4").is_file():
        found[way] = "On the way to goals that were never trained for."
    tasks = sorted((results / "downstream").glob("*/film.mp4"))
    return found | {path: f"The first episodes of {path.parent.name}." for path in tasks}


def drawn_of(record: RunRecord) -> Drawn:
    """What a comparison draws of a run."""
    final = (record.env_steps, record.train_seconds, record.measure("coverage_mode"))
    return Drawn(record.label, record.run.config.env.name, record.curve, final, record.results)


def draw_all(record: RunRecord, folder: Path) -> dict[str, tuple[Path, str]]:
    """Every figure that a run has the data for, drawn anew in a folder; with captions."""
    found: list[tuple[str, Path, str]] = []
    source = record.run.results
    try:
        if record.results is not None and record.evaluation is not None:
            open_rollouts(record.results / "evaluation", len(record.evaluation["seeds"]))  # errors name the run's file
            _copy(record.results / "evaluation", folder / "evaluation", ("evaluation.json", "rollouts.safetensors"))
            _copy(record.run.path, folder, ("metrics.jsonl",))
            drawn = plots.draw_run(folder, learned=bool([row for row in record.curve if "reward" in row]))
            found += [(path.stem, path, CAPTIONS[path.stem]) for path in drawn]
        if _copy(source / "reach", folder / "reach", ("reach.json",)):
            found.append(("path", plots.draw_reach(folder), CAPTIONS["path"]))
        for n, solved in enumerate(sorted((source / "downstream").glob("*/result.json"))):
            place = folder / "downstream" / str(n)
            _copy(solved.parent, place, ("result.json", "curve.jsonl", "paths.safetensors"))
            for path in plots.draw_solved(place) if (place / "paths.safetensors").exists() else []:
                name = "paths" if path.stem == "paths" else "returns"
                found.append((f"{solved.parent.name} {name}", path, f"{solved.parent.name}: {CAPTIONS[name]}"))
    except (KeyError, TypeError, IndexError, ValueError) as problem:
        advice = "`wanderlust evaluate` makes it anew"
        raise UserError(f"{record.label}: what the figures are drawn from is damaged ({problem!r}); {advice}") from None
    return {name: (path, caption) for name, path, caption in found}


def _copy(source: Path, folder: Path, names: Sequence[str]) -> bool:
    """Copy those files that are there; whether the first of them is."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    return (folder / names[0]).is_file()
