"""Wanderlust: unsupervised skill discovery for simulated bodies.

run = wanderlust.discover("point")            # train, evaluate, leave a run folder
skills = wanderlust.load(run)                 # or wanderlust.load("runs/...")
z = skills.towards(obs, goal)                 # the skill that leads there
action = skills.act(obs, z)

envs = wanderlust.make_vec("ant", num_envs=64)  # the bodies as a Gymnasium vector environment
env = gymnasium.make("wanderlust/AntMultiGoals-v0")  # a task as a Gymnasium environment
env = wanderlust.SkillEnv(skills, "ant-multi-goals")  # the same with skills as its actions
"""

import importlib
from typing import TYPE_CHECKING, Any

from wanderlust.errors import UserError
from wanderlust.gym.registration import register as _register_tasks
from wanderlust.registry import METHODS, WORLDS

if TYPE_CHECKING:
    from wanderlust.api import discover, normalise
    from wanderlust.envs.worlds.gymnasium import world_from_gymnasium
    from wanderlust.envs.worlds.mjcf_file import world_from_mjcf
    from wanderlust.gym.skill_env import SkillEnv, SkillVectorEnv
    from wanderlust.gym.vector import make_vec
    from wanderlust.runs.loading import Skills, load
    from wanderlust.runs.run import Run
    from wanderlust.sweeps.front import sweep

__all__ = [
    "Run",
    "SkillEnv",
    "SkillVectorEnv",
    "Skills",
    "UserError",
    "__version__",
    "discover",
    "load",
    "make_vec",
    "normalise",
    "register_method",
    "register_world",
    "sweep",
    "world_from_gymnasium",
    "world_from_mjcf",
]

__version__ = "0.1.0"

_HOMES = {
    "Run": "wanderlust.runs.run",
    "SkillEnv": "wanderlust.gym.skill_env",
    "SkillVectorEnv": "wanderlust.gym.skill_env",
    "Skills": "wanderlust.runs.loading",
    "discover": "wanderlust.api",
    "load": "wanderlust.runs.loading",
    "make_vec": "wanderlust.gym.vector",
    "normalise": "wanderlust.api",
    "world_from_gymnasium": "wanderlust.envs.worlds.gymnasium",
    "world_from_mjcf": "wanderlust.envs.worlds.mjcf_file",
    "sweep": "wanderlust.sweeps.front",
}
"""Imported when first used: they import JAX, and `--help` does not wait for it."""


if not TYPE_CHECKING:  # a type checker would take every name for one of ours

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})


register_method = METHODS.register
register_world = WORLDS.register

_register_tasks()
