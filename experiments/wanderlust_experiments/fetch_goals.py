"""Goals for the object of the Fetch worlds, over the skills of every method: the paper's figure of downstream returns.

Over the skills that `wanderlust reproduce fetch` has trained, a row at a time: a controller learns by SAC to choose
them, one for each seed of the skills, on the goal task of their world. An episode pays 1 if the object gets to its
goal. Beside it stands what methods reach that choose a skill for a goal at once, without learning, and what comes of
skills by chance. Where the controllers are is said in `downstream/solve.py`.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from wanderlust.catalogue import FETCHES
from wanderlust.config import EngineName
from wanderlust.downstream.request import result_folder
from wanderlust.downstream.saved import is_paused
from wanderlust.downstream.settings import ControllerSetting, get_setting, usual_option_length
from wanderlust.downstream.solve import solve
from wanderlust.downstream.training import TRAINING
from wanderlust.envs import devices
from wanderlust.errors import UserError
from wanderlust.methods import make_method
from wanderlust.methods.skills import make_skills
from wanderlust.report.plots import show_mean
from wanderlust.report.plots.colours import INK, distinct
from wanderlust.report.plots.style import few_ticks, head, styled
from wanderlust.runs.files import read_object, read_rows
from wanderlust.runs.run import Run
from wanderlust.sweeps import grid
from wanderlust.sweeps.figures import figure_files
from wanderlust.sweeps.grid import Row
from wanderlust.sweeps.tables import FigureFiles, JsonObject, Study, count, number
from wanderlust_experiments.fetch import ROWS as TRAINED
from wanderlust_experiments.fetch import UNTOUCHED
from wanderlust_experiments.trajectories import RANDOM

ROWS = tuple(name for name in TRAINED if name not in (RANDOM, UNTOUCHED))
SAC, ZERO_SHOT = "sac", "zero-shot"
ENGINE: EngineName = "c"
"""Of all recipes for these worlds."""
LINE = "lsd"
"""The row whose returns without learning are a line in the figure, as in the paper's."""


def reproduce(
    out: Path,
    work: Path,
    env: str = FETCHES[0],
    recipe: str = "laptop",
    only: tuple[str, ...] = (),
    seeds: int | None = None,
    epochs: int | None = None,
    hold: int | None = None,
    quiet: bool = False,
) -> tuple[dict[str, Any], str, tuple[Path, ...]]:
    """Learn and measure the rows that the results under `out` lack; return the results, as a table, and their files."""
    if env not in FETCHES:
        raise UserError(f"--env is {env}; it must be one of {', '.join(FETCHES)}")
    setting = get_setting(recipe, SAC, env)
    setting = dataclasses.replace(setting, epochs=epochs or setting.epochs)
    runs = found_runs(work / env, env, only)
    seeds = seeds or min(run.config.seeds for run in runs.values())
    for run in runs.values():
        if seeds > run.config.seeds:
            raise UserError(f"--seeds is {seeds}, and {run.path} has {run.config.seeds}: a controller is for each seed")
    devices.prepare(seeds)
    asked = Asked(f"{env}-goal", recipe, setting, hold or usual_option_length(env), seeds)
    rows = {name: Solved(run.config, about(run), asked) for name, run in runs.items()}
    shared = dataclasses.replace(next(iter(runs.values())).config, seed=0, seeds=seeds, engine=ENGINE)
    config = {"env": {"name": env}, "engine": ENGINE, **dataclasses.asdict(asked)}
    shown = goals_study(out, env)
    return *grid.carry_out(shown, rows, shared, work / env, quiet, config), shown.files


def found_runs(folder: Path, env: str, only: tuple[str, ...]) -> dict[str, Run]:
    """The runs of the rows that are asked for, by default of all that are there."""
    advice = f"train them with `wanderlust reproduce fetch --env {env}`, or say where they are with --work"
    names = tuple(dict.fromkeys(name.lower() for name in only))
    if not names:
        there = sorted(path.parent.name for path in folder.glob("*/config.json"))
        names = tuple(name for name in (*ROWS, *there) if name in there)
        names = tuple(dict.fromkeys(names))
        if not names:
            raise UserError(f"{folder} has no runs of skills; {advice}")
    runs = {}
    for name in names:
        if not (folder / name / "config.json").is_file():
            raise UserError(f"--only {name}: there is no run {folder / name}; {advice}")
        runs[name] = Run.open(folder / name)
        if runs[name].config.env.name != env:
            raise UserError(f"{folder / name} is of {runs[name].config.env.name}, not {env}")
        if runs[name].config.skills.kind == "discrete":
            raise UserError(
                f"{folder / name} has discrete skills; the controllers of this figure choose continuous ones"
            )
        if not runs[name].checkpoints():
            raise UserError(f"{folder / name} has no checkpoint yet; {advice}")
    return runs


def about(run: Run) -> JsonObject:
    """Which skills they are: a row in the results must be of the same."""
    facts = {"name": run.config.name, "recipe": run.config.recipe, "epoch": max(run.checkpoints())}
    return {"skills": {**facts, **{name: run.provenance().get(name) for name in ("command", "commit")}}}


@dataclasses.dataclass(frozen=True)
class Asked:
    """How controllers learn, the same in every row."""

    task: str
    recipe: str
    setting: ControllerSetting
    hold: int
    seeds: int


@dataclasses.dataclass(frozen=True)
class Solved(Row):
    """The skills of a run, put to the task."""

    asked: Asked
    trains = False

    @property
    def plan(self) -> str:
        setting = self.asked.setting
        return (
            f"{count(self.asked.seeds, 'controller')}, {count(setting.epochs, 'epoch')} of {setting.episodes} episodes"
        )

    def headline(self, measured: JsonObject) -> str:
        zero_shot = f", {number(measured, 'zero_shot', 2)} zero-shot" if "zero_shot" in measured["metrics"] else ""
        return f"return {number(measured, 'return', 2)}{zero_shot}, {number(measured, 'random', 2)} by chance"

    def run(self, folder: Path) -> Run:
        """The run in a folder, trained to whatever epoch, whole or pruned."""
        return Run.open(folder)

    def measured(self, folder: Path, episodes: int, quiet: bool) -> JsonObject:
        """Returns of controllers, of the zero-shot choice if there is one, and of chance; and the learning curve."""
        run, task = self.run(folder), self.asked.task
        learned = self._learned(run, episodes, quiet)
        metrics = {"return": learned["return"], "random": learned["random"]}
        method = make_method(run.config.method, make_skills(run.config.skills))
        if method.goal_rule is not None:
            metrics["zero_shot"] = solve(
                run,
                task,
                ZERO_SHOT,
                seeds=self.asked.seeds,
                episodes=episodes,
                replace=True,
                engine=ENGINE,
                quiet=quiet,
            )["return"]
        curve = read_rows(result_folder(run, task, SAC) / "curve.jsonl")
        setting, where = self.asked.setting, learned["provenance"]
        return {
            "epochs": setting.epochs,
            "env_steps_per_seed": curve[-1]["env_steps"],
            "updates_per_seed": {"sac": setting.epochs * setting.steps, "phi": 0},
            "training_seconds": curve[-1]["seconds"],
            "trained_at_commit": where["commit"],
            "measured": {key: where[key] for key in ("command", "commit", "time", "device", "engine")},
            "metrics": metrics,
            "curve": curve,
        }

    def _learned(self, run: Run, episodes: int, quiet: bool) -> JsonObject:
        """The result of controllers: learned now, gone on with if they were stopped, or there already."""
        asked = self.asked
        facts = {
            "recipe": asked.recipe,
            "setting": asked.setting,
            "hold": asked.hold,
            "seeds": list(range(asked.seeds)),
        }
        facts["setting"] = json.loads(json.dumps(dataclasses.asdict(asked.setting)))
        folder = result_folder(run, asked.task, SAC)
        done = {**facts, "epoch": asked.setting.epochs, "episodes_per_seed": episodes}
        if (folder / "result.json").is_file() and not (folder / TRAINING).exists():
            result = read_object(folder / "result.json", "the result of controllers")
            same = result.get("skills", {}).get("epoch") == max(run.checkpoints())
            if same and all(result.get(key) == value for key, value in done.items()):
                return result
        numbers: dict[str, Any] = {"seeds": asked.seeds, "epochs": asked.setting.epochs, "hold": asked.hold}
        if is_paused(folder / TRAINING, facts):
            numbers = {"resume": True}
        else:
            numbers |= {"recipe": asked.recipe, "replace": True}
        try:
            return solve(run, asked.task, SAC, **numbers, episodes=episodes, engine=ENGINE, quiet=quiet)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("stopped; the same command continues") from None


def goals_study(out: Path, env: str) -> Study:
    """Its files, table and figure."""
    return Study(
        item="fetch-goals",
        stem=f"{env.replace('-', '_')}_goal",
        title=f"Goals for the object of {env}, over the skills of every method",
        row_is="row",
        measure_is="share of {episodes} episodes in which the object gets to its goal (mode actions)",
        order=ROWS,
        columns={
            "skills of": lambda name, _: name,
            "SAC over skills": lambda _, row: number(row, "return", 2),
            "zero-shot": lambda _, row: number(row, "zero_shot", 2) if "zero_shot" in row["metrics"] else "",
            "random skills": lambda _, row: number(row, "random", 2),
            "minutes of learning": lambda _, row: f"{row['training_seconds'] / 60:.1f}",
            "skills from": lambda _, row: f"{row['skills']['recipe']}, epoch {row['skills']['epoch']:,}",
        },
        figures={"": draw},
        out=out,
        given=given,
    )


def given(rows: Mapping[str, JsonObject]) -> str:
    """How much the controllers learned from."""
    one = next(iter(rows.values()))
    return f"a controller of {one['epochs']:,} epochs and {one['updates_per_seed']['sac']:,} SAC updates"


@styled
def draw(results: JsonObject, rows: Mapping[str, JsonObject]) -> FigureFiles:
    """Returns while controllers learn, their 95% intervals over seeds; what LSD reaches without, and chance."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    setting = results["config"]["setting"]
    methods = list(dict.fromkeys(name.partition("+")[0] for name in rows))
    colours = dict(zip(methods, distinct(len(methods)), strict=True))
    for name, row in rows.items():
        method, _, bonus = name.partition("+")
        episodes = [point["epoch"] * setting["episodes"] for point in row["curve"]]
        show_mean(axes, episodes, [point["return"] for point in row["curve"]], colours[method], name)
        axes.lines[-1].set_linestyle("--" if bonus else "-")
    highest = max(sum(point["return"]) / len(point["return"]) for row in rows.values() for point in row["curve"])
    if LINE in rows:
        found, last = rows[LINE]["metrics"], setting["epochs"] * setting["episodes"]
        for measure, style, label in (
            ("zero_shot", "-.", f"{LINE}, zero-shot"),
            ("random", ":", f"{LINE}, random skills"),
        ):
            axes.axhline(found[measure]["mean"], color=INK, linestyle=style, linewidth=1.2, label=label)
        middle, half = found["zero_shot"]["mean"], found["zero_shot"]["ci95"]
        highest = max(highest, middle)
        if len(results["seeds"]) > 1:
            axes.fill_between([0, last], middle - half, middle + half, color=INK, alpha=0.08, linewidth=0)
    axes.set_xlim(left=0)
    axes.set_ylim(0, min(1.0, 1.5 * highest + 0.05))  # intervals of few seeds are wider than returns can be
    axes.set_xlabel("episodes per seed")
    axes.set_ylabel("episodes that reach the goal (share)")
    few_ticks(axes)
    figure.legend(loc="outside right upper")
    spread = f"{len(results['seeds'])} seeds, mean and 95% interval" if len(results["seeds"]) > 1 else "one seed"
    head(figure, f"{results['config']['task']}, SAC over skills", spread)
    return figure_files(figure)
