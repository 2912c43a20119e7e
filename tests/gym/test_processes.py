"""Skills and environments in other processes: handed over they work, and a fork that cannot work says so."""

import os
import pickle
import subprocess
import sys

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


FORKED = """
import multiprocessing, sys, warnings
warnings.simplefilter("ignore")  # Python and JAX warn of forks, too
import gymnasium
import wanderlust

def reset():
    try:
        env.reset(seed=0)
    except wanderlust.UserError as error:
        print(error, flush=True)

env = gymnasium.make("wanderlust/PointGoal-v0").unwrapped
env.reset(seed=0)
child = multiprocessing.get_context("fork").Process(target=reset, daemon=True)
child.start()
child.join(60)
sys.exit(f"the child ended with {child.exitcode}" if child.exitcode != 0 else 0)
"""


def test_a_real_fork_ends():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "forked from one that uses JAX" in done.stdout
