"""Collection on the host: every step is the engine's, and threads change nothing."""

import dataclasses
from typing import NamedTuple

import jax
import numpy as np
import pytest

from helpers import tiny_config
from wanderlust import train
from wanderlust.envs.spec import Transition
from wanderlust.envs.worlds.body import BodyConfig
from wanderlust.train.autoreset import EnvState
from wanderlust.train.drivers import SplitDriver


class Collected(NamedTuple):
    """What a collection leaves behind."""

    envs: EnvState
    fresh: Transition
    age: np.ndarray


def collect(driver, state, steps=None):
    _, end, made = driver.collect(state, steps)
    return Collected(end.envs, *made)


@pytest.fixture(scope="module")
def point():
    """PointEnv in steps that cut episodes in two; its transitions carry everything that they can."""
    return train.assemble(
        tiny_config(driver="split", seeds=2, method="vic", schedule_steps=3, env_start_range=2.0, schedule_worlds=6)
    )


def test_some_steps_of_a_collection_are_the_first_of_all(point):
    driver, state = SplitDriver(point), train.init(point)
    whole, some = collect(driver, state), collect(driver, state, 2)
    assert whole.age.shape == (3, 2, 6)
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x[:2], y), whole.fresh, some.fresh)
    np.testing.assert_array_equal(whole.age[:2], some.age)
    ended = whole.fresh.truncated[1] | whole.fresh.terminated[1]
    np.testing.assert_array_equal(some.envs.age, np.where(ended, 0, whole.age[1] + 1))


def test_groups_of_environments_on_threads_collect_what_one_thread_does(point):
    state = train.init(point)
    one, three = (collect(SplitDriver(point, groups), state) for groups in (1, 3))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6), one, three)


def test_a_collection_stays_as_it_is_when_environments_go_on(point):
    driver, state = SplitDriver(point), train.init(point)
    collected = collect(driver, state)
    kept = jax.tree.map(np.copy, collected)
    driver.collect(state._replace(key=jax.random.split(jax.random.key(9), 2)))
    jax.tree.map(np.testing.assert_array_equal, collected, kept)


def test_environments_whose_episodes_are_over_are_not_stepped():
    parts = train.assemble(
        tiny_config(driver="split", schedule_collect="episodes", schedule_method_batch=8, schedule_worlds=4)
    )
    assert parts.waits
    state, length = train.init(parts), parts.world.spec.episode_length
    over = state._replace(worlds=state.worlds._replace(age=np.full_like(state.worlds.age, length)))
    collected = collect(SplitDriver(parts, 1), over)
    assert np.all(collected.age == length)
    np.testing.assert_array_equal(collected.fresh.obs, collected.fresh.next_obs)
    assert not np.array_equal(*(getattr(collect(SplitDriver(parts, 1), state).fresh, x) for x in ("obs", "next_obs")))


def test_skills_may_change_on_the_way():
    parts = train.assemble(tiny_config(driver="split", schedule_hold=2))
    collected = collect(SplitDriver(parts), train.init(parts))
    assert np.ptp(collected.fresh.skill, axis=0).min() > 0


def test_every_step_of_a_collection_is_the_engines():
    config = dataclasses.replace(tiny_config(driver="split"), env=BodyConfig("ant", episode_length=20), engine="c")
    schedule = dataclasses.replace(config.schedule, worlds=20, steps=30)
    parts = train.assemble(dataclasses.replace(config, schedule=schedule))
    state = train.init(parts)
    envs, driver = state.worlds, SplitDriver(parts)
    whole = collect(driver, state)
    for step in range(3):
        after = parts.engine.step(
            *jax.device_get((jax.tree.map(lambda x: x[0], envs.state), whole.fresh.action[step, 0]))
        )
        observed = jax.vmap(parts.world.observe)(after)
        np.testing.assert_allclose(whole.fresh.next_obs[step, 0], observed, rtol=1e-5, atol=1e-5)
        envs = collect(driver, state, step + 1).envs
    ended = whole.fresh.truncated | whole.fresh.terminated
    assert ended[:-1].any()  # some begin anew on the way
    obs, next_obs = whole.fresh.obs, whole.fresh.next_obs
    np.testing.assert_array_equal(obs[1:][~ended[:-1]], next_obs[:-1][~ended[:-1]])
    assert not np.any(np.all(obs[1:][ended[:-1]] == next_obs[:-1][ended[:-1]], axis=-1))
