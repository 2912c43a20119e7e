"""Environments as pictures: of the state they are in, one of each world; windows only where there is a display."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import wanderlust
from wanderlust.errors import UserError
from wanderlust.gym.rendering import SIDE
from wanderlust.report.video import opengl


@pytest.fixture
def renderer(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    try:
        opengl.backend()
    except UserError as missing:
        pytest.skip(str(missing))


def test_every_world_of_a_vector_environment_has_a_picture_of_its_own(renderer):
    envs = wanderlust.make_vec("ant", 2, threads=1, render_mode="rgb_array")
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.render()
    envs.reset(seed=0)
    first = envs.render()
    assert [picture.shape for picture in first] == [(SIDE, SIDE, 3)] * 2 and first[0].dtype == np.uint8
    assert np.array_equal(first[0], envs.render()[0])  # looking changes nothing
    assert (first[0] != first[1]).any()
    obs = envs.step(np.ones((2, 8), np.float32))[0]
    assert (envs.render()[0] != first[0]).any()
    again = wanderlust.make_vec("ant", 2, threads=1)
    again.reset(seed=0)
    assert np.array_equal(again.step(np.ones((2, 8), np.float32))[0], obs)
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        assert again.render() is None
    for one in (envs, again):
        one.close()


def test_gymnasium_finds_nothing_wrong_with_tasks_as_pictures(renderer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("PointGoal", "AntGoal"):
            env = gymnasium.make(f"wanderlust/{name}-v0", render_mode="rgb_array")
            assert env.metadata["render_modes"] == ["rgb_array"]
            check_env(env.unwrapped)
            env.close()


def test_goals_are_in_the_picture(renderer):
    env = gymnasium.make("wanderlust/AntGoal-v0", render_mode="rgb_array", goal_range=0.5, radius=1.0)
    env.reset(seed=1)
    red, _, blue = env.render().astype(int).transpose(2, 0, 1)
    assert (blue - red > 60).mean() > 0.01
    env.close()


def test_windows_need_a_display(renderer):
    with pytest.raises(UserError, match="needs a display, and there is none; use 'rgb_array'"):
        gymnasium.make("wanderlust/AntGoal-v0", render_mode="human")
    with pytest.raises(UserError, match="point has no window"):
        gymnasium.make("wanderlust/PointGoal-v0", render_mode="human")
    with pytest.raises(UserError, match="render_mode is 'ansi'; it must be one of 'human', 'rgb_array' or None"):
        wanderlust.make_vec("ant", 1, render_mode="ansi")
