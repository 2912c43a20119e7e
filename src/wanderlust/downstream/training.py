"""Controllers that learn: from the first epoch, or from where Ctrl-C has stopped them, to the same end."""

import dataclasses
import json
import math
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
from wanderlust.downstream.request import CONTROLLER, TRAINING, Request
from wanderlust.downstream.saved import FORMAT, PAUSED, SavedController, write
from wanderlust.downstream.settings import get_setting, usual_option_length
from wanderlust.envs import devices
from wanderlust.errors import UserError
from wanderlust.report.progress import progress
from wanderlust.runs.files import write_atomic
from wanderlust.runs.learned import Learned
from wanderlust.runs.metrics import read_metrics
from wanderlust.train.stopping import stop_signals

SAVE_AFTER = 30.0
"""Seconds between two points of the curve at which all that --resume needs is written."""


class ControllerSetup(NamedTuple):
    """All that is given before learning or measuring; arrays of `learned` lead with the seeds of controllers."""

    parts: train.Setup
    task: TaskSetup
    learned: Learned
    skills: Learned
    """The same as the run has it, with its own seeds."""
    seeds: tuple[int, ...]
    folder: Path


def new_training(given: ControllerSetup, request: Request) -> SavedController:
    """A training before its first epoch, with the numbers that are asked for."""
    recipe = request.recipe or ("fast" if devices.has_gpu() else "laptop")
    setting = get_setting(recipe, request.controller, request.task.env)
    epochs, worlds = request.epochs or setting.epochs, request.worlds or setting.episodes
    setting = dataclasses.replace(setting, epochs=epochs, episodes=worlds)
    learner = make_learner(given.parts, given.task, setting, request.hold or usual_option_length(request.task.env))
    training = hierarchy.start_training(learner, jnp.array(given.seeds))
    return SavedController(learner, given.seeds, recipe, 0, 0, 0.0, training=training)


def learn(given: ControllerSetup, begun: SavedController, quiet: bool) -> SavedController:
    """Learn to the end, epoch by epoch. Ctrl-C ends it at the next point of the curve, and keeps all there is.

    A kill costs what was learned since the training was last written.
    """
    now, learner, setting, began = begun, begun.learner, begun.learner.setting, time.monotonic()
    rows = [row for row in read_metrics(given.folder / "curve.jsonl") if 0 < row["epoch"] <= begun.epoch]
    saved = -math.inf
    train_epoch = hierarchy.make_epoch(given.parts, given.task, learner)
    with stop_signals() as pressed, progress(setting.epochs, "epoch", first=begun.epoch, quiet=quiet) as line:
        line.note("compiling, or fetching from the cache")
        while now.epoch < setting.epochs:
            epoch, training, log = min(now.epoch + setting.log_every, setting.epochs), now.training, []
            for _ in range(now.epoch, epoch):
                training, metrics = train_epoch(training, given.learned)
                log.append(metrics)
            values = {name: np.mean([np.asarray(m[name], np.float64) for m in log], axis=0) for name in log[0]}
            given.task.engine.check()
            if bad := [name for name, x in values.items() if not np.all(np.isfinite(x))]:
                raise UserError(f"learning diverged before epoch {epoch}: {', '.join(bad)} not finite")
            steps = now.steps + round(float(values.pop("env_steps").mean()) * len(log))
            seconds = round(begun.seconds + time.monotonic() - began, 3)
            rows.append({"epoch": epoch, "env_steps": steps, "seconds": seconds})
            rows[-1] |= {name: x.tolist() for name, x in values.items()}
            controllers = jax.device_get(hierarchy.controllers(learner, training))
            now = now._replace(epoch=epoch, steps=steps, seconds=seconds, controllers=controllers, training=training)
            write_atomic(given.folder / "curve.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
            stop = pressed()
            if (stop or time.monotonic() - saved >= SAVE_AFTER) and epoch < setting.epochs:
                write(given.folder / TRAINING, PAUSED, now)  # first: a controller without it is at its end
                saved = time.monotonic()
            write(given.folder / CONTROLLER, FORMAT, now)
            line.update(epoch, f"{steps:,} steps per seed  return {values['return'].mean():.2f}")
            if stop and epoch < setting.epochs:
                raise KeyboardInterrupt(
                    f"stopped at epoch {epoch} of {setting.epochs}; the same command with --resume and without numbers "
                    f"for learning goes on, --measure-only measures what was learned so far; all is in {given.folder}"
                )
    (given.folder / TRAINING).unlink(missing_ok=True)
    return now
