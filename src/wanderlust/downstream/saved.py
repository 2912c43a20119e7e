"""Controllers on disk: what was learned, and how, in one file."""

import dataclasses
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from wanderlust.config import SacConfig
from wanderlust.downstream import hierarchy
from wanderlust.downstream.hierarchy import Controller
from wanderlust.downstream.learners import Learner, make_learner
from wanderlust.downstream.playing import Game
from wanderlust.downstream.settings import Setting
from wanderlust.errors import UserError
from wanderlust.files import ArrayFile
from wanderlust.ppo import PpoConfig
from wanderlust.runs import read_tree, write_tree
from wanderlust.train import Parts

FORMAT = "wanderlust-controller-1"


class Saved(NamedTuple):
    """Controllers of some seeds, and what they came from."""

    setting: Setting
    hold: int
    seeds: tuple[int, ...]
    epoch: int
    recipe: str
    controllers: Controller


def save(path: Path, saved: Saved) -> None:
    """Write what measuring again needs: policies and statistics, not critics or what was remembered."""
    facts = {
        "setting": dataclasses.asdict(saved.setting),
        "hold": saved.hold,
        "seeds": list(saved.seeds),
        "epoch": saved.epoch,
        "recipe": saved.recipe,
    }
    write_tree(path, saved.controllers, {"format": FORMAT, "facts": json.dumps(facts)})


def load(path: Path, parts: Parts, game: Game) -> tuple[Saved, Learner]:
    """Read controllers for these skills and this task; what does not fit them is refused."""
    if not path.is_file():
        raise UserError(f"there is no controller {path}; leave --measure-only out to train one")
    file = ArrayFile(path)
    try:
        if file.about["format"] != FORMAT:
            raise ValueError
        facts = json.loads(file.about["facts"])
        setting, hold, epoch = _setting(facts["setting"]), int(facts["hold"]), int(facts["epoch"])
        seeds, recipe = tuple(int(seed) for seed in facts["seeds"]), str(facts["recipe"])
        if hold < 1 or not seeds:
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path} is not a {FORMAT}") from None
    learner = make_learner(parts, game, setting, hold)
    skeleton = jax.eval_shape(lambda: hierarchy.controllers(learner, hierarchy.begin(learner, jnp.array(seeds))))
    return Saved(setting, hold, seeds, epoch, recipe, read_tree(file, skeleton)), learner


def _setting(facts: dict[str, Any]) -> Setting:
    learner = {**facts["learner"], "hidden": tuple(facts["learner"]["hidden"])}
    kind = SacConfig if "target_step" in learner else PpoConfig
    return Setting(**{**facts, "learner": kind(**learner)})
