"""Downstream tasks rule by rule, the episodes they make with a world, and the same as Gymnasium environments.

`test_goals.py` has the rules of PointEnv's goal tasks, which those of the bodies share.
"""

import functools
import math

import gymnasium
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import wanderlust  # noqa: F401 - registers the tasks
from helpers import qpos_of
from wanderlust import catalogue
from wanderlust.downstream import episodes
from wanderlust.downstream.tasks import TASKS, GoalState, make_task
from wanderlust.downstream.tasks.hurdles import BARS, back_foot_x
from wanderlust.downstream.tasks.turns import heading
from wanderlust.envs import make_engine, make_world
from wanderlust.envs.mjcf import muted
from wanderlust.envs.worlds.body import BodyConfig
from wanderlust.envs.worlds.point import PointConfig
from wanderlust.errors import UserError
from wanderlust.gym.base import episode_key
from wanderlust.gym.registration import gym_id
from wanderlust.gym.tasks import TaskEnv, TaskVectorEnv
from wanderlust.gym.vector import make_vec
from wanderlust.registry import WORLDS

KEY = jax.random.key(0)
FETCHES = ("fetch-push", "fetch-slide", "fetch-pick-and-place")
SIZES = {"ant": 29, "half-cheetah": 18, "humanoid": 47, "point": 2, **dict.fromkeys(FETCHES, 25)}


@functools.cache
def program(name):
    """A task's step, compiled once for all tests."""
    return jax.jit(TASKS[name].step)


def step(name, state, obs, age=2):
    """The state after control step number `age`, the reward, and how the episode ends: "done", "time" or not."""
    state, score = program(name)(state, jnp.asarray(obs, jnp.float32), jnp.int32(age), KEY)
    assert not (score.terminated and score.truncated)
    return state, float(score.reward), "done" if score.terminated else "time" if score.truncated else None


# --- names and numbers -----------------------------------------------------------------------------------------------


def test_the_paper_s_numbers():
    """Goals, slot Y, range g, radius, reward r; X Y is the length of an episode."""
    rows = {
        "ant-goal": (1, 200, 50, 3, 10),
        "ant-multi-goals": (4, 50, 15, 3, 2.5),
        "humanoid-goal": (1, 1000, 20, 3, 10),
        "humanoid-multi-goals": (4, 250, 7.5, 3, 2.5),
        "fetch-push-goal": (1, 50, 0.15, 0.05, 1),
        "fetch-slide-goal": (1, 50, 0.3, 0.05, 1),
        "fetch-pick-and-place-goal": (1, 50, 0.15, 0.05, 1),
        "point-goal": (1, 100, 10, 3, 1),
        "point-multi-goals": (4, 100, 10, 3, 1),
    }
    for name, row in rows.items():
        task = TASKS[name]
        assert (task.goals, task.slot, task.goal_range, task.radius, task.reward) == row
    turns = {"ant-rotation": (0.05, 10, 200), "ant-quaternion": (0.3, 10, 200)}
    for name, row in turns.items():
        assert (TASKS[name].threshold, TASKS[name].reward, TASKS[name].horizon) == row
    assert (TASKS["cheetah-hurdle"].reward, TASKS["cheetah-hurdle"].horizon) == (1, 200)
    assert BARS == (-15, -13, -9, -5, -1, 3, 7, 11, 15, 19, 23, 27)
    assert set(TASKS) == {*rows, *turns, "cheetah-hurdle"}


@pytest.mark.parametrize("name", TASKS)
def test_a_task_and_its_world_fit(name):
    task = TASKS[name]
    assert task.name == name
    if task.env != "point":
        assert task.horizon == WORLDS.get(task.env).episode_length
    obs = jnp.zeros(SIZES[task.env]).at[3 % SIZES[task.env]].set(1.0)
    state = jax.eval_shape(task.begin, obs, KEY)
    assert jax.eval_shape(task.observe, state, obs).shape == (task.entries,)
    after, score = jax.eval_shape(task.step, state, obs, jnp.int32(1), KEY)
    assert after == state  # so that a compiled program can carry it
    assert [(x.shape, x.dtype) for x in score] == [((), jnp.float32), ((), bool), ((), bool)]


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("ant-goal", 10.0),
        ("ant-multi-goals", 10.0),
        ("humanoid-multi-goals", 10.0),
        ("cheetah-hurdle", 7.0),
        ("ant-rotation", 10.0),
        ("point-multi-goals", 4.0),
    ],
)
def test_the_most_an_episode_can_earn(name, most):
    assert make_task(name).most == most  # of the bars, those at x >= 0 pay: 3, 7, ..., 27


def test_names_of_gymnasium():
    assert {"wanderlust/AntMultiGoals-v0", "wanderlust/CheetahHurdle-v0"} < set(map(gym_id, TASKS))
    assert all(gym_id(name) in gymnasium.registry for name in TASKS)
    said = {name: (task.env, task.horizon) for name, task in TASKS.items()}
    assert said == catalogue.TASKS  # what is listed, and what Gymnasium is told, before the tasks are there


def test_numbers_of_one_s_own():
    task = make_task("ant-multi-goals", radius=1, slot=10.0)
    assert (task.radius, task.slot, task.horizon, task.goal_range) == (1.0, 10, 40, 15)
    assert isinstance(task.slot, int) and isinstance(task.radius, float)
    assert gymnasium.make("wanderlust/PointGoal-v0", goal_range=40.0).unwrapped.task.goal_range == 40


@pytest.mark.parametrize(
    ("name", "changes", "complaint"),
    [
        ("ant-gaol", {}, "there is no task 'ant-gaol' (did you mean ant-goal?); known: ant-goal, ant-multi-goals"),
        ("ant-goal", {"rewards": 1.0}, "ant-goal has no 'rewards' to change; it has goals, slot, goal_range, radius"),
        ("ant-goal", {"env": "point"}, "has no 'env' to change"),
        ("ant-goal", {"slot": 2.5}, "slot is 2.5; it must be a positive whole number"),
        ("ant-goal", {"radius": 0.0}, "radius is 0.0; it must be a positive finite number"),
        ("ant-rotation", {"threshold": math.nan}, "threshold is nan"),
        ("ant-rotation", {"reward": "10"}, "reward is '10'"),
    ],
)
def test_tasks_that_cannot_be_are_refused_in_one_line(name, changes, complaint):
    with pytest.raises(UserError) as refused:
        make_task(name, **changes)
    assert complaint in str(refused.value) and "\n" not in str(refused.value)


# --- goals -----------------------------------------------------------------------------------------------------------


def standing(x, y, env="ant"):
    """An observation whose other entries would be far from any goal."""
    obs = np.full(SIZES[env], 500.0)
    obs[:2] = x, y
    return obs


def goal_at(x, y, clock):
    return GoalState(jnp.array([x, y], jnp.float32), jnp.int32(clock))


@pytest.mark.parametrize("name", ["ant-goal", "humanoid-goal"])
def test_a_single_goal(name):
    task = TASKS[name]
    begin = jax.jit(jax.vmap(task.begin))
    drawn = begin(jnp.tile(standing(100.0, 100.0, task.env), (4000, 1)), jax.random.split(KEY, 4000))
    assert 0.99 * task.goal_range < np.abs(drawn.goal).max() <= task.goal_range  # around the origin, not the body
    assert np.all(np.abs(np.mean(drawn.goal, axis=0)) < 0.05 * task.goal_range)
    np.testing.assert_array_equal(task.observe(drawn, None), drawn.goal)  # absolute

    here, edge, beyond = (standing(d, 0.0, task.env) for d in (0.0, 3.0, 3.001))
    assert step(name, goal_at(0, 0, 7), edge)[1:] == (10.0, "done")
    state, reward, end = step(name, goal_at(0, 0, 7), beyond)
    assert (reward, end, int(state.clock)) == (0.0, None, 8)
    state, reward, end = step(name, goal_at(0, 0, 0), here, age=1)
    assert (reward, end) == (0.0, None)  # never in the first step
    assert step(name, state, here)[1:] == (10.0, "done")  # but in the second
    assert step(name, goal_at(0, 0, task.horizon - 1), here)[1:] == (10.0, "done")
    state, reward, end = step(name, goal_at(0, 0, task.horizon - 1), beyond)
    assert (reward, end) == (0.0, "time")
    np.testing.assert_array_equal(state.goal, (0, 0))  # what is seen last is the goal that was missed


@pytest.mark.parametrize(("name", "slot", "reach"), [("ant-multi-goals", 50, 15), ("humanoid-multi-goals", 250, 7.5)])
def test_several_goals(name, slot, reach):
    task = TASKS[name]
    begin = jax.jit(jax.vmap(task.begin))
    drawn = begin(jnp.tile(standing(100.0, 0.0, task.env), (4000, 1)), jax.random.split(KEY, 4000))
    away = np.asarray(drawn.goal) - (100, 0)
    assert 0.99 * reach < np.abs(away).max() <= reach

    near, far = standing(2.0, -2.0, task.env), standing(90.0, 0.0, task.env)
    state, reward, end = step(name, goal_at(0, 0, 3), near)  # early in the first slot: the rest of it is gone
    assert (reward, end, int(state.clock)) == (2.5, None, slot)
    assert np.all(np.abs(np.asarray(state.goal) - (2, -2)) <= reach) and np.any(state.goal != 0)
    state, reward, end = step(name, goal_at(0, 0, slot - 1), near)  # in its last step
    assert (reward, end, int(state.clock)) == (2.5, None, slot)
    state, reward, end = step(name, goal_at(0, 0, slot), near)  # in the first step of the second
    assert (reward, end, int(state.clock)) == (2.5, None, 2 * slot)

    state, reward, end = step(name, goal_at(0, 0, slot - 2), far)
    assert (reward, end, int(state.clock), state.goal.tolist()) == (0.0, None, slot - 1, [0, 0])
    state, reward, end = step(name, state, far)  # missed: another goal, around where the body now is
    assert (reward, end, int(state.clock)) == (0.0, None, slot)
    assert np.all(np.abs(np.asarray(state.goal) - (90, 0)) <= reach)

    assert step(name, goal_at(0, 0, 3 * slot + 1), near)[1:] == (2.5, "done")
    state, reward, end = step(name, goal_at(0, 0, 4 * slot - 1), far)
    assert (reward, end, state.goal.tolist()) == (0.0, "time", [0, 0])


# --- turns -----------------------------------------------------------------------------------------------------------


def turned(axis, angle):
    axis = np.asarray(axis, float) / np.linalg.norm(axis)
    return np.array([math.cos(angle / 2), *(math.sin(angle / 2) * axis)])


def times(one, other):
    result = np.zeros(4)
    mujoco.mju_mulQuat(result, np.asarray(one, float), np.asarray(other, float))
    return result


def facing(quaternion):
    """An observation of Ant's."""
    obs = np.full(29, 500.0)
    obs[3:7] = quaternion
    return obs


def turn_to(target):
    return jnp.asarray(target, jnp.float32)


def test_heading_is_the_rotation_about_z():
    look = jax.jit(heading)
    for yaw in (0.0, 0.3, 2.0, -3.0):
        there = [math.cos(yaw), math.sin(yaw)]
        upright = turned((0, 0, 1), yaw)
        tilted = times(upright, turned((0, 1, 0), 0.8))  # nose down, then turned
        for quaternion in (upright, -upright, 1.2 * upright, tilted):
            np.testing.assert_allclose(look(jnp.asarray(quaternion, jnp.float32)), there, atol=1e-6)
    nose_up = turned((0, 1, 0), -math.pi / 2)
    assert np.all(np.isfinite(look(jnp.asarray(nose_up, jnp.float32))))


@pytest.mark.parametrize(
    ("target", "yaw", "pays"),
    [
        (0.0, 0.0, True),
        (1.0, 1.0499, True),  # a chord of 0.0499
        (1.0, 1.0502, False),
        (1.0, 0.9501, True),
        (math.pi - 0.01, -math.pi + 0.01, True),  # across the wrap
        (math.pi - 0.03, -math.pi + 0.03, False),
        (0.5, 0.5 - math.pi, False),
    ],
)
def test_rotation_pays_near_the_heading(target, yaw, pays):
    state, reward, end = step(
        "ant-rotation", turn_to([math.cos(target), math.sin(target)]), facing(turned((0, 0, 1), yaw))
    )
    assert (reward, end) == ((10.0, "done") if pays else (0.0, None))
    np.testing.assert_allclose(state, [math.cos(target), math.sin(target)], atol=1e-6)  # never redrawn


REACH = 2 * math.degrees(math.asin(math.sqrt(0.3)))
"""1 - <q1, q2>^2 is the squared sine of half the angle between two rotations: 66.4 degrees."""


@pytest.mark.parametrize(("degrees", "pays"), [(0, True), (REACH - 0.1, True), (REACH + 0.1, False), (180, False)])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("length", [1.0, 1.1])
def test_quaternion_pays_within_66_degrees_whatever_the_sign(degrees, pays, sign, length):
    target = turned((1, 2, -1), 2.5)
    there = sign * length * times(target, turned((0.3, -1, 0.2), math.radians(degrees)))
    assert step("ant-quaternion", turn_to(target), facing(there))[1:] == ((10.0, "done") if pays else (0.0, None))


@pytest.mark.parametrize(("name", "target"), [("ant-rotation", [1, 0]), ("ant-quaternion", [1, 0, 0, 0])])
def test_turns_are_not_paid_at_once_and_end_in_time(name, target):
    here, away = facing(turned((0, 0, 1), 0.0)), facing(turned((0, 0, 1), math.pi / 2))
    state, reward, end = step(name, turn_to(target), here, age=1)
    assert (reward, end) == (0.0, None)
    assert step(name, state, here)[1:] == (10.0, "done")
    assert step(name, turn_to(target), away, age=199)[1:] == (0.0, None)
    assert step(name, turn_to(target), away, age=200)[1:] == (0.0, "time")
    assert step(name, turn_to(target), here, age=200)[1:] == (10.0, "done")


def test_targets_of_turns_are_uniform():
    keys = jax.random.split(KEY, 20_000)
    points = np.asarray(jax.jit(jax.vmap(TASKS["ant-rotation"].draw))(keys))
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-5)
    share = np.histogram(np.arctan2(points[:, 1], points[:, 0]), bins=8, range=(-np.pi, np.pi))[0] / len(points)
    np.testing.assert_allclose(share, 1 / 8, atol=0.012)  # five standard deviations

    turns = np.asarray(jax.jit(jax.vmap(TASKS["ant-quaternion"].draw))(keys))
    np.testing.assert_allclose(np.linalg.norm(turns, axis=1), 1, atol=1e-5)
    assert np.all(turns[:, 0] >= 0)
    angle = 2 * np.arccos(np.clip(turns[:, 0], 0, 1))
    for limit in (math.radians(REACH), 2.0, 3.0):  # of uniform rotations (a - sin a) / pi are within the angle a
        assert np.mean(angle < limit) == pytest.approx((limit - math.sin(limit)) / math.pi, abs=0.018)
    np.testing.assert_allclose(turns[:, 1:].mean(axis=0), 0, atol=0.02)


# --- hurdles ---------------------------------------------------------------------------------------------------------

HURDLES = TASKS["cheetah-hurdle"].arrange(make_world(BodyConfig("half-cheetah")))
FOOT = -0.62
"""Where the back foot is, seen from a torso that is level with its joints at zero."""


def foot_at(x):
    """An observation, and behind it what the sensor reads."""
    return np.array([*np.full(18, 500.0), x, 500.0, 500.0])


def test_the_back_foot_is_where_mujoco_has_it():
    """At the start of an episode and after a step."""
    model = make_world(BodyConfig("half-cheetah")).model
    data, place = mujoco.MjData(model), jax.jit(jax.vmap(lambda state: back_foot_x(HURDLES.measure(state))))
    begun = jax.device_get(jax.vmap(HURDLES.initial)(jax.random.split(KEY, 8)))
    action = np.random.default_rng(0).uniform(-1, 1, (8, 6)).astype(np.float32)
    for state in (begun, make_engine(HURDLES, "c", threads=1).step(begun, action)):
        expected = []
        for qpos in qpos_of(HURDLES, state):
            data.qpos[:] = qpos
            mujoco.mj_kinematics(model, data)
            expected.append(data.body("bfoot").xpos[0])
        np.testing.assert_allclose(place(state), expected, atol=1e-5)
    assert np.mean(place(begun)) == pytest.approx(FOOT, abs=0.2)


@pytest.mark.parametrize(
    ("before", "after", "pays"),
    [
        (2.9, 3.1, 1),
        (3.1, 2.9, -1),  # passed back
        (2.9, 2.99, 0),
        (2.9, 11.1, 3),  # three at once
        (-1.2, -0.8, 0),  # behind the start nothing counts
        (26.9, 27.5, 1),
        (27.5, 60.0, 0),
    ],
)
def test_passing_bars_pays(before, after, pays):
    task = TASKS["cheetah-hurdle"]
    state = jax.jit(task.begin)(jnp.asarray(foot_at(before), jnp.float32), KEY)
    state, reward, end = step("cheetah-hurdle", state, foot_at(after))
    assert (reward, end) == (pays, None)
    assert step("cheetah-hurdle", state, foot_at(after))[1] == 0  # once


def test_a_run_over_all_bars():
    task = TASKS["cheetah-hurdle"]
    state = jax.jit(task.begin)(jnp.asarray(foot_at(FOOT), jnp.float32), KEY)
    assert int(state) == 7
    total, end, steps = 0.0, None, 0
    while end is None:
        steps += 1
        state, reward, end = step("cheetah-hurdle", state, foot_at(FOOT + 0.2 * steps), age=steps)
        total += reward
    assert (total, end, steps) == (7.0, "time", 200)


@pytest.mark.parametrize(
    ("foot", "following"), [(-0.6, 3), (2.9, 3), (3.1, 7), (26.5, 27), (27.5, 15), (-2.0, -1), (-40.0, -15)]
)
def test_the_next_bar_is_observed(foot, following):
    seen = jax.jit(TASKS["cheetah-hurdle"].observe)(jnp.int32(0), jnp.asarray(foot_at(foot), jnp.float32))
    np.testing.assert_allclose(seen, [following, abs(following - foot)], atol=1e-5)


def test_bars_are_laid_into_the_model_and_change_nothing_else():
    plain = make_world(BodyConfig("half-cheetah")).model
    model = HURDLES.model
    assert HURDLES.model_for_c.ngeom == model.ngeom == plain.ngeom + 12
    for name in ("body_mass", "body_inertia", "body_pos", "actuator_gear", "dof_damping", "qpos0"):
        np.testing.assert_array_equal(getattr(model, name), getattr(plain, name))
    bars = [k for k in range(model.ngeom) if model.geom_type[k] == mujoco.mjtGeom.mjGEOM_BOX]
    np.testing.assert_array_equal(model.geom_pos[bars], [(x, 0, 0.2) for x in BARS])
    np.testing.assert_array_equal(model.geom_size[bars], [(0.05, 1, 0.03)] * 12)
    floor = model.geom("floor").id
    for name in ("geom_friction", "geom_solref", "geom_solimp", "geom_condim", "geom_conaffinity", "geom_contype"):
        np.testing.assert_array_equal(getattr(model, name)[bars], [getattr(model, name)[floor]] * 12)

    data = mujoco.MjData(model)
    for x, touches in ((0.0, False), (2.5, True)):  # of 2.5, the front leg hangs over the bar at 3
        mujoco.mj_resetData(model, data)
        data.qpos[:2] = x, -0.05
        mujoco.mj_forward(model, data)
        assert any(model.geom_type[k] == mujoco.mjtGeom.mjGEOM_BOX for c in data.contact for k in c.geom) is touches


def test_warp_has_room_for_bodies_that_tumble_among_bars():
    """1,200 rollouts of 300 physics steps, counted after 50, had 8 contacts and 32 rows at most; here are fewer."""
    model, random = HURDLES.model, np.random.default_rng(0)
    data, limited, contacts, rows = mujoco.MjData(model), model.jnt_limited > 0, 0, 0
    with muted():
        for i in range(60):
            mujoco.mj_resetData(model, data)
            data.qpos[model.jnt_qposadr[limited]] = random.uniform(*model.jnt_range[limited].T)
            data.qpos[:3] = random.uniform([-1.2, -0.4, -np.pi], [1.2, 0.5, np.pi])
            data.qpos[0] += random.choice([-14, 3])  # between the two that are close together, or at one
            data.qvel[:] = random.normal(size=model.nv) * random.choice([0.1, 2.0, 5.0])
            held = np.sign(random.uniform(-1, 1, model.nu))
            for t in range(150):
                if t % 5 == 0:
                    action = random.uniform(-1, 1, model.nu)
                    data.ctrl[:] = (action, np.sign(action), held, 0 * action)[i % 4]
                mujoco.mj_step(model, data)
                if t >= 50:
                    contacts, rows = max(contacts, data.ncon), max(rows, data.nefc)
    assert 3 <= contacts <= 8 and 12 <= rows <= 32
    assert HURDLES.capacity.contacts >= 1.5 * 8 and HURDLES.capacity.rows >= 1.5 * 32


# --- episodes --------------------------------------------------------------------------------------------------------


def test_a_fall_ends_an_episode_and_takes_no_reward_away():
    world, task = make_world(BodyConfig("humanoid")), TASKS["humanoid-goal"]
    begun = jax.jit(lambda: episodes.begin(world, task, KEY))()._replace(age=jnp.int32(1))
    task_state = begun.task._replace(goal=jnp.zeros(2))
    advance = jax.jit(lambda e, after: episodes.advance(world, task, e, after))
    for height, away, expected in (
        (1.4, 9.0, (0, False, False, False)),
        (0.9, 9.0, (0, True, False, True)),
        (0.9, 0.0, (10, True, False, True)),
        (1.4, 0.0, (10, True, False, False)),
    ):
        after = begun.body._replace(physics=begun.body.physics.at[1].set(away).at[3].set(height))
        episode, outcome = advance(begun._replace(task=task_state), after)
        assert (outcome.reward, outcome.terminated, outcome.truncated, outcome.fell) == expected
        assert not outcome.broken and int(episode.age) == 2
    last = begun._replace(task=task_state._replace(clock=jnp.int32(999)))
    fallen = begun.body._replace(physics=begun.body.physics.at[1].set(9.0).at[3].set(0.5))
    assert advance(last, fallen)[1][1:4] == (True, False, True)  # a fall in the last step is a fall


def test_a_breakdown_truncates_where_numbers_end():
    world, task = make_world(BodyConfig("ant")), TASKS["ant-goal"]
    begun = jax.jit(lambda: episodes.begin(world, task, KEY))()
    begun = begun._replace(task=begun.task._replace(goal=begun.body.physics[1:3]), age=jnp.int32(1))
    after = begun.body._replace(physics=begun.body.physics.at[-11].set(jnp.nan))
    episode, outcome = jax.jit(lambda: episodes.advance(world, task, begun, after))()
    assert (outcome.reward, outcome.terminated, outcome.truncated, outcome.fell) == (0, False, True, False)
    assert outcome.broken
    jax.tree.map(np.testing.assert_array_equal, episode._replace(key=()), begun._replace(key=()))


def test_every_draw_of_an_episode_is_its_own():
    """The start of the body, its first goal and its later goals are drawn from keys of their own."""
    world, task = make_world(PointConfig(start_range=3.0)), make_task("point-multi-goals", slot=1, radius=1e-6)
    begun = jax.jit(lambda: episodes.begin(world, task, KEY))()
    drawn = [begun.body.physics / 3, (begun.task.goal - begun.body.physics) / 10]
    episode = begun
    for _ in range(3):
        episode, _ = jax.jit(lambda e: episodes.advance(world, task, e, begun.body))(episode)
        drawn.append((episode.task.goal - begun.body.physics) / 10)
    apart = [np.abs(a - b).max() for i, a in enumerate(drawn) for b in drawn[:i]]
    assert min(apart) > 0.01 and np.abs(drawn).max() <= 1
    np.testing.assert_array_equal(begun.body.physics, world.initial(KEY).physics)


# --- Gymnasium -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ant-multi-goals", "ant-quaternion", "cheetah-hurdle", "humanoid-goal", "point-goal"])
def test_gymnasium_has_nothing_to_complain_about(name):
    env = gymnasium.make(gym_id(name)).unwrapped
    task = TASKS[name]
    assert env.observation_space.shape == (SIZES[task.env] + task.entries,)
    assert np.all(env.action_space.high == 1) and np.all(env.action_space.low == -1)
    check_env(env)  # warnings are errors here


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.sb3
def test_nor_has_stable_baselines(name):
    checker = pytest.importorskip(
        "stable_baselines3.common.env_checker", reason="needs Stable-Baselines3: make test-sb3"
    )
    checker.check_env(gymnasium.make(gym_id(name)), warn=True)


@pytest.mark.parametrize("name", ["ant-multi-goals", "cheetah-hurdle", "point-multi-goals"])
def test_environments_play_what_the_pure_functions_say(name):
    """The single environment, world k of the vector one, and begin and advance around an engine by hand."""
    task = TASKS[name] if name == "cheetah-hurdle" else make_task(name, slot=3, radius=8.0)
    changes = {} if name == "cheetah-hurdle" else {"slot": 3, "radius": 8.0}
    world = task.arrange(make_world(PointConfig() if task.env == "point" else BodyConfig(task.env)))
    engine = make_engine(world)
    move = jax.jit(engine.step) if engine.compiles else engine.step
    many, alone = TaskVectorEnv(name, 3, threads=2, **changes), TaskEnv(name, **changes)
    look = jax.jit(jax.vmap(lambda e: episodes.observe(world, task, e)))
    advance = jax.jit(jax.vmap(lambda e, after: episodes.advance(world, task, e, after)))
    seeds = jnp.arange(5, 8, dtype=jnp.uint32)
    by_hand = jax.jit(jax.vmap(lambda s: episodes.begin(world, task, episode_key(s, 0, 0))))(seeds)

    np.testing.assert_array_equal(many.reset(seed=5)[0], look(by_hand))
    np.testing.assert_array_equal(alone.reset(seed=7)[0], np.asarray(look(by_hand))[2])
    random, ended, paid = np.random.default_rng(0), np.zeros(3, bool), 0.0
    for _ in range(12):
        action = random.uniform(-1, 1, many.action_space.shape).astype(np.float32)
        by_hand, outcome = advance(by_hand, move(jax.device_get(by_hand.body), action))
        expected, outcome = jax.device_get((look(by_hand), outcome))
        obs, reward, terminated, truncated, infos = many.step(action)
        assert obs.dtype == np.float32 and reward.dtype == np.float64
        for k in np.flatnonzero(~ended):
            np.testing.assert_array_equal(obs[k], expected[k])
            assert (reward[k], terminated[k], truncated[k]) == tuple(x[k] for x in outcome[:3])
            assert infos["_steps"][k] and infos["steps"][k] == 1 and not infos["fell"][k]
        if not ended[2]:
            one = alone.step(action[2])
            np.testing.assert_array_equal(one[0], obs[2])
            assert one[1:4] == (reward[2], terminated[2], truncated[2])
            assert one[4] == {"steps": 1, "fell": False, "broken": False}
        paid += reward[~ended].sum()
        ended |= terminated | truncated
    assert ended.all() == (name != "cheetah-hurdle")
    assert (paid > 0) == (name != "cheetah-hurdle")


def test_bodies_start_as_those_of_make_vec():
    task = TaskVectorEnv("ant-rotation", 4, threads=1)
    np.testing.assert_array_equal(task.reset(seed=3)[0][:, :29], make_vec("ant", 4, threads=1).reset(seed=3)[0])
    assert task.metadata["render_fps"] == 20
    assert task.reset(seed=3)[0] in task.observation_space


def test_episodes_follow_each_other():
    env = TaskEnv("point-goal", slot=2, radius=1e-3)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(2, np.float32))
    first, second = env.reset(seed=1)[0], env.reset()[0]
    assert not np.array_equal(first, second)  # another goal
    np.testing.assert_array_equal(env.reset(seed=1)[0], first)
    np.testing.assert_array_equal(env.reset()[0], second)
    assert env.step(np.zeros(2, np.float32))[2:4] == (False, False)
    assert env.step(np.zeros(2, np.float32))[2:4] == (False, True)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(2, np.float32))
    with pytest.raises(UserError, match="unknown option 'goal'; there are none"):
        env.reset(options={"goal": 1})
    env.close()
    env.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        env.reset()


def test_gymnasium_makes_the_vector_form():
    envs = gymnasium.make_vec(
        "wanderlust/AntGoal-v0", num_envs=2, vectorization_mode="vector_entry_point", radius=4.0
    ).unwrapped
    assert isinstance(envs, TaskVectorEnv) and envs.num_envs == 2 and envs.task.radius == 4


# --- compiled --------------------------------------------------------------------------------------------------------


def test_a_compiled_program_plays_what_the_environments_play():
    """PointEnv: `hold` in one program, beside as many steps of the environment."""
    name, changes, count = "point-multi-goals", {"slot": 4, "radius": 8.0}, 10
    task = make_task(name, **changes)
    world = task.arrange(make_world(PointConfig()))
    engine = make_engine(world)

    @jax.jit
    def play(seeds, action):
        begun = jax.vmap(lambda s: episodes.begin(world, task, episode_key(s, 0, 0)))(seeds)
        start = episodes.begin_option(begun, seeds != 2)  # the third waits
        step = lambda _, now: episodes.step_option(world, task, now, engine.step(now.episode.body, action))  # noqa: E731
        return start, jax.lax.fori_loop(0, 9, step, start)

    action = np.random.default_rng(0).uniform(-1, 1, (count, 2)).astype(np.float32)
    start, end = jax.device_get(play(jnp.arange(count, dtype=jnp.uint32), action))
    seen = jax.device_get(jax.jit(jax.vmap(lambda e: episodes.observe(world, task, e)))(end.episode))
    envs = TaskVectorEnv(name, count, **changes)
    envs.reset(seed=0)
    total, running, steps = np.zeros(count), np.arange(count) != 2, np.zeros(count, int)
    for _ in range(9):
        obs, reward, terminated, truncated, _ = envs.step(action)
        total += np.where(running, reward, 0)
        steps += running
        for k in np.flatnonzero(running & (terminated | truncated)):
            np.testing.assert_array_equal(seen[k], obs[k])  # a world whose episode is over stays where it ended
        running &= ~(terminated | truncated)
    np.testing.assert_array_equal(end.result.reward, total)
    np.testing.assert_array_equal(end.running, running)
    np.testing.assert_array_equal(end.steps, steps)
    assert 0 < end.running.sum() < count - 1 and end.steps[2] == 0 and total.max() > 1
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[2], b[2]), start.episode.body, end.episode.body)
