"""Goal tasks rule by rule, following them with hands that are perfect or idle, and goals of one's own."""

import dataclasses
import json
import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import tiny_config
from trained import copy_of, trained
from wanderlust import train
from wanderlust.downstream.controllers.reach import reach
from wanderlust.downstream.tasks import GoalState, GoalTask, make_task
from wanderlust.errors import UserError
from wanderlust.report.plots import draw_reach
from wanderlust.runs.learned import Learned, choose_skill
from wanderlust_experiments.point_goals import follow

KEY = jax.random.key(0)
FAR = jnp.array([1000.0, 1000.0])


def point_goal(goal_range, **changes):
    return make_task("point-goal", goal_range=goal_range, **changes)


def point_multi_goals(goal_range):
    return make_task("point-multi-goals", goal_range=goal_range)


def at(goal: tuple[float, float], clock: int) -> GoalState:
    return GoalState(jnp.array(goal), jnp.int32(clock))


def step(task: GoalTask, state: GoalState, position, age: int = 2) -> tuple[GoalState, float, bool]:
    """Control step number `age` of an episode."""
    state, score = task.step(state, jnp.asarray(position, jnp.float32), jnp.int32(age), KEY)
    return state, float(score.reward), bool(score.terminated | score.truncated)


def test_the_paper_s_tasks():
    goal, multi = point_goal(40), point_multi_goals(20)
    assert (goal.goals, goal.slot, goal.goal_range, goal.radius, goal.reward, goal.horizon) == (1, 100, 40, 3, 1, 100)
    assert (multi.goals, multi.slot, multi.goal_range, multi.radius, multi.reward) == (4, 100, 20, 3, 1)
    assert multi.horizon == 400


def test_a_single_goal_is_drawn_around_the_origin():
    drawn = jax.vmap(point_goal(7.0).begin)(jnp.tile(FAR, (2000, 1)), jax.random.split(KEY, 2000))
    goals = np.asarray(drawn.goal)
    assert np.abs(goals).max() <= 7
    assert np.all(goals.max(axis=0) > 6.9)
    assert np.all(goals.min(axis=0) < -6.9)
    np.testing.assert_allclose(goals.mean(axis=0), 0, atol=0.4)
    assert not np.any(drawn.clock)


def test_several_goals_are_drawn_around_the_body():
    drawn = jax.vmap(point_multi_goals(7.0).begin)(jnp.tile(FAR, (2000, 1)), jax.random.split(KEY, 2000))
    away = np.asarray(drawn.goal) - np.asarray(FAR)
    assert 6.9 < np.abs(away).max() <= 7
    np.testing.assert_allclose(away.mean(axis=0), 0, atol=0.4)


@pytest.mark.parametrize(("distance", "pays"), [(0.0, True), (2.99, True), (3.0, True), (3.01, False), (50.0, False)])
def test_the_radius_is_what_pays(distance, pays):
    state, reward, over = step(point_goal(10), at((0.0, 0.0), 5), (0.0, distance))
    assert reward == (1.0 if pays else 0.0)
    assert over is pays  # a single goal that is reached ends the episode
    assert int(state.clock) == (100 if pays else 6)


def test_distance_is_euclidean():
    assert step(point_goal(10), at((0.0, 0.0), 5), (2.5, 2.5))[1] == 0.0


def test_the_first_step_never_pays():
    task = point_multi_goals(10)
    begun = at((0.0, 0.0), 0)
    state, reward, over = step(task, begun, (0.0, 0.0), age=1)
    assert (reward, over, int(state.clock)) == (0.0, False, 1)
    np.testing.assert_array_equal(state.goal, begun.goal)  # nor does it use the goal up
    assert step(task, state, (0.0, 0.0))[1] == 1.0  # the second does


def test_a_reached_goal_uses_up_its_slot_and_calls_the_next():
    task = point_multi_goals(5)
    for clock in (1, 50, 99):  # the slot ends at 100, wherever in it the goal is reached
        state, reward, over = step(task, at((0.0, 0.0), clock), (1.0, 1.0))
        assert (reward, over, int(state.clock)) == (1.0, False, 100)
        assert not np.array_equal(state.goal, (0.0, 0.0))
        assert np.all(np.abs(np.asarray(state.goal) - 1.0) <= 5)  # around where the body is now
    assert int(step(task, at((0.0, 0.0), 100), (0.0, 0.0))[0].clock) == 200  # the first step of the second slot


def test_running_out_of_time_calls_the_next_goal_unpaid():
    task = point_multi_goals(5)
    state, reward, over = step(task, at((0.0, 0.0), 98), FAR)
    assert (reward, over, int(state.clock)) == (0.0, False, 99)
    np.testing.assert_array_equal(state.goal, (0.0, 0.0))
    state, reward, over = step(task, state, FAR)
    assert (reward, over, int(state.clock)) == (0.0, False, 100)
    assert np.all(np.abs(np.asarray(state.goal) - np.asarray(FAR)) <= 5)


def test_the_last_slot_ends_the_episode():
    task = point_multi_goals(5)
    assert step(task, at((0.0, 0.0), 399), FAR)[1:] == (0.0, True)
    assert step(task, at((0.0, 0.0), 301), (0.0, 0.0))[1:] == (1.0, True)
    assert step(task, at((0.0, 0.0), 299), (0.0, 0.0))[1:] == (1.0, False)
    assert step(point_goal(5), at((0.0, 0.0), 99), FAR)[1:] == (0.0, True)


def test_the_most_an_episode_pays_is_one_reward_per_goal():
    """A body that is always at its goal is paid once a slot, from the second step on."""
    task = dataclasses.replace(point_multi_goals(5), reward=2.5)
    state, total, over, steps = task.begin(jnp.zeros(2), KEY), 0.0, False, 0
    while not over:
        steps += 1
        state, reward, over = step(task, state, state.goal, age=steps)
        total += reward
    assert (total, steps) == (4 * 2.5, 5)


# --- following --------------------------------------------------------------------------------------------------


def hands(towards, mode) -> tuple[train.Setup, Learned]:
    """PointEnv with a method and a policy made by hand."""
    parts = train.assemble(tiny_config(env_normalise=False))
    method = SimpleNamespace(towards=lambda state, obs, goal: towards(obs, goal), high_level=None, block=0, hold=None)
    parts = dataclasses.replace(parts, method=method)
    policy = lambda obs, skill: SimpleNamespace(mode=lambda: mode(obs, skill))  # noqa: E731
    return parts, Learned(policy, None)


PERFECT = hands(lambda obs, goal: goal - obs, lambda obs, skill: jnp.clip(skill, -1, 1))
IDLE = hands(lambda obs, goal: jnp.full_like(goal, jnp.sqrt(2.0)), lambda obs, skill: jnp.zeros(2))


@pytest.mark.parametrize(("task", "most"), [(point_goal(60), 1.0), (point_multi_goals(60), 4.0)])
def test_perfect_hands_earn_the_most_there_is(task, most):
    result = jax.jit(lambda key: follow(*PERFECT, task, 200, key))(KEY)
    np.testing.assert_array_equal(result.returns, np.full(200, most))


def test_goals_out_of_reach_are_not_paid():
    """100 steps of at most 1 reach a goal up to 100 away in each coordinate, and the radius a little farther."""
    result = jax.jit(lambda key: follow(*PERFECT, point_goal(200.0), 3000, key))(KEY)
    assert set(np.asarray(result.returns)) == {0.0, 1.0}
    reachable = (200**2 + 4 * 200 * 3 + math.pi * 3**2) / 400**2  # the box, grown by the radius
    assert np.mean(result.returns) == pytest.approx(reachable, abs=0.025)


@pytest.mark.parametrize(("task", "goals"), [(point_goal(4.0), 1), (point_multi_goals(4.0), 4)])
def test_idle_hands_earn_the_goals_that_appear_on_them(task, goals):
    result = jax.jit(lambda key: follow(*IDLE, task, 3000, key))(KEY)
    chance = math.pi * 3**2 / 8**2
    assert np.mean(result.returns) == pytest.approx(goals * chance, abs=0.06 * math.sqrt(goals))
    assert float(result.skill_norm) == pytest.approx(2.0)


def test_the_goal_state_is_the_current_one_moved():
    seen = {}

    def towards(obs, goal):
        seen.update(obs=obs, goal=goal)
        return goal

    parts, learner = hands(towards, lambda obs, skill: skill)
    obs, goal = jnp.array([[1.0, 2.0]]), jnp.array([[5.0, -5.0]])
    choose_skill(parts, learner, obs, goal)
    np.testing.assert_array_equal(seen["obs"], obs)
    np.testing.assert_array_equal(seen["goal"], goal)
    # the method sees both normalised
    scaled = train.assemble(tiny_config())
    scaled = dataclasses.replace(scaled, method=parts.method)
    choose_skill(scaled, learner, obs, goal)
    std = np.array([scaled.world.spec.obs_std])
    np.testing.assert_allclose(seen["goal"], goal / std, rtol=1e-6)
    np.testing.assert_allclose(seen["obs"], obs / std, rtol=1e-6)


# --- goals of one's own -----------------------------------------------------------------------------------------


def test_reaching_goals_in_order(tmp_path, monkeypatch):
    run = copy_of(trained(), tmp_path / "run")

    def perfect(parts, learned, state, goal):
        return jnp.clip(goal - state.physics, -1, 1)

    monkeypatch.setattr("wanderlust.downstream.controllers.reach.act_towards", perfect)
    result = reach(run, [(12.0, 4.0), (11.5, 4.0), (-100.0, 4.0), (0.0, 4.0)], radius=1.0, limit=30)
    legs = [(leg["goal"], leg["reached"], leg["steps"]) for leg in result["legs"]]
    assert legs == [
        ([12.0, 4.0], True, 11),  # 11 steps of 1 leave a distance of exactly the radius
        ([11.5, 4.0], True, 0),  # near enough already
        ([-100.0, 4.0], False, 30),  # given up after the limit
        ([0.0, 4.0], True, 18),  # from (-19, 4)
    ]
    assert result["legs"][2]["distance"] == 81.0
    path = np.array(result["path"])
    assert path.shape == (1 + 11 + 30 + 18, 2)
    np.testing.assert_array_equal(path[0], 0)
    np.testing.assert_array_equal(path[11], (11, 4))
    assert np.abs(np.diff(path, axis=0)).max() <= 1
    assert json.loads((run.path / "reach" / "reach.json").read_text()) == result
    assert (result["epoch"], result["seed"], result["radius"]) == (4, 0, 1.0)


def test_reaching_goes_by_the_learned_skills(tmp_path):
    """Every step of the path is the action that `towards` and `act` give."""
    from wanderlust import load

    run = copy_of(trained(seeds=3), tmp_path / "run")
    goal = (3.0, -4.0)
    result = reach(run, [goal], limit=5, seed=2)
    skills = load(run, seed=2)
    position = np.zeros(2)
    for later in result["path"][1:]:
        position = position + skills.act(position, skills.towards(position, goal))
        np.testing.assert_allclose(later, position, atol=2e-4)
    assert result["seed"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goals": []}, "no goal given"),
        ({"goals": [(1.0, math.nan)]}, "1.0 nan is not 2 finite numbers"),
        ({"goals": [(math.inf, 1.0)]}, "inf 1.0 is not 2 finite numbers"),
        ({"goals": [(1.0,)]}, "goal 1.0 is not 2 finite numbers"),
        ({"radius": 0.0}, "--radius is 0.0"),
        ({"radius": math.nan}, "--radius is nan"),
        ({"limit": 0}, "--steps-per-goal is 0"),
        ({"seed": 1}, "has no seed 1; it has 1"),
        ({"seed": -1}, "has no seed -1"),
    ],
)
def test_impossible_requests_are_one_line(options, message):
    with pytest.raises(UserError, match=message) as caught:
        reach(trained(), **{"goals": [(1.0, 1.0)], **options})
    assert "\n" not in str(caught.value)
    assert not (trained().path / "reach").exists()


@pytest.mark.parametrize("dims", [1, 2])
def test_paths_on_a_line_and_on_a_plane_are_drawn(tmp_path, dims):
    legs = [
        {"goal": [2.0] * dims, "reached": True, "steps": 2, "distance": 0.0},
        {"goal": [-9.0] * dims, "reached": False, "steps": 1, "distance": 10.0},
    ]
    facts = {"name": "line", "radius": 1.0, "legs": legs, "path": [[float(x)] * dims for x in (0, 1, 2, 1)]}
    (tmp_path / "reach").mkdir()
    (tmp_path / "reach" / "reach.json").write_text(json.dumps(facts))
    picture = draw_reach(tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
