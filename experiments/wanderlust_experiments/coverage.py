"""How far the skills of every method reach: state space coverage, ||s_T - s_0|| and trajectories, side by side.

The paper's figures 2 and 3 and its figure of the average normalised state difference, which give no numbers. A row is
its method's own recipe: rates, horizon, targets, entropy, rewards, replay, start. Taken from LSD's recipe is what makes
rows comparable, also where a method's own paper has something else:

- environment steps; gradient steps, their order and their batches; worlds and steps of a collection: a row that had
  more of them would win by that. Whoever learns from blocks of steps keeps these whole.
- widths of policy and critics: what is compared is what to learn, not how much a network can hold.

With `equal = "steps"` environment steps alone are equal, and each row has the schedule and the widths of its own
recipe: what its authors would do with as much experience. The two rules answer different questions, and have files of
their own.

IBOL's levels have schedules of their own (one learns from blocks, the other from whole episodes), and of LSD's only the
environment steps. Stages share what others have for one. The paper's figure shows EDL's first stage alone, which is
`smm` here. `random` is the floor.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from wanderlust.api import configure
from wanderlust.config import RunConfig, ScheduleConfig, SkillConfig, StageConfig, StagedConfig, flat, with_changes
from wanderlust.envs import make_engine, make_world
from wanderlust.envs.spec import Rollout
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import measures
from wanderlust.evaluation.metrics import summarise
from wanderlust.methods import Method, make_method
from wanderlust.methods.skills import make_skills
from wanderlust.recipes import DEFAULT, get_recipe, usual_skills
from wanderlust.recipes.ibol import in_whole_blocks
from wanderlust.registry import METHODS
from wanderlust.runs.files import write_arrays
from wanderlust.sweeps import grid
from wanderlust.sweeps.figures import COVERAGES, bars
from wanderlust.sweeps.grid import Row, measured_where
from wanderlust.sweeps.tables import JsonObject, Study, count, number
from wanderlust.train import stages
from wanderlust.train.probe import random_episodes
from wanderlust_experiments.trajectories import RANDOM, rollouts, trajectories

UNTRAINED: JsonObject = {"alpha": None, "learn_alpha": False, "differs_from_lsd": {}}
"""What tells a row without a policy from the others."""
VARIANTS = (*(f"{method}-{view}" for method in ("diayn", "dads") for view in ("xyo", "xy", "o")), "ibol-o")
"""Methods with feature engineering: what the networks see was chosen by hand."""
CONTINUOUS = ("lsd", "dads", "diayn", "visr", "vic", "smm", "edl", "aps", "ibol", "metra", "csd", *VARIANTS, RANDOM)
DISCRETE = ("lsd", "dads", "diayn", "vic", "edl", "metra", "csd", RANDOM)
ELSEWHERE = {"ablation": "the cells of that grid have a command of their own, reproduce ablation"}
"""Methods that are no row here, and why."""

Equal = Literal["updates", "steps"]
OWN: Mapping[Equal, str] = {"updates": "", "steps": "_own_schedules"}
"""How names of files end by what is equal."""

Stage = TypeVar("Stage", RunConfig, StageConfig)


def reproduce(
    out: Path,
    work: Path,
    env: str = "ant",
    recipe: str = DEFAULT,
    only: tuple[str, ...] = (),
    skills: int | None = None,
    discrete: int | None = None,
    seeds: int = 3,
    budget_steps: int | None = None,
    changes: tuple[str, ...] = (),
    quiet: bool = False,
    workers: int = 1,
    equal: Equal = "updates",
) -> tuple[dict[str, Any], str, tuple[Path, ...]]:
    """Train and measure the rows that the results under `out` lack; return the results, as a table, and their files.

    Runs go under `work`. A row whose training fails is named and left out; the next call tries it again.
    """
    for name in {name.lower().partition("-")[0] for name in only} & set(ELSEWHERE):
        raise UserError(f"--only {name}: {ELSEWHERE[name]}")
    changed = {change.partition("=")[0] for change in changes}
    if taken := sorted(changed & {"skills.kind", "skills.size"}):
        raise UserError(f"--set {taken[0]}: say it with --skills or --discrete")
    refuse_what_rows_differ_in(changes)
    shared = configure(env, "lsd", skills, discrete, None, seeds, recipe, set=changes, budget_steps=budget_steps)
    space = SkillConfig(shared.skills.kind, shared.skills.size)
    names = tuple(dict.fromkeys(name.lower() for name in only)) or _default(space)
    rows = {name: row(name, shared, recipe, space, changes, CONTINUOUS, equal) for name in names}
    runs = work / f"{env}_{space}{OWN[equal]}"
    shown = coverage_study(out, runs, env, space, equal)
    return *grid.carry_out(shown, rows, shared, runs, quiet, workers=workers), shown.files


def refuse_what_rows_differ_in(changes: tuple[str, ...]) -> None:
    """A method is a row, not a change to all rows."""
    changed = {change.partition("=")[0] for change in changes}
    if taken := sorted(changed & {"method.name", "method.view"}):
        raise UserError(f"--set {taken[0]}: that is what the rows differ in; choose rows with --only")


def coverage_study(out: Path, runs: Path, env: str, space: SkillConfig, equal: Equal = "updates") -> Study:
    """Its files, table and figures."""
    return Study(
        item="coverage",
        stem=f"coverage_{env}_{space}{OWN[equal]}",
        title=f"Coverage of all methods on {env}, skills {space}{', each by its own schedule' if OWN[equal] else ''}",
        row_is="row",
        measure_is="1x1 bins covered by {episodes} random skills with mode and with sampled actions, normalised "
        "||s_T - s_0|| and distance on the plane with mode actions (`random`: uniform actions in [-1, 1], never "
        "trained, the same episodes in both columns of coverage)",
        order=_default(space),
        columns={
            "row": lambda name, _: name,
            "alpha": lambda _, row: _alpha(row),
            "environment steps": lambda _, row: f"{row['env_steps_per_seed']:,}",
            "SAC updates": lambda _, row: f"{row['updates_per_seed']['sac']:,}",
            "coverage, mode actions": lambda _, row: number(row, "coverage_mode"),
            "coverage, sampled actions": lambda _, row: number(row, "coverage_sampled"),
            "travelled": lambda _, row: number(row, "travelled", 2),
            "distance": lambda _, row: number(row, "distance", 2),
            "training seconds per 1,000 updates": lambda _, row: _pace(row),
        },
        figures={
            "": partial(bars, measures=COVERAGES, axis="bins covered by {episodes} random skills"),
            "_travelled": partial(
                bars,
                measures={"travelled": "mode actions"},
                axis="mean normalised ||s_T - s_0|| of {episodes} random skills",
            ),
            "_trajectories": partial(trajectories, runs=runs),
        },
        out=out,
    )


def _default(space: SkillConfig) -> tuple[str, ...]:
    return CONTINUOUS if space.kind == "continuous" else DISCRETE


def _alpha(row: JsonObject) -> str:
    if row["alpha"] is None:
        return ""
    return f"{row['alpha']:g}, learned" if row["learn_alpha"] else f"{row['alpha']:g}"


def _pace(row: JsonObject) -> str:
    seconds = row["training_seconds_per_1000_updates"]
    return "" if seconds is None else f"{seconds:.2f}"


# --- the rows ------------------------------------------------------------------------------------------------------


def row(
    name: str,
    shared: RunConfig,
    recipe: str,
    space: SkillConfig,
    changes: tuple[str, ...],
    known: tuple[str, ...],
    equal: Equal = "updates",
) -> Row:
    """The row of a method or of random actions; `known` are the names that the error message offers."""
    if name == RANDOM:
        return RandomActions(shared, UNTRAINED)
    if name.partition("+")[0].partition("-")[0] not in METHODS:
        raise UserError(f"there is no row {name!r}; known: {', '.join(known)}, and other variants of these")
    config = row_config(name, shared, recipe, space, changes, equal)
    common = flat(dataclasses.asdict(shared))
    own = flat(dataclasses.asdict(config))
    about = {
        "alpha": config.sac.alpha,
        "learn_alpha": config.sac.learn_alpha,
        "differs_from_lsd": {key: value for key, value in own.items() if key not in common or common[key] != value},
    }
    return Row(config, about)


def row_config(
    name: str,
    shared: RunConfig,
    recipe: str,
    space: SkillConfig,
    changes: tuple[str, ...],
    equal: Equal = "updates",
) -> RunConfig:
    """The recipe of a row's method, made comparable with LSD's, and then what --set says, for as many steps as LSD.

    `lsd+music` is LSD with the reward of MUSIC added. Steps are rounded up to whole epochs, whose lengths differ for
    methods that learn from blocks or episodes.
    """
    method, _, bonus = name.partition("+")
    lsd, usual = get_recipe(recipe, shared.env.name, "lsd", space), usual_skills(method)
    only_discrete = (space.kind, usual.kind) == ("continuous", "discrete")
    own = get_recipe(recipe, shared.env.name, method, usual if only_discrete else space, bonus or None)
    own = comparable(own, lsd) if equal == "updates" else own
    own = with_changes(own, _for_stages(own, changes))
    _method(own)  # what cannot be is refused before anything is trained
    parts = {part: getattr(own, part) for part in ("env", "method", "bonus", "skills", "sac", "schedule")}
    config = dataclasses.replace(shared, **parts)  # engine, seeds and how often to look are the whole study's
    return stages.with_steps(config, shared.schedule.epochs * shared.schedule.collection)


def comparable(config: RunConfig, lsd: RunConfig) -> RunConfig:
    """A method's recipe with the widths and, but for IBOL, the schedule of LSD's, in every stage."""
    own_schedule = _method(config).high_level is not None

    def fitted(stage: Stage) -> Stage:
        sac = dataclasses.replace(stage.sac, hidden=lsd.sac.hidden)
        schedule = stage.schedule if own_schedule else _fitted_schedule(stage, lsd.schedule)
        return dataclasses.replace(stage, sac=sac, schedule=schedule)

    if isinstance(config.method, StagedConfig):
        method = dataclasses.replace(config.method, first=fitted(config.method.first))
        config = dataclasses.replace(config, method=method)
    return fitted(config)


def _fitted_schedule(stage: RunConfig | StageConfig, lsd: ScheduleConfig) -> ScheduleConfig:
    """LSD's collections and updates, and the method's own memory: as many transitions as its recipe keeps.

    When learning begins is LSD's, too, since a later one means fewer updates.
    """
    own = stage.schedule
    schedule = dataclasses.replace(lsd, epochs=own.epochs)  # by which stages share the steps
    if block := _method(stage).block:
        schedule = in_whole_blocks(schedule, block)
    kept = max(1, own.replay_collections * own.collection // schedule.collection)
    drawn = schedule.method_batch
    if not drawn and own.method_batch and kept > 1 and schedule.order != "joint":
        drawn = schedule.collection  # as many as LSD's fresh ones, but out of all that is kept
    return dataclasses.replace(schedule, replay_collections=kept, method_batch=drawn)


def _for_stages(config: RunConfig, changes: tuple[str, ...]) -> tuple[str, ...]:
    """What --set says of SAC and of the schedule, said of every stage; epochs follow from the steps of LSD.

    IBOL learns with SAC and as LSD does in its first stage alone.
    """
    changes = tuple(change for change in changes if not change.startswith("schedule.epochs="))
    if not isinstance(config.method, StagedConfig):
        return changes
    first = (f"method.first.{change}" for change in changes if change.startswith(("sac.", "schedule.")))
    own_schedule = _method(config).high_level is not None
    return (*first, *(change for change in changes if not (own_schedule and change.startswith("schedule."))))


def _method(stage: RunConfig | StageConfig) -> Method:
    """The method of a stage; what cannot be is refused."""
    return make_method(stage.method, make_skills(stage.skills))


def roll_out_randomly(config: RunConfig, episodes: int, largest: float = 1.0) -> Rollout:
    """Whole episodes without a policy, under every seed of a configuration."""
    world = make_world(config.env)
    seeds = range(config.seed, config.seed + config.seeds)
    return random_episodes(world, make_engine(world.from_origin(), config.engine), episodes, seeds, largest)


class RandomActions(Row):
    """The floor: no skills and no policy, actions uniform in [-1, 1]."""

    trains = False

    @property
    def plan(self) -> str:
        return f"{count(self.config.seeds, 'seed')} of uniform actions"

    def run(self, folder: Path) -> None:
        """There is none: it only ever writes its episodes there."""

    def rollout(self, episodes: int) -> Rollout:
        """Its episodes."""
        return roll_out_randomly(self.config, episodes)

    def measured(self, folder: Path, episodes: int, quiet: bool) -> JsonObject:
        spec, rollout = make_world(self.config.env).spec, self.rollout(episodes)
        where, per_seed = list(spec.groups["position"]), measures(spec, rollout, rollout)
        arrays = {"position": np.asarray(rollout.obs[..., where]), "skill": np.asarray(rollout.skill)}
        write_arrays(rollouts(folder), arrays, {"skills": "none"})
        return {
            "epochs": 0,
            "env_steps_per_seed": 0,
            "updates_per_seed": {"sac": 0, "phi": 0},
            "training_seconds": 0.0,
            "training_seconds_per_1000_updates": None,
            "trained_at_commit": None,
            "measured": measured_where(self.config),
            "metrics": {name: {**summarise(v)._asdict(), "per_seed": v} for name, v in per_seed.items()},
        }
