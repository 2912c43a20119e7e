"""Bodies on one GPU (`fast`) and on a few CPU cores (`laptop`): our own numbers."""

import dataclasses

from wanderlust.config import (
    RunConfig,
    SacConfig,
    ScheduleConfig,
    SkillConfig,
    Variant,
    method_config,
    with_changes,
)
from wanderlust.envs import MujocoWorld, make_world
from wanderlust.envs.worlds.body import BodyConfig
from wanderlust.recipes.entropy import entropy_weight
from wanderlust.recipes.published import PUBLISHED
from wanderlust.registry import WORLDS


@dataclasses.dataclass(frozen=True)
class _Fast:
    """What differs between bodies in `fast`."""

    worlds: int = 8192
    steps: int = 25
    updates: int = 1000
    replay_collections: int = 8
    rate: float = 1e-3
    phi_rate: float = 1e-3
    discount: float = 0.97
    target_step: float = 0.05
    alpha: float = 0.01
    alpha_discrete: float = 0.01
    alive_bonus: float = 0.0
    position_scale: float = 1.0
    epochs: int = 600
    log_every: int = 2
    look_every: int = 5


_FAST = {
    "ant": _Fast(),
    "half-cheetah": _Fast(position_scale=250.0),
    # A body that falls needs to try what it has learned at once: 16 updates a step, not 1,000 after 25. And it needs to
    # see its balance: a metre is ten of its random policy's standard deviations, so that a few metres away a position
    # is all that its networks would see. Divided by 800 it is one 100 m away.
    "humanoid": _Fast(
        worlds=4096,
        steps=2,
        updates=32,
        replay_collections=128,
        rate=5e-4,
        phi_rate=3e-4,
        discount=0.99,
        target_step=0.02,
        alpha=0.03,
        alive_bonus=0.3,
        position_scale=800.0,
        epochs=12_000,
        log_every=50,
        look_every=6,
    ),
}


def body_fast(env: str, name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """What gets far-reaching skills soonest on one GPU (`docs/speed.md` has what was tried).

    Thousands of worlds a few steps at a time, since a physics step costs almost the same for one world and for
    thousands; many updates from the last collections; learning rates ten times the published ones, which normalised
    critics and quickly moving targets allow; a short horizon, which is enough for rewards that come at every step.
    """
    f = _FAST[env]
    alpha = f.alpha if skills.kind == "continuous" else f.alpha_discrete
    return RunConfig(
        env=BodyConfig(env, PUBLISHED[env].episode_length),
        method=method_config(name, view, hidden=(256, 256), learning_rate=f.phi_rate),
        skills=skills,
        sac=SacConfig(
            hidden=(512, 512),
            policy_learning_rate=f.rate,
            critic_learning_rate=f.rate,
            alpha_learning_rate=f.rate,
            **entropy_weight(name, lsd=alpha),
            alive_bonus=0.0 if name == "dads" else f.alive_bonus,
            position_scale=f.position_scale,
            discount=f.discount,
            target_update="step",
            target_step=f.target_step,
            time_limit_is_terminal=False,
            critic_layer_norm=True,
        ),
        schedule=ScheduleConfig(
            epochs=f.epochs,
            worlds=f.worlds,
            steps=f.steps,
            sac_steps=f.updates,
            sac_batch=8192,
            method_steps=f.updates,
            order="joint",
            replay_collections=f.replay_collections,
        ),
        recipe="fast",
        engine="warp",
        precision="bfloat16",
        log_every=f.log_every,
        look_every=f.look_every,
        checkpoint_every=50 * f.log_every,
    )


_LAPTOP_REPLAY = 409_600
"""Transitions: 2,048 episodes of Ant."""


def body_laptop(env: str, name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """What two to eight CPU cores can do: the same with 64 worlds, narrow networks and batches of 1,024.

    And with the published horizon. With that of `fast`, a third of it, Ant throws itself on its back, which changes
    much of its state at once, and stays there: of what walking would bring too little lies within 33 steps. Thousands
    of worlds find the way out, 64 do not (`docs/speed.md`).
    """
    fast, worlds, steps = body_fast(env, name, view, skills), 64, PUBLISHED[env].episode_length // 4
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
            replay_collections=_LAPTOP_REPLAY // (worlds * steps),
        ),
        recipe="laptop",
        engine="c",
        driver="split",
        precision="float32",
        log_every=10,
        look_every=5,
        checkpoint_every=250,
    )


def fallback(recipe: str, env: str, name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """For a world without numbers of its own: those of Ant, with what the world itself changes of them."""
    world = WORLDS.get(env)
    ant, config = body_laptop("ant", name, view, skills), world.configure(env)
    stepped = isinstance(make_world(config), MujocoWorld)
    steps = max(1, config.episode_length // 4)
    changed = dataclasses.replace(
        ant,
        env=config,
        sac=dataclasses.replace(ant.sac, position_scale=1.0),
        schedule=dataclasses.replace(
            ant.schedule, steps=steps, replay_collections=max(1, _LAPTOP_REPLAY // (ant.schedule.worlds * steps))
        ),
        engine="c" if stepped else "auto",
        driver="split" if stepped else "fused",
    )
    return with_changes(changed, world.recipe_overrides.get(recipe, ()))
