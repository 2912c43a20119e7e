"""Gymnasium-Robotics' own Fetch environments, made to run on MuJoCo of today."""

import functools
import importlib
import types
from typing import Any

import gymnasium
import mujoco

from wanderlust.envs.mjcf import muted
from wanderlust.registry import WORLDS

IDS = {
    "fetch-push": "FetchPush-v4",
    "fetch-slide": "FetchSlide-v4",
    "fetch-pick-and-place": "FetchPickAndPlace-v4",
}


def robotics_env(env: str) -> gymnasium.Env[Any, Any]:
    """The original of one of our Fetch worlds, without the checks of its user's code."""
    _repair()
    with muted():
        return gymnasium.make(IDS[env], max_episode_steps=WORLDS.get(env).episode_length, disable_env_checker=True)


@functools.cache
def _repair() -> None:
    """Its code asks whether an integer is one of MuJoCo's enums, which has been False since MuJoCo 3.12."""
    gymnasium.register_envs(importlib.import_module("gymnasium_robotics"))
    utils: Any = importlib.import_module("gymnasium_robotics.utils.mujoco_utils")
    enums = {
        kind: types.SimpleNamespace(**{name: int(value) for name, value in getattr(mujoco, kind).__members__.items()})
        for kind in ("mjtJoint", "mjtEq")
    }
    utils.mujoco = types.SimpleNamespace(**{**vars(mujoco), **enums})
