"""Both PointEnv tables of the appendix: zero-shot goal following of LSD, DIAYN and DIAYN-XYO.

LSD and DIAYN are trained from random starts in [-10, 10]^2, DIAYN-XYO from the fixed start, all with the `paper`
recipe; every task starts at (0, 0). The paper's numbers stand beside ours, each with its standard error.
"""

import dataclasses
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from wanderlust import train
from wanderlust.config import RunConfig, SkillConfig, with_changes
from wanderlust.downstream.controllers.options import (
    ControlledSkills,
    HighLevelPolicy,
    TaskSetup,
    make_option_rollout,
    returns,
)
from wanderlust.downstream.controllers.zero_shot import zero_shot_policy
from wanderlust.downstream.tasks import GoalTask, make_task
from wanderlust.envs import devices
from wanderlust.errors import UserError
from wanderlust.evaluation.metrics import summarise
from wanderlust.recipes import get_recipe, with_random_start
from wanderlust.runs.files import write_atomic, write_json
from wanderlust.runs.learned import Learned, load_learner
from wanderlust.runs.provenance import provenance
from wanderlust.runs.run import Run
from wanderlust.sweeps.grid import train_to_end
from wanderlust.sweeps.standing import opened

EPISODES = 200
"""Episodes per seed and task."""

RADIUS, RADII = 3.0, (1.0, 2.0, 3.0, 5.0)
"""The paper does not give the reach radius: the table uses 3, the others show whether the ordering hangs on it."""

GOAL_RANGES = (10, 20, 40, 80)
MULTI_RANGES = (10, 20, 40)


class PaperRow(NamedTuple):
    """A row of the tables: what is trained, and the paper's means and standard errors."""

    label: str
    method: str
    start_range: float
    goal: tuple[tuple[float, float], ...]
    multi: tuple[tuple[float, float], ...]


ROWS = (
    PaperRow(
        "LSD", "lsd", 10.0, ((1.0, 0.0), (1.0, 0.0), (1.0, 0.0), (0.92, 0.03)), ((4.0, 0.0), (4.0, 0.0), (3.85, 0.05))
    ),
    PaperRow(
        "DIAYN",
        "diayn",
        10.0,
        ((0.41, 0.05), (0.20, 0.03), (0.12, 0.03), (0.05, 0.02)),
        ((1.54, 0.18), (0.82, 0.11), (0.43, 0.08)),
    ),
    PaperRow(
        "DIAYN-XYO",
        "diayn-xyo",
        0.0,
        ((1.0, 0.0), (0.80, 0.01), (0.35, 0.01), (0.15, 0.01)),
        ((2.09, 0.03), (1.27, 0.02), (0.57, 0.02)),
    ),
)


def reproduce(
    out: Path,
    work: Path,
    seeds: int = 8,
    changes: tuple[str, ...] = (),
    only: tuple[str, ...] = (),
    quiet: bool = False,
) -> tuple[dict[str, Any], str]:
    """Train what is not trained yet under `work`, measure, write JSON and Markdown under `out`, return both."""
    methods = [row.method for row in ROWS]
    if unknown := [name for name in only if name not in methods]:
        raise UserError(f"there is no row {unknown[0]!r}; known: {', '.join(methods)}")
    began = time.monotonic()
    chosen = [row for row in ROWS if not only or row.method in only]
    config = _config(chosen[0], seeds, changes)
    devices.prepare(config.seeds)
    rows = [_measure(row, _trained(row, work, seeds, changes, quiet)) for row in chosen]
    result = {
        "item": "point-goals",
        "provenance": provenance(config),
        "seeds": list(range(config.seed, config.seed + config.seeds)),
        "episodes_per_seed_and_task": EPISODES,
        "changes": list(changes),
        "radius": RADIUS,
        "training_seconds": round(sum(r["training_seconds"] for r in rows), 1),
        "this_command_seconds": round(time.monotonic() - began, 1),
        "rows": rows,
    }
    text = _markdown(result)
    write_json(out / "point_goals.json", result)
    write_atomic(out / "point_goals.md", text)
    return result, text


def _config(row: PaperRow, seeds: int, changes: tuple[str, ...]) -> RunConfig:
    config = with_random_start(get_recipe("paper", "point", row.method, SkillConfig()), row.start_range)
    return with_changes(dataclasses.replace(config, seeds=seeds), changes)


def _trained(row: PaperRow, work: Path, seeds: int, changes: tuple[str, ...], quiet: bool) -> Run:
    """The run of a row: made, gone on with, or found finished."""
    config, path = _config(row, seeds, changes), work / row.method
    run = opened(path, config) or Run.create(path, config)
    train_to_end(run, quiet)
    return run


def _measure(row: PaperRow, run: Run) -> dict[str, Any]:
    parts = train.assemble(run.config)
    parts = dataclasses.replace(parts, world=parts.world.from_origin())
    _, learner = load_learner(run, parts)
    keys = jax.random.split(jax.random.key(0), run.config.seeds)
    play = jax.jit(jax.vmap(lambda task, one, key: follow(parts, one, task, EPISODES, key), in_axes=(None, 0, 0)))

    def score(task: str, goal_range: float, radius: float) -> dict[str, Any]:
        """Mean return per seed, and the mean norm of the skills chosen."""
        followed = play(make_task(task, goal_range=goal_range, radius=radius), learner, keys)
        per_seed = np.asarray(followed.returns, np.float64).mean(axis=1)
        norm = float(np.mean(np.asarray(followed.skill_norm)))
        return {**summarise(per_seed)._asdict(), "per_seed": per_seed.tolist(), "skill_norm": norm}

    tables: dict[str, Any] = {}
    for radius in RADII:
        goal = [score("point-goal", g, radius) for g in GOAL_RANGES]
        multi = [score("point-multi-goals", g, radius) for g in MULTI_RANGES]
        tables[f"{radius:g}"] = {
            "PointGoal": {str(g): s for g, s in zip(GOAL_RANGES, goal, strict=True)},
            "PointMultiGoals": {str(g): s for g, s in zip(MULTI_RANGES, multi, strict=True)},
        }
    return {
        "label": row.label,
        "method": row.method,
        "start_range": getattr(run.config.env, "start_range", 0.0),
        "trained_at_commit": run.provenance().get("commit"),
        "training_seconds": run.metrics()[-1]["seconds"],
        "by_radius": tables,
        "paper": {
            "PointGoal": {str(g): list(v) for g, v in zip(GOAL_RANGES, row.goal, strict=True)},
            "PointMultiGoals": {str(g): list(v) for g, v in zip(MULTI_RANGES, row.multi, strict=True)},
        },
    }


# --- the tables as text ------------------------------------------------------------------------------------------


def _markdown(result: dict[str, Any]) -> str:
    where = result["provenance"]
    lines = [
        "# Zero-shot goal following on PointEnv",
        "",
        f"`wanderlust reproduce point-goals`, {len(result['seeds'])} seeds, "
        f"{result['episodes_per_seed_and_task']} episodes per seed and task, reach radius {result['radius']:g}; "
        f"mean ± standard error over seeds. Commit {where['commit']}, {where['device']['kind']} "
        f"({where['device']['cpu_cores']} cores), training {result['training_seconds'] / 60:.1f} min in all, "
        f"at {', '.join(sorted({str(row['trained_at_commit']) for row in result['rows']}))}.",
        *([f"Changed from the recipe: {', '.join(result['changes'])}."] if result["changes"] else []),
    ]
    for task, symbol, ranges in (("PointGoal", "g_s", GOAL_RANGES), ("PointMultiGoals", "g_m", MULTI_RANGES)):
        lines += ["", f"## {task}", "", _line("method", [f"{symbol} = {g}" for g in ranges]), _rule(len(ranges))]
        for row in result["rows"]:
            ours = row["by_radius"][f"{result['radius']:g}"][task]
            lines.append(_line(f"{row['label']}, ours", [_cell(ours[str(g)]) for g in ranges]))
            paper = row["paper"][task]
            lines.append(
                _line(f"{row['label']}, paper", [f"{m:.2f} ± {e:.2f}" for m, e in map(paper.get, map(str, ranges))])
            )
    lines += ["", "## Other reach radii", "", "The paper does not give PointEnv's; means of ours."]
    names = [f"{task} {g}" for task, r in (("Goal", GOAL_RANGES), ("Multi", MULTI_RANGES)) for g in r]
    lines += ["", _line("radius, method", names), _rule(len(names))]
    for radius in result["rows"][0]["by_radius"]:
        for row in result["rows"]:
            table = row["by_radius"][radius]
            cells = [f"{table[t][str(g)]['mean']:.2f}" for t, r in _tasks() for g in r]
            lines.append(_line(f"{radius}, {row['label']}", cells))
    return "\n".join(lines) + "\n"


def _tasks() -> tuple[tuple[str, tuple[int, ...]], ...]:
    return ("PointGoal", GOAL_RANGES), ("PointMultiGoals", MULTI_RANGES)


def _cell(score: dict[str, Any]) -> str:
    return (
        f"{score['mean']:.2f} ± {score['standard_error']:.2f}" if len(score["per_seed"]) > 1 else f"{score['mean']:.2f}"
    )


def _line(head: str, cells: list[str]) -> str:
    return f"| {' | '.join([head, *cells])} |"


def _rule(columns: int) -> str:
    return _line("---", ["---"] * columns)


# --- zero-shot episodes ---------------------------------------------------------------------------------------------


class Followed(NamedTuple):
    """The result of a batch of episodes."""

    returns: Float[Array, " episodes"]
    skill_norm: Float[Array, ""]
    """Mean norm of the skills chosen while an episode was running."""


def follow(parts: train.Setup, learned: Learned, task: GoalTask, episodes: int, key: Key[Array, ""]) -> Followed:
    """Episodes of a goal task; `learned` is one seed's. Where the engine compiles, so does this."""
    setup = TaskSetup(task, task.arrange(parts.world), parts.engine)
    policy, skilled = zero_shot_policy(parts), ControlledSkills(learned)
    ours = HighLevelPolicy(lambda _, *now: policy.choose(skilled, *now), lambda _, *now: policy.act(skilled, *now), 1)
    decisions = make_option_rollout(setup, ours)((), key[None], episodes)
    norms = jnp.linalg.norm(decisions.choice.skill, axis=-1)
    return Followed(returns(decisions)[0], jnp.sum(norms * decisions.valid) / jnp.sum(decisions.valid))
