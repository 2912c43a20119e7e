"""Gymnasium environments as `make_vec` and `SkillEnv` have them: the same steps, episodes that end in any way."""

import json
from pathlib import Path

import numpy as np
import pytest

from wanderlust import SkillEnv, SkillVectorEnv
from wanderlust.envs import make_world
from wanderlust.envs.worlds.gymnasium import GymnasiumWorld
from wanderlust.errors import UserError
from wanderlust.gym.vector import make_vec

MINE = "gymnasium:gym_envs:Drifts-v0"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "envs"))


def world_of(**options):
    return make_world(GymnasiumWorld.Config(MINE, episode_length=5, starts=8, kwargs=json.dumps(options)))


class Pushes:
    """Skills made by hand: a skill is the action."""

    discrete, skill_dim, decides_every = False, 2, 0

    def __init__(self, world):
        self.world, self.spec = world, world.spec

    def nearest(self, z):
        return z

    def act(self, obs, z):
        return np.clip(z, -1, 1)


@pytest.mark.parametrize(
    ("options", "length", "which"), [({}, 5, "limit"), ({"ends": 3}, 3, "ends"), ({"cuts": 3}, 3, "")]
)
def test_episodes_are_those_of_the_environment(options, length, which):
    envs = make_vec(world_of(**options), 3)
    start, action = envs.reset(seed=0)[0], np.float32([[1, 1], [-1, -1], [0, -1]])
    obs = start
    for step in range(1, length + 1):
        before, (obs, _, terminated, truncated, _) = obs, envs.step(action)
        np.testing.assert_allclose(obs - before, [[2, 1, 1], [-2, 0, 1], [0, 0, 1]], atol=1e-5)
        assert terminated.tolist() == [step == length and which == "ends"] * 3
        assert truncated.tolist() == [step == length and which != "ends"] * 3
    fresh = envs.step(action)[0]
    assert np.all(fresh[:, 2] == 0) and envs.step(action)[0][:, 2].tolist() == [1, 1, 1]
    np.testing.assert_array_equal(envs.reset(seed=0)[0], start)
    envs.close()


def test_skills_are_held_and_worlds_whose_episode_is_over_wait_for_the_others():
    world = world_of()
    envs = SkillVectorEnv(Pushes(world), world, 2, hold=3)
    start = envs.reset(seed=0)[0]
    obs = envs.step(np.float32([[0.5, -1], [0, 1]]))[0]
    np.testing.assert_allclose(obs - start, [[3, 0, 3], [0, 3, 3]], atol=1e-5)
    envs.reset(options={"reset_mask": np.array([True, False])})  # the other is now three steps ahead
    obs, _, _, truncated, infos = envs.step(np.zeros((2, 2), np.float32))
    assert (obs[:, 2].tolist(), infos["steps"].tolist(), truncated.tolist()) == ([3, 5], [3, 2], [False, True])
    obs, _, _, truncated, infos = envs.step(np.zeros((2, 2), np.float32))
    assert (obs[:, 2].tolist(), infos["steps"].tolist(), truncated.tolist()) == ([5, 0], [2, 0], [True, False])
    envs.close()


@pytest.mark.parametrize(("options", "ends"), [({"ends": 4}, (True, False)), ({"cuts": 4}, (False, True))])
def test_one_world_ends_within_a_skill_as_the_environment_says(options, ends):
    world = world_of(**options)
    env = SkillEnv(Pushes(world), world, hold=3)
    env.reset(seed=0)
    assert env.step(np.zeros(2))[2:4] == (False, False)
    obs, _, terminated, truncated, info = env.step(np.zeros(2))
    assert (obs[2], info["steps"], (terminated, truncated)) == (4, 1, ends)
    env.close()


def test_threads_are_refused():
    with pytest.raises(UserError, match="leave out threads"):
        make_vec(world_of(), 1, threads=2)
