"""Methods that learn in stages: a stage before is a run of its own, in a folder of the run it serves.

RUN/NAME/                        the first stage (the first of `Method.stages`): an ordinary run, with its evaluation
RUN/checkpoints/epoch-00000000   the state the last stage starts with, made of what the first has learned
RUN                              the last stage, from there on a run like any other

The first stage's configuration is `method.first` (`config.StageConfig`). `--resume RUN` goes on in whichever stage was
stopped. A method with one stage is just trained.
"""

import dataclasses
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from wanderlust import train
from wanderlust.config import RunConfig, StagedConfig
from wanderlust.errors import UserError, require_path
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.methods.base import FirstStage
from wanderlust.registry import METHODS
from wanderlust.report.plots import draw_run
from wanderlust.report.progress import progress
from wanderlust.report.sinks import Listeners
from wanderlust.report.terminal import Terminal
from wanderlust.runs import zoo
from wanderlust.runs.learned import Learned, load_learner
from wanderlust.runs.run import Run
from wanderlust.train import loop
from wanderlust.train.loop import Outcome
from wanderlust.train.stopping import stop_signals
from wanderlust.train.update import each_seed

Say = Callable[[str], None]


def stage_names(config: RunConfig) -> tuple[str, ...]:
    """Names of all stages of a run's method."""
    names: tuple[str, ...] = METHODS.get(config.method.name).stages
    return names


def earlier(config: RunConfig) -> RunConfig | None:
    """The configuration of the stage before, if there is one."""
    if not isinstance(config.method, StagedConfig):
        return None
    own = {field.name: getattr(config.method.first, field.name) for field in dataclasses.fields(config.method.first)}
    return dataclasses.replace(config, **own)


def runs(run: Run) -> list[Run]:
    """The runs of all stages that there are so far, in order."""
    first = first_run(run)
    return [first, run] if first is not None and first.path.exists() else [run]


def first_run(run: Run) -> Run | None:
    """The run of the first stage, whether it has been made or not; None if there is one stage."""
    config = earlier(run.config)
    return None if config is None else Run(run.path / stage_names(run.config)[0], config)


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


def start(config: RunConfig, out: Path | str | None = None, begin_with: Path | str | None = None) -> Run:
    """Make the folder of a new run, unless one of its stages cannot be; it may begin with what another has learned.

    An entry of the zoo has no critics and no optimisers: those are new.
    """
    if (first := earlier(config)) is not None:
        loop.checked(first)
    config = loop.checked(config)
    if out is not None:
        require_path("--out", out)
    out = loop.default_folder(config) if out is None else out
    if begin_with is None:
        return Run.create(out, config)
    other, parts = zoo.open_run(begin_with), train.assemble(config)
    _check_alike(other, config)
    try:
        if other.entry:
            epoch, learned = load_learner(other, parts)
            learner = _with_new_critics(train.init(parts).learner, learned)
        else:
            epoch, learner = other.load(train.saved_form(parts).learner, part="learner", own=False)
    except UserError as error:
        raise UserError(f"--begin-with {other}: {error}") from None

    def fill(run: Run) -> None:
        run.save(0, train.to_save(train.init(parts)._replace(learner=learner)))
        run.began_with(other, epoch)

    return Run.create(out, config, fill)


def _with_new_critics(fresh: train.Learner, learned: Learned) -> train.Learner:
    """A learner at its start, but for the policy and what the method has for use."""
    mine, theirs = (jax.tree.map(jnp.shape, method._asdict()) for method in (fresh.method, learned.method))
    same = {name: getattr(learned.method, name) for name in mine if mine[name] == theirs[name]}
    return fresh._replace(sac=fresh.sac._replace(policy=learned.policy), method=fresh.method._replace(**same))


def _check_alike(other: Run, config: RunConfig) -> None:
    """Refuse to begin with what was learned of something else."""
    if isinstance(config.method, StagedConfig):
        raise UserError(f"--begin-with is for methods of one stage; {config.method} begins with a stage of its own")

    def what(config: RunConfig) -> dict[str, str]:
        # -o gives zeroes to the policy: networks are alike
        sees_all: dict[str, Any] = {"view": config.method.view.removesuffix("o")}
        method = dataclasses.replace(config, method=dataclasses.replace(config.method, **sees_all)).rewards
        named = {"environment": config.env.name, "method": method, "skills": config.skills}
        return {name: str(value) for name, value in (named | {"seeds": config.seeds}).items()}

    theirs, ours = what(other.config), what(config)
    if apart := [name for name in ours if ours[name] != theirs[name]]:
        said = ", ".join(f"{name} {theirs[name]} and not {ours[name]}" for name in apart)
        raise UserError(f"--begin-with {other.path}: it has {said}; choose a run of the same")


def train_run(
    run: Run,
    budget_seconds: float | None = None,
    quiet: bool = False,
    rollbacks: int = 0,
    listeners: Listeners = loop.NOBODY,
) -> Outcome:
    """Train a run through the stages that are left, until it is finished, its budget is spent or somebody stops it.

    A stage may take the share of the budget that its environment steps have in those that are left; one that spends
    it ends there, and the next begins with what it has learned. Each may go back `rollbacks` times when it diverges.
    """
    first = first_run(run)
    if first is None:
        return loop.run_training(run, budget_seconds, quiet, rollbacks, listeners)
    began, names = time.monotonic(), stage_names(run.config)
    say = Terminal(file=sys.stderr, quiet=quiet).print
    if not run.checkpoints():
        loop.refuse_to_begin_again(run)
        with run.lock() as held:
            first = dataclasses.replace(first, writer=held.writer)
            outcome = _first_stage(held, first, budget_seconds, quiet, rollbacks, say, listeners)
            if outcome.reason == "interrupted":
                return dataclasses.replace(outcome, stage=names[0])
            for n, name in enumerate(names[1:-1], 2):
                say(f"stage {n} of {len(names)}, {name}")
            state = _last_stage_state(held, first, quiet, say)
            if state is None:
                return Outcome(0, "interrupted", names[-2])
            held.began_with(first, max(first.checkpoints()))  # which may be fewer epochs than were planned
            held.save(0, train.to_save(state))
    left = None if budget_seconds is None else budget_seconds - (time.monotonic() - began)
    _announce(say, names, len(names), run, left)
    return loop.run_training(run, budget_seconds=left, quiet=quiet, rollbacks=rollbacks, listeners=listeners)


def _last_stage_state(run: Run, first: Run, quiet: bool, say: Say) -> train.TrainState | None:
    """The state the last stage starts with; None if Ctrl-C interrupted what comes between."""
    parts = train.assemble(run.config)
    form = train.saved_form(train.assemble(first.config))

    def states() -> tuple[int, jax.Array, jax.Array]:
        epoch, replay = first.load(form.replay, part="replay")
        return epoch, parts.view.for_method(replay.data.next_obs), replay.size

    with stop_signals() as pressed:
        start = parts.method.start_last_stage(
            FirstStage(
                policy=lambda: first.load(form.learner.sac.policy, part="learner/sac/policy")[1],
                states=states,
                folder=run.path,
                seeds=range(run.config.seed, run.config.seed + run.config.seeds),
                obs_dim=parts.view.method_dim,
                each_seed=each_seed,
                progress=lambda total, unit: progress(total, unit, quiet=quiet),
                say=say,
                interrupted=pressed,
            )
        )
    if start is None:
        return None
    state = train.init(parts)
    given = {name: part for name, part in start._asdict().items() if part is not None}
    return state._replace(learner=state.learner._replace(**given))


def _announce(say: Say, names: tuple[str, ...], n: int, run: Run, seconds: float | None) -> None:
    left = run.config.schedule.epochs - max(run.checkpoints(), default=0)
    amount = f"{left:,} epochs" + ("" if seconds is None else f" or {max(seconds, 0.0):.0f} s of the budget")
    say(f"stage {n} of {len(names)}, {names[n - 1]}: {amount}, in {run.path}")


def _first_stage(
    run: Run, first: Run, budget: float | None, quiet: bool, rollbacks: int, say: Say, listeners: Listeners
) -> Outcome:
    """Train and evaluate the run of the first stage."""
    names = stage_names(run.config)
    if not first.path.exists():
        Run.create(first.path, first.config)
    done, total = max(first.checkpoints(), default=0), first.config.schedule.epochs
    seconds = None if budget is None else budget * _share(first.config, run.config, done)
    if done < total:
        _announce(say, names, 1, first, seconds)
    outcome = loop.run_training(first, budget_seconds=seconds, quiet=quiet, rollbacks=rollbacks, listeners=listeners)
    if outcome.reason != "interrupted":
        metrics = evaluate(first, engine=first.config.engine)["metrics"]
        draw_run(first.path)
        covered = " and ".join(f"{metrics[f'coverage_{how}']['mean']:.0f} with {how}" for how in ("mode", "sampled"))
        say(f"bins covered by {names[0]}: {covered} actions; all of it: {first.evaluation / 'evaluation.json'}")
    return outcome
