"""The only home of tuned numbers: (recipe, environment, method, skills) -> configuration.

`paper` is the published setting; `fast` gets good skills soonest on one GPU, `laptop` on two CPU cores.
"""

import dataclasses
import functools
from collections.abc import Callable

from wanderlust.catalogue import BODIES, DEFAULT, FETCHES, check_recipe, known_recipes, parse_method
from wanderlust.config import EnvConfig, RunConfig, SkillConfig, Variant
from wanderlust.methods import Method
from wanderlust.recipes.edl import edl, exploring, smm_paper
from wanderlust.recipes.fetch import fetch_fast, fetch_laptop, fetch_paper
from wanderlust.recipes.ibol import ibol, linearizer_paper, linearizing
from wanderlust.recipes.music import music, with_bonus
from wanderlust.recipes.point import point_laptop, point_paper, with_random_start
from wanderlust.recipes.published import body_paper, csd_paper, metra_paper
from wanderlust.recipes.tuned import body_fast, body_laptop, fallback
from wanderlust.registry import METHODS

RECIPES: dict[tuple[str, str], Callable[[str, Variant, SkillConfig], RunConfig]] = {
    ("paper", "point"): point_paper,
    ("laptop", "point"): point_laptop,
    **{("paper", body): functools.partial(body_paper, body) for body in BODIES},
    **{("fast", body): functools.partial(body_fast, body) for body in BODIES},
    **{("laptop", body): functools.partial(body_laptop, body) for body in BODIES},
    **{("paper", fetch): functools.partial(fetch_paper, fetch) for fetch in FETCHES},
    **{("fast", fetch): functools.partial(fetch_fast, fetch) for fetch in FETCHES},
    **{("laptop", fetch): functools.partial(fetch_laptop, fetch) for fetch in FETCHES},
}

_OTHER_PAPERS: dict[str, Callable[[str, Variant, SkillConfig], RunConfig]] = {
    "metra": metra_paper,
    "csd": csd_paper,
    "smm": smm_paper,
    "linearizer": linearizer_paper,
}
"""On bodies `paper` is what their own authors published: two came after the LSD paper, one it ran with its own code."""


def get_recipe(
    recipe: str, world: str | EnvConfig, method: str, skills: SkillConfig, bonus: str | None = None
) -> RunConfig:
    """The configuration of a recipe; `method` as a user writes it, e.g. ``diayn-xyo``; `bonus`: what is added to it."""
    if bonus is not None:
        return with_bonus(get_recipe(recipe, world, method, skills), bonus)
    name, view = parse_method(method)
    env = world if isinstance(world, str) else world.name
    check_recipe(recipe, env)
    basis = RECIPES.get((recipe, env), functools.partial(fallback, world))
    method_class: type[Method] = METHODS.get(name)
    if method_class.usual_skills.unit_length and skills.kind == "continuous":
        skills = dataclasses.replace(skills, unit_length=True)
    suffix = f"-{view}" if view else ""
    if name == "edl":
        explore = get_recipe(recipe, world, f"smm{suffix}", usual_skills("smm"))
        return edl(recipe, env, view, explore, last=basis("lsd", view, skills))
    if name == "music":
        return music(basis("lsd", view, skills), view)
    if name == "ibol":
        return ibol(recipe, env, view, skills, lower=get_recipe(recipe, world, f"linearizer{suffix}", SkillConfig()))
    if recipe == "paper" and name in _OTHER_PAPERS and env in BODIES:
        config = _OTHER_PAPERS[name](env, view, skills)
    else:
        config = basis(name, view, skills)
    adjust = {"smm": exploring, "linearizer": linearizing}.get(name, method_class.adapt)
    return adjust(config)


def usual_skills(method: str) -> SkillConfig:
    """The skills of a method, as a user writes it, unless something else is asked for."""
    usual: SkillConfig = METHODS.get(parse_method(method)[0]).usual_skills
    return usual
