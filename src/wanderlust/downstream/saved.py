"""Controllers on disk: what was learned, and how, in one file."""

import dataclasses
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from wanderlust.config import SacConfig
from wanderlust.downstream.controllers import hierarchy
from wanderlust.downstream.controllers.hierarchy import Controller, ControllerTraining
from wanderlust.downstream.controllers.learners import ControllerLearner, make_learner
from wanderlust.downstream.controllers.options import TaskSetup
from wanderlust.downstream.settings import ControllerSetting
from wanderlust.errors import UserError
from wanderlust.rl.ppo import PpoConfig
from wanderlust.runs.checkpoints import read_tree, write_tree
from wanderlust.runs.files import ArrayFile
from wanderlust.train import Setup

FORMAT = "wanderlust-controller-1"
PAUSED = "wanderlust-training-1"


class SavedController(NamedTuple):
    """Controllers of some seeds, and what they came from."""

    setting: ControllerSetting
    hold: int
    seeds: tuple[int, ...]
    epoch: int
    recipe: str
    controllers: Controller


class PausedTraining(NamedTuple):
    """A training that was interrupted, and can go on to the same end."""

    saved: SavedController
    training: ControllerTraining
    steps: int
    """Environment steps so far, per seed."""
    seconds: float


def save(path: Path, saved: SavedController) -> None:
    """Write what measuring again needs: policies and statistics, not critics or memory."""
    write_tree(path, saved.controllers, {"format": FORMAT, "facts": json.dumps(_facts(saved))})


def pause(path: Path, paused: PausedTraining) -> None:
    """Write all that going on needs."""
    facts = {**_facts(paused.saved), "steps": paused.steps, "seconds": paused.seconds}
    write_tree(path, paused.training, {"format": PAUSED, "facts": json.dumps(facts)})


def load(path: Path, parts: Setup, setup: TaskSetup) -> tuple[SavedController, ControllerLearner]:
    """Read controllers for these skills and this task; what does not fit them is refused."""
    if not path.is_file():
        raise UserError(f"there is no controller {path}; leave --measure-only out to train one")
    file = ArrayFile(path)
    saved, learner, *_ = _read(file, FORMAT, parts, setup)
    skeleton = jax.eval_shape(lambda: hierarchy.controllers(learner, hierarchy.begin(learner, jnp.array(saved.seeds))))
    return saved._replace(controllers=read_tree(file, skeleton)), learner


def load_paused(path: Path, parts: Setup, setup: TaskSetup) -> tuple[PausedTraining, ControllerLearner]:
    """Read a training that Ctrl-C has stopped."""
    if not path.is_file():
        raise UserError(f"there is nothing to go on with, {path} is not there; leave --resume out to begin")
    file = ArrayFile(path)
    saved, learner, steps, seconds = _read(file, PAUSED, parts, setup)
    training = read_tree(file, jax.eval_shape(lambda: hierarchy.begin(learner, jnp.array(saved.seeds))))
    saved = saved._replace(controllers=hierarchy.controllers(learner, training))
    return PausedTraining(saved, training, steps, seconds), learner


def _facts(saved: SavedController) -> dict[str, Any]:
    return {
        "setting": dataclasses.asdict(saved.setting),
        "hold": saved.hold,
        "seeds": list(saved.seeds),
        "epoch": saved.epoch,
        "recipe": saved.recipe,
    }


def _read(
    file: ArrayFile, form: str, parts: Setup, setup: TaskSetup
) -> tuple[SavedController, ControllerLearner, int, float]:
    """What a file says of itself, without its arrays; the learner that they belong to; steps and seconds so far."""
    nothing: Any = ()
    try:
        if file.about["format"] != form:
            raise ValueError
        facts = json.loads(file.about["facts"])
        setting, hold, epoch = _setting(facts["setting"]), int(facts["hold"]), int(facts["epoch"])
        seeds, recipe = tuple(int(seed) for seed in facts["seeds"]), str(facts["recipe"])
        steps, seconds = int(facts.get("steps", 0)), float(facts.get("seconds", 0.0))
        if hold < 1 or not seeds:
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{file.path} is not a {form}") from None
    saved = SavedController(setting, hold, seeds, epoch, recipe, nothing)
    return saved, make_learner(parts, setup, setting, hold), steps, seconds


def _setting(facts: dict[str, Any]) -> ControllerSetting:
    learner = {**facts["learner"], "hidden": tuple(facts["learner"]["hidden"])}
    kind = SacConfig if "target_step" in learner else PpoConfig
    return ControllerSetting(**{**facts, "learner": kind(**learner)})
