"""Starts in any pose and anywhere: nothing in the floor, nothing explodes, and the default is what it was."""

import dataclasses

import jax
import mujoco
import numpy as np
import pytest

from wanderlust.config import RunConfig, from_json, with_changes
from wanderlust.envs import make_engine, make_world
from wanderlust.envs.base import sane
from wanderlust.envs.mjcf import set_physics
from wanderlust.errors import UserError
from wanderlust.recipes import get_recipe, usual_skills
from wanderlust.registry import WORLDS
from wanderlust.runs import entries

WALKERS = ("ant", "half-cheetah", "humanoid")


def world_of(name, **changes):
    return make_world(dataclasses.replace(WORLDS.get(name).configure(name), **changes))


def starts(world, count=200, seed=0):
    return jax.device_get(jax.jit(jax.vmap(world.initial))(jax.random.split(jax.random.key(seed), count)))


def up(world, state):
    w, x, y, z = np.moveaxis(np.asarray(world.observe(state))[:, list(world.groups["orientation"])], -1, 0)
    return w * w + z * z - x * x - y * y


@pytest.mark.parametrize("name", WALKERS)
def test_in_any_pose_nothing_is_deep_in_the_floor_and_nothing_explodes(name):
    world = world_of(name, start_pose="any")
    state, data = starts(world), mujoco.MjData(world.model)
    lowest = []
    for physics in state.physics:
        set_physics(world.model, data, physics)
        mujoco.mj_forward(world.model, data)
        lowest.append(data.contact.dist.min() if data.ncon else 0.0)
    assert min(lowest) > -0.02
    engine, draw = make_engine(world, "c"), np.random.default_rng(0)
    for _ in range(20):
        state = engine.step(state, draw.uniform(-1, 1, (200, world.action_dim)).astype(np.float32))
        assert np.all(sane(state))
        assert np.abs(state.physics[:, 1 + world.model.nq :]).max() < 100


def test_any_orientation_is_as_likely_as_any_other_and_joints_use_their_whole_range():
    world = world_of("ant", start_pose="any")
    state = starts(world, 1000)
    # of a uniform rotation the vertical part of any axis is uniform in [-1, 1]
    assert abs(np.mean(up(world, state) < 0) - 0.5) < 0.06
    assert abs(np.mean(np.abs(up(world, state)) < 0.5) - 0.5) < 0.06
    joints, limits = state.physics[:, 8:16], world.model.jnt_range[1:]
    inside = (joints - limits[:, 0]) / (limits[:, 1] - limits[:, 0])
    assert inside.min() > -1e-5
    assert inside.max() < 1 + 1e-5
    assert np.all(inside.min(axis=0) < 0.05)
    assert np.all(inside.max(axis=0) > 0.95)


def test_mixed_is_half_of_each_and_the_range_is_the_range():
    world = world_of("ant", start_pose="mixed", start_range=20.0)
    state = starts(world, 1000)
    assert abs(np.mean(up(world, state) < 0) - 0.25) < 0.05
    place = np.asarray(world.observe(state))[:, :2]
    assert np.abs(place).max() < 20.2
    assert np.all(np.abs(place).max(axis=0) > 18)


@pytest.mark.parametrize("name", WALKERS)
def test_tasks_and_evaluation_start_as_ever(name):
    plain, other = world_of(name), world_of(name, start_pose="any", start_range=9.0).from_origin()
    np.testing.assert_array_equal(starts(plain, 8).physics, starts(other, 8).physics)
    assert plain.from_origin() is plain


def test_a_start_is_what_it_was_before_there_were_others():
    key = jax.random.key(5)
    position, velocity = jax.random.split(key)
    world = world_of("ant")
    physics = np.asarray(world.initial(key).physics)
    expected = np.asarray(world.model.qpos0, np.float32) + 0.1 * jax.random.uniform(position, (15,), minval=-1.0)
    np.testing.assert_array_equal(physics[1:16], expected)
    np.testing.assert_array_equal(physics[16:30], 0.1 * jax.random.normal(velocity, (14,)))


def test_humanoid_starts_only_in_poses_that_are_not_over_at_once():
    world = world_of("humanoid", start_pose="any")
    state = starts(world)
    assert not np.any(world.terminated(state))
    assert np.std(up(world, state)) > 0.1


def test_the_configurations_of_the_zoo_start_as_the_model_does():
    for name in entries.names():
        config = from_json(RunConfig, (entries.zoo_folder() / name / "config.json").read_text(), name)
        assert getattr(config.env, "start_pose", "model") == "model"
        assert config.sac.policy_after == 0


def test_what_cannot_be_is_refused():
    ant = get_recipe("laptop", "ant", "lsd", usual_skills("lsd"))
    with pytest.raises(UserError, match=r"env.start_pose is 'lying'; it must be one of 'model', 'any', 'mixed'"):
        with_changes(ant, ("env.start_pose=lying",))
    with pytest.raises(UserError, match=r"env.start_range is -1.0; it must be in \[0, 1e4\]"):
        with_changes(ant, ("env.start_range=-1",))
    fetch = get_recipe("laptop", "fetch-push", "lsd", usual_skills("lsd"))
    with pytest.raises(UserError, match="Fetch's arm starts as its task has it"):
        with_changes(fetch, ("env.start_pose=any",))
