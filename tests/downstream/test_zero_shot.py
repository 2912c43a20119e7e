"""Skills for goals without learning: directions, discriminators, plans; on both kinds of engine; and their bound."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_dads import affine, moments, state_of
from test_goals import IDLE, PERFECT, point_goal, point_multi_goals

from helpers import Outside, tiny_config
from wanderlust import train
from wanderlust.downstream import request, solve
from wanderlust.downstream.controllers import planning, zero_shot
from wanderlust.downstream.controllers.options import ControlledSkills, make_option_rollout, returns, set_up_task
from wanderlust.downstream.controllers.zero_shot import skill_speed, within_reach
from wanderlust.downstream.tasks import make_task
from wanderlust.methods.dads import DadsConfig
from wanderlust.methods.lsd import Lsd
from wanderlust.methods.skills import ContinuousSkills
from wanderlust.runs.files import ArrayFile
from wanderlust.runs.learned import Learned
from wanderlust.runs.zoo import open_run
from wanderlust_experiments.point_goals import follow

KEY = jax.random.key(0)


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5])
def test_lsd_goes_straight_at_the_length_that_skills_have_on_average(dim):
    method = Lsd(tiny_config().method, ContinuousSkills(dim))
    obs, goal = jax.random.normal(KEY, (2, 6, 3)) * jnp.array([1.0, 20.0])[:, None, None]

    @jax.jit
    def choose(obs, goal):
        state = method.init(KEY, 3)
        phi = method.represent(state, goal) - method.represent(state, obs)
        return method.towards(state, obs, goal), phi, jax.vmap(method.skills.sample)(jax.random.split(KEY, 40_000))

    skill, phi, drawn = choose(obs, goal)
    np.testing.assert_allclose(np.linalg.norm(skill, axis=1), np.linalg.norm(drawn, axis=1).mean(), rtol=0.01)
    cosine = np.sum(skill * phi, axis=1) / np.linalg.norm(skill, axis=1) / np.linalg.norm(phi, axis=1)
    np.testing.assert_allclose(cosine, 1.0, rtol=1e-4)


@pytest.mark.parametrize("hands", [PERFECT, IDLE])
def test_engines_of_both_kinds_follow_the_same_goals(hands):
    parts, learned = hands
    task = dataclasses.replace(point_multi_goals(6.0), slot=10)
    inside = jax.jit(lambda key: follow(parts, learned, task, 30, key))(KEY)
    outside = follow(dataclasses.replace(parts, engine=Outside(parts.engine)), learned, task, 30, KEY)
    np.testing.assert_array_equal(inside.returns, outside.returns)
    assert float(inside.skill_norm) == pytest.approx(float(outside.skill_norm), rel=1e-5)


@pytest.mark.parametrize("method", ["lsd", "diayn", "metra"])
def test_a_task_is_solved_with_the_method_s_own_choice(method):
    """Every step of the path is `towards` and then the policy's mode."""
    parts = train.assemble(tiny_config(method))
    state = train.init(parts).learner
    learned = Learned(state.sac.policy, state.method)
    setup = set_up_task(parts, make_task("point-goal", slot=5, radius=0.01))
    rollout = make_option_rollout(setup, zero_shot.zero_shot_policy(parts), paths=True)
    decisions = jax.jit(lambda skilled, keys: rollout(skilled, keys, 3))(ControlledSkills(learned), KEY[None])
    skill = decisions.choice.skill[:, 0]
    if method == "diayn":  # what the discriminator expects at the goal, wherever the body is
        guess = jax.vmap(jax.tree.map(lambda x: x[0], learned.method).encoder)
        expected = guess(parts.view.for_method(decisions.seen[0, 0, :, 2:]))
        np.testing.assert_allclose(skill, np.broadcast_to(expected, skill.shape), rtol=1e-4, atol=1e-6)
    else:
        np.testing.assert_allclose(np.linalg.norm(skill, axis=-1), math.sqrt(math.pi / 2), rtol=1e-3)
    policy = jax.tree.map(lambda x: x[0], learned.policy)
    moved = train.actions(parts, policy, decisions.seen[2, 0, :, :2], skill[2])
    np.testing.assert_allclose(decisions.seen_next[2, 0, :, :2] - decisions.seen[2, 0, :, :2], moved, atol=1e-5)


# --- the bound -------------------------------------------------------------------------------------------------------


def test_the_bound_counts_the_goals_within_speed_times_time_and_the_radius():
    reach = within_reach(point_goal(10.0, radius=2.0), PERFECT[0].world, speed=0.05)
    assert reach["distance"] == pytest.approx(0.05 * 100 + 2)
    assert reach["share"] == pytest.approx(math.pi * 7**2 / 20**2, abs=0.01)  # a disc in a square
    assert reach["bound"] == pytest.approx(reach["share"])
    several = within_reach(make_task("ant-multi-goals"), PERFECT[0].world, speed=0.1)
    assert several["distance"] == pytest.approx(0.1 * 50 + 3)
    assert several["share"] == pytest.approx(math.pi * 8**2 / 30**2, abs=0.01)
    assert several["bound"] == pytest.approx(10 * several["share"])
    assert within_reach(point_goal(10.0), PERFECT[0].world, 1.0)["share"] == 1.0


def test_speed_is_displacement_over_time():
    still = train.assemble(tiny_config())
    policy = train.init(still).learner.sac.policy
    zero = jax.tree.map(jnp.zeros_like, policy)
    keys = KEY[None]
    length = still.world.spec.episode_length
    np.testing.assert_array_equal(skill_speed(still, Learned(zero, ()), (0, 1), keys, (1, length), 5), [[0.0], [0.0]])
    layers = zero.mlp.layers
    pushed = dataclasses.replace(layers[-1], bias=layers[-1].bias.at[:, :2].set(jnp.array([0.3, 0.4])))
    moving = dataclasses.replace(zero, mlp=dataclasses.replace(zero.mlp, layers=(*layers[:-1], pushed)))
    expected = math.hypot(math.tanh(0.3), math.tanh(0.4))
    speeds = skill_speed(still, Learned(moving, ()), (0, 1), keys, (2, length), 5)
    np.testing.assert_allclose(speeds, [[expected], [expected]], rtol=1e-4)


# --- bodies ----------------------------------------------------------------------------------------------------------


def test_ant_follows_goals_on_the_engine_c(tmp_path):
    """All goal tasks of bodies but Fetch are of one form; this one is cut short."""
    entry = open_run("zoo:ant", tmp_path)
    task = make_task("ant-multi-goals", slot=12, goals=2, goal_range=4.0, radius=2.0)
    result = solve.solve(entry, task, "zero-shot", seeds=2, episodes=4, engine="c", quiet=True)
    assert result["hold"] == 1 and result["provenance"]["engine"] == "c"
    assert 0 < result["return"]["mean"] <= 5.0  # goals are near enough that some are met
    assert 0.1 < result["speed_bound"]["speed"] < 1.0
    assert result["start_bound"]["speed"] < 0.8 * result["speed_bound"]["speed"]  # it takes time to get going
    paths = ArrayFile(request.result_folder(entry, task.name, "zero-shot") / "paths.safetensors")
    assert paths.read("position").shape == (25, 2, 4, 2)


# --- planning --------------------------------------------------------------------------------------------------------


def dreaming(view="", discrete=None, gain=0.5):
    """DADS whose dynamics say that a skill moves the point by `gain` times itself, in normalised units."""
    config = tiny_config(discrete=discrete, env_episode_length=23)  # a standard deviation of 2
    method = DadsConfig(view=view, hidden=(8,), learning_rate=1e-3)
    parts = train.assemble(dataclasses.replace(config, method=method))
    size = discrete or 2
    directions = np.array([[math.cos(k * math.pi / 2), math.sin(k * math.pi / 2)] for k in range(size)])
    effect = gain * (directions if discrete else np.eye(2))
    encoder = affine(np.concatenate([np.zeros((2, 2)), effect]), [0.0, 0.0])
    unit = moments([0.0, 0.0], [1.0 - 1e-5] * 2)
    return parts, state_of(encoder, unit, unit)


@pytest.mark.parametrize("view", ["", "xyo"])
def test_rewards_are_distances_in_metres_along_the_predicted_course(view):
    parts, state = dreaming(view)
    std = parts.world.spec.obs_std[0]
    assert std == pytest.approx(2.0)
    obs, goal = jnp.array([[1.0, 2.0]]), jnp.array([[4.0, 6.0]])
    tried = jnp.array([[[0.0, 0.0], [2.0, 0.0]]])
    got = jax.jit(lambda: planning.course_rewards(parts, state, obs, goal, tried, 3))()
    there = [math.hypot(3 - std * t, 4) for t in (1, 2, 3)]
    np.testing.assert_allclose(got, [[-15.0, -sum(there)]], rtol=1e-3)


def test_a_plan_leads_to_the_goal():
    parts, state = dreaming()
    std = parts.world.spec.obs_std[0]
    obs = jnp.zeros((3, 2))
    # far away: as far as skills go
    goal = jnp.array([[900.0, -900.0], [900.0, 0.0], [0.0, 0.0]]) * std
    skill = np.asarray(jax.jit(lambda key: planning.refined(parts, state, obs, goal, key))(KEY))
    np.testing.assert_allclose(skill[0], [2.0, -2.0], atol=0.15)
    assert skill[1, 0] > 1.8 and abs(skill[1, 1]) < 0.8
    assert np.linalg.norm(skill[2]) < 0.5  # staying is best


def test_the_best_of_discrete_skills_is_found():
    parts, state = dreaming(discrete=4)
    policy = planning.planning_policy(parts)
    assert policy.option_length == 10
    seen = jnp.array([[0.0, 0.0, 0.0, 9.0], [0.0, 0.0, -9.0, 1.0], [5.0, 5.0, 9.0, 5.5]])
    skill = jax.jit(lambda key: policy.choose(ControlledSkills(Learned((), state)), seen, key).skill)(KEY)
    assert np.argmax(skill, axis=1).tolist() == [1, 2, 0]


def test_dads_plans_its_way_through_a_task():
    """Its policy does what its dynamics say: a skill is an action. So every goal is reached."""
    parts, state = dreaming(gain=0.5)  # half a standard deviation: one metre
    policy = dataclasses.replace(planning.planning_policy(parts), act=lambda _, obs, skill: skill)
    setup = set_up_task(parts, make_task("point-goal", goal_range=20.0))
    rollout = make_option_rollout(setup, policy)
    skilled = ControlledSkills(Learned((), jax.tree.map(lambda x: x[None], state)))
    earned = returns(jax.jit(lambda keys: rollout(skilled, keys, 20))(KEY[None]))
    assert np.mean(earned) == 1.0
