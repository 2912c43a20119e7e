"""One run from its folder to its evaluation: train in chunks, log, save, stop cleanly, go on."""

import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import jax
import numpy as np

from wanderlust import devices, train
from wanderlust.config import RunConfig
from wanderlust.errors import UserError
from wanderlust.metrics import coverage, summarise
from wanderlust.progress import Progress, progress
from wanderlust.runs import Run

PROBE_EPISODES = 200
"""Random-skill episodes behind the coverage in metrics.jsonl."""


@dataclass(frozen=True)
class Outcome:
    """How a call of `run_training` ended."""

    epoch: int
    reason: str
    """`finished`, `budget` or `interrupted`."""


def run_training(run: Run, budget_seconds: float | None = None, quiet: bool = False) -> Outcome:
    """Train a run from its last checkpoint until it is finished, its budget is spent or Ctrl-C is pressed.

    It stops only between chunks of `log_every` epochs, so that a run that was stopped and one that was not compute
    the same thing; whatever the reason, a checkpoint is left behind.
    """
    with run.held(), _ctrl_c() as pressed:
        return _train(run, budget_seconds, pressed, quiet)


def _train(run: Run, budget_seconds: float | None, pressed: Callable[[], bool], quiet: bool) -> Outcome:
    config, began = run.config, time.monotonic()
    parts = train.assemble(config)
    epoch, state = _last_state(run, parts)
    run.rewind(epoch)
    advance = train.make_driver(parts)
    probe = train.make_probe(parts, PROBE_EPISODES)
    total = config.schedule.epochs
    position = list(parts.world.spec.position_dims)
    if 0 < epoch < total:
        run.resumed()
    before = run.metrics()
    spent = before[-1].get("seconds", 0.0) if before else 0.0
    compiling, reason = True, "finished"

    with progress(total, "epoch", first=epoch, quiet=quiet) as line:
        if epoch < total:
            line.note("compiling the training program, or fetching it from the cache")
        while epoch < total:
            chunk_began = time.monotonic()
            count = min(config.log_every - epoch % config.log_every, total - epoch)
            state, metrics = advance(state, count)
            values = {name: np.asarray(v, float).tolist() for name, v in metrics.items()}
            parts.engine.check()
            _stop_at_nan(run, epoch + count, values)
            epoch += count
            covered = [coverage(x[..., position]) for x in np.asarray(probe(state.learner.sac.policy).obs)]
            seconds = time.monotonic() - chunk_began
            spent += seconds
            row = {"epoch": epoch, "env_steps": epoch * config.schedule.collection, **values, "coverage": covered}
            run.log({**row, "seconds": round(spent, 3)})
            left = budget_seconds - (time.monotonic() - began) if budget_seconds is not None else None
            if compiling and epoch < total:
                line.restart(epoch)  # the first chunk was mostly compilation: no pace to show yet
            else:
                _show(line, config, row, count / seconds, left)
            compiling = False
            if epoch < total and pressed():
                reason = "interrupted"
            elif epoch < total and left is not None and left <= 0:
                reason = "budget"
            if reason != "finished" or epoch == total or epoch % config.checkpoint_every == 0:
                run.save(epoch, state)
            if reason != "finished":
                break
    return Outcome(epoch, reason)


def _last_state(run: Run, parts: train.Parts) -> tuple[int, train.TrainState]:
    if not run.checkpoints():
        return 0, train.init(parts)
    return run.load(jax.eval_shape(lambda: train.init(parts)))


def _stop_at_nan(run: Run, epoch: int, values: dict[str, list[float]]) -> None:
    """A diverged run must not overwrite its last good checkpoint."""
    bad = [name for name, v in values.items() if not np.all(np.isfinite(v))]
    if bad:
        raise UserError(
            f"training diverged before epoch {epoch}: {', '.join(bad)} not finite; smaller learning rates may help "
            f"(the last good checkpoint is kept in {run.path / 'checkpoints'})"
        )


def _show(line: Progress, config: RunConfig, row: dict[str, Any], epochs_per_second: float, left: float | None) -> None:
    pace = epochs_per_second * config.schedule.collection * config.seeds
    reward, covered = summarise(row["reward"]), summarise(row["coverage"])
    facts = f"{row['env_steps']:,} steps  {pace:,.0f} steps/s  reward {reward.mean:.3f}  coverage {covered.mean:.0f}"
    line.update(row["epoch"], facts, left)


@contextmanager
def _ctrl_c() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C asks to stop at the end of the chunk; the second stops at once."""
    asked = False

    def handler(signum: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    try:
        before = signal.signal(signal.SIGINT, handler)
    except ValueError:  # not the main thread: leave Ctrl-C to whoever has it
        yield lambda: False
        return
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


def start(config: RunConfig, out: Path | None) -> Run:
    """Make the folder of a new run."""
    devices.prepare(config.seeds)
    _check_memory(train.assemble(config))  # whatever cannot be built is refused before a folder is made
    return Run.create(out or default_folder(config), config)


def resume(path: Path) -> Run:
    """Open the folder of a run to go on with it."""
    run = Run.open(path)
    devices.prepare(run.config.seeds)
    return run


def _check_memory(parts: train.Parts) -> None:
    """Refuse a run whose state alone would not fit the machine."""
    state = jax.eval_shape(lambda: train.init(parts))
    need = sum(math.prod(x.shape) * 4 for x in jax.tree.leaves(state))
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > have:
        raise UserError(
            f"this run needs {need / 2**30:,.1f} GiB for networks and replay, and the machine has {have / 2**30:,.1f}; "
            "fewer worlds, seeds or replay_collections, or smaller networks, need less"
        )


def default_folder(config: RunConfig) -> Path:
    """runs/<date>-<time>-<what>, with a number if that is taken."""
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{config.name}"
    path, n = Path("runs") / stem, 1
    while path.exists():
        n += 1
        path = Path("runs") / f"{stem}-{n}"
    return path
