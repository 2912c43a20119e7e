"""Worlds by name, and the engines that step them."""

from wanderlust.config import EnvConfig
from wanderlust.envs.base import MujocoWorld, SelfStepping, World, WorldState
from wanderlust.envs.engines.base import Engine
from wanderlust.envs.engines.select import choose_engine, make_engine
from wanderlust.registry import WORLDS


def make_world(config: EnvConfig) -> World:
    """The world a configuration describes."""
    world: World = WORLDS.get(config.name)(config)
    return world
