"""Bodies as published: the LSD paper's numbers, and those of METRA's and CSD's authors."""

import dataclasses
from typing import Any

from wanderlust.config import RunConfig, SacConfig, ScheduleConfig, SkillConfig, Variant, method_config
from wanderlust.envs.worlds.body import BodyConfig
from wanderlust.recipes.entropy import entropy_weight


@dataclasses.dataclass(frozen=True)
class Published:
    """The released commands' numbers that differ between bodies; the rest is in `body_paper`."""

    episode_length: int = 200
    episodes: int = 20
    """Per epoch."""
    policy_rate: float = 1e-4
    phi_rate: float = 3e-5
    alpha_continuous: float = 0.01
    alpha_discrete: float = 0.01
    alive_bonus: float = 0.0
    epochs: int = 100_000
    replay: bool = False


PUBLISHED = {
    "ant": Published(alpha_discrete=0.003),
    "half-cheetah": Published(),
    "humanoid": Published(1000, 5, 3e-4, 1e-4, 0.03, 0.03, alive_bonus=0.03, epochs=200_000, replay=True),
}
BODIES = tuple(PUBLISHED)


def body_paper(env: str, name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """The published numbers: on-policy, an epoch of whole episodes, four SAC steps and two of phi, one target update.

    Humanoid alone keeps a replay of a million transitions and learns from 10,000 on. Its model keeps the file's PGS
    solver, so this recipe runs on the engine `c`.
    """
    p = PUBLISHED[env]
    collection = p.episodes * p.episode_length
    # the appendix names a rate of their own for LSD, DIAYN and DADS only
    rate = p.policy_rate if name in ("visr", "aps") else p.phi_rate
    return RunConfig(
        env=BodyConfig(env, p.episode_length, solver="stock"),
        method=method_config(name, view, learning_rate=rate),
        skills=skills,
        sac=SacConfig(
            policy_learning_rate=p.policy_rate,
            critic_learning_rate=p.policy_rate,
            alpha_learning_rate=p.policy_rate,
            **_published_alpha(env, name, skills),
            alive_bonus=0.0 if name == "dads" else p.alive_bonus,
        ),
        schedule=ScheduleConfig(
            epochs=p.epochs,
            worlds=p.episodes,
            steps=p.episode_length,
            sac_steps=4,
            sac_batch=2048,
            method_steps=2,
            method_batch=2048 if p.replay else 0,
            replay_collections=1_000_000 // collection if p.replay else 1,
            collect="episodes" if p.replay else "steps",
            learn_from=10_000 if p.replay else 1,
        ),
        recipe="paper",
        engine="c",
        driver="split",
        log_every=10,
        look_every=10,
        checkpoint_every=1000,
    )


def _published_alpha(env: str, name: str, skills: SkillConfig) -> dict[str, Any]:
    p = PUBLISHED[env]
    if env == "ant" and skills.kind == "continuous" and skills.size == 5 and name in ("dads", "diayn"):
        return {"alpha": {"dads": 0.03, "diayn": 0.3}[name]}
    lsd = p.alpha_continuous if skills.kind == "continuous" else p.alpha_discrete
    return entropy_weight(name, lsd, metra=0.01, csd=0.003)


def metra_paper(env: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """METRA's own published numbers for bodies: few steps of collection, many small updates from a large replay."""
    base = body_paper(env, "lsd", view, skills)
    rate, steps = 1e-4, 50
    return dataclasses.replace(
        base,
        method=method_config("metra", view, learning_rate=rate),
        sac=dataclasses.replace(
            base.sac,
            policy_learning_rate=rate,
            critic_learning_rate=rate,
            alpha_learning_rate=rate,
            alpha=0.01,
            learn_alpha=True,
            target_update="step",
        ),
        schedule=dataclasses.replace(
            base.schedule,
            worlds=8,
            sac_steps=steps,
            sac_batch=256,
            method_steps=steps,
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
            policy_learning_rate=rate,
            critic_learning_rate=rate,
            alpha_learning_rate=rate,
            alpha=alpha,
            target_update="step",
            alive_bonus=0.0,
        ),
        schedule=dataclasses.replace(
            base.schedule, worlds=worlds, sac_steps=64, sac_batch=1024, method_steps=32, method_batch=1024
        ),
    )
