"""The command line: `wanderlust discover`, `evaluate`, `reach`, `downstream` and so on, a class for each."""

import contextlib
import dataclasses
import io
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, UseAppendAction, arg, subcommand

from wanderlust.errors import UserError

EngineName = Literal["auto", "c", "warp", "jax"]

EXIT_BROKEN = 1
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130


@dataclasses.dataclass(frozen=True)
class Discover:
    """Discover skills without a reward, evaluate them and draw them.

    For example:
      wanderlust discover                                   2-D skills on PointEnv with LSD, about half a minute
      wanderlust discover point --discrete 16 --seeds 8     16 discrete skills, eight seeds in one program
      wanderlust discover point --method diayn-xyo --recipe paper --out runs/xyo
      wanderlust discover ant --budget-seconds 1800         a body on the CPU cores there are
      wanderlust discover ant --recipe fast                 the same on a GPU
      wanderlust discover --resume runs/xyo                 go on where a run was stopped
    """

    env: Annotated[Positional[str], arg(metavar="[ENV]")] = "point"
    """The environment; `wanderlust list` shows them all."""
    method: str = "lsd"
    """The method, e.g. lsd or diayn, with an optional suffix -xy, -o or -xyo for what its networks see."""
    skills: Annotated[int | None, arg(metavar="D")] = None
    """Learn continuous skills of this many dimensions (the default, with 2)."""
    discrete: Annotated[int | None, arg(metavar="N")] = None
    """Learn this many discrete skills instead."""
    seed: Annotated[int | None, arg(metavar="K")] = None
    """The (first) seed; 0 unless said."""
    seeds: Annotated[int | None, arg(metavar="N")] = None
    """Train this many seeds side by side: K, K + 1, ...; 1 unless said."""
    recipe: str = "laptop"
    """Whose numbers: laptop (CPU cores), fast (a GPU), or paper for the published setting."""
    config: Annotated[Path | None, arg(metavar="FILE")] = None
    """Start from the config.json of another run instead of a recipe."""
    set: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="KEY=VALUE")] = ()
    """Change one number, e.g. --set sac.discount=0.995; may be repeated."""
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """The folder of the run; by default runs/<date>-<time>-<what>."""
    resume: Annotated[Path | None, arg(metavar="RUN")] = None
    """Go on with this run instead of starting one."""
    budget_seconds: Annotated[float | None, arg(metavar="S")] = None
    """Stop after about this many seconds, with checkpoint and evaluation."""
    budget_steps: Annotated[int | None, arg(metavar="N")] = None
    """Train for this many environment steps per seed (rounded up to whole epochs)."""
    driver: Literal["fused", "split"] | None = None
    """How to run: fused (one compiled program) or split (worlds on the host); by default what suits the engine."""
    engine: EngineName | None = None
    """What moves the worlds: c (MuJoCo on CPU cores), warp (MuJoCo on a GPU), jax (worlds that are a formula), or auto
    for the best that is there; by default the recipe's."""

    def run(self, console: Console) -> int:
        from wanderlust import api

        changed = [f.name for f in dataclasses.fields(self) if getattr(self, f.name) != f.default]
        if self.config is not None:
            decided = {"env", "method", "skills", "discrete", "recipe"}
            _refuse(changed, set(changed) - decided, "--config decides what is learned and how")
        api.check_budget(self.budget_seconds)
        if self.resume is not None:
            allowed = {"resume", "budget_seconds", "engine"}
            _refuse(changed, allowed, "--resume goes on with a run as it was configured")
            run = api.open_to_resume(self.resume, self.engine)
        else:
            elsewhere = ("out", "resume", "budget_seconds")
            options = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in elsewhere}
            run = api.start_run(api.configure(**options), self.out)
        return _train_and_report(console, run, self.budget_seconds)


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """Measure and draw a run again from its newest checkpoint, or skills that ship with the package.

    For example:
      wanderlust evaluate runs/xyo --episodes 1000
      wanderlust evaluate zoo:ant                           `wanderlust list` shows the zoo
    """

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """The folder of the run, or zoo:NAME."""
    episodes: int = 200
    """Random-skill episodes per seed."""
    seed: int = 0
    """Seed of the skills and starts that are tried."""
    engine: EngineName = "auto"
    """What moves the worlds; it need not be what trained them."""
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Where the results of a zoo entry go; by default runs/zoo-NAME."""

    def run(self, console: Console) -> int:
        from wanderlust import devices
        from wanderlust.discovery import describe_engine
        from wanderlust.skillset import open_source

        if self.episodes < 1:
            raise UserError(f"--episodes is {self.episodes}; it must be at least 1")
        if not 0 <= self.seed < 2**31:
            raise UserError(f"--seed is {self.seed}; it must be in [0, 2^31)")
        run = open_source(self.run_folder, self.out)
        devices.prepare(run.config.seeds)
        console.print(describe_engine(run.config.env, self.engine), soft_wrap=True)
        _report_evaluation(console, run, self.episodes, self.seed, self.engine)
        return 0


@dataclasses.dataclass(frozen=True)
class Reach:
    """Send the body to goals, one after the other, with no further training; draw the path.

    For example:
      wanderlust reach runs/demo --goal 12 4 --goal -5 9 --goal 0 0
      wanderlust reach zoo:ant --goal 12 4                  `wanderlust list` shows the zoo
    """

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """The folder of the run, or zoo:NAME."""
    goal: Annotated[tuple[tuple[float, ...], ...], UseAppendAction, arg(metavar="X [Y]")] = ()
    """A goal on the plane, or on the line for bodies that run along one; repeat it for several, followed in order."""
    radius: float = 1.0
    """How near counts as reached."""
    steps_per_goal: int = 100
    """Steps before the next goal is tried."""
    seed: int = 0
    """Which seed of the run, counted from 0."""
    engine: EngineName = "auto"
    """What moves the body; it need not be what trained it."""
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Where the results of a zoo entry go; by default runs/zoo-NAME."""

    def run(self, console: Console) -> int:
        from wanderlust import devices
        from wanderlust.discovery import describe_engine
        from wanderlust.downstream.reach import reach
        from wanderlust.plots import draw_reach
        from wanderlust.skillset import open_source

        run = open_source(self.run_folder, self.out)
        devices.prepare(run.config.seeds)
        console.print(describe_engine(run.config.env, self.engine), soft_wrap=True)
        result = reach(run, list(self.goal), self.radius, self.steps_per_goal, self.seed, self.engine)
        picture = draw_reach(run.path)
        for n, leg in enumerate(result["legs"], 1):
            place = ", ".join(f"{x:g}" for x in leg["goal"])
            how = f"reached in {leg['steps']} steps" if leg["reached"] else f"missed by {leg['distance']:.2f}"
            how += ", and fell" if leg["fell"] else ""
            console.print(f"goal {n} ({place}): {how}")
        console.print(f"path: {picture}", soft_wrap=True)
        return 0


@dataclasses.dataclass(frozen=True)
class Downstream:
    """Play a task with skills: somebody chooses them, with or without learning to; measure and draw it.

    For example:
      wanderlust downstream runs/first --task point-goal                          zero-shot: no further training
      wanderlust downstream zoo:ant --task ant-multi-goals --controller sac       learn to choose continuous skills
      wanderlust downstream zoo:ant-16 --task ant-rotation --controller ppo       learn to choose discrete ones
      wanderlust downstream zoo:ant --task ant-multi-goals --controller sac --measure-only --episodes 1000
    """

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """The folder of the run, or zoo:NAME."""
    task: str
    """The task; `wanderlust list` shows them all."""
    controller: str = "zero-shot"
    """Who chooses: zero-shot, sac (continuous skills), ppo (discrete skills), mppi (dads) or random."""
    recipe: Annotated[str | None, arg(metavar="NAME")] = None
    """Numbers of a controller that learns: paper, fast (on a GPU the default) or laptop (elsewhere)."""
    seed: Annotated[int, arg(metavar="K")] = 0
    """The (first) seed of controllers."""
    seeds: Annotated[int | None, arg(metavar="N")] = None
    """How many controllers, side by side; by default as many as the run has seeds, or 4 if it has one."""
    epochs: Annotated[int | None, arg(metavar="N")] = None
    """Epochs of learning; by default the recipe's."""
    worlds: Annotated[int | None, arg(metavar="N")] = None
    """Episodes of an epoch, per seed; by default the recipe's."""
    hold: Annotated[int | None, arg(metavar="K")] = None
    """Control steps that a skill is held; by default 25, 125 for Humanoid and 10 for PointEnv."""
    episodes: int = 200
    """Episodes to measure, per seed."""
    measure_only: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Measure again what was learned before, instead of learning."""
    resume: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Go on with learning that Ctrl-C has stopped."""
    engine: EngineName = "auto"
    """What moves the bodies; it need not be what trained them."""
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Where the results of a zoo entry go; by default runs/zoo-NAME."""

    def run(self, console: Console) -> int:
        from wanderlust import devices
        from wanderlust.discovery import describe_engine
        from wanderlust.downstream.solve import solve
        from wanderlust.downstream.wishes import result_folder, usual_seeds
        from wanderlust.plots import draw_solved
        from wanderlust.skillset import open_source

        source = open_source(self.run_folder, self.out)
        devices.prepare(self.seeds or usual_seeds(source))
        console.print(describe_engine(source.config.env, self.engine), soft_wrap=True)
        elsewhere = ("run_folder", "out")
        options = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in elsewhere}
        result = solve(source, **options)
        folder = result_folder(source, result["task"], result["controller"])
        many = len(result["seeds"]) > 1
        table = Table(title=f"{result['task']}, at most {result['most']:g}", title_justify="left")
        table.add_column("who chooses")
        table.add_column("return, mean ± 95% interval" if many else "return", justify="right")
        for name, value in ((self.controller, result["return"]), ("random skills", result["random"])):
            table.add_row(name, f"{value['mean']:.2f}" + (f" ± {value['ci95']:.2f}" if many else ""))
        console.print(table)
        if bound := result.get("speed_bound"):
            console.print(
                f"skills get {bound['speed']:.3f} a step; {bound['share']:.0%} of the goals lie within that times the "
                f"time there is and the radius, {bound['distance']:.1f}: {bound['bound']:.2f}",
                soft_wrap=True,
            )
        for path in (folder / "result.json", *draw_solved(folder)):
            console.print(f"{'figure' if path.suffix == '.png' else 'result'}: {path}", soft_wrap=True)
        return 0


@dataclasses.dataclass(frozen=True)
class Export:
    """Write policy and phi as ONNX, for robots and runtimes without JAX, and check them against JAX.

    For example:
      wanderlust export zoo:ant --to onnx                   to runs/zoo-ant/export
      wanderlust export runs/sixteen --to onnx --seed 2 --out models/sixteen
      python examples/onnx_drive.py runs/zoo-ant/export     drives Gymnasium's Ant with it
    """

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """The folder of the run, or zoo:NAME."""
    to: Literal["onnx"] = "onnx"
    """The format."""
    seed: Annotated[int, arg(metavar="K")] = 0
    """Which seed of the run, counted from 0."""
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Where the files go, and replace those of an export before; by default RUN/export, or runs/zoo-NAME/export."""

    def run(self, console: Console) -> int:
        from wanderlust import devices
        from wanderlust.export import export_onnx
        from wanderlust.skillset import open_source

        source = open_source(self.run_folder)
        devices.prepare(source.config.seeds)
        files, card = export_onnx(source, self.seed, self.out)
        for path in files:
            console.print(f"written: {path} ({path.stat().st_size / 1e6:.2f} MB)", soft_wrap=True)
        if card["phi"] is None:
            console.print(f"no phi.onnx: {card['method']} has no map of states")
        checked = card["checked"]
        away = checked["largest_difference"]
        others = ", ".join(f"{name} {x:.1e}" for name, x in away.items() if name != "action")
        console.print(
            f"ONNX Runtime and JAX differ over {checked['observations']:,} observations by at most: "
            f"action {away['action']:.1e}; as shares of their size: {others}",
            soft_wrap=True,
        )
        return 0


@dataclasses.dataclass(frozen=True)
class Publish:
    """Put the skills of an evaluated run into the zoo, with a model card.

    For example:
      wanderlust publish runs/ant --name ant                the seed that covers most
    """

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """The folder of the run; its newest checkpoint is taken."""
    name: Annotated[str, arg(metavar="NAME")]
    """What others write after zoo: lower-case letters, digits and hyphens."""
    seed: Annotated[int | None, arg(metavar="K")] = None
    """Which seed of the run, counted from 0; by default the one whose mode actions cover most."""
    zoo: Annotated[Path | None, arg(metavar="DIR")] = None
    """The folder of the zoo; by default WANDERLUST_ZOO, or the one `wanderlust list` reads."""
    replace: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Replace the entry of that name."""

    def run(self, console: Console) -> int:
        from wanderlust import api, devices
        from wanderlust.zoo import publish

        run = api.Run.open(self.run_folder)
        devices.prepare(run.config.seeds)
        folder, facts = publish(run, self.name, self.seed, self.zoo, self.replace)
        console.print(f"zoo:{self.name}: {facts['summary']}; {facts['bytes'] / 1e6:.2f} MB", soft_wrap=True)
        console.print(f"card: {folder / 'card.md'}", soft_wrap=True)
        return 0


@dataclasses.dataclass(frozen=True)
class PointGoals:
    """Both PointEnv tables of the appendix, with the paper's numbers beside ours.

    For example:
      wanderlust reproduce point-goals      eight seeds, under 20 minutes on two cores
    """

    seeds: int = 8
    """Seeds per row."""
    work: Path = Path("runs/point-goals")
    """Where the runs go; finished ones are reused, unfinished ones resumed."""
    out: Path = Path("benchmarks/results")
    """Where the JSON and Markdown go."""
    set: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="KEY=VALUE")] = ()
    """Change one number of every row, e.g. --set env.normalise=false; may be repeated."""
    only: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="METHOD")] = ()
    """Only the row of this method, e.g. --only lsd; may be repeated."""

    def run(self, console: Console) -> int:
        from wanderlust import reproduce

        if self.seeds < 1:
            raise UserError(f"--seeds is {self.seeds}; it must be at least 1")
        result, text = reproduce.point_goals.reproduce(self.out, self.work, self.seeds, self.set, self.only)
        console.print(text, soft_wrap=True)
        console.print(f"written: {self.out / 'point_goals.json'}, {self.out / 'point_goals.md'}", soft_wrap=True)
        console.print(f"this command took {result['this_command_seconds'] / 60:.1f} min")
        return 0


@dataclasses.dataclass(frozen=True)
class AblationStudy:
    """Coverage of LSD with each component of its reward replaced: the ablation study of the appendix.

    Stopped and called again, it goes on where it was. For example:
      wanderlust reproduce ablation --budget-steps 5000000      LSD, and six cells that differ from it in one component
      wanderlust reproduce ablation --recipe fast --all         all 24, on a GPU
      wanderlust reproduce ablation --env point --only inner-product-step-free --only normal-next-state-spectral
    """

    env: str = "ant"
    """The environment."""
    recipe: str = "laptop"
    """Whose numbers: laptop (CPU cores), fast (a GPU), or paper for the published setting."""
    only: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="CELL")] = ()
    """Only this cell, FORM-STATES-CONSTRAINT, e.g. --only inner-product-step-free; may be repeated."""
    all: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """All 24 cells."""
    seeds: int = 3
    """Seeds per cell, trained in one program."""
    budget_steps: Annotated[int | None, arg(metavar="N")] = None
    """Environment steps per seed and cell (rounded up to whole epochs); by default the recipe's."""
    work: Path = Path("runs/ablation")
    """Where the runs go; finished ones are reused, unfinished ones resumed."""
    out: Path = Path("benchmarks/results")
    """Where JSON, Markdown and figure go."""
    set: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="KEY=VALUE")] = ()
    """Change one number of every cell, e.g. --set sac.discount=0.99; may be repeated."""

    def run(self, console: Console) -> int:
        from wanderlust.reproduce import ablation

        result, text = ablation.reproduce(
            self.out, self.work, self.env, self.recipe, self.only, self.all, self.seeds, self.budget_steps, self.set
        )
        console.print(text, soft_wrap=True)
        console.print(f"written: {ablation.grid_study(self.out, self.env).files}", soft_wrap=True)
        return EXIT_BROKEN if result["failed"] else 0


@dataclasses.dataclass(frozen=True)
class CoverageStudy:
    """Coverage, state difference and trajectories of every method, with equal steps and updates: figures 2 and 3.

    Stopped and called again, it goes on where it was. For example:
      wanderlust reproduce coverage --recipe fast               every method and variant on Ant, on a GPU
      wanderlust reproduce coverage --env point --only lsd --only diayn-xyo --only random
    """

    env: str = "ant"
    """The environment."""
    recipe: str = "laptop"
    """Whose numbers: laptop (CPU cores), fast (a GPU), or paper for the published setting."""
    only: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="NAME")] = ()
    """Only this row, a method with an optional suffix -xy, -o or -xyo, or random (uniform actions); may be repeated."""
    skills: Annotated[int | None, arg(metavar="D")] = None
    """Continuous skills of this many dimensions (the default, with 2)."""
    discrete: Annotated[int | None, arg(metavar="N")] = None
    """This many discrete skills instead: lsd, dads, diayn, edl, metra, csd and random, unless --only says otherwise."""
    seeds: int = 3
    """Seeds per row, trained in one program."""
    budget_steps: Annotated[int | None, arg(metavar="N")] = None
    """Environment steps per seed and row (rounded up to whole epochs); by default the recipe's for LSD."""
    work: Path = Path("runs/coverage")
    """Where the runs go; finished ones are reused, unfinished ones resumed."""
    out: Path = Path("benchmarks/results")
    """Where JSON, Markdown and figures go."""
    set: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="KEY=VALUE")] = ()
    """Change one number of every row, e.g. --set sac.discount=0.99; may be repeated."""

    def run(self, console: Console) -> int:
        from wanderlust.reproduce import coverage

        result, text, files = coverage.reproduce(
            self.out,
            self.work,
            self.env,
            self.recipe,
            self.only,
            self.skills,
            self.discrete,
            self.seeds,
            self.budget_steps,
            self.set,
        )
        console.print(text, soft_wrap=True)
        console.print(f"written: {files}", soft_wrap=True)
        return EXIT_BROKEN if result["failed"] else 0


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Reproduce a table or figure of the paper, with its numbers beside ours where it gives them.

    For example:
      wanderlust reproduce point-goals      both PointEnv tables, eight seeds, under 20 minutes on two cores
      wanderlust reproduce ablation --help
      wanderlust reproduce coverage --help
    """

    item: tyro.conf.OmitArgPrefixes[
        Annotated[PointGoals, subcommand("point-goals", prefix_name=False)]
        | Annotated[AblationStudy, subcommand("ablation", prefix_name=False)]
        | Annotated[CoverageStudy, subcommand("coverage", prefix_name=False)]
    ]

    def run(self, console: Console) -> int:
        return self.item.run(console)


@dataclasses.dataclass(frozen=True)
class Bench:
    """Measure how fast this machine moves worlds and learns, beside EnvPool and AsyncVectorEnv where installed.

    For example:
      wanderlust bench                                      about two minutes on two cores
      wanderlust bench --only physics --worlds 64 --threads 2 --seconds 10
      wanderlust bench --env humanoid --engines c warp
    """

    env: str = "ant"
    """The body: ant, half-cheetah or humanoid."""
    engines: Annotated[tuple[Literal["c", "warp"], ...], arg(metavar="ENGINE ...")] = ()
    """The engines to measure; by default c, and warp where there is a GPU."""
    worlds: Annotated[tuple[int, ...], arg(metavar="N ...")] = ()
    """Worlds side by side; by default 16, 64 and 256 for c, and 1,024, 4,096 and 16,384 for warp."""
    threads: Annotated[tuple[int, ...], arg(metavar="N ...")] = ()
    """Threads of c and EnvPool; by default 1 and as many as there are cores."""
    seconds: Annotated[float, arg(metavar="S")] = 2.0
    """How long each thing is measured."""
    only: Literal["physics", "updates"] | None = None
    """Only environment steps, or only gradient steps."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """Where the JSON goes; by default benchmarks/results/bench_<device>.json."""

    def run(self, console: Console) -> int:
        from wanderlust import bench
        from wanderlust.files import write_json

        if self.out is not None and self.out.is_dir():
            raise UserError(f"--out is {self.out}, a folder; name a file, e.g. {self.out / 'bench.json'}")
        result = bench.bench(
            self.env, self.engines or None, self.worlds or None, self.threads or None, self.seconds, self.only
        )
        path = self.out or bench.default_path(result)
        write_json(path, result)
        console.print(bench.table(result))
        for name, why in result["missing"].items():
            console.print(f"{name}: {why}", soft_wrap=True)
        console.print(f"written: {path}", soft_wrap=True)
        return 0


@dataclasses.dataclass(frozen=True)
class List:
    """Show the environments, methods, variants, recipes, reproductions and trained skills there are.

    For example:
      wanderlust list
    """

    def run(self, console: Console) -> int:
        from wanderlust import envs, methods, recipes, reproduce, zoo
        from wanderlust.downstream.tasks import TASKS
        from wanderlust.downstream.wishes import CONTROLLERS

        with_recipes = {
            env: f"{text}; recipes: {', '.join(r for r, e in recipes.RECIPES if e == env)}"
            for env, text in envs.DESCRIPTIONS.items()
        }
        sections = (
            ("environments", with_recipes),
            ("methods", methods.DESCRIPTIONS),
            ("variants of any method", {f"-{k}": v for k, v in methods.VIEWS.items()}),
            ("recipes", recipes.DESCRIPTIONS),
            ("tasks", {name: f"in {task.env}, at most {task.horizon} steps" for name, task in TASKS.items()}),
            ("controllers", CONTROLLERS),
            ("reproduce", reproduce.ITEMS),
            ("zoo", {f"{zoo.PREFIX}{name}": text for name, text in zoo.summaries().items()}),
        )
        for title, entries in sections:
            if not entries:
                continue
            table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
            table.add_column(no_wrap=True, style="bold")
            table.add_column()
            for name, text in entries.items():
                table.add_row(name, text)
            console.print(table)
        return 0


@dataclasses.dataclass(frozen=True)
class Replay:
    """Make the step again that broke the physics of a run, and say where it goes wrong.

    Ends with exit code 0 if every world survives it, and 1 if one breaks down again. For example:
      wanderlust replay runs/ant/broken/epoch-00000040.safetensors
      wanderlust replay runs/ant/broken/epoch-00000040.safetensors --engine warp
    """

    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """The file that the run wrote when it stopped."""
    engine: EngineName | None = None
    """What moves the bodies: c (every physics step is shown) or warp; by default c."""

    def run(self, console: Console) -> int:
        from wanderlust import breakdown, devices
        from wanderlust.discovery import describe_engine

        devices.prepare()
        broken = breakdown.Broken.read(self.file)
        origin = broken.origin
        engine = self.engine or ("jax" if origin.engine == "jax" else "c")
        console.print(f"{origin.env.name}, before epoch {origin.epoch}, on the engine {origin.engine}", soft_wrap=True)
        console.print(describe_engine(origin.env, engine), soft_wrap=True)
        survived = True
        for world in breakdown.replay(broken, engine):
            console.print(f"seed {world.seed}:")
            if world.substeps:
                table = Table(
                    "physics step", "max |qvel|", "max |qacc|", "contacts", "rows", "MuJoCo warns of", box=None
                )
                for n, step in enumerate(world.substeps, 1):
                    numbers = (f"{step.speed:.4g}", f"{step.acceleration:.4g}", str(step.contacts), str(step.rows))
                    table.add_row(str(n), *numbers, ", ".join(step.warnings))
                console.print(table)
            after = f" after physics step {len(world.substeps)}" if world.substeps else ""
            verdict = "survives the step: its state is finite" if world.finite else f"breaks down: not finite{after}"
            console.print(verdict)
            survived = survived and world.finite
        return 0 if survived else EXIT_BROKEN


Command = (
    Annotated[Discover, subcommand("discover")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[Reach, subcommand("reach")]
    | Annotated[Downstream, subcommand("downstream")]
    | Annotated[Export, subcommand("export")]
    | Annotated[Publish, subcommand("publish")]
    | Annotated[Replay, subcommand("replay")]
    | Annotated[Reproduce, subcommand("reproduce")]
    | Annotated[Bench, subcommand("bench")]
    | Annotated[List, subcommand("list")]
)
COMMANDS = ("discover", "evaluate", "reach", "downstream", "export", "publish", "replay", "reproduce", "bench", "list")


def _refuse(given: list[str], allowed: set[str], why: str) -> None:
    """Complain about flags that another flag leaves no room for."""
    extra = [name for name in given if name not in allowed]
    if extra:
        flags = ", ".join("ENV" if name == "env" else f"--{name.replace('_', '-')}" for name in extra)
        raise UserError(f"{why}; leave out {flags}")


def _train_and_report(console: Console, run: Any, budget_seconds: float | None) -> int:
    from wanderlust import api, devices
    from wanderlust.methods import WITHOUT_GOALS

    config = run.config
    seeds = f"seed {config.seed}" if config.seeds == 1 else f"{config.seeds} seeds"
    console.print(
        f"{config.name}, recipe {config.recipe}, {seeds}, on {devices.describe()}; run folder: {run.path}",
        soft_wrap=True,
    )
    outcome = api.train(run, budget_seconds)
    if outcome.reason == "interrupted":
        where = f"epoch {outcome.epoch}" + (f" of stage {outcome.stage}" if outcome.stage else "")
        console.print(
            f"stopped at {where} and saved; go on with: {_program()} discover --resume {_quoted(run)}",
            soft_wrap=True,
        )
        return EXIT_INTERRUPTED
    if outcome.reason == "budget":
        console.print(
            f"budget spent at epoch {outcome.epoch}; go on with: {_program()} discover --resume {_quoted(run)}",
            soft_wrap=True,
        )
    _report_evaluation(console, run, 200, 0, config.engine)
    console.print("try next:")
    goals = "--goal 12 --goal -5" if config.env.name == "half-cheetah" else "--goal 12 4 --goal -5 9"
    if config.method.name not in WITHOUT_GOALS:
        console.print(f"  {_program()} reach {_quoted(run)} {goals}", soft_wrap=True)
    if config.env.name == "point":
        console.print(f"  {_program()} discover point --discrete 16 --seeds 4", soft_wrap=True)
    else:
        faster = " --recipe fast" if config.engine == "c" and devices.has_gpu() else ""
        console.print(f"  {_program()} discover {config.env.name} --discrete 16{faster} --budget-seconds 1800")
    return 0


def _quoted(run: Any) -> str:
    return shlex.quote(str(run.path))


def _program() -> str:
    """How this command can be called again from where the user stands."""
    if shutil.which("wanderlust"):
        return "wanderlust"
    return sys.argv[0] if Path(sys.argv[0]).name == "wanderlust" else "python -m wanderlust"


def _report_evaluation(console: Console, run: Any, episodes: int, seed: int, engine: EngineName = "auto") -> None:
    from wanderlust.evaluate import evaluate
    from wanderlust.plots import draw_phi, draw_run, draw_trajectories
    from wanderlust.runs import Run

    result = evaluate(run, episodes, seed, engine)
    # a zoo entry has no learning curve
    figures = draw_run(run.path) if isinstance(run, Run) else [draw_trajectories(run.path), draw_phi(run.path)]
    many = len(result["seeds"]) > 1
    table = Table(title=f"{result['name']} after {result['env_steps']:,} steps per seed", title_justify="left")
    table.add_column("measure")
    table.add_column("mean ± 95% interval" if many else "value", justify="right")
    for name, value in result["metrics"].items():
        table.add_row(MEASURES[name], f"{value['mean']:.2f}" + (f" ± {value['ci95']:.2f}" if many else ""))
    console.print(table)
    for which, counts in zip(result["seeds"], result.get("kinds", {}).get("counts", []), strict=False):
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        console.print(f"what the skills of seed {which} do: {kinds}", soft_wrap=True)
    console.print(f"evaluation: {run.evaluation / 'evaluation.json'}", soft_wrap=True)
    for figure in figures:
        console.print(f"figure: {figure}", soft_wrap=True)


MEASURES = {
    "coverage_mode": "bins covered, mode actions",
    "coverage_sampled": "bins covered, sampled actions",
    "travelled": "||s_T - s_0||, normalised",
    "distance": "distance travelled on the plane",
    "survived": "steps survived, mean",
    "survived_median": "steps survived, median",
    "alignment": "cosine of phi(s_T) - phi(s_0) and z",
}


def _parse(argv: list[str]) -> Any:
    """Parse the command line; tyro's framed complaints become one line."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                Command,
                prog="wanderlust",
                args=argv,
                description="Unsupervised skill discovery for simulated bodies. Start with: wanderlust discover",
                config=(tyro.conf.DisallowNone,),
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UserError(_one_line(complaint.getvalue(), argv)) from None


def _one_line(complaint: str, argv: list[str]) -> str:
    words = " ".join(re.sub(r"[─│╭╮╰╯]+", " ", complaint).split())
    words = re.split(r" Got errors:| Argument helptext:| For full helptext| \(required\)", words)[0]
    expected = r"no type matching (\S+) could be instantiated from \['(.*?)'\]"
    words = re.sub(expected, r"\2 is not of type \1", words)
    title = re.match(r"(Unrecognized options|Value error|Required options|Missing \w+|Invalid choice)\s+(?=\S)", words)
    words = words[title.end() :] if title else words
    words = re.sub(r" Perhaps you meant: (--\S+).*", r"; did you mean \1?", words)
    words = re.sub(r" (Available subcommands:)", r"; \1", words)
    command = argv[0] if argv and argv[0] in COMMANDS else ""
    return f"{words.rstrip('.?')}; see {' '.join(filter(None, ('wanderlust', command, '--help')))}"


def main(argv: list[str] | None = None) -> None:
    """Run a command; bad input ends in one line on stderr and exit code 2."""
    console = Console(highlight=False, markup=False, emoji=False)  # zoo:ant: is no picture of an ant
    try:
        command = _parse((sys.argv[1:] if argv is None else argv) or ["--help"])
        sys.exit(command.run(console))
    except UserError as error:
        print(f"wanderlust: {error}", file=sys.stderr)
        sys.exit(EXIT_USER_ERROR)
    except KeyboardInterrupt as stop:
        print(f"wanderlust: {stop if stop.args else 'stopped'}", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
