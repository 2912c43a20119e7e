"""Recipes, variants, tasks and controllers by name, with a line about each; nothing is imported to say what there is.

Methods and worlds, which others can add to, are in `registry.py`.
"""

from typing import Literal, NamedTuple, cast

from wanderlust.errors import UserError, did_you_mean
from wanderlust.registry import METHODS, WORLDS

Variant = Literal["", "xy", "o", "xyo"]

VIEWS = {
    "xy": "the method's network sees the position only",
    "o": "policy and critics do not see the position",
    "xyo": "both",
}
"""Suffixes that any method takes."""

DEFAULT = "laptop"
"""The recipe unless something else is said, and the only one of worlds without numbers of their own."""

RECIPES = {
    "paper": "the published numbers, for science",
    "fast": "good skills soonest on one GPU",
    "laptop": "good skills soonest on two CPU cores, for everything else",
}

BODIES = ("ant", "half-cheetah", "humanoid")
FETCHES = ("fetch-push", "fetch-slide", "fetch-pick-and-place")
TUNED: dict[str, tuple[str, ...]] = {
    "point": ("paper", "laptop"),
    **dict.fromkeys((*BODIES, *FETCHES), ("paper", "fast", "laptop")),
}
"""The worlds that recipes have numbers for (`recipes/`)."""


class TaskFacts(NamedTuple):
    """What `wanderlust list` says of a task."""

    env: str
    horizon: int
    """The most control steps an episode can take."""


TASKS = {
    "ant-goal": TaskFacts("ant", 200),
    "ant-multi-goals": TaskFacts("ant", 200),
    "humanoid-goal": TaskFacts("humanoid", 1000),
    "humanoid-multi-goals": TaskFacts("humanoid", 1000),
    "cheetah-hurdle": TaskFacts("half-cheetah", 200),
    "ant-rotation": TaskFacts("ant", 200),
    "ant-quaternion": TaskFacts("ant", 200),
    "fetch-push-goal": TaskFacts("fetch-push", 50),
    "fetch-slide-goal": TaskFacts("fetch-slide", 50),
    "fetch-pick-and-place-goal": TaskFacts("fetch-pick-and-place", 50),
    "point-goal": TaskFacts("point", 100),
    "point-multi-goals": TaskFacts("point", 400),
}
"""The paper's tasks (`downstream/tasks/`)."""

CONTROLLERS = {
    "zero-shot": "at every step the skill towards the goal, with no further training",
    "sac": "learns to choose continuous skills",
    "ppo": "learns to choose discrete skills",
    "mppi": "plans over skill dynamics, of methods that learn them",
    "random": "skills by chance",
}


def known_recipes(env: str) -> tuple[str, ...]:
    """The recipes of an environment; the default for one that has no numbers of its own."""
    WORLDS.check(env)
    return TUNED.get(env, (DEFAULT,))


def check_recipe(recipe: str, env: str) -> None:
    """Refuse a recipe that the environment does not have."""
    known = known_recipes(env)
    if recipe not in known:
        near = did_you_mean(recipe, known)
        raise UserError(f"there is no recipe {recipe!r} for {env}{near}; known: {', '.join(known)}")


def parse_method(text: str) -> tuple[str, Variant]:
    """Split a method's name as a user writes it, e.g. ``diayn-xyo`` or ``package.module:Name``, into name and view."""
    text = text if ":" in text else text.lower()
    name, _, view = text.rpartition("-")
    if name and view in VIEWS and name in METHODS:
        return name, cast(Variant, view)
    if text in METHODS:
        return text, ""
    suffixes = ", ".join(f"-{v}" for v in VIEWS)
    if name and name in METHODS:
        raise UserError(f"unknown variant -{view} of {name}; known: {suffixes}")
    known = ", ".join(METHODS.names())
    near = did_you_mean(text, METHODS.names())
    raise UserError(f"unknown method {text!r}{near}; known: {known}, each also with {suffixes}; or package.module:Name")
