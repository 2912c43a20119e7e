"""MUSIC-u, alone or added to another method, in whatever recipe."""

import dataclasses
from typing import Any

from wanderlust.config import MethodConfig, RunConfig, StagedConfig, Variant, method_config
from wanderlust.errors import UserError
from wanderlust.methods import Method, bonuses
from wanderlust.recipes.fetch import reward_unit
from wanderlust.registry import METHODS


def music(lsd: RunConfig, view: Variant) -> RunConfig:
    """MUSIC alone: the learner and the schedule that LSD has in the recipe."""
    whole = with_whole_episodes(lsd)
    return dataclasses.replace(whole, method=_config("music", whole, view=view))


def with_bonus(config: RunConfig, name: str) -> RunConfig:
    """The same with the reward of another method added to its own."""
    method: type[Method] = METHODS.get(name)
    if not method.adds:
        raise UserError(f"--with {name}: this reward cannot be added to another's; known: {', '.join(bonuses())}")
    if not isinstance(config.method, StagedConfig):  # which are refused
        config = with_whole_episodes(config)
    return dataclasses.replace(config, bonus=_config(name, config))


def _config(name: str, config: RunConfig, **fields: Any) -> MethodConfig:
    """One hidden layer as wide as those of the method; the shuffle as published or repaired; the method's units."""
    if name != "music":
        return method_config(name, hidden=config.method.hidden, learning_rate=config.method.learning_rate, **fields)
    return method_config(
        name,
        hidden=config.method.hidden[:1],
        learning_rate=1e-3,
        shuffle="shared" if config.recipe == "paper" else "swap",
        # on two cores 256 episodes take nearly twice as long as all else of an update
        episodes=min(32 if config.recipe == "laptop" else 256, config.schedule.sac_batch),
        reward_scale=1.0 / reward_unit(config),
        **fields,
    )


def with_whole_episodes(config: RunConfig) -> RunConfig:
    """The same with collections of whole episodes, and about as many transitions in a collection and in the replay."""
    schedule, length = config.schedule, config.env.episode_length
    if schedule.steps == length and schedule.collect == "steps":
        return config
    worlds = max(1, schedule.collection // length)
    held = max(1, schedule.collection * schedule.replay_collections // (worlds * length))
    schedule = dataclasses.replace(schedule, worlds=worlds, steps=length, collect="steps", replay_collections=held)
    return dataclasses.replace(config, schedule=schedule)
