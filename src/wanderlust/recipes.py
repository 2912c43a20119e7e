"""The only home of tuned numbers: (recipe, environment, method, skills) -> configuration.

`paper` is the published setting; `laptop` is what gets good skills soonest on two CPU cores.
"""

import dataclasses
from collections.abc import Callable

from wanderlust.config import MethodConfig, PointConfig, RunConfig, SacConfig, ScheduleConfig, SkillConfig, Variant
from wanderlust.errors import UserError
from wanderlust.methods import parse_method

DEFAULT = "laptop"

DESCRIPTIONS = {
    "paper": "the published numbers, for science",
    "laptop": "good skills soonest on two CPU cores, for everything else",
}


def _point_paper(name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """The appendix's numbers for PointEnv, and choices of our own where it is silent (`docs/point-goals.md`).

    Said there: two layers of 128 units, 5,000 epochs of 50 episodes of 10 steps, four minibatches of 500. As in the
    released code: two whole-collection steps of phi, one target update an epoch, the time limit flagged terminal.
    Chosen: learning rates (one third for phi or q, as on the robots), alpha 0.003 for LSD out of the paper's search
    range and auto-adjusted for DIAYN as on Ant, states normalised as on the robots.
    """
    return RunConfig(
        env=PointConfig(),
        method=MethodConfig(name, view, hidden=(128, 128), learning_rate=3e-4),
        skills=skills,
        sac=SacConfig(
            hidden=(128, 128),
            policy_learning_rate=1e-3,
            critic_learning_rate=1e-3,
            alpha_learning_rate=1e-3,
            alpha=0.01 if name == "diayn" else 0.003,
            learn_alpha=name == "diayn",
        ),
        schedule=ScheduleConfig(epochs=5000, worlds=50, steps=10, sac_steps=4, sac_batch=500, method_steps=2),
        recipe="paper",
    )


def _point_laptop(name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """Smaller networks, a short horizon, targets moved at every step, no terminal flag at the time limit.

    The short horizon and the larger alpha matter: actions live in a box, so the farthest-reaching policy goes to its
    corners only; with some entropy a skill keeps a direction of its own. Random starts make goals reachable from
    anywhere.
    """
    rate = 1e-3
    return RunConfig(
        env=PointConfig(start_range=10.0),
        method=MethodConfig(name, view, hidden=(64, 64), learning_rate=rate),
        skills=skills,
        sac=SacConfig(
            hidden=(64, 64),
            policy_learning_rate=rate,
            critic_learning_rate=rate,
            alpha_learning_rate=rate,
            discount=0.9,
            alpha=0.03,
            learn_alpha=name == "diayn",
            target_update="step",
            target_step=0.02,
            time_limit_is_terminal=False,
        ),
        schedule=ScheduleConfig(
            epochs=1000,
            worlds=50,
            steps=10,
            sac_steps=4,
            sac_batch=256,
            method_steps=4,
            method_batch=256,
            order="interleaved",
            replay_collections=4,
        ),
        recipe="laptop",
        log_every=25,
        checkpoint_every=250,
    )


RECIPES: dict[tuple[str, str], Callable[[str, Variant, SkillConfig], RunConfig]] = {
    ("paper", "point"): _point_paper,
    ("laptop", "point"): _point_laptop,
}

ENVIRONMENTS = tuple(sorted({env for _, env in RECIPES}))


def get_recipe(recipe: str, env: str, method: str, skills: SkillConfig) -> RunConfig:
    """The configuration of a recipe; `method` as a user writes it, e.g. ``diayn-xyo``."""
    name, view = parse_method(method)
    if env not in ENVIRONMENTS:
        raise UserError(f"unknown environment {env!r}; known: {', '.join(ENVIRONMENTS)}")
    if (recipe, env) not in RECIPES:
        known = ", ".join(r for r, e in RECIPES if e == env)
        raise UserError(f"there is no recipe {recipe!r} for {env}; known: {known}")
    return RECIPES[recipe, env](name, view, skills)


def with_random_start(config: RunConfig, start_range: float) -> RunConfig:
    """The same run with episodes that start anywhere in a box."""
    return dataclasses.replace(config, env=dataclasses.replace(config.env, start_range=start_range))
