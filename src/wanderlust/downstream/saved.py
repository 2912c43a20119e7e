"""Controllers on disk: what was learned, and how, in one file."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from wanderlust.config import SacConfig, require
from wanderlust.downstream.controllers import hierarchy
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
    """Controllers of some seeds, and how they learn."""

    learner: ControllerLearner
    seeds: tuple[int, ...]
    recipe: str
    epoch: int
    steps: int
    """Environment steps so far, per seed."""
    seconds: float
    controllers: Any = ()
    """A `Controller`: all that measuring needs."""
    training: Any = ()
    """A `ControllerTraining`: all that going on needs. Nothing where learning was at its end."""


def write(path: Path, form: str, saved: SavedController) -> None:
    """Write policies and statistics alone (`FORMAT`), or a training that can go on to the same end (`PAUSED`)."""
    tree = saved.controllers if form == FORMAT else saved.training
    own = {name: getattr(saved, name) for name in ("seeds", "epoch", "recipe", "steps", "seconds")}
    facts = {**own, "setting": dataclasses.asdict(saved.learner.setting), "hold": saved.learner.option_length}
    write_tree(path, tree, {"format": form, "facts": json.dumps(facts)})


def is_paused(path: Path, asked: Mapping[str, Any]) -> bool:
    """Whether a training waits there whose facts are these, as a file has them."""
    if not path.is_file():
        return False
    about = ArrayFile(path).about
    facts = json.loads(about.get("facts", "{}")) if about.get("format") == PAUSED else {}
    return all(facts.get(name) == value for name, value in asked.items())


def load(path: Path, form: str, parts: Setup, setup: TaskSetup) -> SavedController:
    """Read what `write` has written in a form; what does not fit these skills and this task is refused."""
    absent = f"there is no controller {path}; leave --measure-only out to train one"
    if form == PAUSED:
        absent = f"there is nothing to go on with, {path} is not there; leave --resume out to begin"
    require(path.is_file(), absent)
    file = ArrayFile(path)
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
        raise UserError(f"{path} is not a {form}") from None
    learner = make_learner(parts, setup, setting, hold)
    training: Any = jax.eval_shape(lambda: hierarchy.start_training(learner, jnp.array(seeds)))
    if form == PAUSED:
        training = read_tree(file, training)
    controllers = hierarchy.controllers(learner, training)
    if form == FORMAT:
        controllers, training = read_tree(file, controllers), ()
    return SavedController(learner, seeds, recipe, epoch, steps, seconds, controllers, training)


def _setting(facts: dict[str, Any]) -> ControllerSetting:
    learner = {**facts["learner"], "hidden": tuple(facts["learner"]["hidden"])}
    kind = SacConfig if "target_step" in learner else PpoConfig
    return ControllerSetting(**{**facts, "learner": kind(**learner)})
