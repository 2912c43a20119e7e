"""Commands that make skills, measure them and pass them on: discover, evaluate, export, publish, replay, list."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Column, Table
from tyro.conf import Positional, UseAppendAction, arg

from wanderlust.checks import check_budget, check_request, rollbacks_allowed
from wanderlust.cli.process import import_api
from wanderlust.cli.reports import EXIT_BROKEN, OnRun, refuse, report_drive, report_evaluation, train_and_report
from wanderlust.cli.studies import ITEMS
from wanderlust.config import EngineName, flat, require_at_least
from wanderlust.errors import UserError
from wanderlust.report.sinks import Listeners
from wanderlust.runs.entries import check_source


@dataclasses.dataclass(frozen=True)
class Discover:
    """Discover skills without a reward, evaluate them and draw them.

    For example:
      wanderlust discover                                   2-D skills on PointEnv with LSD, about half a minute
      wanderlust discover point --discrete 16 --seeds 8     16 discrete skills, eight seeds in one program
      wanderlust discover point --method diayn-xyo --recipe paper --out runs/xyo
      wanderlust discover ant --budget-seconds 1800         a body on the CPU cores there are
      wanderlust discover ant --recipe fast                 the same on a GPU
      wanderlust discover ant --method dads --method.alternatives 50 --sac.discount 0.995
      wanderlust discover fetch-push --method lsd --with music
      wanderlust discover robot.xml                         your own robot, as MJCF or URDF
      wanderlust discover gymnasium:Walker2d-v5             any Gymnasium environment with Box actions
      wanderlust discover half-cheetah --focus "qpos[0:3]"  what the learned map sees of the state
      wanderlust discover --resume runs/xyo                 continue a run that was stopped
    """

    env: Annotated[Positional[str], arg(metavar="[ENV]")] = "point"
    """The environment; `wanderlust list` shows them all."""
    method: str = "lsd"
    """The method, e.g. lsd or diayn, with an optional suffix -xy, -o or -xyo for what its networks see. With a method
    or an environment named, --help shows their own fields, too."""
    focus: Annotated[str | None, arg(metavar="ENTRIES")] = None
    """Which entries of the observation the method's network sees, by group, name or number: position, qpos[0:2],
    "rootz velocity", 0,1. A name that is not there gets the list of those that are."""
    bonus: Annotated[str | None, arg(name="with", metavar="METHOD")] = None
    """Add the reward of another method to that of this one: music, in worlds with a hand and an object."""
    skills: Annotated[int | None, arg(metavar="D")] = None
    """Learn continuous skills of this many dimensions (the default, with 2)."""
    discrete: Annotated[int | None, arg(metavar="N")] = None
    """Learn this many discrete skills instead."""
    recipe: str = "laptop"
    """Whose numbers: laptop (CPU cores), fast (a GPU), or paper for the published setting."""
    config: Annotated[Path | None, arg(metavar="FILE")] = None
    """Start from the config.json of another run instead of a recipe."""
    set: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="KEY=VALUE")] = ()
    """Change one field, e.g. --set sac.discount=0.995, the same as --sac.discount 0.995; may be repeated."""
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """The folder of the run; by default runs/<date>-<time>-<what>."""
    begin_with: Annotated[Path | None, arg(metavar="RUN")] = None
    """Begin with the networks of this run, whose environment, method, skills and seeds must be the same; all other
    numbers may differ, e.g. --schedule.hold 50 for skills that change into each other."""
    resume: Annotated[Path | None, arg(metavar="RUN")] = None
    """Continue this run instead of starting one."""
    budget_seconds: Annotated[float | None, arg(metavar="S")] = None
    """Stop after about this many seconds, with checkpoint and evaluation."""
    budget_steps: Annotated[int | None, arg(metavar="N")] = None
    """Train for this many environment steps per seed (rounded up to whole epochs)."""
    log: Annotated[tuple[Literal["tensorboard", "wandb", "trackio"], ...], UseAppendAction] = ()
    """Send the rows of metrics.jsonl there, too (extras of these names); may be repeated."""
    on_divergence: Literal["stop", "rollback"] = "stop"
    """What happens when training or physics goes astray (NaN, or numbers beyond all measure): stop, or roll back to the
    last good checkpoint and go on with fresh noise."""
    rollbacks: Annotated[int, arg(metavar="N")] = 3
    """With --on-divergence rollback: how often the run may go back, over its whole life."""
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The flags made from the configuration (`flags.py`)."""

    def run(self, console: Console) -> int:
        typed = flat(self.changes)
        plain = [field for field in dataclasses.fields(self) if field.name != "changes"]
        given = [*(field.name for field in plain if getattr(self, field.name) != field.default), *typed]
        check_budget(self.budget_seconds)
        listeners = Listeners(self.log)
        listeners.check()
        if self.config is not None:
            decided = {"env", "method", "bonus", "skills", "discrete", "recipe"}
            refuse([name for name in given if name in decided], "--config decides what is learned and how")
        turns = rollbacks_allowed(self.on_divergence, self.rollbacks)
        if self.resume is not None:
            allowed = {"resume", "budget_seconds", "log", "engine", "on_divergence", "rollbacks"}
            refuse([name for name in given if name not in allowed], "--resume continues a run as it was configured")
            check_source(self.resume)
            run = import_api().open_to_resume(self.resume, self.changes.get("engine"))
        else:
            elsewhere = (
                "out",
                "begin_with",
                "resume",
                "budget_seconds",
                "log",
                "set",
                "focus",
                "on_divergence",
                "rollbacks",
            )
            options = {field.name: getattr(self, field.name) for field in plain if field.name not in elsewhere}
            typed |= {} if self.focus is None else {"env.focus": self.focus}
            changes = (*self.set, *(f"{name}={json.dumps(value)}" for name, value in typed.items()))
            check_request(**options, set=changes)
            if self.begin_with is not None:
                check_source(self.begin_with)
            api = import_api()
            run = api.start_run(api.configure(**options, set=changes), self.out, self.begin_with)
        return train_and_report(console, run, self.budget_seconds, listeners, turns)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(OnRun):
    """Measure and draw a run again from its newest checkpoint, or skills that ship with the package.

    For example:
      wanderlust evaluate runs/xyo --episodes 1000
      wanderlust evaluate zoo:ant                           `wanderlust list` shows the zoo
      wanderlust evaluate zoo:ant-drive --drive             how well the body can be sent about, and how often it falls
    """

    episodes: int = 200
    """Random-skill episodes per seed."""
    seed: int = 0
    """Seed of the skills, goals and starts that are tried."""
    drive: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Measure instead how well a walking body can be driven: many of them go zero-shot to random goals within 15 m, one
    after the other."""
    bodies: int = 32
    """With --drive: how many bodies, side by side."""
    steps: int = 10_000
    """With --drive: control steps of each."""
    skill_every: int = 1
    """With --drive: steps between two choices of a skill."""

    def run(self, console: Console) -> int:
        require_at_least(1, "--episodes", self.episodes)
        if not 0 <= self.seed < 2**31:
            raise UserError(f"--seed is {self.seed}; it must be in [0, 2^31)")
        given = [name for name in ("bodies", "steps", "skill_every") if getattr(self, name) != getattr(Evaluate, name)]
        if self.drive:
            report_drive(
                console, self.opened(console), self.bodies, self.steps, self.seed, self.engine, self.skill_every
            )
            return 0
        refuse(given, "without --drive nothing is driven")
        report_evaluation(console, self.opened(console), self.episodes, self.seed, self.engine)
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
        import_api()
        from wanderlust.envs import devices
        from wanderlust.export import export_onnx
        from wanderlust.runs.zoo import open_run

        source = open_run(self.run_folder)
        devices.prepare(source.config.seeds)
        files, card = export_onnx(source, self.seed, self.out)
        for path in files:
            console.print(f"written: {path} ({path.stat().st_size / 1e6:.2f} MB)")
        if card["phi"] is None:
            console.print(f"no phi.onnx: {card['method']} has no map of states")
        checked = card["checked"]
        away = checked["largest_difference"]
        others = ", ".join(f"{name} {x:.1e}" for name, x in away.items() if name != "action")
        console.print(
            f"ONNX Runtime and JAX differ over {checked['observations']:,} observations by at most: "
            f"action {away['action']:.1e}; as shares of their size: {others}"
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
        api = import_api()
        from wanderlust.envs import devices
        from wanderlust.runs.publish import publish

        run = api.Run.open(self.run_folder)
        devices.prepare(run.config.seeds)
        folder, facts = publish(run, self.name, self.seed, self.zoo, self.replace)
        console.print(f"zoo:{self.name}: {facts['summary']}; {facts['bytes'] / 1e6:.2f} MB")
        console.print(f"card: {folder / 'card.md'}")
        return 0


@dataclasses.dataclass(frozen=True)
class Prune:
    """Write a run without what only training needs, all of its seeds, to a new folder: small, to keep or to send.

    What comes of it is a run that every command takes but discover --resume. For example:
      wanderlust prune runs/fetch/fetch-push/lsd --out runs/small/fetch-push/lsd
    """

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """The folder of the run; its newest checkpoint is taken."""
    out: Annotated[Path, arg(metavar="DIR")]
    """The new folder."""

    def run(self, console: Console) -> int:
        api = import_api()
        from wanderlust.runs.prune import prune

        facts = prune(api.Run.open(self.run_folder), self.out)
        kept = ", ".join(f"{name} ({kind})" for name, kind in facts["stored"].items())
        seeds = "1 seed" if facts["seeds"] == 1 else f"{facts['seeds']} seeds"
        console.print(f"{self.out}: epoch {facts['epoch']}, {seeds}, {kept}; {facts['bytes'] / 1e6:.2f} MB")
        return 0


@dataclasses.dataclass(frozen=True)
class ReplayStep:
    """Repeat the step that broke the physics of a run, and show where it goes wrong.

    Ends with exit code 0 if every world survives it, and 1 if one breaks down again. For example:
      wanderlust replay runs/ant/broken/epoch-00000040.safetensors
      wanderlust replay runs/ant/broken/epoch-00000040.safetensors --engine warp
    """

    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """The file that the run wrote when it stopped."""
    engine: EngineName = "auto"
    """What steps the environments: c (every physics step is shown) or warp; auto is c, whatever the run had, and jax
    for dynamics that are a formula."""

    def run(self, console: Console) -> int:
        import_api()
        from wanderlust.envs import devices
        from wanderlust.runs import broken as files
        from wanderlust.train.loop import describe_engine

        devices.prepare()
        broken = files.Broken.read(self.file)
        origin = broken.origin
        asked = self.engine != "auto"
        engine: EngineName = self.engine if asked else "jax" if origin.engine == "jax" else "c"
        console.print(f"{origin.env.name}, before epoch {origin.epoch}, on the engine {origin.engine}")
        why = "asked for" if asked else "it shows every physics step"
        console.print(describe_engine(origin.env, engine, why))
        survived = True
        for world in files.replay(broken, engine):
            console.print(f"seed {world.seed}:")
            if world.substeps:
                table = Table(
                    "physics step", "max |qvel|", "max |qacc|", "contacts", "rows", "MuJoCo warns of", box=None
                )
                for n, step in enumerate(world.substeps, 1):
                    numbers = (f"{step.speed:.4g}", f"{step.acceleration:.4g}", str(step.contacts), str(step.rows))
                    table.add_row(str(n), *numbers, ", ".join(step.warnings))
                console.print(table, soft_wrap=False)
            after = f" after physics step {len(world.substeps)}" if world.substeps else ""
            verdict = "survives the step: its state is finite" if world.finite else f"breaks down: not finite{after}"
            console.print(f"{verdict}; {world.overflow}" if world.overflow else verdict)
            survived = survived and world.finite
        return 0 if survived else EXIT_BROKEN


@dataclasses.dataclass(frozen=True)
class List:
    """Show the environments, methods, variants, recipes, reproductions and trained skills there are.

    For example:
      wanderlust list
    """

    def run(self, console: Console) -> int:
        from wanderlust import catalogue
        from wanderlust.registry import METHODS, WORLDS
        from wanderlust.runs import entries

        worlds = {
            env: f"{WORLDS.summary(env)}; recipes: {', '.join(catalogue.known_recipes(env))}" for env in WORLDS.names()
        }
        worlds["FILE.xml, FILE.urdf"] = f"{WORLDS.summary('mjcf')}; recipes: {catalogue.DEFAULT}"
        worlds["gymnasium:ID"] = f"{WORLDS.summary('gymnasium')}; recipes: {catalogue.DEFAULT}"
        tasks = {name: f"in {task.env}, at most {task.horizon} steps" for name, task in catalogue.TASKS.items()}
        sections = (
            ("environments", worlds),
            ("methods", {name: METHODS.summary(name) for name in METHODS.names()}),
            ("variants of any method", {f"-{k}": v for k, v in catalogue.VIEWS.items()}),
            ("recipes", catalogue.RECIPES),
            ("tasks", tasks),
            ("controllers", catalogue.CONTROLLERS),
            ("reproduce", {name: kind.__doc__.partition("\n")[0] for name, kind in ITEMS.items()}),
            ("zoo", {f"{entries.PREFIX}{name}": text for name, text in entries.summaries().items()}),
        )
        for title, lines in sections:
            if not lines:
                continue
            names = Column(no_wrap=True, style="bold")
            table = Table(names, "", title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
            for name, text in lines.items():
                table.add_row(name, text)
            console.print(table, soft_wrap=False)
        return 0
