"""A hand and an object on a plane, as a formula: what MUSIC and the focus of a world need, and nothing else."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from wanderlust.config import EnvConfig
from wanderlust.envs.base import WorldState
from wanderlust.envs.spec import EnvSpec, Groups

NAME, SIGNS = "table_world:Table", "table_world:Signs"
REACH, SPEED = 0.15, 0.1


@dataclasses.dataclass(frozen=True)
class TableConfig(EnvConfig):
    name: str = NAME
    episode_length: int = 5


@dataclasses.dataclass(frozen=True)
class Table:
    """It observes hand and object, (x, y) of both; an object that the hand is at goes with it."""

    config: TableConfig
    Config: ClassVar[type[TableConfig]] = TableConfig
    summary: ClassVar[str] = "a hand and an object on a plane"
    option_length: ClassVar[int] = 5
    recipe_overrides: ClassVar[dict[str, tuple[str, ...]]] = {}

    @classmethod
    def configure(cls, name):
        return TableConfig(name)

    @property
    def spec(self):
        return EnvSpec(
            name=self.config.name,
            obs_dim=4,
            action_dim=2,
            episode_length=self.config.episode_length,
            groups=Groups(agent=(0, 1), object=(2, 3), position=(2, 3)),
            obs_mean=(0.0, 0.1, 1.0, -1.0),
            obs_std=(0.1, 0.2, 0.5, 0.25),
            focus="object",
            raw_focus=True,
        )

    def initial(self, key):
        hand = jnp.zeros(2)
        return WorldState(jnp.concatenate([hand, jax.random.uniform(key, (2,), minval=-0.2, maxval=0.2)]), jnp.zeros(0))

    def observe(self, state):
        return state.physics

    measure = observe

    def terminated(self, state):
        return jnp.zeros(state.physics.shape[:-1], bool)

    def from_origin(self):
        return self

    def step(self, state, action):
        hand, thing = jnp.split(state.physics, 2)
        move = SPEED * jnp.clip(action, -1.0, 1.0)
        near = jnp.sum((hand - thing) ** 2) < REACH**2
        return state._replace(physics=jnp.concatenate([hand + move, thing + near * move]))


@dataclasses.dataclass(frozen=True)
class Signs(Table):
    """Hand and object are at -1 or 1 of x; under uniform actions at the same place four times in five."""

    def step(self, state, action):
        hand = jnp.where(action[0] < 0.0, -1.0, 1.0)
        thing = jnp.where(action[1] < 0.6, hand, -hand)
        return state._replace(physics=jnp.stack([hand, jnp.zeros(()), thing, jnp.zeros(())]))
