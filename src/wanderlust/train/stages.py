"""Methods that learn in stages: a stage before is a run of its own, in a folder of the run it serves.

RUN/NAME/                        the stage before (the first of `Before.stages`): an ordinary run, with its evaluation
RUN/checkpoints/epoch-00000000   the state the last stage begins with, made of what the stage before has learned
RUN                              the last stage, from there on a run like any other

Its configuration is in `method.first` (`config.StageConfig`). Whoever stops in whatever stage goes on with
``--resume RUN``. A method with one stage passes through here and is just trained.
"""

import dataclasses
import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from wanderlust import train
from wanderlust.config import Engine, RunConfig, StagedConfig
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.methods.edl import codes
from wanderlust.methods.ibol import levels
from wanderlust.report.plots import draw_run
from wanderlust.runs.run import Run
from wanderlust.train import loop
from wanderlust.train.loop import Outcome

Pressed = Callable[[], bool]
"""Whether Ctrl-C has been pressed: what takes long looks now and then, and stops."""


@dataclasses.dataclass(frozen=True)
class Before:
    """What a method has to do before its last stage."""

    stages: tuple[str, ...]
    """What all stages are called, in order. The first is the name of its folder; what lies between is in `begin`."""
    begin: Callable[[Run, Run, train.Setup, Pressed, bool], train.TrainState | None]
    """(run of the first stage, the run itself, its parts, Ctrl-C, quiet) -> the state its last stage begins with;
    None if it was interrupted."""


BEFORE: Mapping[str, Before] = {
    "edl": Before(("explore", "codes", "skills"), codes.begin),
    "ibol": Before(("linearizer", "skills"), levels.begin),
}
"""By method; each has a `config.StagedConfig`."""


def earlier(config: RunConfig) -> RunConfig | None:
    """The configuration of the stage before, if there is one."""
    if not isinstance(config.method, StagedConfig):
        return None
    own = {field.name: getattr(config.method.first, field.name) for field in dataclasses.fields(config.method.first)}
    return dataclasses.replace(config, **own)


def runs(run: Run) -> list[Run]:
    """The runs of all stages that there are so far, in order."""
    first = earlier(run.config)
    folder = run.path / BEFORE[run.config.method.name].stages[0] if first else run.path
    return [Run(folder, first), run] if first and folder.exists() else [run]


def with_steps(config: RunConfig, steps: int) -> RunConfig:
    """The same for so many environment steps in all, rounded up to whole epochs; stages keep their shares of them."""
    first, schedule, method = earlier(config), config.schedule, config.method
    if first is None or not isinstance(method, StagedConfig):
        epochs = math.ceil(steps / schedule.collection)
        return dataclasses.replace(config, schedule=dataclasses.replace(schedule, epochs=epochs))
    mine = math.ceil(steps * _share(first, config) / first.schedule.collection)
    rest = max(1, math.ceil((steps - mine * first.schedule.collection) / schedule.collection))
    stage = dataclasses.replace(method.first, schedule=dataclasses.replace(first.schedule, epochs=mine))
    return dataclasses.replace(
        config,
        method=dataclasses.replace(method, first=stage),
        schedule=dataclasses.replace(schedule, epochs=rest),
    )


def _share(first: RunConfig, last: RunConfig, done: int = 0) -> float:
    """Of the environment steps of both stages, those of the first, after some of its epochs."""
    mine = (first.schedule.epochs - done) * first.schedule.collection
    return mine / (mine + last.schedule.epochs * last.schedule.collection)


# --- a run with all its stages ---------------------------------------------------------------------------------------


def start(config: RunConfig, out: Path | None, begin_with: Path | None = None) -> Run:
    """Make the folder of a new run, unless one of its stages cannot be."""
    if (first := earlier(config)) is not None:
        loop.checked(first)
    return loop.start(config, out, begin_with)


def resume(path: Path, engine: Engine | None = None) -> Run:
    """Open a run to go on with it, in whichever stage it was stopped."""
    return loop.resume(path, engine)


def train_run(run: Run, budget_seconds: float | None = None, quiet: bool = False) -> Outcome:
    """Train a run through the stages that are left, until it is finished, its budget is spent or Ctrl-C is pressed.

    A stage may take the share of the budget that its environment steps have in those that are left; one that spends
    it ends there, and the next begins with what it has learned.
    """
    first = earlier(run.config)
    if first is None:
        return loop.run_training(run, budget_seconds=budget_seconds, quiet=quiet)
    began, before = time.monotonic(), BEFORE[run.config.method.name]
    say = Console(file=sys.stderr, quiet=quiet, highlight=False, markup=False, soft_wrap=True).print
    if not run.checkpoints():
        with run.lock():
            outcome = _first_stage(run, first, before, budget_seconds, quiet, say)
            if outcome.reason == "interrupted":
                return dataclasses.replace(outcome, stage=before.stages[0])
            parts = train.assemble(run.config)
            with loop.ctrl_c() as pressed:
                for n, name in enumerate(before.stages[1:-1], 2):
                    say(f"stage {n} of {len(before.stages)}, {name}")
                mine = _run_of(run, first, before)
                state = before.begin(mine, run, parts, pressed, quiet)
            if state is None:
                return Outcome(0, "interrupted", before.stages[-2])
            run.began_with(mine, max(mine.checkpoints()))  # which may be fewer epochs than were planned
            run.save(0, train.to_save(state))
    left = None if budget_seconds is None else budget_seconds - (time.monotonic() - began)
    _announce(say, before, len(before.stages), run, left)
    return loop.run_training(run, budget_seconds=left, quiet=quiet)


def _announce(say: Callable[[str], None], before: Before, n: int, run: Run, seconds: float | None) -> None:
    left = run.config.schedule.epochs - max(run.checkpoints(), default=0)
    amount = f"{left:,} epochs" + ("" if seconds is None else f" or {max(seconds, 0.0):.0f} s of the budget")
    say(f"stage {n} of {len(before.stages)}, {before.stages[n - 1]}: {amount}, in {run.path}")


def _run_of(run: Run, first: RunConfig, before: Before) -> Run:
    return Run(run.path / before.stages[0], first)


def _first_stage(
    run: Run, first: RunConfig, before: Before, budget: float | None, quiet: bool, say: Callable[[str], None]
) -> Outcome:
    """Train and evaluate the run of the first stage."""
    mine = _run_of(run, first, before)
    if not mine.path.exists():
        Run.create(mine.path, first)
    done, total = max(mine.checkpoints(), default=0), first.schedule.epochs
    seconds = None if budget is None else budget * _share(first, run.config, done)
    if done < total:
        _announce(say, before, 1, mine, seconds)
    outcome = loop.run_training(mine, budget_seconds=seconds, quiet=quiet)
    if outcome.reason != "interrupted":
        metrics = evaluate(mine, engine=first.engine)["metrics"]
        draw_run(mine.path)
        covered = " and ".join(f"{metrics[f'coverage_{how}']['mean']:.0f} with {how}" for how in ("mode", "sampled"))
        say(f"bins covered by {before.stages[0]}: {covered} actions; all of it: {mine.evaluation / 'evaluation.json'}")
    return outcome
