"""The Fetch robot's goal tasks, and what else is done with its skills: goals of one's own, options, export, the zoo."""

import dataclasses
import functools
import json
import math
import tempfile
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from test_dads import affine

import wanderlust
from helpers import tiny_config
from wanderlust import train
from wanderlust.config import SkillConfig
from wanderlust.downstream.controllers.reach import reach
from wanderlust.downstream.controllers.zero_shot import choose_skill, within_reach
from wanderlust.downstream.settings import SETTINGS, get_setting, usual_option_length
from wanderlust.downstream.tasks import TASKS, GoalState, make_task
from wanderlust.envs import make_world
from wanderlust.envs.worlds.body import BodyConfig
from wanderlust.envs.worlds.fetch import FetchConfig
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.export import export_onnx
from wanderlust.gym.registration import gym_id
from wanderlust.gym.tasks import TaskVectorEnv
from wanderlust.recipes.fetch import fetch_laptop, fetch_paper
from wanderlust.report.plots import draw_reach, draw_task_paths
from wanderlust.runs.files import write_arrays
from wanderlust.runs.learned import Learned, load_learner, of_seed
from wanderlust.runs.publish import example_goals, publish
from wanderlust.runs.run import Run
from wanderlust_experiments.point_goals import follow

KEY = jax.random.key(0)
HANDS = {
    "fetch-push": (1.34787, 0.74895, 0.42470),
    "fetch-slide": (0.99570, 0.74891, 0.41402),
    "fetch-pick-and-place": (1.34193, 0.74910, 0.42470),
}
"""Where gym 0.17 draws goals around, on MuJoCo 2.2: the hand's x and y, and the height of the object."""


@functools.cache
def world_of(env):
    return make_world(FetchConfig(env, 50))


# --- the rules -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", HANDS)
def test_goals_are_drawn_as_in_the_original_environments(env):
    world, task = world_of(env), TASKS[f"{env}-goal"]
    obs = world.measure(world.initial(KEY))
    draw = jax.jit(jax.vmap(lambda key: task.begin(obs, key).goal))
    goals = np.asarray(draw(jax.random.split(KEY, 4_000)))
    centre = np.add(HANDS[env][:2], (0.4 if env == "fetch-slide" else 0.0, 0.0))
    r = 0.3 if env == "fetch-slide" else 0.15
    away, above = goals[:, :2] - centre, goals[:, 2] - HANDS[env][2]
    assert 0.99 * r < np.abs(away).max() < r + 5e-4
    np.testing.assert_allclose(away.mean(axis=0), 0.0, atol=5 * r / math.sqrt(3 * 4_000))
    if env == "fetch-pick-and-place":
        flying = goals[:, 2] > obs[5]
        assert np.mean(flying) == pytest.approx(0.5, abs=0.04)
        assert 0.44 < above.max() < 0.4505 and above[flying].mean() == pytest.approx(0.225, abs=0.015)
        assert abs(np.corrcoef(above, away[:, 0])[0, 1]) < 0.08  # by draws of their own
        goals, above = goals[~flying], above[~flying]
    np.testing.assert_array_equal(goals[:, 2], obs[5])  # the object's own height
    np.testing.assert_allclose(above, 0.0, atol=0.007)  # the puck rests 6 mm higher than there, the box 0.2 mm


def observed(thing):
    """An observation whose other entries are far from any goal."""
    return jnp.full(25, 9.0).at[3:6].set(jnp.array(thing))


STEP = jax.jit(TASKS["fetch-pick-and-place-goal"].step)


@pytest.mark.parametrize(
    ("away", "age", "clock", "reward", "end"),
    [
        ((0.0, 0.0, 0.0), 2, 1, 1.0, "done"),
        ((0.049, 0.0, 0.0), 2, 1, 1.0, "done"),
        ((0.0, 0.051, 0.0), 2, 1, 0.0, None),
        ((0.0, 0.0, 0.06), 2, 1, 0.0, None),  # below the goal is not at it
        ((0.04, 0.04, 0.0), 2, 1, 0.0, None),  # the distance is Euclidean
        ((0.0, 0.0, 0.0), 1, 0, 0.0, None),  # never in the first step
        ((0.0, 0.0, 0.04), 50, 49, 1.0, "done"),
        ((0.2, 0.0, 0.0), 50, 49, 0.0, "time"),
    ],
)
def test_reaching_pays_one_and_ends_the_episode(away, age, clock, reward, end):
    goal = jnp.array([1.3, 0.7, 0.6])
    state, score = STEP(GoalState(goal, jnp.int32(clock)), observed(goal + jnp.array(away)), jnp.int32(age), KEY)
    assert float(score.reward) == reward
    assert (bool(score.terminated), bool(score.truncated)) == (end == "done", end == "time")
    np.testing.assert_array_equal(state.goal, goal)


def test_numbers_of_one_s_own_but_not_more_goals():
    task = make_task("fetch-slide-goal", radius=0.1, slot=20, goal_range=0.2, offset=0.3, highest=0.1)
    assert (task.radius, task.horizon, task.offset, task.highest, task.most) == (0.1, 20, 0.3, 0.1, 1.0)
    with pytest.raises(UserError, match="fetch-push-goal has no 'goals' to change; it has slot, goal_range, radius"):
        make_task("fetch-push-goal", goals=2)


@pytest.mark.parametrize("env", HANDS)
def test_gymnasium_has_nothing_to_complain_about(env):
    made = gymnasium.make(gym_id(f"{env}-goal")).unwrapped
    check_env(made, skip_render_check=True)
    obs, _ = made.reset(seed=4)
    assert obs.shape == (28,) and made.action_space.shape == (4,) and made.metadata["render_fps"] == 25


def test_the_vector_form_plays_what_single_environments_play():
    name = gym_id("fetch-push-goal")
    many = gymnasium.make_vec(name, num_envs=2, vectorization_mode="vector_entry_point", slot=3).unwrapped
    alone = gymnasium.make(name, slot=3).unwrapped
    obs, one = many.reset(seed=3)[0], alone.reset(seed=4)[0]
    goal, rewards = obs[1, 25:], []
    for _ in range(3):
        np.testing.assert_array_equal(obs[1], one)
        np.testing.assert_array_equal(one[25:], goal)  # observed as it was drawn: where the object shall be
        obs, reward, terminated, truncated, _ = many.step(np.full((2, 4), 0.5, np.float32))
        one, *_ = alone.step(np.full(4, 0.5, np.float32))
        rewards.append(reward[1])
    assert truncated.all() and not terminated.any() and rewards == [0.0, 0.0, 0.0]


# --- zero-shot -------------------------------------------------------------------------------------------------------


def fetch_config(method="lsd", skills=2, env="fetch-push"):
    """A run of Fetch that is trained in a moment; the method sees the object, in metres."""
    tiny = tiny_config(method, driver="split", engine="c", skills_size=skills, schedule_steps=6)
    return dataclasses.replace(tiny, env=FetchConfig(env, 6))


@pytest.mark.parametrize("method", ["lsd", "metra", "diayn"])
def test_the_skill_is_that_of_phi_at_the_goal(method):
    """phi is a rotation of the object's place: skills point from the object to the goal, wherever the hand is."""
    parts = train.assemble(fetch_config(method, skills=3))
    turn = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], np.float32)
    learned = Learned((), jax.jit(parts.method.restored)({"encoder": affine(turn, [0.0, 0.0, 0.0])}))
    obs = np.asarray(jax.random.normal(KEY, (5, 25)))
    goal = np.asarray(jax.random.normal(jax.random.key(1), (5, 3)))
    on_table = np.column_stack([goal[:, :2], obs[:, 5]])  # a goal of two numbers leaves the height as it is
    choose = jax.jit(lambda obs, goal: choose_skill(parts, learned, obs, goal))
    for given, place in ((goal, goal), (goal[:, :2], on_table)):
        expected = (place if method == "diayn" else place - obs[:, 3:6]) @ turn
        if method != "diayn":
            length = parts.skills.expected_norm
            expected *= length / np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(choose(obs, given), expected, rtol=1e-3, atol=1e-3)


def test_the_bound_is_of_the_way_from_the_object_to_the_goal():
    start, goal = np.random.default_rng(0).uniform(-0.15, 0.15, (2, 100_000, 2))
    away = np.linalg.norm(goal - start, axis=1)[np.linalg.norm(start, axis=1) >= 0.1]  # not where the hand is
    reached = within_reach(TASKS["fetch-push-goal"], world_of("fetch-push"), speed=0.002, draws=20_000)
    assert reached["distance"] == pytest.approx(0.002 * 50 + 0.05)
    assert reached["share"] == pytest.approx(np.mean(away <= 0.15), abs=0.015)


def test_the_paper_s_controller_has_the_numbers_of_discovery():
    paper = get_setting("paper", "sac", "fetch-slide")
    assert paper.learner == fetch_paper("fetch-slide", "lsd", "", SkillConfig()).sac
    learner = paper.learner
    assert (learner.hidden, learner.discount, learner.alpha, learner.learn_alpha) == ((1024, 1024), 0.95, 0.02, False)
    assert learner.policy_learning_rate == learner.critic_learning_rate == 1e-3
    assert (paper.episodes, paper.steps, paper.batch, paper.epochs) == (16, 40, 256, 500)
    assert paper.collections == paper.epochs  # nothing is forgotten
    assert usual_option_length("fetch-slide") == 10
    assert get_setting("paper", "sac", "ant") == SETTINGS["paper", "sac"]
    assert get_setting("paper", "ppo", "fetch-slide") == SETTINGS["paper", "ppo"]
    laptop = get_setting("laptop", "sac", "fetch-slide")
    assert laptop.learner == fetch_laptop("fetch-slide", "lsd", "", SkillConfig()).sac
    assert (laptop.episodes, laptop.steps, laptop.batch, laptop.collections) == (16, 40, 256, laptop.epochs)
    assert get_setting("fast", "sac", "fetch-slide") == SETTINGS["fast", "sac"]


# --- with the skills of a run ----------------------------------------------------------------------------------------

_folder = tempfile.TemporaryDirectory(prefix="wanderlust-fetch-")


@functools.cache
def fetch_run() -> Run:
    """A run with a checkpoint of networks as they begin, which move the hand as well as any."""
    run = Run.create(Path(_folder.name) / "run", fetch_config())
    run.save(4, train.to_save(train.init(train.assemble(run.config))))
    evaluate(run, episodes=4)
    return run


def test_a_task_is_followed_zero_shot():
    run, task = fetch_run(), make_task("fetch-push-goal", slot=3, radius=0.2)
    parts = train.assemble(run.config)
    learned = of_seed(load_learner(run, parts)[1], 0)
    result = follow(parts, learned, task, 40, KEY)
    assert set(result.returns) == {0.0, 1.0}  # some objects start within 20 cm of their goals
    assert float(result.skill_norm) == pytest.approx(parts.skills.expected_norm, rel=1e-3)


def test_goals_in_space_are_drawn_as_seen_from_above(tmp_path):
    arrays = {"position": np.zeros((4, 1, 2, 2)), "entries": np.tile(np.array([1.3, 0.7, 0.6]), (4, 1, 2, 1))}
    write_arrays(tmp_path / "paths.safetensors", arrays, {"radius": "0.05", "goals": "1"})
    facts = {"task": "fetch-push-goal", "controller": "zero-shot", "seeds": [0]}
    facts |= {"return": {"mean": 0.5, "ci95": 0.0, "per_seed": [0.5]}}
    (tmp_path / "result.json").write_text(json.dumps(facts))
    assert draw_task_paths(tmp_path).read_bytes().startswith(b"\x89PNG")


def test_goals_of_one_s_own_are_places_of_the_object(command_line):
    run, world = fetch_run(), train.assemble(fetch_run().config).world
    place = np.asarray(world.observe(world.initial(jax.random.split(jax.random.key(0), 1)[0])))[3:6]
    up = np.add(place, (0, 0, 0.2))
    result = reach(run, [(*place[:2], place[2] + 0.04), tuple(up)], limit=2)
    first, second = result["legs"]
    assert result["radius"] == 0.05 and (first["reached"], first["steps"]) == (True, 0)
    assert (second["reached"], second["steps"]) == (False, 2) and second["distance"] == pytest.approx(0.2, abs=0.02)
    np.testing.assert_allclose(result["path"][0], place, atol=1e-4)
    assert draw_reach(run.results).read_bytes().startswith(b"\x89PNG")
    flags = ["--goal", *place[:2], "--goal", place[0] + 0.2, place[1], "--steps-per-goal", 2]
    code, out, err = command_line("reach", run.path, *flags)
    assert (code, err) == (0, "") and "): reached in 0 steps" in out and "): missed by 0." in out
    assert len(json.loads((run.path / "reach" / "reach.json").read_text())["path"][0]) == 2


def test_goals_that_are_no_places_are_refused_in_one_line():
    for goal in ((1.4,), (1.4, 0.8, 0.5, 0.1), (1.4, math.nan, 0.5)):
        with pytest.raises(
            UserError, match=r"is not 2 or 3 finite numbers, which is what a place is to this body"
        ) as no:
            reach(fetch_run(), [goal])
        assert "\n" not in str(no.value)
    with pytest.raises(UserError, match="no goal given; add --goal X Y, once for each goal"):
        reach(fetch_run(), [])


def test_examples_of_goals_lie_where_the_body_is():
    fetch, point = fetch_config(), tiny_config()
    assert example_goals(fetch) == "--goal 1.4 0.85 --goal 1.3 0.65"
    assert example_goals(point) == "--goal 12 4 --goal 24 0"
    assert example_goals(dataclasses.replace(point, env=BodyConfig("half-cheetah"))) == "--goal 12 --goal 24"


def test_skills_are_actions():
    skills, task = wanderlust.load(fetch_run()), make_task("fetch-push-goal", slot=6)
    envs = wanderlust.SkillVectorEnv(skills, task, 2, hold=4)
    obs, _ = envs.reset(seed=0)
    assert obs.shape == (2, 28) and envs.action_space.shape == (2, 2)
    z = skills.towards(obs[:, :25], obs[:, 25:])
    after, _, _, truncated, infos = envs.step(z)
    assert infos["steps"].tolist() == [4, 4] and not truncated.any()
    np.testing.assert_array_equal(after[:, 25:], obs[:, 25:])
    plain = TaskVectorEnv("fetch-push-goal", 2, slot=6)
    seen, _ = plain.reset(seed=0)
    for _ in range(4):
        seen, *_ = plain.step(skills.act(seen[:, :25], z))
    np.testing.assert_allclose(after, seen, atol=1e-5)
    assert envs.step(z)[3].all()
    alone = wanderlust.SkillEnv(skills, task, hold=4)
    np.testing.assert_array_equal(alone.reset(seed=1)[0], obs[1])


def test_phi_in_onnx_sees_the_object_in_metres(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra wanderlust[onnx] is not installed")
    _, facts = export_onnx(fetch_run(), out=tmp_path)
    assert facts["observation"]["phi_sees_only"] == [3, 4, 5] and facts["observation"]["phi_sees_raw"]
    skills, obs = wanderlust.load(fetch_run()), np.asarray(jax.random.normal(KEY, (9, 25)))
    (phi,) = onnxruntime.InferenceSession(tmp_path / "phi.onnx").run(["phi"], {"observation": obs})
    np.testing.assert_allclose(phi, skills.phi(obs), rtol=0, atol=2e-5)
    z = skills.sample(9)
    (action,) = onnxruntime.InferenceSession(tmp_path / "policy.onnx").run(["action"], {"observation": obs, "skill": z})
    np.testing.assert_allclose(action, skills.act(obs, z), rtol=0, atol=2e-5)


def test_an_entry_of_the_zoo_does_what_the_run_does(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDERLUST_ZOO", str(tmp_path))
    folder, _ = publish(fetch_run(), "hand")
    assert "reach zoo:hand --goal 1.4 0.85" in (folder / "card.md").read_text()
    ours, theirs = wanderlust.load("zoo:hand"), wanderlust.load(fetch_run())
    obs = np.asarray(ours.world.observe(ours.world.initial(KEY)))
    goal, z = np.add(obs[3:6], (0.1, 0.0, 0.1)), theirs.sample(1)[0]
    np.testing.assert_allclose(ours.act(obs, z), theirs.act(obs, z), atol=0.01)
    np.testing.assert_allclose(ours.towards(obs, goal), theirs.towards(obs, goal), atol=0.02)
