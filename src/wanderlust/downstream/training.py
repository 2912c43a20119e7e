"""Controllers that learn: from the first epoch, or from where Ctrl-C has stopped them, to the same end."""

import dataclasses
import json
import time
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wanderlust import train
from wanderlust.downstream.controllers import hierarchy
from wanderlust.downstream.controllers.learners import Learner, make_learner
from wanderlust.downstream.controllers.playing import Game
from wanderlust.downstream.saved import Paused, Saved, pause, save
from wanderlust.downstream.settings import get_setting, usual_hold
from wanderlust.downstream.wishes import Wish
from wanderlust.envs import devices
from wanderlust.errors import UserError
from wanderlust.report.progress import progress
from wanderlust.runs.files import read_rows, write_atomic
from wanderlust.runs.learned import Learned
from wanderlust.train.loop import ctrl_c

TRAINING = "training.safetensors"


class Table(NamedTuple):
    """Everything that is on the table before it begins; arrays of `learned` lead with the seeds of controllers."""

    parts: train.Setup
    game: Game
    learned: Learned
    skills: Learned
    """The same as the run has it, with its own seeds."""
    seeds: tuple[int, ...]
    folder: Path


def begin(table: Table, wish: Wish) -> tuple[Paused, Learner]:
    """A training before its first epoch, with the numbers that are asked for."""
    recipe = wish.recipe or ("fast" if devices.has_gpu() else "laptop")
    setting = get_setting(recipe, wish.controller)
    epochs, worlds = wish.epochs or setting.epochs, wish.worlds or setting.episodes
    setting = dataclasses.replace(setting, epochs=epochs, episodes=worlds)
    hold = wish.hold or usual_hold(wish.task.env)
    learner = make_learner(table.parts, table.game, setting, hold)
    training = hierarchy.begin(learner, jnp.array(table.seeds))
    saved = Saved(setting, hold, table.seeds, 0, recipe, hierarchy.controllers(learner, training))
    return Paused(saved, training, 0, 0.0), learner


def learn(table: Table, begun: tuple[Paused, Learner], quiet: bool) -> tuple[Saved, Learner]:
    """Learn to the end, epoch by epoch. Ctrl-C ends it at the next point of the curve, and keeps all there is."""
    (saved, training, steps, before), learner = begun
    setting, epoch, began = saved.setting, saved.epoch, time.monotonic()
    now, rows = saved, [row for row in read_rows(table.folder / "curve.jsonl") if 0 < row.get("epoch", 0) <= epoch]
    if epoch == 0:
        (table.folder / TRAINING).unlink(missing_ok=True)  # of another training, which this one replaces
    advance = hierarchy.make_advance(table.parts, table.game, learner, setting, saved.hold)
    with ctrl_c() as pressed, progress(setting.epochs, "epoch", first=epoch, quiet=quiet) as line:
        line.note("compiling, or fetching from the cache")
        while epoch < setting.epochs:
            count = min(setting.log_every, setting.epochs - epoch)
            training, metrics = jax.block_until_ready(advance(training, table.learned, count))
            table.game.engine.check()
            values = {name: np.asarray(x, np.float64).mean(axis=0) for name, x in metrics.items()}
            if bad := [name for name, x in values.items() if not np.all(np.isfinite(x))]:
                raise UserError(f"learning diverged before epoch {epoch + count}: {', '.join(bad)} not finite")
            first, epoch = epoch == saved.epoch, epoch + count
            steps += round(float(values.pop("env_steps").mean()) * count)
            seconds = round(before + time.monotonic() - began, 3)
            learned = {name: x.tolist() for name, x in values.items()}
            rows.append({"epoch": epoch, "env_steps": steps, "seconds": seconds, **learned})
            now = saved._replace(epoch=epoch, controllers=jax.device_get(hierarchy.controllers(learner, training)))
            write_atomic(table.folder / "curve.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
            save(table.folder / "controller.safetensors", now)
            line.update(epoch, f"{steps:,} steps per seed  return {values['return'].mean():.2f}")
            if first:
                line.restart(epoch)
            if pressed() and epoch < setting.epochs:
                pause(table.folder / TRAINING, Paused(now, training, steps, seconds))
                raise KeyboardInterrupt(
                    f"stopped at epoch {epoch} of {setting.epochs}; the same command with --resume and without numbers "
                    f"for learning goes on, --measure-only measures what was learned so far; all is in {table.folder}"
                )
    (table.folder / TRAINING).unlink(missing_ok=True)
    return now, learner
