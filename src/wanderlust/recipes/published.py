"""Bodies as published: the LSD paper's numbers, and those of METRA's and CSD's authors."""

import dataclasses
from typing import Any

from wanderlust.config import RunConfig, SacConfig, ScheduleConfig, SkillConfig, Variant, method_config
from wanderlust.recipes.sac import entropy_weight, learning_rates
from wanderlust.registry import WORLDS


def body_paper(env: str, name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """The published numbers: on-policy, an epoch of whole episodes, four SAC steps and two of phi, one target update.

    Humanoid alone keeps a replay of a million transitions and learns from 10,000 on. Its model keeps the file's PGS
    solver, so this recipe runs on the engine `c`.
    """
    world = dataclasses.replace(WORLDS.get(env).configure(env), solver="stock")
    humanoid = env == "humanoid"
    episodes, policy_rate, phi_rate = (5, 3e-4, 1e-4) if humanoid else (20, 1e-4, 3e-5)
    replay = {
        "method_batch": 2048,
        "replay_collections": 1_000_000 // (episodes * world.episode_length),
        "collect": "episodes",
        "learn_from": 10_000,
    }
    return RunConfig(
        env=world,
        # the appendix names a rate of their own for LSD, DIAYN and DADS only
        method=method_config(name, view, learning_rate=policy_rate if name in ("visr", "aps") else phi_rate),
        skills=skills,
        sac=SacConfig(
            **learning_rates(policy_rate),
            **_published_alpha(env, name, skills),
            alive_bonus=0.03 if humanoid and name != "dads" else 0.0,
        ),
        schedule=ScheduleConfig(
            epochs=200_000 if humanoid else 100_000,
            worlds=episodes,
            steps=world.episode_length,
            sac_steps=4,
            sac_batch=2048,
            method_steps=2,
            **(replay if humanoid else {}),
        ),
        recipe="paper",
        engine="c",
        driver="split",
        log_every=10,
        look_every=10,
        checkpoint_every=1000,
    )


def _published_alpha(env: str, name: str, skills: SkillConfig) -> dict[str, Any]:
    if env == "ant" and skills.kind == "continuous" and skills.size == 5 and name in ("dads", "diayn"):
        return {"alpha": {"dads": 0.03, "diayn": 0.3}[name]}
    lsd = 0.03 if env == "humanoid" else 0.003 if env == "ant" and skills.kind != "continuous" else 0.01
    return entropy_weight(name, lsd, metra=0.01, csd=0.003)


def metra_paper(env: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """METRA's own published numbers for bodies: few steps of collection, many small updates from a large replay."""
    base = body_paper(env, "lsd", view, skills)
    return dataclasses.replace(
        base,
        method=method_config("metra", view, learning_rate=1e-4),
        sac=dataclasses.replace(base.sac, **learning_rates(1e-4), alpha=0.01, learn_alpha=True, target_update="step"),
        schedule=dataclasses.replace(
            base.schedule,
            worlds=8,
            sac_steps=50,
            sac_batch=256,
            method_steps=50,
            method_batch=256,
            order="interleaved",
            replay_collections=1_000_000 // (8 * base.env.episode_length),
            learn_from=10_000,
        ),
    )


def csd_paper(env: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """CSD's own published numbers for bodies. Its reward is multiplied by 10 there; here alpha is divided by it."""
    base = body_paper(env, "lsd", view, skills)
    alpha = {"ant": 0.003, "half-cheetah": 0.01, "humanoid": 0.03}[env]
    rate, hidden = (3e-4, (1024, 1024)) if env == "humanoid" else (1e-4, (512, 512))
    worlds = 5 if env == "humanoid" else 10
    return dataclasses.replace(
        base,
        method=method_config("csd", view, hidden=hidden, learning_rate=rate),
        sac=dataclasses.replace(
            base.sac,
            hidden=hidden,
            **learning_rates(rate),
            alpha=alpha,
            target_update="step",
            alive_bonus=0.0,
        ),
        schedule=dataclasses.replace(
            base.schedule, worlds=worlds, sac_steps=64, sac_batch=1024, method_steps=32, method_batch=1024
        ),
    )
