"""The Fetch worlds: the old reach, starts and goals, and agreement with Gymnasium-Robotics."""

import functools
import importlib.util

import jax
import mujoco
import numpy as np
import pytest

from helpers import qpos_of, qvel_of
from wanderlust.api import configure, start_run, train
from wanderlust.envs import WorldState, make_engine, make_world
from wanderlust.envs.engines.mujoco_c import CEngine
from wanderlust.envs.mjcf import set_physics
from wanderlust.envs.substeps import substeps
from wanderlust.envs.worlds.fetch import APART, FetchConfig
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.evaluation.metrics import coverage
from wanderlust.gym.vector import make_vec
from wanderlust.runs.files import ArrayFile
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


def rolled_out(name, actions, physics="old", start=None):
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
    np.testing.assert_array_equal(modern.eq_data[:, :11], theirs.eq_data[:, :11])
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
        states = rolled_out(name, opening)
        fingers = np.asarray(observer(name)(states[-1]))[0, 9:11]
        assert np.all(fingers > 0.03) if name == LIFTS else np.all(fingers == 0.0)


# --- the old reach ---------------------------------------------------------------------------------------------------


def extremes(physics):
    """Least and largest x, y and z of the grip while one entry of the action is held at -1 or 1 for 30 steps."""
    actions = np.zeros((30, 6, 4), np.float32)
    for entry in range(3):
        actions[:, 2 * entry, entry], actions[:, 2 * entry + 1, entry] = -1.0, 1.0
    start = jax.tree.map(np.array, starts(world_of("fetch-push", physics), 6))
    start.physics[:, 16:18] = start.sensors[:, 7:9] + 0.1  # the object is out of the way
    seen = np.stack([state.sensors[:, 7:10] for state in rolled_out("fetch-push", actions, physics, start)[1:]])
    return seen.min(axis=(0, 1)), seen.max(axis=(0, 1))


def test_the_hand_reaches_as_far_as_in_the_papers_simulator():
    """Within a centimetre of MuJoCo 2.3.7 with the model files of that time, in all six directions."""
    low, high = extremes("old")
    np.testing.assert_allclose(low, [0.9884, 0.0317, 0.3520], atol=0.01)
    np.testing.assert_allclose(high, [1.5484, 1.4527, 1.0447], atol=0.01)


def test_the_modern_weld_lets_it_reach_farther():
    low, high = extremes("modern")
    assert np.all(low[:2] < [0.75, -0.09]) and np.all(high > [1.74, 1.57, 1.2])


# --- Gymnasium-Robotics ----------------------------------------------------------------------------------------------

STEPS = 25


@functools.cache
def theirs_of(name):
    env = robotics_env(name).unwrapped
    env.reset(seed=0)
    return env


def put(env, world, state):
    """Put their environment into a state of one world of ours: the solver cold, the hand's pose rounded as ours is."""
    env.data.qpos[:], env.data.qvel[:] = qpos_of(world, state), qvel_of(world, state)
    mujoco.mj_forward(env.model, env.data)
    env.data.qacc_warmstart[:] = 0.0
    hand = env.model.body("robot0:gripper_link").id
    for pose in (env.data.xpos[hand], env.data.xquat[hand]):
        pose[:] = pose.astype(np.float32)


ASIDE = np.array([[0.08, 0.0], [-0.08, 0.0], [0.0, 0.08], [0.05, -0.06]])


def towards_the_object(world, actions):
    """A start of four worlds with the object beside the hand, or below it, and actions that lead there."""
    state, actions = jax.tree.map(np.array, starts(world, 4)), actions.copy()
    lifts = world.spec.name == LIFTS
    state.physics[:, 16:18] = state.sensors[:, 7:9] + (0.0 if lifts else ASIDE)
    if lifts:
        actions[:8, :, 2:] = -1.0, 1.0  # down, with open fingers, which close then
        actions[8:, :, 2:] = 0.3, -1.0
    else:
        actions[:12, :, :2] = 0.3 * actions[:12, :, :2] + 8 * ASIDE
    return state, actions


@functools.cache
def both(name):
    """Single steps from states that we come through: physics and observations, ours, theirs and theirs refreshed.

    Refreshed is what they observe once the kinematics of the state are computed.
    """
    env, world = theirs_of(name), world_of(name, "modern")
    start, actions = towards_the_object(world, random_actions(STEPS, 4))
    states = rolled_out(name, actions, "modern", start)
    found = []
    for before, after, action in zip(states, states[1:], actions, strict=False):
        observed = np.asarray(observer(name, "modern")(after))
        for k in range(4):
            put(env, world, jax.tree.map(lambda x: x[k], before))  # noqa: B023 - called at once
            obs = env.step(action[k].astype(np.float64))[0]["observation"]
            physics = np.concatenate([env.data.qpos, env.data.qvel])
            mujoco.mj_forward(env.model, env.data)
            found.append((after.physics[k, 1:44], physics, observed[k], obs, env._get_obs()["observation"]))
    return tuple(map(np.array, zip(*found, strict=True)))


def test_gymnasium_robotics_makes_the_same_step_from_the_same_state(name):
    """To the last bit of what we keep, also while the hand moves the object."""
    ours, theirs, *_ = both(name)
    assert np.all(np.ptp(ours.reshape(STEPS, 4, -1)[:, :, 15:18], axis=0).max(axis=1) > 0.01)  # it does
    np.testing.assert_array_equal(ours, theirs.astype(np.float32))


def test_gymnasium_robotics_observes_the_same_of_the_same_kinematics(name):
    _, _, ours, theirs, refreshed = both(name)
    np.testing.assert_allclose(ours, refreshed, rtol=2e-6, atol=1e-6)
    if name != LIFTS:
        np.testing.assert_array_equal(theirs, refreshed)


def test_gymnasium_robotics_observes_pick_and_place_of_the_substep_before():
    """Places lag by 2 ms of motion; joint angles and velocities, which need no kinematics, do not."""
    _, _, _, theirs, refreshed = both(LIFTS)
    lag = np.abs(theirs - refreshed)
    groups = world_of(LIFTS).spec.groups
    moved = 0.002 / 0.04 * np.abs(refreshed[:, list(groups["agent_velocity"])])
    np.testing.assert_allclose(lag[:, list(groups["agent"])], moved, atol=3e-4)
    assert lag[:, list(groups["agent"])].max() > 1e-3 and lag[:, list(groups["agent_velocity"])].max() > 1e-5
    assert lag[:, list(groups["fingers"] + groups["finger_velocities"])].max() == 0.0


def test_whole_episodes_of_gymnasium_robotics_stay_with_ours(name):
    """Only rounding and its warm solver part them: 7e-6 m in 50 steps. A puck that was hit goes its own way after 4.

    FetchPickAndPlace is refreshed before every step: else its mocap body is put where the hand was 2 ms ago, and the
    hands are 3 mm apart at once.
    """
    env, world = theirs_of(name), world_of(name, "modern")
    start, actions = towards_the_object(world, random_actions(50, 4))
    states = rolled_out(name, actions, "modern", start)
    ours = np.stack([np.asarray(observer(name, "modern")(state)) for state in states[1:]])
    theirs = np.zeros_like(ours)
    for k in range(4):
        put(env, world, jax.tree.map(lambda x: x[k], states[0]))  # noqa: B023 - called at once
        for t, action in enumerate(actions[:, k].astype(np.float64)):
            env.step(action)
            if name == LIFTS:
                mujoco.mj_forward(env.model, env.data)
            theirs[t, k] = env._get_obs()["observation"]
    apart = np.abs(ours - theirs)
    together = 4 if name == "fetch-slide" else 50
    np.testing.assert_array_less(apart[:together, :, :6], 1e-3 if name == "fetch-slide" else 5e-5)
    np.testing.assert_array_less(apart[:, :, :3], 1e-3)


# --- the engines -----------------------------------------------------------------------------------------------------


def test_the_leaner_model_of_c_makes_the_same_step_to_the_last_bit(name):
    world = world_of(name)
    lean, plain = CEngine(world, 2), CEngine(world, 1)
    plain._model = world.model
    assert world.model_for_c.nbody < world.model.nbody
    start, actions = towards_the_object(world, random_actions(30, 4))
    actions[15:] = np.sign(actions[:1])  # as far as the arm goes
    state = other = start
    for action in actions:
        state, other = lean.step(state, action), plain.step(other, action)
        np.testing.assert_array_equal(state.physics, other.physics)
        np.testing.assert_array_equal(state.sensors, other.sensors)


def test_links_that_are_not_compared_cannot_touch():
    """Whatever their joints' angles, up to half a radian beyond the ranges."""
    model = world_of("fetch-push").model
    data, random = mujoco.MjData(model), np.random.default_rng(0)
    hinges = [j for j in range(model.njnt) if model.jnt_type[j] == mujoco.mjtJoint.mjJNT_HINGE]
    pairs = [[model.body(f"robot0:{link}_link").geomadr[0] for link in pair] for pair in APART]
    for _ in range(100):
        for j in hinges:
            low, high = model.jnt_range[j] + (-0.5, 0.5) if np.any(model.jnt_range[j]) else (-np.pi, np.pi)
            data.qpos[model.jnt_qposadr[j]] = random.uniform(low, high)
        mujoco.mj_kinematics(model, data)
        assert all(mujoco.mj_geomDistance(model, data, *pair, 1.0, None) > 0.01 for pair in pairs)


def test_replaying_a_step_makes_the_step_of_the_engine(name):
    world, actions = world_of(name), random_actions(3, 1)
    states = rolled_out(name, actions)
    seen = substeps(world, WorldState(states[-2].physics[0], np.zeros(0)), actions[-1, 0])
    assert len(seen) == 20 and all(step.finite for step in seen)
    assert seen[-1].speed == pytest.approx(np.abs(qvel_of(world, states[-1])).max(), rel=1e-3)


def test_a_step_depends_on_nothing_but_its_own_state_and_action():
    world, actions = world_of(LIFTS), random_actions(1, 4)[0]
    engine, state = CEngine(world, 2), rolled_out(LIFTS, random_actions(5, 4, 1))[-1]
    once = engine.step(state, actions)
    engine.step(rolled_out(LIFTS, random_actions(2, 4, 2))[-1], -actions)
    turned = engine.step(jax.tree.map(lambda x: x[::-1], state), actions[::-1])
    for one, other in zip(once, turned, strict=True):
        np.testing.assert_array_equal(one, other[::-1])
    poses = once.physics[:, -7:-4] - state.sensors[:, :3]
    np.testing.assert_allclose(poses, 0.05 * actions[:, :3], atol=1e-6)  # where the mocap body was put


@pytest.mark.gpu
@pytest.mark.skipif(
    "jax.default_backend() == 'cpu'", reason="needs a GPU: WANDERLUST_TEST_PLATFORMS=cuda,cpu pytest -m gpu"
)
def test_warp_moves_the_hand_and_the_object_as_c_does(name):
    """Within a millimetre a step; arms that touch themselves bounce differently."""
    world = world_of(name)
    engine = make_engine(world, "warp")
    start, actions = towards_the_object(world, random_actions(8, 4))
    states, step = rolled_out(name, actions, "old", start), jax.jit(engine.step)
    apart = []
    for before, after, action in zip(states, states[1:], actions, strict=False):
        on_warp = jax.device_get(step(before, action))
        apart.append(
            [
                np.abs(on_warp.sensors[:, 7:10] - after.sensors[:, 7:10]).max(),
                np.abs((on_warp.physics - after.physics)[:, 16:19]).max(),
            ]
        )
        np.testing.assert_allclose(on_warp.physics[:, -7:], after.physics[:, -7:], atol=1e-5)
    engine.check()
    assert np.median(apart, axis=0).max() < 1e-3 and np.max(apart) < 0.01


# --- use -------------------------------------------------------------------------------------------------------------


def test_a_run_counts_bins_of_ten_centimetres(tmp_path):
    small = ("schedule.epochs=1", "schedule.worlds=2", "schedule.steps=5", "schedule.sac_steps=1")
    small += ("schedule.method_steps=1", "schedule.sac_batch=8", "schedule.method_batch=8", "env.episode_length=5")
    small += (
        "sac.hidden=[8]",
        "method.hidden=[8]",
        "schedule.replay_collections=2",
        "log_every=1",
        "checkpoint_every=1",
    )
    run = start_run(configure("fetch-push", set=small), tmp_path / "run")
    train(run, quiet=True)
    (row,) = run.metrics()
    found = evaluate(run, episodes=20)["metrics"]["coverage_mode"]["per_seed"]
    position = ArrayFile(run.evaluation / "rollouts.safetensors").read("position")
    assert 5 < found[0] == coverage(position[0], 0.1) <= 16  # the object is not touched in five steps
    assert row["coverage"][0] > 8
    assert coverage(position[0]) <= 4


def test_they_are_vector_environments():
    name = LIFTS
    envs = make_vec(name, 3, threads=1, episode_length=2)
    assert (envs.single_observation_space.shape, envs.single_action_space.shape) == ((25,), (4,))
    first = envs.reset(seed=1)[0]
    np.testing.assert_allclose(first[:, :3], np.tile(HANDS[name], (3, 1)), atol=2e-4)
    for action in random_actions(2, 3):
        obs, _, terminated, truncated, _ = envs.step(action)
    assert truncated.all() and not terminated.any() and np.all(np.isfinite(obs))
