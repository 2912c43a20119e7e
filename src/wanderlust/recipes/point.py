"""PointEnv."""

import dataclasses

from wanderlust.config import RunConfig, SacConfig, ScheduleConfig, SkillConfig, Variant, method_config
from wanderlust.envs.worlds.point import PointConfig
from wanderlust.errors import UserError
from wanderlust.recipes.sac import entropy_weight, learning_rates


def point_paper(name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """The appendix's numbers for PointEnv, and choices of our own where it is silent (`docs/results/point-goals.md`).

    Said there: two layers of 128 units, 5,000 epochs of 50 episodes of 10 steps, four minibatches of 500. As in the
    released code: two whole-collection steps of phi, one target update an epoch, the time limit flagged terminal.
    Chosen: learning rates (one third for phi or q, as on the robots), alpha 0.003 for LSD out of the paper's search
    range and auto-adjusted for DIAYN as on Ant, states normalised as on the robots.
    """
    return RunConfig(
        env=PointConfig(),
        method=method_config(name, view, hidden=(128, 128), learning_rate=3e-4),
        skills=skills,
        sac=SacConfig(
            hidden=(128, 128),
            **learning_rates(1e-3),
            **entropy_weight(name, lsd=0.003, metra=0.01, csd=0.003),
        ),
        schedule=ScheduleConfig(epochs=5000, worlds=50, steps=10, sac_steps=4, sac_batch=500, method_steps=2),
        recipe="paper",
    )


def point_laptop(name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """Smaller networks, a short horizon, targets moved at every step, no terminal flag at the time limit.

    The short horizon and the larger alpha matter: actions live in a box, so the farthest-reaching policy goes to its
    corners only; with some entropy a skill keeps a direction of its own. Random starts make goals reachable from
    anywhere.
    """
    rate = 1e-3
    return RunConfig(
        env=PointConfig(start_range=10.0),
        method=method_config(name, view, hidden=(64, 64), learning_rate=rate),
        skills=skills,
        sac=SacConfig(
            hidden=(64, 64),
            **learning_rates(rate),
            discount=0.9,
            **entropy_weight(name, lsd=0.03, metra=0.1, csd=0.01),
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


def with_random_start(config: RunConfig, start_range: float) -> RunConfig:
    """The same run with episodes that start anywhere in a box."""
    if not isinstance(config.env, PointConfig):
        raise UserError(f"{config.env.name} has one start; only point can start anywhere")
    return dataclasses.replace(config, env=dataclasses.replace(config.env, start_range=start_range))


def one_start(config: RunConfig) -> RunConfig:
    """Goals that exploration found can be reached from where it began."""
    return with_random_start(config, 0.0) if isinstance(config.env, PointConfig) else config
