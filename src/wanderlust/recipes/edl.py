"""SMM and EDL, in whatever recipe."""

import dataclasses

from wanderlust.config import RunConfig, SkillConfig, StageConfig, Variant, method_config
from wanderlust.methods.smm import SmmConfig
from wanderlust.recipes.point import one_start
from wanderlust.recipes.published import body_paper
from wanderlust.recipes.sac import learning_rates

_EXPLORATION = {
    "point": (0.15, 3.0, 0.0),
    "ant": (0.5, 1.0, 0.0),
    "humanoid": (0.05, 3.0, 30.0),
}
"""The density's weight in SMM's rewards, alpha and alive bonus. The appendix's for Ant and Humanoid; HalfCheetah, which
it does not run, takes Ant's, and so do other worlds."""


def exploring(config: RunConfig) -> RunConfig:
    """SMM in a recipe: its own weights, alpha and alive bonus, one start, and a replay that remembers for long.

    A replay of the last collections would forget what has been visited, and the density with it.
    """
    density_weight, alpha, alive_bonus = _EXPLORATION.get(config.env.name, _EXPLORATION["ant"])
    schedule, method = config.schedule, config.method
    assert isinstance(method, SmmConfig)
    remembered = max(schedule.replay_collections, 100_000 // schedule.collection)
    drawn = schedule.method_batch or schedule.sac_batch
    return dataclasses.replace(
        one_start(config),
        method=dataclasses.replace(method, density_weight=density_weight),
        sac=dataclasses.replace(config.sac, alpha=alpha, learn_alpha=False, alive_bonus=alive_bonus),
        schedule=dataclasses.replace(schedule, replay_collections=remembered, method_batch=drawn),
    )


def smm_paper(env: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """SMM as EDL's code runs it, which the appendix says it used: networks of 128 units, small batches from a replay of
    a million, as many updates as environment steps, a value beyond the time limit.
    """
    base = body_paper(env, "lsd", view, skills)
    rate, hidden, collection = 1e-3, (128, 128, 128), base.schedule.collection
    return dataclasses.replace(
        base,
        method=method_config("smm", view, hidden=hidden, learning_rate=rate, density_learning_rate=1e-2),
        sac=dataclasses.replace(
            base.sac,
            hidden=hidden,
            policy_activation="relu",
            **learning_rates(rate),
            target_update="step",
            time_limit_is_terminal=False,
        ),
        schedule=dataclasses.replace(
            base.schedule,
            sac_steps=collection,
            sac_batch=128,
            method_steps=collection,
            method_batch=128,
            order="interleaved",
            replay_collections=1_000_000 // collection,
            learn_from=1000,
        ),
    )


def edl(recipe: str, env: str, view: Variant, explore: RunConfig, last: RunConfig) -> RunConfig:
    """Half of a recipe's epochs explore as `smm` does, the other half learn skills, with the recipe's SAC and schedule.

    The VQ-VAE has the numbers of EDL's code, and fewer, larger steps where they would take longer than all the rest.
    """
    last = one_start(last)
    epochs = last.schedule.epochs
    first = dataclasses.replace(explore.schedule, epochs=epochs // 2)
    method = method_config(
        "edl",
        view,
        hidden=(128, 128),
        learning_rate=2e-4 if recipe == "paper" else 1e-3,
        code_steps=50_000 if recipe != "laptop" else 5_000,
        first=StageConfig(explore.method, explore.skills, explore.sac, first),
    )
    # a reward that is never above 0 would be best served by falling at once
    sac = dataclasses.replace(
        last.sac, alpha=0.3 if env == "point" else 0.1, alive_bonus=10.0 if env == "humanoid" else 0.0
    )
    if (recipe, env) == ("laptop", "point"):
        sac = dataclasses.replace(sac, discount=0.8, critic_learning_rate=3e-3, target_step=0.05)
    schedule = dataclasses.replace(last.schedule, epochs=epochs - epochs // 2)
    return dataclasses.replace(last, method=method, sac=sac, schedule=schedule)
