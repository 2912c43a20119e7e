"""The Fetch robot: the numbers of the LSD paper's appendix, and our own for a few CPU cores and for many."""

import dataclasses
from typing import Any

from wanderlust.catalogue import FETCHES
from wanderlust.config import RunConfig, SacConfig, ScheduleConfig, SkillConfig, Variant, method_config
from wanderlust.recipes.sac import learning_rates
from wanderlust.registry import WORLDS

RATE = 1e-3

REWARD_SCALE = {"lsd": 500.0, "ablation": 500.0, "diayn": 1500.0, "dads": 150.0}
"""The appendix's coefficients. The method's network sees metres, and a push moves an object by a centimetre or two."""

_UNIT = {"diayn": 100.0, "dads": 10.0}
"""In `laptop` and `fast`, rewards and what they are weighed against (alpha, a bonus) are divided by this. The objective
stays the same, and critics get to its size: DIAYN's -1,500 a step is a value of -30,000, where they begin at 0."""


def fetch_paper(env: str, name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """The appendix's numbers, and those of the MUSIC code it built on where it is silent, on our SAC.

    Said there: 4,000 epochs of two episodes and 40 gradient steps of 256, networks of 1,024 units, entropy coefficient
    0.02, discount 0.95, rate 1e-3. In that code: one target update an epoch with a step of 0.05, ReLU, a value beyond
    the time limit. A replay of a million is never filled: this one holds all that is collected.

    Chosen where the record is ambiguous: the discount as printed, where the code derives 0.98 from 50 steps; episodes
    of 50 steps as in the original environments, where 0.95 would be derived from 20; 512 units for phi and the
    discriminators as in the code, where the paper has one number for all networks. A controller holds a skill for 10
    steps (`Fetch.option_length`), of which nothing is said. SAC learns, with its own noise: the code's learner is
    nearer to DDPG (one critic, mode actions with normal noise of 0.2, of which 30% are uniform).
    """
    updates, epochs = 40, 4000
    config = WORLDS.get(env).configure(env)
    return RunConfig(
        env=config,
        method=_method(name, view, hidden=(512, 512), learning_rate=RATE),
        skills=skills,
        sac=published_sac(name),
        schedule=ScheduleConfig(
            epochs=epochs,
            worlds=2,
            steps=config.episode_length,
            sac_steps=updates,
            sac_batch=256,
            method_steps=updates,
            method_batch=256,
            order="interleaved",
            replay_collections=epochs,
        ),
        recipe="paper",
        engine="c",
        driver="split",
        log_every=25,
        look_every=8,
        checkpoint_every=1000,
    )


def published_sac(name: str = "lsd") -> SacConfig:
    """SAC's part of it, for the reward of a method."""
    return SacConfig(
        policy_activation="relu",
        **learning_rates(RATE),
        discount=0.95,
        **_alpha(name),
        target_step=0.05,
        time_limit_is_terminal=False,
    )


def fetch_laptop(env: str, name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """20 minutes of two cores: as many steps of the environment, 32 episodes at a time, and narrower networks."""
    paper, unit, updates, epochs = fetch_paper(env, name, view, skills), _UNIT.get(name, 1.0), 128, 400
    scale = paper.method.reward_scale / unit
    return dataclasses.replace(
        paper,
        method=dataclasses.replace(paper.method, hidden=(128, 128), reward_scale=scale),
        sac=laptop_sac(name),
        schedule=dataclasses.replace(
            paper.schedule,
            epochs=epochs,
            worlds=32,
            sac_steps=updates,
            method_steps=updates,
            order="joint",
            replay_collections=epochs,
        ),
        recipe="laptop",
        log_every=5,
        look_every=4,
        checkpoint_every=100,
    )


def laptop_sac(name: str = "lsd") -> SacConfig:
    """SAC's part of it, in the units of a method's reward."""
    paper = published_sac(name)
    return dataclasses.replace(
        paper,
        hidden=(256, 256),
        alpha=paper.alpha / _UNIT.get(name, 1.0),
        target_update="step",
        target_step=0.01,
        critic_layer_norm=True,
    )


def fetch_fast(env: str, name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """A machine of many cores, on the engine `c`: more episodes, wider networks. `warp` has these worlds, too."""
    laptop, updates = fetch_laptop(env, name, view, skills), 256
    return dataclasses.replace(
        laptop,
        method=dataclasses.replace(laptop.method, hidden=(256, 256)),
        sac=dataclasses.replace(laptop.sac, hidden=(512, 512)),
        schedule=dataclasses.replace(
            laptop.schedule,
            worlds=256,
            sac_steps=updates,
            sac_batch=1024,
            method_steps=updates,
            method_batch=1024,
            replay_collections=100,
        ),
        recipe="fast",
    )


def reward_unit(config: RunConfig) -> float:
    """By what a recipe has divided the rewards of a method: 1 but in `laptop` and `fast` of Fetch."""
    divided = config.env.name in FETCHES and config.recipe != "paper"
    return _UNIT.get(config.method.name, 1.0) if divided else 1.0


def _method(name: str, view: Variant, **fields: Any) -> Any:
    return method_config(name, view, reward_scale=REWARD_SCALE.get(name, 1.0), **fields)


def _alpha(name: str) -> dict[str, Any]:
    """The appendix's for the methods it ran; for others SAC finds it, as their rewards were not scaled for this one."""
    return {"alpha": 0.02, "learn_alpha": name not in REWARD_SCALE}
