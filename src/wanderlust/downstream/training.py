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
from wanderlust.downstream.controllers.learners import make_learner
from wanderlust.downstream.controllers.options import TaskSetup
from wanderlust.downstream.request import Request
from wanderlust.downstream.saved import PausedTraining, SavedController, pause, save
from wanderlust.downstream.settings import get_setting, usual_option_length
from wanderlust.envs import devices
from wanderlust.errors import UserError
from wanderlust.report.progress import progress
from wanderlust.runs.files import read_rows, write_atomic
from wanderlust.runs.learned import Learned
from wanderlust.train.loop import ctrl_c

TRAINING = "training.safetensors"


class ControllerSetup(NamedTuple):
    """All that is given before learning or measuring; arrays of `learned` lead with the seeds of controllers."""

    parts: train.Setup
    task: TaskSetup
    learned: Learned
    skills: Learned
    """The same as the run has it, with its own seeds."""
    seeds: tuple[int, ...]
    folder: Path


def begin(given: ControllerSetup, request: Request) -> PausedTraining:
    """A training before its first epoch, with the numbers that are asked for."""
    recipe = request.recipe or ("fast" if devices.has_gpu() else "laptop")
    setting = get_setting(recipe, request.controller)
    epochs, worlds = request.epochs or setting.epochs, request.worlds or setting.episodes
    setting = dataclasses.replace(setting, epochs=epochs, episodes=worlds)
    hold = request.hold or usual_option_length(request.task.env)
    learner = make_learner(given.parts, given.task, setting, hold)
    training = hierarchy.begin(learner, jnp.array(given.seeds))
    saved = SavedController(learner, hold, given.seeds, 0, recipe, hierarchy.controllers(learner, training))
    return PausedTraining(saved, training, 0, 0.0)


def learn(given: ControllerSetup, begun: PausedTraining, quiet: bool) -> SavedController:
    """Learn to the end, epoch by epoch. Ctrl-C ends it at the next point of the curve, and keeps all there is."""
    saved, training, steps, before = begun
    learner, setting, epoch, began = saved.learner, saved.learner.setting, saved.epoch, time.monotonic()
    now, rows = saved, [row for row in read_rows(given.folder / "curve.jsonl") if 0 < row.get("epoch", 0) <= epoch]
    if epoch == 0:
        (given.folder / TRAINING).unlink(missing_ok=True)  # of another training, which this one replaces
    advance = hierarchy.make_advance(given.parts, given.task, learner, saved.hold)
    with ctrl_c() as pressed, progress(setting.epochs, "epoch", first=epoch, quiet=quiet) as line:
        line.note("compiling, or fetching from the cache")
        while epoch < setting.epochs:
            count = min(setting.log_every, setting.epochs - epoch)
            training, metrics = jax.block_until_ready(advance(training, given.learned, count))
            given.task.engine.check()
            values = {name: np.asarray(x, np.float64).mean(axis=0) for name, x in metrics.items()}
            if bad := [name for name, x in values.items() if not np.all(np.isfinite(x))]:
                raise UserError(f"learning diverged before epoch {epoch + count}: {', '.join(bad)} not finite")
            epoch += count
            steps += round(float(values.pop("env_steps").mean()) * count)
            seconds = round(before + time.monotonic() - began, 3)
            learned = {name: x.tolist() for name, x in values.items()}
            rows.append({"epoch": epoch, "env_steps": steps, "seconds": seconds, **learned})
            now = saved._replace(epoch=epoch, controllers=jax.device_get(hierarchy.controllers(learner, training)))
            write_atomic(given.folder / "curve.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
            save(given.folder / "controller.safetensors", now)
            line.update(epoch, f"{steps:,} steps per seed  return {values['return'].mean():.2f}")
            if pressed() and epoch < setting.epochs:
                pause(given.folder / TRAINING, PausedTraining(now, training, steps, seconds))
                raise KeyboardInterrupt(
                    f"stopped at epoch {epoch} of {setting.epochs}; the same command with --resume and without numbers "
                    f"for learning goes on, --measure-only measures what was learned so far; all is in {given.folder}"
                )
    (given.folder / TRAINING).unlink(missing_ok=True)
    return now
