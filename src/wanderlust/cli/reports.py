"""What several commands share: the run they are about, how training went, what an evaluation found."""

import dataclasses
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Column, Table
from tyro.conf import Positional, arg

from wanderlust.cli.process import EXIT_INTERRUPTED, import_api
from wanderlust.config import EngineName
from wanderlust.errors import UserError

EXIT_BROKEN = 1
EXIT_USER_ERROR = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnRun:
    """What commands have in common that step a trained policy."""

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """The folder of the run, or zoo:NAME."""
    engine: EngineName = "auto"
    """What steps the environments; it need not be what trained the skills."""
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Where the results of a zoo entry go; by default runs/zoo-NAME."""

    def opened(self, console: Console, seeds: Callable[[Any], int] = lambda run: run.config.seeds) -> Any:
        """The run, or entry of the zoo; the devices are prepared for its seeds, and the engine is shown."""
        import_api()
        from wanderlust.envs import devices
        from wanderlust.runs.zoo import open_run
        from wanderlust.train.loop import describe_engine

        run = open_run(self.run_folder, self.out)
        devices.prepare(seeds(run))
        console.print(describe_engine(run.config.env, self.engine))
        return run


def refuse(extra: list[str], why: str) -> None:
    """Refuse flags that another flag excludes."""
    if extra:
        named = {"env": "ENV", "bonus": "--with"}
        flags = ", ".join(named.get(name, f"--{name.replace('_', '-')}") for name in extra)
        raise UserError(f"{why}; leave out {flags}")


def train_and_report(
    console: Console, run: Any, budget_seconds: float | None, listeners: Any, rollbacks: int = 0
) -> int:
    """Train a run, and say how that ended, what came of it and what to try next."""
    api = import_api()
    from wanderlust.envs import devices
    from wanderlust.train.stopping import may_end_process

    config = run.config
    if _finished(run) and _evaluated(run):
        console.print(f"{run.path} is finished already, and evaluated: {run.evaluation / 'evaluation.json'}")
        console.print(f"to measure it again: {_program()} evaluate {_quoted(run)}")
        return 0
    may_end_process()
    seeds = f"seed {config.seed}" if config.seeds == 1 else f"{config.seeds} seeds"
    console.print(f"{config.name}, recipe {config.recipe}, {seeds}, on {devices.describe()}; run folder: {run.path}")
    report_decisions(console, config)
    resume = f"continue with: {_program()} discover --resume {_quoted(run)}"
    try:
        outcome = api.train(run, budget_seconds, rollbacks=rollbacks, listeners=listeners)
    except KeyboardInterrupt as stop:
        raise stop if stop.args else KeyboardInterrupt(f"stopped at once; {resume}") from None
    if outcome.reason == "interrupted":
        where = f"epoch {outcome.epoch}" + (f" of stage {outcome.stage}" if outcome.stage else "")
        console.print(f"stopped at {where} and saved; {resume}")
        return EXIT_INTERRUPTED
    if outcome.reason == "budget":
        console.print(f"budget spent at epoch {outcome.epoch}; {resume}")
    report_evaluation(console, run, 200, 0, config.engine)
    console.print("try next:")
    for words in next_commands(run):
        console.print(f"  {_program()} {words}")
    return 0


def next_commands(run: Any) -> list[str]:
    """What to do with these skills, and what else to learn: nothing that has just been done."""
    from wanderlust.envs import MujocoWorld, devices, make_world
    from wanderlust.registry import METHODS, WORLDS

    config, found = run.config, []
    if goals := to_goals(run):
        found.append(goals)
    if isinstance(make_world(config.env), MujocoWorld):
        found += [f"explore {_quoted(run)}", f"video {_quoted(run)}"]
    if WORLDS.is_family(config.env.name):
        again = f" --config {shlex.quote(str(run.path / 'config.json'))} --seed {config.seed + config.seeds}"
        return [*found, f"discover{again} --budget-seconds 1800"]
    takes = METHODS.get(config.method.name).takes
    others = {"discrete": " --discrete 16", "continuous": " --skills 2"}
    other = next((others[kind] for kind in others if kind in takes and kind != config.skills.kind), " --method diayn")
    named = "" if "--method" in other or str(config.method) == "lsd" else f" --method {config.method}"
    faster = " --recipe fast" if config.engine == "c" and devices.has_gpu() else ""
    budget = "" if config.env.name == "point" else " --budget-seconds 1800"
    return [*found, f"discover {config.env.name}{named}{other}{faster}{budget}"]


def _finished(run: Any) -> bool:
    """Whether the last checkpoint there can be is there, and whole."""
    from wanderlust.runs.files import ArrayFile

    path = run.checkpoints().get(run.config.schedule.epochs)
    try:
        file = ArrayFile(path) if path else None
        return file is not None and all(file.read(name) is not None for name in file.shapes())
    except UserError:
        return False


def _evaluated(run: Any) -> bool:
    """Whether there is an evaluation of the newest checkpoint."""
    from wanderlust.runs.files import read_object

    try:
        found = read_object(run.evaluation / "evaluation.json", "the evaluation")
    except UserError:
        return False
    return found.get("epoch") == max(run.checkpoints(), default=0)


def report_decisions(console: Console, config: Any) -> None:
    """What was decided by rule about a body nobody has tuned numbers for; nothing of other worlds."""
    from wanderlust.envs import make_world
    from wanderlust.envs.models.describe import decisions
    from wanderlust.envs.worlds.gymnasium import GymnasiumWorld
    from wanderlust.envs.worlds.mjcf_file import ModelFile

    world = make_world(config.env)
    if isinstance(world, ModelFile):
        rows = {**decisions(world), "random actions": world.trial.words()}
    elif isinstance(world, GymnasiumWorld) and world.moved:
        rows = {"episode": f"{config.env.episode_length} control steps (env.episode_length)"}
    else:
        return
    sac = config.sac
    entropy = f"entropy weight {sac.alpha:g}, " if not sac.learn_alpha else ""
    seen = f"the map sees {config.env.focus} (--focus), " if config.env.focus else ""
    learning = (
        f"{seen}{entropy}rewards times {config.method.reward_scale:g}, horizon of {1 / (1 - sac.discount):.0f} control "
        f"steps, places divided by {sac.position_scale:g} for policy and critics (sac.alpha, method.reward_scale, "
        "sac.discount, sac.position_scale)"
    )
    table = Table("", "", title="decided by rule, where you said nothing", show_header=False, box=None)
    table.title_justify = "left"
    for name, words in {**rows, "learning": learning}.items():
        table.add_row(name, words)
    console.print(table, soft_wrap=False)


def to_goals(run: Any) -> str | None:
    """The command that takes these skills to goals, if there is one."""
    from wanderlust.downstream.tasks import TASKS, GoalTask
    from wanderlust.registry import METHODS
    from wanderlust.runs.publish import example_goals

    if goals := example_goals(run.config):
        return f"reach {_quoted(run)} {goals}"
    tasks = [task.name for task in TASKS.values() if isinstance(task, GoalTask) and task.env == run.config.env.name]
    if METHODS.get(run.config.method.name).plans and tasks:
        return f"downstream {_quoted(run)} --task {tasks[0]} --controller mppi"
    return None


def _quoted(run: Any) -> str:
    return shlex.quote(str(run))


def _program() -> str:
    """How this command can be called again from where the user stands."""
    if shutil.which("wanderlust"):
        return "wanderlust"
    return sys.argv[0] if Path(sys.argv[0]).name == "wanderlust" else "python -m wanderlust"


def report_evaluation(console: Console, run: Any, episodes: int, seed: int, engine: EngineName = "auto") -> None:
    """Evaluate, draw, and show both."""
    from wanderlust.evaluation.evaluate import evaluate
    from wanderlust.evaluation.metrics import meaning
    from wanderlust.evaluation.verdict import words as verdict_words
    from wanderlust.report.plots import draw_run
    from wanderlust.report.progress import waiting

    with waiting(f"measuring {episodes:,} random skills of each seed, and compiling that"):
        result = evaluate(run, episodes, seed, engine)
    with waiting("drawing figures"):
        figures = draw_run(run.results, learned=not run.entry)
    many = len(result["seeds"]) > 1
    before = f", and {result['env_steps_before']:,} before it began" if result["env_steps_before"] else ""
    title = f"{result['name']} after {result['env_steps']:,} steps per seed{before}"
    numbers = Column("mean ± 95% interval" if many else "value", justify="right")
    table = Table("measure", numbers, title=title, title_justify="left")
    for name, value in result["metrics"].items():
        measured = meaning(name, result["bin"], result["place_dims"])
        table.add_row(measured, f"{value['mean']:.2f}" + (f" ± {value['ci95']:.2f}" if many else ""))
    console.print(table, soft_wrap=False)
    for which, counts in zip(result["seeds"], result.get("kinds", {}).get("counts", []), strict=False):
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        console.print(f"what the skills of seed {which} do: {kinds}")
    for line in verdict_words(result["verdict"]):
        console.print(line)
    console.print(f"evaluation: {run.evaluation / 'evaluation.json'}")
    for figure in figures:
        console.print(f"figure: {figure}")


def report_drive(
    console: Console, run: Any, bodies: int, steps: int, seed: int, engine: EngineName = "auto", every: int = 1
) -> None:
    """Drive the skills of every seed, and show how that went, with a verdict."""
    from wanderlust.evaluation.drive import drive_verdict, evaluate_drive

    result = evaluate_drive(run, bodies, steps, seed, engine, every)
    for one in result["seeds"]:
        found = one["metrics"]
        title = f"{result['name']}, seed {one['seed']}: {bodies} bodies drive {steps:,} steps each"
        table = Table("measure", Column("value, 95% interval over bodies", justify="right"), title=title)
        table.title_justify = "left"
        share = found["reached_share"]
        table.add_row("goals tried", f"{found['goals']:,}")
        table.add_row("goals reached", f"{share['mean']:.1%} ± {share['ci95']:.1%}")
        for name, words in (("falls", "falls"), ("unrecovered_falls", "falls for good")):
            rate = found[f"{name}_per_1000_steps"]
            table.add_row(f"{words} per 1,000 steps", f"{rate['mean']:.2f} ± {rate['ci95']:.2f}")
        recovered = found["recovered_share"]
        table.add_row("falls recovered from", "nothing fell" if recovered is None else f"{recovered:.0%}")
        for name, words in (("falls", "falls"), ("unrecovered_falls", "falls for good")):
            table.add_row(f"median steps between {words}", _interval(found[f"steps_between_{name}"]))
        console.print(table, soft_wrap=False)
        console.print(
            f"Goals lie within {result['range']:g} m. One is reached within {one['radius']:.2g} m, and missed after "
            f"{one['steps_per_goal']} steps, {result['patience']:g} times what the straight way takes at the speed of "
            f"random skills, {one['speed']:.2g} m a step. A body has fallen if {result['fallen']}; when it lay for "
            f"{result['given_up_after']} steps, it is put up again at the origin."
        )
        console.print(drive_verdict(one))
    console.print(f"result: {run.evaluation / 'drive.json'}")


def _interval(found: dict[str, Any]) -> str:
    """A median with its interval; an unknown one is longer than the drive."""
    median, low, high = (f"{found[k]:,.0f}" if found[k] is not None else "" for k in ("median", "low", "high"))
    most = f"> {found['at_most']:,}"
    return f"{median or most} ({low or most} to {high or most})" if low else most
