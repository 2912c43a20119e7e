"""Every figure, table and claim of the paper: the command for it, what is measured of it here, and whether it agrees.

What is measured is read from the results under `benchmarks/results`.
"""

import functools
import json
import re
from pathlib import Path
from typing import NamedTuple

from wanderlust.runs.files import read_object, read_rows
from wanderlust_experiments.verdicts import (
    MISSING,
    VERDICTS,
    Judge,
    State,
    chosen_norm,
    drawn,
    leads,
    one_training,
    point_table,
    spiral,
)

Names = tuple[tuple[str, str], ...]
"""Methods, and how the names of their results end."""


class Cost(NamedTuple):
    """What a command trains, for its hours."""

    env: str
    runs: int
    """Rows times seeds."""
    steps: int
    """Environment steps of each."""


class Statement(NamedTuple):
    """A figure, a table or a claim."""

    place: str
    says: str
    words: str = ""
    """Behind `wanderlust reproduce`; empty if there is no command yet."""
    judge: Judge = lambda _: State(MISSING)
    cost: Cost | None = None
    by_hand: str = ""
    """How it is measured, if not by a command of its own."""


# --- hours --------------------------------------------------------------------------------------------------------

PACES = {"ant": "laptop_ant/seed_0", "half-cheetah": "laptop_half_cheetah"}
"""Runs of the recipe laptop on two cores whose metrics say how fast an environment is."""


@functools.cache
def pace(env: str, folder: Path) -> float | None:
    """Seconds per environment step on two cores, as measured with LSD; None where nothing was."""
    if env == "point":
        path = folder / "point_goals.json"
        if not path.exists():
            return None
        rows = read_object(path, "the results")["rows"]
        return sum(row["training_seconds"] for row in rows) / (len(rows) * 8 * POINT_STEPS)
    path = folder / PACES.get(env, "nowhere") / "metrics.jsonl"
    last = read_rows(path)[-1:] if path.exists() else []
    return last[0]["seconds"] / last[0]["env_steps"] if last else None


def hours(statement: Statement, folder: Path) -> float | None:
    """Of its command on two cores, by LSD's pace for all methods; None where it is not known."""
    if statement.cost is None or (one := pace(statement.cost.env, folder)) is None:
        return None
    return statement.cost.runs * statement.cost.steps * one / 3600


# --- what the paper says ------------------------------------------------------------------------------------------

POINT_STEPS = 2_500_000
ANT = "coverage --budget-steps 4000000 --only lsd --only diayn --only diayn-xyo --only visr --only aps --only smm"
ANT += " --only dads --only dads-xyo --only ibol"
CHEETAH = "coverage --env half-cheetah --budget-steps 3200000 --only lsd --only diayn --only dads --only visr"
HUMANOID = "coverage --env humanoid --budget-steps 20000000"
ANT_ROWS = ("coverage_ant_2d.json", "coverage_h200/coverage_ant_2d.json")
CHEETAH_ROWS = ("coverage_half-cheetah_2d.json", "coverage_h200/coverage_half-cheetah_2d.json")
HUMANOID_ROWS = ("coverage_humanoid_2d.json",)
ANT_COST, CHEETAH_COST = Cost("ant", 9 * 3, 4_000_000), Cost("half-cheetah", 4 * 3, 3_200_000)
HUMANOID_COST = Cost("humanoid", 18 * 3, 20_000_000)
THREE = "--only lsd --only diayn --only dads"
POINT_COST = Cost("point", 24, POINT_STEPS)

SAC = (("LSD", "sac_lsd"), ("DIAYN", "sac_diayn"), ("DIAYN-XYO", "sac_diayn_xyo"), ("DADS-XYO", "sac_dads_xyo"))
PPO = (("LSD", "ppo_lsd"), ("DIAYN", "ppo_diayn"))
ZERO_SHOT = (("LSD", "zero_shot"), ("DIAYN", "zero_shot_diayn"))
GOALS = ("AntGoal", "AntMultiGoals", "HumanoidGoal", "HumanoidMultiGoals")
OTHERS = ("CheetahHurdle", "AntRotation", "AntQuaternion")


def _tasks(part: str, titles: tuple[str, ...], says: str, controller: str, names: Names) -> list[Statement]:
    """A statement for each downstream task."""
    found = []
    for title in titles:
        task = re.sub(r"(?<!^)(?=[A-Z])", "_", title).lower()
        files = [(name, f"{task}_{file}.json") for name, file in names]
        command = f"wanderlust downstream RUN --task {task.replace('_', '-')} --controller {controller}"
        found.append(Statement(f"{part}, {title}", says, judge=one_training(*files), by_hand=command))
    return found


def _coverage(place: str, says: str, words: str, cost: Cost, measure: str, files: tuple[str, ...]) -> Statement:
    return Statement(place, says, words, leads(measure, *files), cost)


def _discrete(env: str, title: str, skills: int, steps: int) -> Statement:
    words = f"coverage --env {env} --discrete {skills} --budget-steps {steps} {THREE}"
    says = f"locomotion, rotation, flips and poses; N = {skills}"
    return Statement(
        f"Discrete skills, {title}", says, words, drawn(f"coverage_{env}_n{skills}.json"), Cost(env, 9, steps)
    )


LSD_CELL = "inner-product-step-spectral"
FAR, MOST, LARGEST = "LSD reaches farther than all others", "LSD covers most bins", "LSD's is the largest"
ORDER = "LSD, then DIAYN-XYO, then DIAYN"
PAPER: tuple[Statement, ...] = (
    _coverage("Figure 1, trajectories", "only LSD's skills go far", ANT, ANT_COST, "distance", ANT_ROWS),
    Statement(
        "Figure 1, spiral", "skills follow goals on it zero-shot", judge=spiral, by_hand="python benchmarks/spiral.py"
    ),
    Statement("Table 1", "what each method prefers, takes and can do"),
    _coverage("Figure 2, Ant, d = 2", FAR, ANT, ANT_COST, "distance", ANT_ROWS),
    _coverage(
        "Figure 2, Ant, d = 5",
        FAR,
        f"coverage --skills 5 --budget-steps 4000000 {THREE}",
        Cost("ant", 9, 4_000_000),
        "distance",
        ("coverage_ant_5d.json",),
    ),
    _coverage("Figure 2, Humanoid", FAR, HUMANOID, HUMANOID_COST, "distance", HUMANOID_ROWS),
    Statement("Figure 2, zoomed", "the skills of each method at its own scale"),
    _coverage("Figure 3, Ant", MOST, ANT, ANT_COST, "coverage_mode", ANT_ROWS),
    _coverage("Figure 3, Humanoid", MOST, HUMANOID, HUMANOID_COST, "coverage_mode", HUMANOID_ROWS),
    _discrete("ant", "Ant", 16, 4_000_000),
    _discrete("half-cheetah", "HalfCheetah", 8, 3_200_000),
    _discrete("humanoid", "Humanoid", 16, 20_000_000),
    *_tasks("Downstream", GOALS, "LSD is best", "sac", SAC),
    *_tasks("Downstream", OTHERS, "LSD is best", "ppo", PPO),
    *_tasks("Zero-shot", GOALS, "LSD's goes before DIAYN's", "zero-shot", ZERO_SHOT),
    Statement(
        "Ablation",
        "of 24 rewards LSD's covers most",
        "ablation --all --budget-steps 4000000",
        leads(
            "coverage_mode",
            "ablation_ant.json",
            "ablation_h200/ablation_ant.json",
            first=LSD_CELL,
            inside="cells",
            also=ANT_ROWS[1:],
        ),
        Cost("ant", 24 * 3, 4_000_000),
    ),
    Statement("Correlations, continuous", "φ(s_T) - φ(s_0), and which states skills go with; d = 2 to 5"),
    Statement("Correlations, discrete", "the same for N = 6, 8, 16 on HalfCheetah, Ant and Humanoid"),
    _coverage("‖s_T - s_0‖, Ant", LARGEST, ANT, ANT_COST, "travelled", ANT_ROWS),
    _coverage("‖s_T - s_0‖, HalfCheetah", LARGEST, CHEETAH, CHEETAH_COST, "travelled", CHEETAH_ROWS),
    _coverage("‖s_T - s_0‖, Humanoid", LARGEST, HUMANOID, HUMANOID_COST, "travelled", HUMANOID_ROWS),
    Statement("Table, PointGoal", ORDER, "point-goals", point_table("PointGoal"), POINT_COST),
    Statement("Table, PointMultiGoals", ORDER, "point-goals", point_table("PointMultiGoals"), POINT_COST),
    Statement(
        "Text, PointEnv", "DIAYN picks skills of norm 3.84 for goals within 40", "point-goals", chosen_norm, POINT_COST
    ),
    Statement("Text, discrete skills", "plain one-hot codes collapse"),
    Statement("Text, zero-shot", "E‖z‖ is the best norm of a chosen skill"),
    Statement("Text, Humanoid", "the alive bonus matters little"),
    Statement("Fetch, coverage", MOST, "fetch", leads("coverage_mode", "fetch/fetch_push.json")),
    Statement("Fetch, downstream", "LSD is best with SAC", "fetch-goals"),
)


# --- the list -----------------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """A statement with its state here."""

    statement: Statement
    state: State
    hours: float | None


def listed(folder: Path) -> list[Line]:
    """All of the paper, with what is measured under a folder of results."""
    return [Line(one, one.judge(folder), hours(one, folder)) for one in PAPER]


def as_json(lines: list[Line]) -> str:
    """The list for other programs."""
    rows = [
        {
            "place": line.statement.place,
            "says": line.statement.says,
            "command": f"wanderlust reproduce {line.statement.words}" if line.statement.words else None,
            "by_hand": line.statement.by_hand or None,
            **line.state._asdict(),
            "hours": line.hours,
        }
        for line in lines
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"


def as_text(lines: list[Line]) -> str:
    """The list for people: a few lines for each statement."""
    found = []
    for line in lines:
        one, state = line.statement, line.state
        found.append(f"{one.place}: {one.says}")
        seeds = "1 training" if state.seeds == 1 else f"{state.seeds} seeds"
        measured = f" ({'; '.join(part for part in (seeds, state.where) if part)})" if state.seeds else ""
        found.append(f"  {state.verdict}{measured}{f': {state.why}' if state.why else ''}")
        length = "hours unknown" if line.hours is None else f"about {line.hours:.1f} h on two cores"
        if one.words:
            found.append(f"  wanderlust reproduce {one.words}  ({length})")
        else:
            found.append(f"  by hand: {one.by_hand}" if one.by_hand else "  no command yet")
    counts = {verdict: sum(line.state.verdict == verdict for line in lines) for verdict in VERDICTS}
    found.append("")
    found.append(f"{len(lines)} statements: {', '.join(f'{n} {verdict}' for verdict, n in counts.items() if n)}")
    found.append("agrees and disagrees: by bootstrap and permutation test over training seeds (docs/how-to/sweeps.md)")
    return "\n".join(found) + "\n"
