"""Commands on whole runs: compare, report."""

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Column, Table
from tyro.conf import Positional, arg

from wanderlust.cli.process import import_api
from wanderlust.cli.reports import to_goals
from wanderlust.config import require_at_least
from wanderlust.errors import UserError

Runs = Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN [RUN ...]")]


@dataclasses.dataclass(frozen=True)
class Compare:
    """Put runs side by side: where their configurations differ, what they reached, and one figure of them all.

    Nothing is written into the runs' folders, and a run that is still training is not disturbed. What has no current
    evaluation is evaluated beside the comparison. For example:
      wanderlust compare runs/first runs/xyo                to comparisons/first-and-xyo
      wanderlust compare runs/ant zoo:ant zoo:ant-laptop --out comparisons/ants
      wanderlust compare runs/ant runs/ant-2 --quick        only what the files say already
    """

    runs: Runs
    """Folders of runs, or zoo:NAME."""
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Where comparison.md, .json, .png and .svg go; by default comparisons/NAME, with the names of the runs."""
    replace: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Replace a comparison that is there."""
    episodes: Annotated[int, arg(metavar="N")] = 200
    """Random skills per seed; evaluations of another number are not used, since more episodes cover more bins."""
    quick: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Evaluate nothing: take the files as they are."""

    def run(self, console: Console) -> int:
        from wanderlust.report.comparison import differences, markdown, notes, reached
        from wanderlust.report.document import drawn_of
        from wanderlust.report.plots.side_by_side import draw_comparison
        from wanderlust.runs.files import write_atomic, write_json
        from wanderlust.runs.folders import put_in_place, staging

        records = _read(self.runs, self.episodes)
        folder = self.out or Path("comparisons") / _joined([one.label for one in records])
        _refuse_existing(folder, self.replace)
        with staging(folder, folder.parent) as made:
            if not self.quick:
                records = _evaluated(records, self.episodes, made, console)
            draw_comparison([drawn_of(one) for one in records], made / "comparison.png")
            differing, came_to = differences([one.fields for one in records]), reached(records)
            facts = {"runs": [str(one.run) for one in records], "differences": differing, "reached": came_to}
            write_json(made / "comparison.json", {**facts, "notes": notes(records)})
            write_atomic(made / "comparison.md", markdown(records))
            put_in_place(made, folder)
        _show(console, [one.label for one in records], differing, came_to)
        for said in notes(records):
            console.print(said)
        console.print(f"table: {folder / 'comparison.md'}")
        console.print(f"figure: {folder / 'comparison.png'}")
        return 0


@dataclasses.dataclass(frozen=True)
class Report:
    """Write one page of HTML about a run, or about several side by side: verdict, measures, figures, film, commands.

    The page holds all that it shows and opens from disk, without a network. For example:
      wanderlust report runs/first                          to runs/first/report.html, in place of an earlier one
      wanderlust report zoo:ant                             to runs/zoo-ant/report.html
      wanderlust report runs/ant runs/ant-2 --out ants.html
    """

    runs: Runs
    """Folders of runs, or zoo:NAME."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """The page; by default report.html in the run's folder, or comparisons/NAME.html for several runs."""
    replace: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Replace a page that is there, if it is not the one in the run's own folder."""
    episodes: Annotated[int, arg(metavar="N")] = 200
    """Random skills per seed where an evaluation is missing, or not of the newest weights."""
    quick: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Evaluate nothing: take the files as they are."""
    video: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Film the skills first, as `wanderlust video` does, where there is no film of them yet."""

    def run(self, console: Console) -> int:
        import tempfile

        from wanderlust import __version__
        from wanderlust.report.document import Reported, films_of, report, reproduction
        from wanderlust.runs.files import write_atomic

        records = _read(self.runs, self.episodes)
        several = Path("comparisons") / f"{_joined([one.label for one in records])}.html"
        own = records[0].run.results / "report.html" if len(records) == 1 else several
        page = self.out or own
        if page.is_dir():
            raise UserError(f"--out is {page}, a folder; name a file, e.g. {page / 'report.html'}")
        _refuse_existing(page, self.replace or (len(records) == 1 and self.out is None))
        for one in records if self.video else []:
            if not films_of(one):
                from wanderlust.cli.video import show_film
                from wanderlust.report.video.film import FilmRequest, film_run

                show_film(console, film_run(one.run, FilmRequest()))
        with tempfile.TemporaryDirectory(prefix="wanderlust-evaluations-") as place:
            if not self.quick:
                records = _evaluated(records, self.episodes, Path(place), console)
            text = report([Reported(one, reproduction(one), _next(one), _verdict(one)) for one in records], __version__)
        write_atomic(page, text)
        console.print(f"report: {page} ({len(text) / 1e6:.1f} MB)")
        return 0


def _read(where: Sequence[Path], episodes: int) -> list[Any]:
    """What the files of some runs say."""
    import_api()
    from wanderlust.envs import devices
    from wanderlust.report.comparison import labels, read_record
    from wanderlust.runs.zoo import open_run

    require_at_least(1, "--episodes", episodes)
    if not where:
        raise UserError("no run given; name the folders of runs, or zoo:NAME")
    devices.prepare()
    runs = [open_run(one) for one in where]
    return [read_record(run, label) for run, label in zip(runs, labels(runs), strict=True)]


def _evaluated(records: Sequence[Any], episodes: int, folder: Path, console: Console) -> list[Any]:
    """The same runs, each with a current evaluation; those that are made now go under a folder."""
    from wanderlust.evaluation.missing import with_evaluation

    places = [folder / "evaluations" / f"{n}-{_joined([one.label])}" for n, one in enumerate(records)]
    return [with_evaluation(one, episodes, place, console.print) for one, place in zip(records, places, strict=True)]


def _joined(names: Sequence[str]) -> str:
    """Names as the name of a folder."""
    plain = "-and-".join(names)
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in plain)[:100].strip(".-") or "runs"


def _refuse_existing(path: Path, replace: bool) -> None:
    if path.exists() and not replace:
        raise UserError(f"{path} already exists; choose another --out, or --replace it")


def _show(
    console: Console, names: Sequence[str], differing: dict[str, list[str]], came_to: dict[str, list[str]]
) -> None:
    """Both tables in one."""
    columns = [Column(name, justify="right", overflow="fold") for name in names]
    table = Table(Column("", overflow="fold"), *columns, title_justify="left")
    for key, cells in differing.items():
        table.add_row(key, *cells)
    if differing:
        table.add_section()
    for key, cells in came_to.items():
        table.add_row(key, *cells)
    console.print(table, soft_wrap=False)


def _verdict(record: Any) -> list[str]:
    """The verdict of a run's evaluation in words; nothing where there is none, as of older ones."""
    from wanderlust.evaluation.verdict import words

    found = (record.evaluation or {}).get("verdict")
    if not isinstance(found, Mapping):
        return []
    try:
        return words(found)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        advice = "`wanderlust evaluate` makes it anew"
        raise UserError(f"{record.label}: the verdict of its evaluation is damaged ({problem!r}); {advice}") from None


def _next(record: Any) -> list[tuple[str, str]]:
    """What can be done with a run next."""
    from wanderlust.cli import COMMANDS

    run, quoted = record.run, shlex.quote(str(record.run))
    lines = []
    if not record.finished:
        lines.append(("continue training", f"wanderlust discover --resume {quoted}"))
    lines.append(("measure and draw again", f"wanderlust evaluate {quoted} --episodes 1000"))
    if goals := to_goals(run):
        lines.append(("put the skills to work", f"wanderlust {goals}"))
    for name, what in (("video", "film the skills"), ("explore", "drive them in the browser")):
        if name in COMMANDS:
            lines.append((what, f"wanderlust {name} {quoted}"))
    if not run.entry:
        other = run.config.seed + run.config.seeds
        config = shlex.quote(str(run.path / "config.json"))
        lines.append(("the same with another seed", f"wanderlust discover --config {config} --seed {other}"))
    return lines
