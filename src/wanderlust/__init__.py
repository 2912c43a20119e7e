"""Wanderlust: unsupervised skill discovery for simulated bodies.

run = wanderlust.discover("point")            # train, evaluate, leave a run folder
skills = wanderlust.load(run)                 # or wanderlust.load("runs/...")
z = skills.towards(obs, goal)                 # the skill that leads there
action = skills.act(obs, z)
"""

from wanderlust.api import discover
from wanderlust.errors import UserError
from wanderlust.runs import Run
from wanderlust.skillset import Skills, load

__all__ = ["Run", "Skills", "UserError", "__version__", "discover", "load"]

__version__ = "0.1.0"
