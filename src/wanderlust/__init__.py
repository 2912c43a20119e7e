"""Wanderlust: unsupervised skill discovery for simulated bodies.

run = wanderlust.discover("point")            # train, evaluate, leave a run folder
skills = wanderlust.load(run)                 # or wanderlust.load("runs/...")
z = skills.towards(obs, goal)                 # the skill that leads there
action = skills.act(obs, z)

envs = wanderlust.make_vec("ant", num_envs=64)  # the bodies as a Gymnasium vector environment
"""

from wanderlust.api import discover, normalise
from wanderlust.envs.gym_vector import make_vec
from wanderlust.errors import UserError
from wanderlust.runs import Run
from wanderlust.skillset import Skills, load

__all__ = ["Run", "Skills", "UserError", "__version__", "discover", "load", "make_vec", "normalise"]

__version__ = "0.1.0"
