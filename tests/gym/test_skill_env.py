"""Skills as actions: what is held, summed and handed out, with hands of our own and with learned ones."""

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import wanderlust
from helpers import tiny_config
from trained import trained
from wanderlust import SkillEnv, SkillVectorEnv, train
from wanderlust.downstream.tasks import make_task
from wanderlust.envs import make_world
from wanderlust.envs.worlds.body import BodyConfig
from wanderlust.envs.worlds.point import PointConfig
from wanderlust.errors import UserError
from wanderlust.gym.tasks import TaskVectorEnv
from wanderlust.runs.learned import Learned, of_seed
from wanderlust.runs.loading import Skills


class Hands:
    """Skills made by hand: a skill is the action itself, or half a step along an axis; on a body, nothing at all."""

    def __init__(self, discrete=False, world=None):
        self.world = world or make_world(PointConfig())
        self.spec, self.discrete, self.skill_dim = self.world.spec, discrete, 4 if discrete else 2
        self.asked = []
        self.decides_every = 0

    def nearest(self, z):
        return z

    def act(self, obs, z):
        self.asked.append((np.array(obs), np.array(z)))
        assert obs.shape == (len(z), self.spec.obs_dim)
        if self.spec.action_dim != 2:
            return np.zeros((len(z), self.spec.action_dim), np.float32)
        return z @ np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], np.float32) / 2 if self.discrete else z


class Leads(Hands):
    """Skills with a level between them and the body: a command is the skill and where it was given."""

    def __init__(self):
        super().__init__()
        self.decides_every = 3

    def decide(self, obs, z):
        return np.concatenate([z, obs], axis=1)

    def follow(self, obs, command):
        return command[:, :2] / 2 + command[:, 2:] / 100


RIGHT = np.array([1.0, 0.0], np.float32)
FAR_GOALS = {"goal_range": 1000.0, "radius": 1e-3}


def test_what_an_action_and_an_observation_are():
    env = SkillEnv(Hands(), "point-goal")
    assert env.action_space == Box(-2.0, 2.0, (2,), np.float32)
    assert env.observation_space.shape == (4,)
    assert SkillEnv(Hands(discrete=True), "point-goal").action_space == Discrete(4)
    obs, info = env.reset(seed=0)
    assert obs in env.observation_space and info == {}
    np.testing.assert_array_equal(obs[:2], 0)  # raw, and then the goal
    assert 0 < np.abs(obs[2:]).max() <= 10


def test_goals_of_an_upper_level_stand_for_some_steps_and_are_set_anew_with_every_action():
    env = SkillEnv(Leads(), make_task("point-goal", **FAR_GOALS), hold=4)
    env.reset(seed=0)
    x = 0.0
    for _ in range(2):
        for sets_goal in (True, False, False, True):
            decided = x if sets_goal else decided
            x += 0.5 + decided / 100
        np.testing.assert_allclose(env.step(RIGHT)[0][0], x, rtol=1e-5)


def test_a_skill_is_held_and_sees_the_world_without_the_task():
    hands = Hands()
    env = SkillEnv(hands, make_task("point-goal", **FAR_GOALS), hold=7)
    obs, _ = env.reset(seed=0)
    after, reward, terminated, truncated, info = env.step(RIGHT)
    assert len(hands.asked) == 7
    for t, (seen, skill) in enumerate(hands.asked):
        np.testing.assert_array_equal(seen, [[t, 0]])
        np.testing.assert_array_equal(skill, [RIGHT])
    np.testing.assert_array_equal(after, [7, 0, *obs[2:]])
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info == {"steps": 7, "fell": False, "broken": False}


def test_25_steps_unless_said_otherwise():
    env = SkillEnv(Hands(), make_task("point-goal", **FAR_GOALS))
    env.reset(seed=0)
    steps = []
    for _ in range(4):
        _, _, terminated, truncated, info = env.step(RIGHT)
        steps.append(info["steps"])
    assert steps == [25] * 4 and (terminated, truncated) == (False, True)


def test_rewards_are_summed_over_the_hold():
    """All goals lie within the radius: one is paid in every slot of two steps, but for the very first step."""
    env = SkillEnv(Hands(), make_task("point-multi-goals", slot=2, radius=500.0, reward=2.5), hold=3)
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(0 * RIGHT)  # clock: 1, then 2 (paid), then 4 (paid)
    assert (reward, terminated, truncated, info["steps"]) == (5.0, False, False, 3)
    _, reward, terminated, truncated, info = env.step(0 * RIGHT)  # 6 (paid), 8 (paid): over
    assert (reward, terminated, truncated, info["steps"]) == (5.0, True, False, 2)


def test_an_episode_that_ends_within_a_hold_stops_there():
    env = SkillEnv(Hands(), make_task("point-goal", slot=30, **FAR_GOALS), hold=25)
    env.reset(seed=0)
    env.step(RIGHT)
    obs, _, terminated, truncated, info = env.step(RIGHT)
    assert (terminated, truncated, info["steps"]) == (False, True, 5)
    np.testing.assert_array_equal(obs[:2], [30, 0])
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(RIGHT)
    assert np.all(env.reset()[0][:2] == 0)


def test_skills_beyond_the_box_are_clipped_and_numbers_become_codes():
    hands = Hands()
    env = SkillEnv(hands, "point-goal", hold=1)
    env.reset(seed=0)
    env.step(np.array([5.0, -3.0]))
    np.testing.assert_array_equal(hands.asked[0][1], [[2, -2]])
    hands = Hands(discrete=True)
    env = SkillEnv(hands, make_task("point-goal", **FAR_GOALS), hold=4)
    env.reset(seed=0)
    obs = env.step(np.int64(2))[0]
    np.testing.assert_array_equal(hands.asked[0][1], [[0, 0, 1, 0]])
    np.testing.assert_array_equal(obs[:2], [-2, 0])


# --- many worlds -----------------------------------------------------------------------------------------------------


def test_worlds_of_the_vector_form_are_single_environments():
    task = make_task("point-multi-goals", slot=6, radius=4.0)
    many, alone = SkillVectorEnv(Hands(), task, 3, hold=4), [SkillEnv(Hands(), task, hold=4) for _ in range(3)]
    obs, _ = many.reset(seed=10)
    for k, env in enumerate(alone):
        np.testing.assert_array_equal(env.reset(seed=10 + k)[0], obs[k])
    random, over = np.random.default_rng(0), [False] * 3
    for _ in range(6):
        action = random.uniform(-2, 2, (3, 2)).astype(np.float32)
        obs, reward, terminated, truncated, infos = many.step(action)
        for k, env in enumerate(alone):
            if over[k]:  # this step only began the next episode
                expected, paid, ends, says = env.reset()[0], 0.0, (False, False), None
            else:
                expected, paid, *ends, says = env.step(action[k])
            np.testing.assert_array_equal(obs[k], expected)
            assert (reward[k], terminated[k], truncated[k]) == (paid, *ends)
            assert infos["_steps"][k] == (says is not None)
            assert infos["steps"][k] == (says["steps"] if says else 0)
            over[k] = any(ends)
    assert many._episode.max() >= 1  # some have begun another


def test_in_the_same_step_mode_the_end_is_in_the_infos():
    task = make_task("point-goal", slot=3, **FAR_GOALS)
    envs = SkillVectorEnv(Hands(), task, 2, hold=2, autoreset_mode="SameStep")
    envs.reset(seed=0)
    envs.reset(options={"reset_mask": np.array([True, True])})
    *_, infos = envs.step(np.stack([RIGHT, RIGHT]))
    assert infos["steps"].tolist() == [2, 2] and "final_obs" not in infos
    envs.reset(options={"reset_mask": np.array([False, True])})
    obs, _, terminated, truncated, infos = envs.step(np.stack([RIGHT, RIGHT]))
    assert truncated.tolist() == [True, False] and not terminated.any()
    np.testing.assert_array_equal(infos["final_obs"][0][:2], [3, 0])
    np.testing.assert_array_equal(obs[:, :2], [[0, 0], [2, 0]])  # one begins anew, one goes on
    assert infos["final_obs"][1] is None
    assert infos["final_info"]["steps"][0] == 1 and infos["final_info"]["_steps"].tolist() == [True, False]
    assert infos["steps"].tolist() == [0, 2] and infos["_steps"].tolist() == [False, True]


def test_gymnasium_s_statistics_count_what_is_summed():
    task = make_task("point-multi-goals", slot=2, radius=500.0)
    envs = RecordEpisodeStatistics(SkillVectorEnv(Hands(), task, 2, hold=3))
    envs.reset(seed=0)
    envs.step(np.zeros((2, 2), np.float32))
    *_, infos = envs.step(np.zeros((2, 2), np.float32))
    assert infos["episode"]["r"].tolist() == [4.0, 4.0] and infos["episode"]["l"].tolist() == [2, 2]


def test_a_body_that_falls_ends_the_hold():
    """Humanoid without any torque: it sinks below 1 m long before 125 steps are over. The engine is `c`."""
    hands = Hands(world=make_world(BodyConfig("humanoid", 1000)))
    envs = SkillVectorEnv(hands, "humanoid-goal", 3, hold=125, threads=2)
    before, _ = envs.reset(seed=0)
    obs, reward, terminated, truncated, infos = envs.step(np.zeros((3, 2), np.float32))
    assert terminated.all() and infos["fell"].all() and not truncated.any() and not reward.any()
    assert np.all((infos["steps"] > 20) & (infos["steps"] < 125)) and len(hands.asked) == infos["steps"].max()
    assert np.all(obs[:, 2] < 1.0) and np.all(obs[:, 2] > 0.9)  # where each of them fell, while others went on

    plain = TaskVectorEnv("humanoid-goal", 3, threads=1)
    np.testing.assert_array_equal(plain.reset(seed=0)[0], before)
    for _ in range(infos["steps"].min()):
        expected = plain.step(np.zeros((3, 17), np.float32))[0]
    first = infos["steps"].argmin()
    np.testing.assert_array_equal(obs[first], expected[first])


# --- learned skills --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discrete", [None, 3])
def test_learned_skills_act_by_their_mode(discrete):
    skills = wanderlust.load(trained(discrete=discrete))
    envs = SkillVectorEnv(skills, make_task("point-goal", **FAR_GOALS), 2, hold=3)
    obs, _ = envs.reset(seed=0)
    action = np.array([2, 0]) if discrete else np.array([[1.5, -0.5], [0.0, 2.0]], np.float32)
    z = np.eye(3)[action] if discrete else action
    position = obs[:, :2]
    for _ in range(3):
        position = position + skills.act(position, z)
    np.testing.assert_allclose(envs.step(action)[0][:, :2], position, atol=1e-5)


def test_of_skills_that_are_directions_the_length_does_not_count():
    parts = train.assemble(tiny_config("metra", skills_unit_length=True))
    state = train.init(parts).learner
    skills = Skills(parts, of_seed(Learned(state.sac.policy, state.method), 0))
    envs = SkillVectorEnv(skills, make_task("point-goal", **FAR_GOALS), 3, hold=1)
    assert envs.single_action_space == Box(-2.0, 2.0, (2,), np.float32)
    envs.reset(seed=0)
    moved = envs.step(np.array([[2.0, 0.0], [0.1, 0.0], [0.0, 0.0]], np.float32))[0][:, :2]
    np.testing.assert_allclose(moved[:2], np.tile(skills.act([0, 0], [1, 0]), (2, 1)), atol=1e-6)
    assert not np.allclose(skills.act([0, 0], [2, 0]), skills.act([0, 0], [1, 0]), atol=1e-3)  # the policy would care
    assert np.all(np.isfinite(moved))


@pytest.mark.parametrize("discrete", [None, 3])
@pytest.mark.filterwarnings("ignore:.*we recommend using a symmetric and normalized space:UserWarning")
@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes:UserWarning")
def test_gymnasium_has_nothing_to_complain_about_but_the_range_of_z(discrete):
    check_env(SkillEnv(wanderlust.load(trained(discrete=discrete)), "point-multi-goals"))


@pytest.mark.parametrize("discrete", [None, 3])
@pytest.mark.filterwarnings("ignore:We recommend you to use a symmetric and normalized Box:UserWarning")
@pytest.mark.sb3
def test_nor_has_stable_baselines(discrete):
    checker = pytest.importorskip(
        "stable_baselines3.common.env_checker", reason="needs Stable-Baselines3: make test-sb3"
    )
    checker.check_env(SkillEnv(wanderlust.load(trained(discrete=discrete)), "point-multi-goals"), warn=True)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"task": "ant-goal"}, "ant-goal is a task of 'ant'; these skills are of 'point'"),
        ({"task": "go"}, "there is no task 'go'"),
        ({"hold": 0}, "SkillVectorEnv: hold is 0; it must be a whole number of at least 1"),
        ({"num_envs": 1.5}, "num_envs is 1.5"),
        ({"autoreset_mode": "later"}, "autoreset_mode is 'later'"),
    ],
)
def test_impossible_settings_are_refused(settings, complaint):
    with pytest.raises(UserError) as refused:
        SkillVectorEnv(**{"skills": Hands(), "task": "point-goal", **settings})
    assert complaint in str(refused.value)


def test_impossible_actions_are_refused():
    envs = SkillVectorEnv(Hands(discrete=True), "point-goal", 2)
    envs.reset(seed=0)
    for actions in (np.array([0, 4]), np.array([-1, 0]), np.array([0.0, 1.0])):
        with pytest.raises(UserError, match="is not in Discrete"):
            envs.step(actions)
    with pytest.raises(UserError, match=r"shape \(1,\); it must be \(2,\)"):
        envs.step(np.array([1]))
    envs = SkillVectorEnv(Hands(), "point-goal", 2)
    envs.reset(seed=0)
    with pytest.raises(UserError, match=r"not finite; they must be numbers in \[-2, 2\]"):
        envs.step(np.full((2, 2), np.nan))


def test_a_zoo_entry_by_its_name_is_enough_and_goes_to_other_processes():
    env = SkillEnv("zoo:ant-laptop", "ant-goal", hold=2)
    assert repr(env.skills).startswith(
        "<Skills of ant: 2-D continuous, learned by lsd; observations of 29, actions of 8"
    )
    again = pickle.loads(pickle.dumps(env))
    assert len(pickle.dumps(env)) < 2000  # the name, not the weights
    (one, _), (other, _) = env.reset(seed=3), again.reset(seed=3)
    np.testing.assert_array_equal(one, other)
    action = np.array([0.5, -1.0], np.float32)
    np.testing.assert_array_equal(env.step(action)[0], again.step(action)[0])
    with pytest.raises(
        UserError,
        match=r"obs has shape \(105,\); it must be \(29,\).*gymnasium.make\('Ant-v5', "
        "exclude_current_positions_from_observation=False, include_cfrc_ext_in_observation=False",
    ):
        env.skills.act(gymnasium.make("Ant-v5").reset()[0], action)
    with pytest.raises(UserError, match="skills is 3"):
        SkillEnv(3, "ant-goal")
