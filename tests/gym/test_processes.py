"""Skills and environments in other processes: handed over they work, and a fork that cannot work says so."""

import multiprocessing
import os
import pickle

import gymnasium
import numpy as np
import pytest

import wanderlust
from trained import trained
from wanderlust.envs import devices
from wanderlust.errors import UserError


def made():
    skills = wanderlust.load(trained())
    return {
        "SkillEnv": wanderlust.SkillEnv(skills, "point-goal", hold=3),
        "SkillVectorEnv": wanderlust.SkillVectorEnv(skills, "point-goal", 2, hold=3),
        "task": gymnasium.make("wanderlust/PointGoal-v0").unwrapped,
        "tasks": gymnasium.make_vec("wanderlust/PointGoal-v0", num_envs=2, vectorization_mode="vector_entry_point"),
    }


def test_environments_that_are_handed_over_do_the_same():
    for name, env in made().items():
        again = pickle.loads(pickle.dumps(env))  # as processes hand it over
        for one in (env, again):
            one.action_space.seed(1)
        first, second = env.reset(seed=3)[0], again.reset(seed=3)[0]
        np.testing.assert_array_equal(first, second, err_msg=name)
        ours, theirs = (one.step(one.action_space.sample()) for one in (env, again))
        np.testing.assert_array_equal(ours[0], theirs[0], err_msg=name)
        np.testing.assert_array_equal(ours[1], theirs[1], err_msg=name)


def test_skills_that_are_handed_over_act_the_same():
    skills = wanderlust.load(trained(discrete=4, method="diayn"))
    again = pickle.loads(pickle.dumps(skills))
    obs = np.array([[0.5, -1.0], [2.0, 3.0]], np.float32)[:, : skills.spec.obs_dim]
    np.testing.assert_array_equal(again.act(obs, 2), skills.act(obs, 2))


def test_a_bodys_vector_environment_is_handed_over():
    env = wanderlust.make_vec("ant", 2, threads=1, episode_length=7)
    again = pickle.loads(pickle.dumps(env))
    assert (again.num_envs, again.config) == (2, env.config)
    np.testing.assert_array_equal(env.reset(seed=1)[0], again.reset(seed=1)[0])


def test_a_fork_of_a_process_that_computes_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(devices, "_first_process", [os.getpid() + 1])
    env = made_without_asking()
    for call in (lambda: env.reset(seed=0), lambda: wanderlust.load(trained()), lambda: wanderlust.load("zoo:ant")):
        with pytest.raises(UserError, match=r"forked from one that uses JAX .* spawn or forkserver") as caught:
            call()
        assert "\n" not in str(caught.value)


def made_without_asking():
    return gymnasium.make("wanderlust/PointGoal-v0").unwrapped


def _reset(answers):
    try:
        made_without_asking().reset(seed=0)
        answers.put("no refusal")
    except UserError as error:
        answers.put(str(error))


@pytest.mark.filterwarnings("ignore")  # Python and JAX warn of forks, too
def test_a_real_fork_ends():
    made_without_asking().reset(seed=0)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_reset, args=(answers,), daemon=True)
    child.start()
    child.join(60)
    try:
        assert child.exitcode == 0
        assert "forked from one that uses JAX" in answers.get()
    finally:
        child.kill()
