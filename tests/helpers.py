"""What several test files build on."""

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wanderlust import train
from wanderlust.config import RunConfig, SacConfig, ScheduleConfig, SkillConfig, method_config
from wanderlust.envs import Engine
from wanderlust.envs.base import WorldState
from wanderlust.envs.worlds.point import PointConfig

_SECTIONS = ("env", "method", "skills", "sac", "schedule")


@contextlib.contextmanager
def optimised() -> Iterator[None]:
    """What is compiled meanwhile is made to run fast: for programs that compute for a second or more."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)


def tiny_config(
    method: str = "lsd", discrete: int | None = None, seeds: int = 1, epochs: int = 4, **changes: Any
) -> RunConfig:
    """A run on PointEnv small enough to train within a second.

    `method` may carry a view ("lsd-xyo"). Further changes name a field of the configuration, those of a section with
    its name in front: ``tiny_config(driver="split", sac_discount=0.9, schedule_order="interleaved")``.
    """
    name, _, view = method.partition("-")
    config = RunConfig(
        env=PointConfig(episode_length=5),
        method=method_config(name, view, hidden=(16, 16), learning_rate=1e-3),
        skills=SkillConfig("discrete", discrete) if discrete else SkillConfig("continuous", 2),
        sac=SacConfig(hidden=(16, 16), policy_learning_rate=1e-3, critic_learning_rate=1e-3, alpha_learning_rate=1e-3),
        schedule=ScheduleConfig(
            epochs=epochs, worlds=4, steps=5, sac_steps=2, sac_batch=16, method_steps=2, replay_collections=2
        ),
        seeds=seeds,
        engine="jax",
        log_every=2,
        checkpoint_every=2,
    )
    sections: dict[str, dict[str, Any]] = {}
    top = {}
    for key, value in changes.items():
        section, _, field = key.partition("_")
        if section in _SECTIONS and field:
            sections.setdefault(section, {})[field] = value
        else:
            top[key] = value
    nested = {name: dataclasses.replace(getattr(config, name), **fields) for name, fields in sections.items()}
    return dataclasses.replace(config, **nested, **top)


def one_seed_rollout(parts: Any, policy: Any, skill: Any, key: Any, mode: bool = True) -> Any:
    """One episode per skill under one seed's policy, from the origin."""
    one = jax.tree.map(lambda x: x[None], (policy, skill, key))
    return jax.tree.map(lambda x: x[0], train.make_skill_rollout(parts, mode)(*one))


class Outside(Engine):
    """An engine that cannot be compiled; its worlds are PointEnv's."""

    name, compiles = "c", False

    def __init__(self, engine):
        self.engine, self.calls = engine, 0

    def step(self, state, action):
        assert isinstance(action, np.ndarray)
        self.calls += 1
        return jax.device_get(self.engine.step(state, jnp.asarray(action)))


def body_state(qpos: Any, qvel: Any, sensors: int = 0) -> WorldState:
    """The state of bodies without activations, one or a batch, at time 0."""
    lead = np.shape(qpos)[:-1]
    physics = np.concatenate([np.zeros((*lead, 1)), qpos, qvel], axis=-1).astype(np.float32)
    return WorldState(physics, np.zeros((*lead, sensors), np.float32))


def qpos_of(world: Any, state: WorldState) -> Any:
    """Positions in the states of a body."""
    return state.physics[..., 1 : 1 + world.model.nq]


def qvel_of(world: Any, state: WorldState) -> Any:
    """Velocities in the states of a body."""
    first = 1 + world.model.nq
    return state.physics[..., first : first + world.model.nv]


def only_times(err: str) -> bool:
    """Whether a command has said nothing but how long its parts took."""
    return re.fullmatch(r"(?:[a-z][^:\n]*: \d+\.\d s\n)*", err) is not None
