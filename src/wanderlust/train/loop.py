"""One run from its folder to its evaluation: train in chunks, log, save, stop cleanly, go on."""

import dataclasses
import datetime
import shlex
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from wanderlust import train
from wanderlust.config import EngineName, EnvConfig, RunConfig
from wanderlust.envs import choose_engine, devices, make_world
from wanderlust.envs.engines.warp import WarpEngine
from wanderlust.envs.mjcf import muted
from wanderlust.errors import UserError, notice
from wanderlust.evaluation.metrics import coverage, summarise
from wanderlust.report.progress import Progress, progress
from wanderlust.report.sinks import Listeners, Log
from wanderlust.runs.metrics import Counts
from wanderlust.runs.run import Run
from wanderlust.train import memory
from wanderlust.train.dead import DeadRunWatch
from wanderlust.train.guard import DivergedError, stop_if_broken, with_fresh_noise
from wanderlust.train.journal import Journal
from wanderlust.train.state import fresh_episodes, restore
from wanderlust.train.stopping import Stop, stop_signals

PROBE_EPISODES = 200
"""Random-skill episodes behind the coverage in metrics.jsonl."""


NOBODY = Listeners()


@dataclass(frozen=True)
class Outcome:
    """How a call of `run_training` ended."""

    epoch: int
    reason: str
    """`finished`, `budget` or `interrupted`."""
    stage: str = ""
    """Which one it ended in, if it was not the last (`stages.py`)."""


def run_training(
    run: Run,
    budget_seconds: float | None = None,
    quiet: bool = False,
    rollbacks: int = 0,
    listeners: Listeners = NOBODY,
) -> Outcome:
    """Train a run from its last checkpoint until it is finished, its budget is spent or somebody stops it.

    It stops only between chunks of `log_every` epochs, so that a run that was stopped and one that was not compute
    the same thing; whatever the reason, a checkpoint is left behind. Before the first chunk it stops at once. A run
    that diverges goes back to its last good checkpoint and on with fresh noise, `rollbacks` times in all.
    """
    with run.lock() as held, listeners.opened(held) as tell, stop_signals() as stop, muted():
        return _train(held, budget_seconds, stop, quiet, rollbacks, tell)


def _train(run: Run, budget_seconds: float | None, stop: Stop, quiet: bool, rollbacks: int, tell: Log) -> Outcome:
    began, total = time.monotonic(), run.config.schedule.epochs
    stop.at_once = True
    parts = _assemble(run.config)
    config = parts.config
    run = dataclasses.replace(run, config=config)
    epoch, state = last_state(run, parts)
    before = _counts(run, epoch)
    run.drop_damaged(epoch)
    run.rewind(epoch)
    if epoch >= total:
        return Outcome(epoch, "finished")
    if epoch > 0:
        run.resumed()
    steps, trained, turns = before.env_steps, before.train_seconds, before.rollbacks
    advance = train.make_driver(parts)
    probe = train.make_probe(parts, PROBE_EPISODES)
    spec = parts.world.spec
    probed, watch = False, DeadRunWatch(parts, PROBE_EPISODES)
    covered: list[int] = next((row["coverage"] for row in reversed(run.metrics()) if "coverage" in row), [])

    deadline = None if budget_seconds is None else began + budget_seconds
    with progress(total, "epoch", first=epoch, quiet=quiet, deadline=deadline) as line:
        if epoch > 0 and parts.engine.stateful:
            line.say("the environments begin fresh episodes: not to the bit what an uninterrupted run would compute")
        if budget_seconds is not None:
            line.say(
                f"budget: {datetime.timedelta(seconds=round(budget_seconds))}, or {total:,} epochs if they take less"
            )
        state = _prepare(line, parts, advance, state)
        stop.at_once = False
        journal = Journal(run, line.say)
        line.since = time.monotonic()
        while True:
            count = min(config.log_every - epoch % config.log_every, total - epoch)
            chunk_began = time.monotonic()
            state, metrics = jax.block_until_ready(advance(state, count))
            seconds = time.monotonic() - chunk_began
            trained += seconds
            values = {name: np.asarray(v, float).tolist() for name, v in metrics.items()}
            steps += round(count * float(np.mean(values["steps"])))  # of a seed; bodies that fall may wait for others
            epoch += count
            try:
                stop_if_broken(run, parts, epoch, state, values)
            except DivergedError as error:
                turns += 1
                epoch, state = _gone_back(run, parts, epoch, error, turns, rollbacks)
                journal.forget(epoch)
                line.say(f"{error}: back to epoch {epoch:,} with fresh noise ({turns} of {rollbacks})")
                continue
            left = budget_seconds - (time.monotonic() - began) if budget_seconds is not None else None
            reason = _reason(epoch == total, stop(), left)
            probing = reason is not None or epoch % (config.log_every * config.look_every) == 0
            if probing:
                what = f"rolling out {PROBE_EPISODES} random skills" + ("" if probed else ", and compiling that")
                skill_policy = train.skill_policy(parts, state.learner)
                with nullcontext() if probed and reason is None else line.waiting(what):
                    covered = [coverage(spec.place(x), spec.bin) for x in np.asarray(probe(skill_policy).obs)]
                parts.engine.check()
                probed = True
                time_share = 0.0 if budget_seconds is None else (time.monotonic() - began) / budget_seconds
                if not quiet and (said := watch.warning(covered, max(epoch / total, time_share))):
                    line.say(said)
            now = Counts(steps, round(before.seconds + time.monotonic() - began, 3), round(trained, 3), turns)
            row = {"epoch": epoch, "env_steps": steps, **values, **({"coverage": covered} if probing else {})}
            if parts.engine.stateful:
                row["restarts"] = parts.engine.restarts
                for text in parts.engine.news():
                    line.say(text)
            times = {"train_seconds": now.train_seconds, "seconds": now.seconds}
            _show(line, row, covered, count / max(seconds, 1e-9))
            saves = reason is not None or epoch % config.checkpoint_every == 0
            with nullcontext() if reason is None else line.waiting("saving the last checkpoint"):
                journal.keep({**row, **times}, state, now, saves, last=reason is not None)
            tell({**row, **times})
            if reason is not None:
                return Outcome(epoch, reason)


def _gone_back(
    run: Run, parts: train.Setup, epoch: int, error: DivergedError, turns: int, most: int
) -> tuple[int, train.TrainState]:
    """The last good checkpoint of a run that diverged before an epoch, with noise that is other at each turn.

    A run that is killed now diverges again when it is resumed, and is back here.
    """
    if turns > most:
        often = f"; it went back {most} times, as often as it may (--rollbacks)" if most else ""
        raise UserError(f"{error}{often}") from None
    back, state = last_state(run, parts) if run.checkpoints() else (0, train.init(parts))
    run.rewind(back)
    run.rolled_back(back, epoch, str(error))
    return back, with_fresh_noise(state, turns)


def _reason(finished: bool, pressed: bool, left: float | None) -> str | None:
    """Why to stop here, if at all."""
    if finished:
        return "finished"
    if pressed:
        return "interrupted"
    return "budget" if left is not None and left <= 0 else None


def _assemble(config: RunConfig) -> train.Setup:
    """The parts of a run, its engine named; a driver that cannot work with it is refused."""
    parts = train.assemble(config)
    if config.driver == "fused" and not parts.engine.compiles:
        raise UserError(
            f"--driver fused compiles the physics with everything else, which the engine {parts.engine.name} cannot "
            "do; leave it out, or use --driver split"
        )
    return dataclasses.replace(parts, config=dataclasses.replace(config, engine=parts.engine.name))


def last_state(run: Run, parts: train.Setup) -> tuple[int, train.TrainState]:
    """The newest checkpoint of a run, and its epoch; without one, how training begins."""
    if not run.checkpoints():
        refuse_to_begin_again(run, run.provenance().get("began_with") is not None)
        return 0, train.init(parts)
    epoch, saved = run.load(train.saved_form(parts))
    state = restore(parts, saved)
    return epoch, state._replace(worlds=fresh_episodes(parts, state.key)) if parts.engine.stateful else state


def refuse_to_begin_again(run: Run, had_one: bool = False) -> None:
    """A run whose checkpoints are gone does not begin at epoch 0 unasked: they may be on a disk that is not there."""
    trained = max((row["epoch"] for row in run.metrics()), default=0)
    had_one = had_one or bool(run.provenance().get("resumed"))  # which is written when there is one to go on from
    if had_one or trained > run.config.checkpoint_every or (run.path / "evaluation" / "evaluation.json").exists():
        raise UserError(
            f"{run.path} has been trained to epoch {trained:,}, and there is no checkpoint in "
            f"{run.path / 'checkpoints'}; bring them back, or train anew in another folder with `wanderlust discover "
            f"--config {shlex.quote(str(run.path / 'config.json'))} --out NEW`"
        )
    if trained:
        notice(f"{run.path} was stopped at epoch {trained:,}, before its first checkpoint: it begins at epoch 0")


def _counts(run: Run, epoch: int) -> Counts:
    """What it took to come to an epoch; what is planned for it if nothing says so any more."""
    if (counts := run.counts(epoch)) is not None:
        return counts
    if epoch > 0:
        notice(f"how many steps {run.path} took to epoch {epoch:,} is not known: they are counted as planned")
    return Counts(epoch * run.config.schedule.collection)


# --- what is said before training begins -----------------------------------------------------------------------------


def _prepare(line: Progress, parts: train.Setup, advance: train.Driver, state: train.TrainState) -> train.TrainState:
    """Say which engine steps the environments, and why. Then compile, ahead of training.

    The time that takes is kept apart, and the compiler says how much memory the program needs.
    """
    for text in getattr(parts.world, "notes", ()):
        line.say(f"{parts.config.env.name}: {text}")
    line.say(describe_engine(parts.config.env, parts.config.engine, "as configured"))  # by a recipe, a file, a flag
    if isinstance(parts.engine, WarpEngine):
        with line.waiting("loading the physics kernels (a minute the first time on this machine)"):
            for worlds in (parts.config.schedule.worlds, PROBE_EPISODES):
                parts.engine.prepare(worlds * parts.config.seeds)
    with line.waiting("compiling the training program, or fetching it from the cache"):
        state, _ = jax.block_until_ready(advance(state, 0))
    needed, room = memory.count(parts, PROBE_EPISODES, advance.working_bytes), memory.room(parts)
    line.say(f"memory: {needed}; {room}")
    memory.check(needed, room, parts.config.seeds)
    return state


def describe_engine(env: EnvConfig, engine: EngineName = "auto", otherwise: str = "asked for") -> str:
    """One line: what steps the environments, and why; `otherwise` is why it is not what `auto` stands for here."""
    world = make_world(env)
    name, (picked, why) = choose_engine(world, engine)[0], choose_engine(world)
    return f"engine: {name} ({why if name == picked else otherwise})"


def _show(line: Progress, row: dict[str, Any], covered: list[int], epochs_per_second: float) -> None:
    pace = epochs_per_second * sum(row["steps"])
    facts = f"{row['env_steps']:,} steps  {pace:,.0f} steps/s  reward {summarise(row['reward']).mean:.3f}"
    if covered:
        facts += f"  coverage {summarise(list(map(float, covered))).mean:.0f}"
    line.update(row["epoch"], facts)


def resolve_engine(config: RunConfig, driver_follows: bool = True) -> RunConfig:
    """The same run with the engine that `auto` stands for here, and the driver that suits it."""
    devices.prepare(config.seeds)
    engine, _ = choose_engine(make_world(config.env), config.engine)
    driver = config.driver if not driver_follows else "split" if engine in ("c", "gymnasium") else "fused"
    return dataclasses.replace(config, engine=engine, driver=driver)


def checked(config: RunConfig) -> RunConfig:
    """The same with its engine named; whatever cannot be built, or does not fit the machine, is refused."""
    devices.prepare(config.seeds)
    parts = _assemble(config)
    memory.check(memory.count(parts, PROBE_EPISODES), memory.room(parts), config.seeds)
    return parts.config


def resume(path: Path | str, engine: EngineName | None = None) -> Run:
    """Open the folder of a run to go on with it, if need be on another engine. Its config.json stays as it is."""
    run = Run.open(path)
    devices.prepare(run.config.seeds)
    if engine is not None:
        run = dataclasses.replace(run, config=resolve_engine(dataclasses.replace(run.config, engine=engine)))
    elif needs_gpu(run.config):
        raise UserError(
            f"{run.path} is a run of the engine warp, which needs a GPU, and JAX sees none here; add --engine c to go "
            "on with MuJoCo on the CPU"
        )
    checked(run.config)
    return run


def needs_gpu(config: RunConfig) -> bool:
    """Whether a run is meant for a GPU and there is none."""
    return config.engine == "warp" and jax.default_backend() == "cpu"


def default_folder(config: RunConfig) -> Path:
    """runs/<date>-<time>-<what>, with a number if that is taken."""
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{config.name}"
    path, n = Path("runs") / stem, 1
    while path.exists():
        n += 1
        path = Path("runs") / f"{stem}-{n}"
    return path
