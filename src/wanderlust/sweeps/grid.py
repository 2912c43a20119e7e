"""Rows of a comparison, trained one after the other and measured.

The results file grows by one row at a time: a command that was stopped, called again, trains what is not in it yet.
What the rows are, and what is shown of them, is each study's own.
"""

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from wanderlust.config import RunConfig, flat
from wanderlust.errors import UserError
from wanderlust.runs.files import check_writable, read_text, write_json
from wanderlust.runs.provenance import provenance
from wanderlust.sweeps.local import Row, TrainingError
from wanderlust.sweeps.tables import Facts, Study, markdown, number, write_table_and_figures

EPISODES = 200
"""Random skills per seed behind a coverage."""


def carry_out(
    study: Study, rows: Mapping[str, Row], shared: RunConfig, work: Path, episodes: int, quiet: bool
) -> tuple[Facts, str]:
    """Train and measure the rows that the results lack; return the results, and as a table.

    Runs go under `work`. A row whose training fails is told of and left out; the next call tries it again.
    """
    say = Console(file=sys.stderr, quiet=quiet, highlight=False, markup=False, soft_wrap=True).print
    path, failed = study.path(".json"), {}
    results = _results_so_far(study, shared, episodes)
    for name, row in rows.items():  # all that can be refused is, before hours are spent on the first
        if name not in results[study.rows_are]:
            row.run(work / name)
        else:
            _refuse_other(f"{path} has {name}", _plain(row.about), results[study.rows_are][name])
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
            raise stop if stop.args else KeyboardInterrupt("stopped; the same command continues") from None
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


# --- the file of results ---------------------------------------------------------------------------------------------


def _results_so_far(study: Study, shared: RunConfig, episodes: int) -> Facts:
    """The results in a file, or none yet; a file of another configuration is refused, not overwritten."""
    path, config = study.path(".json"), _plain(dataclasses.asdict(shared))
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
            markdown(study, results, rows, {})
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UserError(
            f"{path} is damaged: it is no table of `reproduce {study.item}`; delete it to start anew"
        ) from None
    ours = flat(config)
    _refuse_other(f"{path} was made", dict.fromkeys(theirs) | ours, theirs)
    return {**results, study.rows_are: rows}


def _refuse_other(what: str, ours: Facts, theirs: Facts) -> None:
    """What stands in the results must be what would be trained now: recipes may have changed since."""
    for key, value in ours.items():
        if theirs.get(key) != value:
            raise UserError(
                f"{what} with {key} {theirs.get(key)}, not {value}; choose another --out folder, or delete it to "
                "start anew"
            )


def _plain(facts: Facts) -> Facts:
    """As it would come back from a file."""
    plain: Facts = json.loads(json.dumps(facts))
    return plain
