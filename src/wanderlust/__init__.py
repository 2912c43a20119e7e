"""Wanderlust: unsupervised skill discovery for simulated bodies.

run = wanderlust.discover("point")            # train, evaluate, leave a run folder
skills = wanderlust.load(run)                 # or wanderlust.load("runs/...")
z = skills.towards(obs, goal)                 # the skill that leads there
action = skills.act(obs, z)

envs = wanderlust.make_vec("ant", num_envs=64)  # the bodies as a Gymnasium vector environment
env = gymnasium.make("wanderlust/AntMultiGoals-v0")  # a task as a Gymnasium environment
env = wanderlust.SkillEnv(skills, "ant-multi-goals")  # the same with skills as its actions
"""

from wanderlust.api import discover, normalise
from wanderlust.downstream.gym_tasks import register as _register_tasks
from wanderlust.downstream.skill_env import SkillEnv, SkillVectorEnv
from wanderlust.envs.gym_vector import make_vec
from wanderlust.errors import UserError
from wanderlust.runs import Run
from wanderlust.skillset import Skills, load

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
]

__version__ = "0.1.0"

_register_tasks()
