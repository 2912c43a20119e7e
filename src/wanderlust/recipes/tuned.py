"""Bodies on one GPU (`fast`) and on a few CPU cores (`laptop`): our own numbers."""

import dataclasses

from wanderlust.config import (
    EnvConfig,
    RunConfig,
    SacConfig,
    ScheduleConfig,
    SkillConfig,
    Variant,
    method_config,
    with_changes,
)
from wanderlust.envs import MujocoWorld, make_world
from wanderlust.envs.worlds.gymnasium import GymnasiumWorld
from wanderlust.envs.worlds.mjcf_file import ModelFile
from wanderlust.recipes.any_body import for_any_body
from wanderlust.recipes.sac import entropy_weight, learning_rates
from wanderlust.registry import WORLDS


def body_fast(world: str | EnvConfig, name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """What gets far-reaching skills soonest on one GPU (`docs/explanation/recipes.md` has what was tried).

    Thousands of worlds a few steps at a time, since a physics step costs almost the same for one world and for
    thousands; many updates from the last collections; learning rates ten times the published ones, which normalised
    critics and quickly moving targets allow; a short horizon, which is enough for rewards that come at every step.
    """
    env = world if isinstance(world, str) else world.name
    higher = env == "humanoid" and skills.kind == "continuous"
    config = RunConfig(
        env=WORLDS.get(env).configure(env) if isinstance(world, str) else world,
        method=method_config(name, view, hidden=(256, 256), learning_rate=1e-3),
        skills=skills,
        sac=SacConfig(
            hidden=(512, 512),
            **learning_rates(1e-3),
            **entropy_weight(name, lsd=0.03 if higher else 0.01),
            position_scale=250.0 if env == "half-cheetah" else 1.0,
            discount=0.97,
            target_update="step",
            target_step=0.05,
            time_limit_is_terminal=False,
            critic_layer_norm=True,
        ),
        schedule=ScheduleConfig(
            epochs=600,
            worlds=8192,
            steps=25,
            sac_steps=1000,
            sac_batch=8192,
            method_steps=1000,
            order="joint",
            replay_collections=8,
        ),
        recipe="fast",
        engine="warp",
        precision="bfloat16",
        log_every=2,
        look_every=5,
        checkpoint_every=100,
    )
    return _for_humanoid(config) if env == "humanoid" else config


def _for_humanoid(config: RunConfig) -> RunConfig:
    """A body that falls needs to try what it has learned at once: 16 updates a step, not 1,000 after 25.

    And it needs to see its balance: a metre is ten of its random policy's standard deviations, so that a few metres
    away a position is all that its networks would see. Divided by 800 it is one 100 m away.
    """
    return dataclasses.replace(
        config,
        method=dataclasses.replace(config.method, learning_rate=3e-4),
        sac=dataclasses.replace(
            config.sac,
            **learning_rates(5e-4),
            alive_bonus=0.0 if config.method.name == "dads" else 0.3,
            position_scale=800.0,
            discount=0.99,
            target_step=0.02,
        ),
        schedule=dataclasses.replace(
            config.schedule,
            epochs=12_000,
            worlds=4096,
            steps=2,
            sac_steps=32,
            method_steps=32,
            replay_collections=128,
        ),
        log_every=50,
        look_every=6,
        checkpoint_every=2500,
    )


def body_laptop(world: str | EnvConfig, name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """What two to eight CPU cores can do: the same with 64 worlds, narrow networks and batches of 1,024.

    And with the published horizon. With that of `fast`, a third of it, Ant throws itself on its back, which changes
    much of its state at once, and stays there: of what walking would bring too little lies within 33 steps. Thousands
    of worlds find the way out, 64 do not (`docs/explanation/recipes.md`).
    """
    fast, worlds = body_fast(world, name, view, skills), 64
    steps = max(1, fast.env.episode_length // 4)
    return dataclasses.replace(
        fast,
        method=dataclasses.replace(fast.method, hidden=(64, 64)),
        sac=dataclasses.replace(fast.sac, hidden=(128, 128), discount=0.99),
        schedule=dataclasses.replace(
            fast.schedule,
            epochs=2500,
            worlds=worlds,
            steps=steps,
            sac_steps=64,
            sac_batch=1024,
            method_steps=64,
            replay_collections=max(1, 409_600 // (worlds * steps)),  # 2,048 episodes of Ant
        ),
        recipe="laptop",
        engine="c",
        driver="split",
        precision="float32",
        log_every=10,
        look_every=5,
        checkpoint_every=250,
    )


def fallback(world: str | EnvConfig, name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """For a world without numbers of its own: those of bodies, with what the world itself changes of them."""
    config = body_laptop(world, name, view, skills)
    made = make_world(config.env)
    if not isinstance(made, MujocoWorld):
        config = dataclasses.replace(config, engine="auto", driver="fused")
    if isinstance(made, ModelFile):
        config = for_any_body(config, made.trial.moved, made.gets_about)
    elif isinstance(made, GymnasiumWorld) and made.moved:
        config = for_any_body(config, made.moved, gets_about=True)
    return with_changes(config, WORLDS.get(config.env.name).recipe_overrides.get(config.recipe, ()))
