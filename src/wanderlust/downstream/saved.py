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

    learner: ControllerLearner
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


def load(path: Path, parts: Setup, setup: TaskSetup) -> SavedController:
    """Read controllers for these skills and this task; what does not fit them is refused."""
    if not path.is_file():
        raise UserError(f"there is no controller {path}; leave --measure-only out to train one")
    saved = _read(file := ArrayFile(path), FORMAT, parts, setup).saved
    form = jax.eval_shape(lambda: hierarchy.controllers(saved.learner, _begun(saved)))
    return saved._replace(controllers=read_tree(file, form))


def load_paused(path: Path, parts: Setup, setup: TaskSetup) -> PausedTraining:
    """Read a training that Ctrl-C has stopped."""
    if not path.is_file():
        raise UserError(f"there is nothing to go on with, {path} is not there; leave --resume out to begin")
    paused = _read(file := ArrayFile(path), PAUSED, parts, setup)
    saved, training = paused.saved, read_tree(file, jax.eval_shape(lambda: _begun(paused.saved)))
    saved = saved._replace(controllers=hierarchy.controllers(saved.learner, training))
    return paused._replace(saved=saved, training=training)


def _begun(saved: SavedController) -> ControllerTraining:
    return hierarchy.begin(saved.learner, jnp.array(saved.seeds))


def _facts(saved: SavedController) -> dict[str, Any]:
    return {
        "setting": dataclasses.asdict(saved.learner.setting),
        "hold": saved.hold,
        "seeds": list(saved.seeds),
        "epoch": saved.epoch,
        "recipe": saved.recipe,
    }


def _read(file: ArrayFile, form: str, parts: Setup, setup: TaskSetup) -> PausedTraining:
    """What a file says of itself, without its arrays."""
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
    learner = make_learner(parts, setup, setting, hold)
    return PausedTraining(SavedController(learner, hold, seeds, epoch, recipe, nothing), nothing, steps, seconds)


def _setting(facts: dict[str, Any]) -> ControllerSetting:
    learner = {**facts["learner"], "hidden": tuple(facts["learner"]["hidden"])}
    kind = SacConfig if "target_step" in learner else PpoConfig
    return ControllerSetting(**{**facts, "learner": kind(**learner)})
