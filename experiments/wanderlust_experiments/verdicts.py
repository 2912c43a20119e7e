"""Whether results agree with a statement of the paper, computed from the values of their seeds.

A seed is a training of the skills: results whose seeds are batches of one policy, or controllers over one training of
the skills, decide nothing.
"""

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from wanderlust.evaluation.statistics import difference
from wanderlust.runs.files import read_object

AGREES, DISAGREES, UNDECIDED, MISSING = "agrees", "disagrees", "undecided", "not measured"
LOOK = "a figure to look at"
VERDICTS = (AGREES, DISAGREES, UNDECIDED, LOOK, MISSING)
POINT_GOALS = "point_goals.json"
NEWER = ("metra", "csd")
"""Rows of ours that the paper does not have."""


class State(NamedTuple):
    """What is measured of a statement, and what follows."""

    verdict: str
    seeds: int = 0
    where: str = ""
    """On what machine, and by how many environment steps."""
    why: str = ""


Judge = Callable[[Path], State]
"""Reads a folder of results."""


def _found(folder: Path, *files: str) -> dict[str, Any] | None:
    """The results in the first of some files that is there."""
    path = next((folder / file for file in files if (folder / file).exists()), None)
    return None if path is None else read_object(path, "the results")


def leads(measure: str, *files: str, first: str = "lsd", inside: str = "rows", also: tuple[str, ...] = ()) -> Judge:
    """Whether a row is ahead of all others: only what the seeds order counts.

    Where the files do not have it, LSD of those in `also` stands for it, which had the same settings.
    """

    def judge(folder: Path) -> State:
        if (results := _found(folder, *files)) is None:
            return State(MISSING)
        rows = results[inside]
        mine = rows.get(first) or ((_found(folder, *also) or {}).get("rows") or {}).get("lsd")
        if mine is None:
            return State(MISSING, why=f"there is no row {first}")
        ours = mine["metrics"][measure]["per_seed"]
        others = {name: row for name, row in rows.items() if name not in (*NEWER, first)}
        gaps = {name: difference(ours, row["metrics"][measure]["per_seed"]) for name, row in others.items()}
        behind = [name for name, gap in gaps.items() if gap.ordered and gap.mean < 0]
        open_ = [name for name, gap in gaps.items() if not gap.ordered]
        higher = [name for name in open_ if gaps[name].mean < 0]
        verdict = DISAGREES if behind else UNDECIDED if open_ else AGREES
        why = f"behind {', '.join(behind)}" if behind else f"ahead of {_few([*gaps])}"
        if not behind and open_:
            why = f"the seeds do not order {first} and {_few(open_)}"
            why += f"; higher in the mean: {', '.join(higher)}" if higher else "; it is first in the mean"
        where = f"{results['provenance']['device']['kind']}, {mine['env_steps_per_seed']:,} steps"
        return State(verdict, len(ours), where, why)

    return judge


def drawn(*files: str) -> Judge:
    """A figure without a number to compare."""

    def judge(folder: Path) -> State:
        if (results := _found(folder, *files)) is None:
            return State(MISSING)
        return State(LOOK, len(results["seeds"]), results["provenance"]["device"]["kind"])

    return judge


def spiral(folder: Path) -> State:
    """How much of the spiral is followed."""
    if (found := _found(folder, "spiral.json")) is None:
        return State(MISSING)
    why = f"{found['median_reached']:g} of {found['spiral']['goals']} goals in the median of {found['starts']} starts"
    return State(LOOK, 1, found["device"]["kind"], why)


def _few(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} others"


def point_table(task: str, order: tuple[str, ...] = ("LSD", "DIAYN-XYO", "DIAYN")) -> Judge:
    """Whether the rows of a table on PointEnv are ordered as in the paper, wherever its own means differ."""

    def judge(folder: Path) -> State:
        if (results := _found(folder, POINT_GOALS)) is None:
            return State(MISSING)
        rows = {row["label"]: row for row in results["rows"]}
        radius, cells = f"{results['radius']:g}", 0
        wrong: list[str] = []
        undecided: list[str] = []
        for one, other in itertools.pairwise(order):
            if one not in rows or other not in rows:
                return State(MISSING, why=f"{POINT_GOALS} lacks a row")
            for goal, (theirs, error) in rows[one]["paper"][task].items():
                second, second_error = rows[other]["paper"][task][goal]
                if abs(theirs - second) <= 2 * math.hypot(error, second_error):
                    continue  # the paper does not order these two either
                ours = (rows[name]["by_radius"][radius][task][goal]["per_seed"] for name in (one, other))
                gap, cells = difference(*ours), cells + 1
                ordered_alike = gap.ordered and (gap.mean > 0) == (theirs > second)
                if not ordered_alike:
                    (wrong if gap.ordered else undecided).append(f"{one} and {other} at {goal}")
        verdict = DISAGREES if wrong else UNDECIDED if undecided else AGREES
        why = f"of {cells} orderings of the paper, {cells - len(wrong) - len(undecided)} hold here"
        why += "".join(
            f"; {word} {', '.join(found)}" for word, found in (("not", wrong), ("open:", undecided)) if found
        )
        where = f"{results['provenance']['device']['kind']}, the paper's schedule"
        return State(verdict, len(results["seeds"]), where, why)

    return judge


def chosen_norm(folder: Path) -> State:
    """The mean norm of the skills that DIAYN's variant picks for goals within 40."""
    if (results := _found(folder, POINT_GOALS)) is None:
        return State(MISSING)
    radius = f"{results['radius']:g}"
    norms = {row["label"]: row["by_radius"][radius]["PointGoal"]["40"]["skill_norm"] for row in results["rows"]}
    found = ", ".join(f"{label} {norm:.2f}" for label, norm in norms.items() if label.startswith("DIAYN"))
    where = results["provenance"]["device"]["kind"]
    return State(UNDECIDED, len(results["seeds"]), where, f"{found}; the paper says 3.84 without a deviation")


def one_training(*files: tuple[str, str], folder_name: str = "downstream") -> Judge:
    """Returns of controllers over one training of the skills each: numbers, and no verdict."""

    def judge(folder: Path) -> State:
        found = []
        kinds = set()
        for name, file in files:
            if (result := _found(folder / folder_name, file)) is not None:
                found.append(f"{name} {result['return']['mean']:.2f}")
                kinds.add(str((result["provenance"].get("device") or {}).get("kind")))
        if not found:
            return State(MISSING)
        return State(UNDECIDED, 1, ", ".join(sorted(kinds)), f"mean return of {', '.join(found)}; one training each")

    return judge
