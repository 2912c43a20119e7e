"""Our vector environments as Stable-Baselines3 takes them, against its own way of taking single ones."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from test_skill_env import FAR_GOALS, Hands

from trained import run_python, trained
from wanderlust import SkillEnv, SkillVectorEnv
from wanderlust.downstream.tasks import make_task
from wanderlust.errors import UserError
from wanderlust.gym.vector import make_vec

EXAMPLE = Path(__file__).parents[2] / "examples" / "sb3_sac.py"
WHY = "needs Stable-Baselines3: make test-sb3"


def adapter():
    pytest.importorskip("stable_baselines3", reason=WHY)
    from wanderlust.gym.sb3 import SB3VecEnv

    return SB3VecEnv


def ours(task, count, hold=4, discrete=False):
    return adapter()(SkillVectorEnv(Hands(discrete), task, count, hold=hold, autoreset_mode="SameStep"))


def test_without_it_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    monkeypatch.delitem(sys.modules, "stable_baselines3.common.vec_env", raising=False)
    monkeypatch.delitem(sys.modules, "wanderlust.gym.sb3", raising=False)
    with pytest.raises(UserError, match=r"stable_baselines3 is not installed\): pip install -e '.\[sb3\]'"):
        import wanderlust.gym.sb3  # noqa: F401


@pytest.mark.sb3
@pytest.mark.parametrize("discrete", [False, True])
def test_it_says_what_stable_baselines_says_of_single_environments(discrete):
    """Goals are near, so that some episodes are finished and others cut off, in different worlds at different times."""
    task = make_task("point-goal", slot=10, radius=4.0)
    many = ours(task, 3, discrete=discrete)
    from stable_baselines3.common.vec_env import DummyVecEnv

    alone = DummyVecEnv([lambda: SkillEnv(Hands(discrete), task, hold=4)] * 3)
    assert many.observation_space == alone.observation_space and many.action_space == alone.action_space
    for seed in (10, None, 3):  # without a seed, worlds go on to their next episodes
        if seed is not None:
            assert many.seed(seed) == alone.seed(seed)
        np.testing.assert_array_equal(many.reset(), alone.reset())
        assert many.reset_infos == alone.reset_infos
        random = np.random.default_rng(0)
        seen = set()
        for _ in range(12):
            action = random.integers(4, size=3) if discrete else random.uniform(-2, 2, (3, 2)).astype(np.float32)
            (obs, reward, done, infos), (expected, paid, over, says) = many.step(action), alone.step(action)
            np.testing.assert_array_equal(obs, expected)
            np.testing.assert_array_equal(reward, paid)
            np.testing.assert_array_equal(done, over)
            assert (reward.dtype, done.dtype) == (paid.dtype, over.dtype)
            for info, told in zip(infos, says, strict=True):
                assert info.keys() == told.keys()
                for name, value in told.items():
                    np.testing.assert_array_equal(info[name], value)
                if "terminal_observation" in told:
                    seen.add(told["TimeLimit.truncated"])
        assert seen == {False, True}


@pytest.mark.sb3
def test_the_end_of_an_episode_is_told_apart_from_the_start_of_the_next():
    envs = ours(make_task("point-goal", slot=6, **FAR_GOALS), 2)
    envs.seed(0)
    first = envs.reset()
    right = np.array([[1.0, 0.0]] * 2, np.float32)
    _, _, done, infos = envs.step(right)
    assert not done.any() and "terminal_observation" not in infos[0] and infos[0]["steps"] == 4
    obs, _, done, infos = envs.step(right)
    assert done.all() and infos[1]["TimeLimit.truncated"] is True and infos[1]["steps"] == 2
    np.testing.assert_array_equal(infos[1]["terminal_observation"], [6, 0, *first[1, 2:]])
    np.testing.assert_array_equal(obs[:, :2], 0)
    assert np.all(obs[:, 2:] != first[:, 2:])


@pytest.mark.sb3
def test_bodies_without_a_task_fit_as_well():
    envs = adapter()(make_vec("half-cheetah", num_envs=2, threads=1, autoreset_mode="SameStep"))
    assert envs.reset().shape == (2, *envs.observation_space.shape)
    obs, _, done, infos = envs.step(np.zeros((2, 6), np.float32))
    assert obs.shape == (2, *envs.observation_space.shape) and not done.any() and len(infos) == 2
    envs.close()


@pytest.mark.sb3
def test_what_it_cannot_do_is_refused():
    make = adapter()
    for mode in ("NextStep", "Disabled"):
        with pytest.raises(UserError, match=f"autoreset_mode is '{mode}'; make the environment with 'SameStep'"):
            make(SkillVectorEnv(Hands(), "point-goal", 2, autoreset_mode=AutoresetMode(mode)))
    envs = ours("point-goal", 3)
    assert [task.name for task in envs.get_attr("task", [0, 2])] == ["point-goal"] * 2
    assert envs.env_is_wrapped(object, 1) == [False] and envs.render_mode is None and not envs.has_attr("nothing")
    with pytest.raises(UserError, match=r"set 'hold' on \.envs"):
        envs.set_attr("hold", 3)
    with pytest.raises(UserError, match=r"call 'reset' of \.envs"):
        envs.env_method("reset")
    envs.set_options({"goal": 3})
    with pytest.raises(UserError, match="no options of their own"):
        envs.reset()


@pytest.mark.sb3
def test_sac_learns_a_task_with_it():
    """Point skills that are the action itself, one goal near by: chance reaches it seldom, SAC nearly always."""
    make = adapter()
    import torch
    from stable_baselines3 import SAC

    torch.set_num_threads(1)
    task = make_task("point-goal", slot=12, goal_range=4.0, radius=1.0)
    envs = make(SkillVectorEnv(Hands(), task, 8, hold=2, autoreset_mode="SameStep"))
    settings = {"learning_rate": 3e-3, "gamma": 0.9, "learning_starts": 200, "ent_coef": "auto_0.1", "batch_size": 128}
    model = SAC("MlpPolicy", envs, gradient_steps=4, seed=0, policy_kwargs={"net_arch": [64, 64]}, **settings)

    def share_reached():
        worlds = SkillVectorEnv(Hands(), task, 100, hold=2)
        obs, _ = worlds.reset(seed=1000)
        paid, running = np.zeros(100), np.ones(100, bool)
        while running.any():
            obs, reward, terminated, truncated, _ = worlds.step(model.predict(obs, deterministic=True)[0])
            paid += np.where(running, reward, 0.0)
            running &= ~(terminated | truncated)
        return paid.mean()

    before = share_reached()
    model.learn(4000)
    assert share_reached() > max(0.7, before + 0.3)


@pytest.mark.sb3
def test_the_example_runs_and_writes_what_it_found(tmp_path):
    pytest.importorskip("stable_baselines3", reason=WHY)
    small = {"task": "point-goal", "hold": 10, "envs": 2, "steps": 240, "episodes": 5, "seed": 3, "seeds": 2}
    options = [word for name, value in small.items() for word in (f"--{name}", str(value))]
    run = str(trained().path)
    options += ["--skills", run, "--out", str(tmp_path / "sac.json")]
    code, out, err = run_python(EXAMPLE, *options, cwd=tmp_path, timeout=300)
    assert code == 0, err
    assert "240 skills chosen" in out and "seed 4: SAC earns" in out and "random skills" in out
    text = (tmp_path / "sac.json").read_text()
    assert str(tmp_path) not in text and run not in text
    result = json.loads(text)
    assert [found["seed"] for found in result["seeds"]] == [3, 4]
    assert result["versions"]["stable-baselines3"] and result["versions"]["torch"]
    for found in result["seeds"]:
        assert found["return"]["episodes"] == found["random"]["episodes"] == 5 and found["gradient_steps"] > 0
        assert [row["steps"] for row in found["curve"]][-1] == 240
    means = [found["return"]["mean"] for found in result["seeds"]]
    assert result["mean_of_seeds"]["return"] == pytest.approx(np.mean(means))


@pytest.mark.sb3
def test_skills_step_in_processes_of_stable_baselines3():
    """`SubprocVecEnv` sends each environment to a process of its own, which loads the skills there."""
    pytest.importorskip("stable_baselines3", reason=WHY)
    from stable_baselines3.common.vec_env import SubprocVecEnv

    env = SkillEnv("zoo:ant-laptop", "ant-goal", hold=2)
    here, _ = env.reset(seed=3)
    workers = SubprocVecEnv([lambda: SkillEnv("zoo:ant-laptop", "ant-goal", hold=2)] * 2, start_method="forkserver")
    try:
        workers.seed(3)  # 3 for the first, 4 for the second
        there = workers.reset()
        assert there.shape == (2, *here.shape) and not np.array_equal(there[0], there[1])
        np.testing.assert_allclose(there[0], here, atol=1e-6)
        action = np.ones((2, *env.action_space.shape), np.float32)
        after, rewards, done, _ = workers.step(action)
        np.testing.assert_allclose(after[0], env.step(action[0])[0], atol=1e-4)
        assert rewards.shape == done.shape == (2,)
    finally:
        workers.close()
