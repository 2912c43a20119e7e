"""Worlds by name."""

from wanderlust.config import BodyConfig, EnvConfig, PointConfig
from wanderlust.envs.base import Physical, SelfStepping, World
from wanderlust.envs.locomotion import Body
from wanderlust.envs.physics import Engine, choose_engine, make_engine, overflow_of
from wanderlust.envs.point import PointWorld

__all__ = [
    "DESCRIPTIONS",
    "Engine",
    "Physical",
    "SelfStepping",
    "World",
    "choose_engine",
    "make_engine",
    "make_world",
    "overflow_of",
]

DESCRIPTIONS = {
    "point": "a point on the plane, moved by its action (2-D state, 2-D action, 10 steps)",
    "ant": "a four-legged body on the plane (29-D state, 8-D action, 200 steps of 0.05 s)",
    "half-cheetah": "a two-legged runner in a vertical plane (18-D state, 6-D action, 200 steps of 0.05 s)",
    "humanoid": "a walking body that must not fall (47-D state, 17-D action, 1,000 steps of 0.015 s)",
}


def make_world(config: EnvConfig) -> World:
    """The world a configuration describes."""
    match config:
        case PointConfig():
            return PointWorld(config)
        case BodyConfig():
            return Body(config)
