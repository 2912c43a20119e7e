"""Worlds by name."""

from wanderlust.config import EnvConfig, PointConfig
from wanderlust.envs.base import Physical, SelfStepping, World
from wanderlust.envs.physics import Engine, make_engine
from wanderlust.envs.point import PointWorld

__all__ = ["DESCRIPTIONS", "Engine", "Physical", "SelfStepping", "World", "make_engine", "make_world"]

DESCRIPTIONS = {
    "point": "a point on the plane, moved by its action (2-D state, 2-D action, 10 steps)",
}


def make_world(config: EnvConfig) -> World:
    """The world a configuration describes."""
    match config:
        case PointConfig():
            return PointWorld(config)
