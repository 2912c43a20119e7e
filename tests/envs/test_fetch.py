"""The Fetch worlds: the old reach, starts and goals, and agreement with Gymnasium-Robotics."""

import functools
import importlib.util

import jax
import mujoco
import numpy as np
import pytest

from helpers import qpos_of, qvel_of
from wanderlust.envs import make_world
from wanderlust.envs.base import WorldState
from wanderlust.envs.engines.mujoco_c import CEngine
from wanderlust.envs.mjcf import physics_of, set_physics
from wanderlust.envs.substeps import substeps
from wanderlust.envs.worlds.fetch import FetchConfig
from wanderlust.errors import UserError
from wanderlust_experiments.bench.robotics import robotics_env

WORLDS = ("fetch-push", "fetch-slide", "fetch-pick-and-place")
LIFTS = "fetch-pick-and-place"


@pytest.fixture(params=WORLDS)
def name(request):
    return request.param


@functools.cache
def world_of(name, physics="old"):
    return make_world(FetchConfig(name, 50, physics=physics))


@functools.cache
def observer(name, physics="old"):
    return jax.jit(jax.vmap(world_of(name, physics).observe))


def starts(world, count, seed=0):
    return jax.device_get(jax.vmap(world.initial)(jax.random.split(jax.random.key(seed), count)))


def random_actions(steps, worlds, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (steps, worlds, 4)).astype(np.float32)


def played(name, actions, physics="old", start=None):
    """States [steps + 1] of a batch under some actions."""
    world = world_of(name, physics)
    engine = CEngine(world, threads=1)
    states = [starts(world, actions.shape[1]) if start is None else start]
    for action in actions:
        states.append(engine.step(states[-1], action))
    return states


# --- the worlds ------------------------------------------------------------------------------------------------------


def test_sizes_groups_and_time(name):
    world = world_of(name)
    spec = world.spec
    assert (spec.obs_dim, spec.action_dim, spec.episode_length) == (25, 4, 50)
    assert (spec.bin, spec.focus, spec.raw_focus) == (0.1, "object", True)
    assert (spec.groups["agent"], spec.groups["object"], spec.groups["position"]) == ((0, 1, 2), (3, 4, 5), (3, 4))
    assert sorted({entry for group in spec.groups.values() for entry in group}) == list(range(25))
    assert world.control_seconds == pytest.approx(0.04)
    assert not world.terminated(world.initial(jax.random.key(0)))


def test_only_the_weld_and_unenforced_ranges_are_changed():
    theirs = robotics_env("fetch-push").unwrapped.model
    old, modern = world_of("fetch-push").model, world_of("fetch-push", "modern").model
    np.testing.assert_array_equal(modern.eq_data, theirs.eq_data)
    np.testing.assert_array_equal(modern.jnt_limited, theirs.jnt_limited)
    assert old.eq_data[0, 10] == pytest.approx(4.066, abs=5e-4)
    np.testing.assert_array_equal(old.eq_data[0, :10], theirs.eq_data[0, :10])
    freed = {old.joint(int(i)).name for i in np.flatnonzero(old.jnt_limited != theirs.jnt_limited)}
    arm = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex")
    assert freed == {f"robot0:{joint}_joint" for joint in ("torso_lift", "head_pan", "head_tilt", *arm)}
    for field in ("qpos0", "body_mass", "body_inertia", "dof_armature", "dof_damping", "geom_size", "geom_friction"):
        for ours in (old, modern):
            np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field), err_msg=field)
    assert old.opt.timestep == theirs.opt.timestep and old.opt.solver == theirs.opt.solver


def test_a_missing_package_is_one_line_with_the_command(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'wanderlust\[fetch\]'"):
        _ = make_world(FetchConfig("fetch-push", 7)).model


HANDS = {
    "fetch-push": (1.34787, 0.74895, 0.41364),
    "fetch-slide": (0.99570, 0.74891, 0.41269),
    "fetch-pick-and-place": (1.34193, 0.74910, 0.53472),
}


def test_episodes_start_where_the_papers_did_with_the_object_away_from_the_hand(name):
    """Its place is uniform over a square without a disc."""
    count, world = 4_000, world_of(name)
    obs = np.asarray(observer(name)(starts(world, count)))
    hand, thing, r = obs[:, :3], obs[:, 3:6], 0.1 if name == "fetch-slide" else 0.15
    np.testing.assert_allclose(hand, np.tile(HANDS[name], (count, 1)), atol=2e-4)
    away = thing[:, :2] - hand[:, :2]
    assert np.linalg.norm(away, axis=1).min() > 0.1 - 1e-4
    assert np.abs(away).max() <= r + 1e-4
    assert len(np.unique(thing[:, 0])) > 0.99 * count  # every start has a place of its own
    # Of 4,000 draws a quadrant gets a quarter, give or take 0.7%, and means are known to a few millimetres.
    assert np.mean((away > 0).all(axis=1)) == pytest.approx(0.25, abs=0.03)
    np.testing.assert_allclose(away.mean(axis=0), 0.0, atol=5 * 0.1 / np.sqrt(count))
    assert np.ptp(thing[:, 2]) == 0.0


def test_sensors_of_a_start_are_what_mujoco_reads_there(name):
    world, state = world_of(name), world_of(name).initial(jax.random.key(3))
    data = mujoco.MjData(world.model)
    set_physics(world.model, data, np.asarray(state.physics))
    mujoco.mj_forward(world.model, data)
    np.testing.assert_allclose(state.sensors, data.sensordata, atol=1e-6)


def test_fingers_open_where_they_may():
    opening = np.zeros((4, 1, 4), np.float32)
    opening[:, :, 3] = 1.0
    for name in WORLDS:
        states = played(name, opening)
        fingers = np.asarray(observer(name)(states[-1]))[0, 9:11]
        assert np.all(fingers > 0.03) if name == LIFTS else np.all(fingers == 0.0)


# --- the old reach ---------------------------------------------------------------------------------------------------


def extremes(physics):
    """Least and largest x, y and z of the grip while one entry of the action is held at -1 or 1 for 30 steps."""
    actions = np.zeros((30, 6, 4), np.float32)
    for entry in range(3):
        actions[:, 2 * entry, entry], actions[:, 2 * entry + 1, entry] = -1.0, 1.0
    seen = np.stack([observer("fetch-push", physics)(state)[:, :3] for state in played("fetch-push", actions, physics)])
    return seen.min(axis=(0, 1)), seen.max(axis=(0, 1))


def test_the_hand_reaches_as_far_as_in_the_papers_simulator():
    low, high = extremes("old")
    np.testing.assert_allclose([low[0], high[0]], [0.993, 1.548], atol=0.01)
    np.testing.assert_allclose([low[1], high[1]], [0.038, 1.448], atol=0.01)
    assert high[2] == pytest.approx(1.04, abs=0.015)


def test_the_modern_weld_lets_it_reach_farther():
    low, high = extremes("modern")
    assert low[0] < 0.75 and high[0] > 1.7


# --- Gymnasium-Robotics ----------------------------------------------------------------------------------------------


@functools.cache
def theirs_of(name):
    return robotics_env(name).unwrapped


def put(env, world, state):
    """Put their environment into a state of one world of ours, its solver cold."""
    env.data.qpos[:], env.data.qvel[:] = qpos_of(world, state), qvel_of(world, state)
    mujoco.mj_forward(env.model, env.data)
    env.data.qacc_warmstart[:] = 0.0


@functools.cache
def both(name, refreshed=False):
    """Single steps from states of our random rollouts: our states and observations, and theirs.

    `refreshed` computes their kinematics again before they observe.
    """
    env, world, actions = theirs_of(name), world_of(name, "modern"), random_actions(25, 4)
    states = played(name, actions, "modern")
    seen = [], [], [], []
    for before, after, action in zip(states, states[1:], actions, strict=False):
        observed = np.asarray(observer(name, "modern")(after))
        for k in range(4):
            put(env, world, jax.tree.map(lambda x: x[k], before))  # noqa: B023 - called at once
            obs = env.step(action[k])[0]
            if refreshed:
                mujoco.mj_forward(env.model, env.data)
                obs = env._get_obs()
            physics = np.concatenate([env.data.qpos, env.data.qvel])
            for those, this in zip(
                seen, (after.physics[k, 1:44], physics, observed[k], obs["observation"]), strict=True
            ):
                those.append(this)
    return tuple(map(np.array, seen))


def test_gymnasium_robotics_makes_the_same_step_from_the_same_state(name):
    ours, theirs, _, _ = both(name)
    assert np.ptp(theirs, axis=0).max() > 1.0
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def test_gymnasium_robotics_observes_the_same(name):
    _, _, ours, theirs = both(name, refreshed=name == LIFTS)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=2e-6)
