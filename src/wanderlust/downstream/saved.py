"""Controllers on disk: what was learned, and how, in one file."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from wanderlust.config import Count, CountOrZero, Weight, check_bounds, from_json, require
from wanderlust.downstream.controllers import hierarchy
from wanderlust.downstream.controllers.learners import ControllerLearner, make_learner
from wanderlust.downstream.controllers.options import TaskSetup
from wanderlust.downstream.settings import ControllerSetting
from wanderlust.errors import UserError
from wanderlust.runs.checkpoints import read_tree, write_tree
from wanderlust.runs.files import ArrayFile, parse_json
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
    try:
        facts = parse_json(about.get("facts", "{}")) if about.get("format") == PAUSED else {}
    except ValueError:
        return False
    return isinstance(facts, dict) and all(facts.get(name) == value for name, value in asked.items())


def load(path: Path, form: str, parts: Setup, setup: TaskSetup) -> SavedController:
    """Read what `write` has written in a form; what does not fit these skills and this task is refused."""
    absent = f"there is no controller {path}; leave --measure-only out to train one"
    if form == PAUSED:
        absent = f"there is nothing to go on with, {path} is not there; leave --resume out to begin"
    require(path.is_file(), absent)
    file = ArrayFile(path)
    if file.about.get("format") != form or "facts" not in file.about:
        raise UserError(f"{path} is not a {form}")
    facts = from_json(_Facts, file.about["facts"], str(path))
    learner = make_learner(parts, setup, facts.setting, facts.hold)
    seeds = facts.seeds
    training: Any = jax.eval_shape(lambda: hierarchy.start_training(learner, jnp.array(seeds)))
    if form == PAUSED:
        training = read_tree(file, training)
    controllers = hierarchy.controllers(learner, training)
    if form == FORMAT:
        controllers, training = read_tree(file, controllers), ()
    return SavedController(learner, seeds, facts.recipe, facts.epoch, facts.steps, facts.seconds, controllers, training)


@dataclasses.dataclass(frozen=True)
class _Facts:
    """What a file says of how its controllers learn, and of how far they are."""

    seeds: tuple[int, ...]
    epoch: CountOrZero
    recipe: str
    setting: ControllerSetting
    hold: Count
    steps: CountOrZero = 0
    seconds: Weight = 0.0

    def __post_init__(self) -> None:
        check_bounds(self, "")
        require(len(self.seeds) >= 1, "seeds is empty; there must be one for each controller")
        require(all(seed >= 0 for seed in self.seeds), f"seeds is {self.seeds}; a seed is 0 or larger")
        require(self.epoch <= self.setting.epochs, f"epoch is {self.epoch} of {self.setting.epochs}")
