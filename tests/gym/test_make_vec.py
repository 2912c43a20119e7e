import functools

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import passive_env_checker, performance
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector as wrappers
from gymnasium.wrappers.vector import DictInfoToList, NormalizeObservation, RecordEpisodeStatistics

import wanderlust
from wanderlust.config import SkillConfig
from wanderlust.errors import UserError
from wanderlust.gym.vector import make_vec
from wanderlust.recipes import get_recipe

SIZES = {"ant": (29, 8), "half-cheetah": (18, 6), "humanoid": (47, 17)}


def random_actions(envs, steps, seed=0):
    shape = (steps, *envs.action_space.shape)
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def episodes(envs, steps, seed=3):
    """Observations [steps + 1, worlds, obs] under actions that depend on the number of a world alone."""
    seen = [envs.reset(seed=seed)[0]]
    actions = np.stack([random_actions(make_vec(envs.config.name, 1), steps, k)[:, 0] for k in range(envs.num_envs)], 1)
    seen += [envs.step(action)[0] for action in actions]
    return np.stack(seen)


# --- the interface ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SIZES)
def test_spaces_and_what_a_step_returns(name):
    envs = wanderlust.make_vec(name, num_envs=3, threads=1)
    obs_dim, action_dim = SIZES[name]
    assert (envs.num_envs, envs.single_observation_space.shape, envs.single_action_space.shape) == (
        3,
        (obs_dim,),
        (action_dim,),
    )
    assert envs.observation_space.dtype == envs.action_space.dtype == np.float32
    assert np.all(envs.action_space.low == -1) and np.all(envs.action_space.high == 1)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    obs, infos = envs.reset(seed=0)
    assert obs in envs.observation_space and infos == {}
    obs, reward, terminated, truncated, infos = envs.step(envs.action_space.sample())
    assert obs in envs.observation_space and infos == {}
    assert reward.dtype == np.float64 and np.array_equal(reward, np.zeros(3))
    assert terminated.dtype == truncated.dtype == bool
    assert terminated.shape == truncated.shape == (3,)


def test_episodes_are_as_long_as_published():
    for name, length in {"ant": 200, "half-cheetah": 200, "humanoid": 1000}.items():
        assert get_recipe("paper", name, "lsd", SkillConfig()).env.episode_length == length
        assert make_vec(name, 1).config.episode_length == length


def test_arrays_belong_to_the_caller():
    one, other = make_vec("half-cheetah", 2, threads=1), make_vec("half-cheetah", 2, threads=1)
    actions = random_actions(one, 2)
    one.reset(seed=0)[0][:] = 7.0
    one.step(actions[0])[0][:] = 7.0
    other.reset(seed=0)
    other.step(actions[0])
    assert np.array_equal(one.step(actions[1])[0], other.step(actions[1])[0])


def test_actions_beyond_the_box_are_clipped():
    envs = make_vec("half-cheetah", 2, threads=1)
    envs.reset(seed=[5, 5])
    actions = np.array([[3.0] * 6, [1.0] * 6], np.float32)
    first, second = envs.step(actions)[0]
    assert np.array_equal(first, second)


# --- seeds --------------------------------------------------------------------------------------------------------


def test_results_depend_neither_on_threads_nor_on_the_number_of_worlds():
    alone = episodes(make_vec("ant", 2, threads=1, episode_length=6), 15)
    many = episodes(make_vec("ant", 7, threads=3, episode_length=6), 15)
    assert np.array_equal(alone, many[:, :2])


def test_a_seed_is_an_episode():
    envs = make_vec("ant", 3, threads=1)
    first, again, other = envs.reset(seed=1)[0], envs.reset(seed=1)[0], envs.reset(seed=2)[0]
    assert np.array_equal(first, again)
    assert np.array_equal(first[1:], other[:2])  # world k of seed s is world 0 of seed s + k
    assert not np.any(np.all(first == np.roll(first, 1, axis=0), axis=1))
    listed = envs.reset(seed=[3, 2, 1])[0]
    assert np.array_equal(listed, first[::-1])
    assert envs.np_random_seed == (3, 2, 1)


def test_without_a_seed_worlds_go_on_drawing():
    one, other = make_vec("ant", 2, threads=1), make_vec("ant", 2, threads=1)
    first = one.reset(seed=1)[0]
    other.reset(seed=1)
    second = one.reset()[0]
    assert not np.any(np.all(first == second, axis=1))
    assert np.array_equal(second, other.reset()[0])
    assert np.array_equal(one.reset(seed=[1, None])[0][0], first[0])
    unseeded = [make_vec("ant", 1, threads=1).reset()[0] for _ in range(2)]
    assert not np.array_equal(*unseeded)


def test_large_seeds_are_seeds_of_their_own():
    envs = make_vec("ant", 1, threads=1)
    starts = [envs.reset(seed=seed)[0] for seed in (1, 1 + 2**32, 2**64 - 1)]
    assert len({start.tobytes() for start in starts}) == 3


def test_starts_are_noisy_as_the_world_says():
    obs = make_vec("ant", 2000, threads=1).reset(seed=0)[0]
    model_pose = np.array([0, 0, 0.75, 1] + [0] * 11)
    moved, pushed = obs[:, :15] - model_pose, obs[:, 15:]
    assert np.abs(moved).max() <= 0.1 + 1e-6
    # 30,000 uniform and 28,000 normal numbers: their standard deviations are known to about half a percent
    assert moved.std() == pytest.approx(0.1 / np.sqrt(3), rel=0.02)
    assert pushed.std() == pytest.approx(0.1, rel=0.02)
    assert np.abs(pushed).max() > 0.3


# --- ends ---------------------------------------------------------------------------------------------------------


def test_in_the_next_step_mode_an_episode_ends_with_its_last_observation():
    envs, longer = make_vec("ant", 2, threads=1, episode_length=3), make_vec("ant", 2, threads=1)
    envs.reset(seed=0)
    longer.reset(seed=0)
    actions = random_actions(envs, 8)
    for step, action in enumerate(actions, 1):
        obs, _, terminated, truncated, infos = envs.step(action)
        ongoing = longer.step(action)[0]
        assert not terminated.any() and infos == {}
        assert truncated.tolist() == [step in (3, 7)] * 2  # the fourth step begins the second episode
        if step <= 3:
            assert np.array_equal(obs, ongoing)
        elif step == 4:
            longer.reset(seed=0)
            ongoing = longer.reset()[0]
            assert np.array_equal(obs, ongoing)  # the second episode of a seed, however the first one ended
        elif step <= 7:
            assert np.array_equal(obs, ongoing)


def test_in_the_same_step_mode_the_last_observation_is_in_the_infos():
    envs = make_vec("ant", 2, threads=1, episode_length=3, autoreset_mode="SameStep")
    waiting = make_vec("ant", 2, threads=1, episode_length=3)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    envs.reset(seed=0)
    waiting.reset(seed=0)
    for step, action in enumerate(random_actions(envs, 6), 1):
        obs, _, terminated, truncated, infos = envs.step(action)
        last = waiting.step(action)[0]
        assert not terminated.any() and truncated.tolist() == [step % 3 == 0] * 2
        if truncated.any():
            assert infos["_final_obs"].all() and infos["_final_info"].all()
            assert np.array_equal(np.stack(infos["final_obs"]), last)
            assert np.array_equal(obs, waiting.step(action)[0])
        else:
            assert np.array_equal(obs, last) and infos == {}


def test_in_the_disabled_mode_worlds_wait_to_be_reset():
    envs = make_vec("ant", 2, threads=1, episode_length=2, autoreset_mode="Disabled")
    envs.reset(seed=0)
    action = random_actions(envs, 1)[0]
    envs.step(action)
    envs.reset(options={"reset_mask": np.array([False, True])})
    assert envs.step(action)[3].tolist() == [True, False]
    with pytest.raises(UserError, match=r"worlds \[0\] are over; reset them"):
        envs.step(action)
    envs.reset(options={"reset_mask": np.array([True, False])})
    assert envs.step(action)[3].tolist() == [False, True]


def test_a_masked_reset_leaves_the_other_worlds_alone():
    envs = make_vec("ant", 3, threads=1, episode_length=4, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset(seed=0)
    actions = random_actions(envs, 4)
    before = [envs.step(action)[0] for action in actions[:2]][-1]
    options = {"reset_mask": np.array([False, True, False])}
    obs, _ = envs.reset(seed=9, options=options)
    assert np.array_equal(obs[[0, 2]], before[[0, 2]])
    assert np.array_equal(obs[1], make_vec("ant", 1).reset(seed=10)[0][0])
    assert "reset_mask" in options
    envs.step(actions[2])
    _, _, _, truncated, infos = envs.step(actions[3])
    assert truncated.tolist() == infos["_final_obs"].tolist() == [True, False, True]
    assert infos["final_obs"][1] is None


def test_a_humanoid_that_falls_terminates_and_stands_again():
    envs = make_vec("humanoid", 8, threads=2, episode_length=300, autoreset_mode="SameStep")
    envs.reset(seed=0)
    ended = 0
    for action in random_actions(envs, 120):
        obs, _, terminated, truncated, infos = envs.step(action)
        assert not truncated.any()
        assert np.array_equal(terminated, infos.get("_final_obs", np.zeros(8, bool)))
        for k in np.flatnonzero(terminated):
            assert not 1.0 <= infos["final_obs"][k][2] <= 2.0
            assert obs[k, 2] == pytest.approx(1.4, abs=0.011)
        assert np.all((obs[:, 2] >= 1.0) & (obs[:, 2] <= 2.0))
        ended += terminated.sum()
    assert ended >= 8


def test_a_world_whose_physics_breaks_down_is_truncated_at_its_last_state():
    envs = make_vec("ant", 3, threads=1)
    before = envs.reset(seed=0)[0]
    engine = envs._engine

    class Breaking:
        def step_checked(self, state, action):
            after, _ = engine.step_checked(state, action)
            after.physics[1, -4] = np.nan
            return after, False

    envs._engine = Breaking()
    obs, _, terminated, truncated, infos = envs.step(random_actions(envs, 1)[0])
    assert truncated.tolist() == [False, True, False] and not terminated.any() and infos == {}
    assert np.array_equal(obs[1], before[1]) and not np.array_equal(obs[0], before[0])


# --- Gymnasium ----------------------------------------------------------------------------------------------------


def test_a_step_is_that_of_gymnasiums_ant():
    worlds = 6
    envs = make_vec("ant", worlds, threads=2)
    envs.reset(seed=0)
    actions = random_actions(envs, 31)
    before = [envs.step(action)[0] for action in actions[:30]][-1]  # by now some stand, some lie
    after = envs.step(actions[30])[0]
    theirs = gymnasium.make(
        "Ant-v5",
        exclude_current_positions_from_observation=False,
        include_cfrc_ext_in_observation=False,
        terminate_when_unhealthy=False,
    ).unwrapped
    for k in range(worlds):
        theirs.reset()
        mujoco.mj_resetData(theirs.model, theirs.data)  # our solver starts from nothing, too
        theirs.set_state(before[k, :15].astype(float), before[k, 15:].astype(float))
        theirs.data.qacc_warmstart[:] = 0
        expected = theirs.step(actions[30, k])[0]
        # both compute in float64 from the same numbers; ours is then rounded to float32
        np.testing.assert_allclose(after[k], expected, rtol=1e-6, atol=1e-6)


def test_vector_wrappers_of_gymnasium_work():
    envs = RecordEpisodeStatistics(make_vec("ant", 2, threads=1, episode_length=3))
    envs.reset(seed=0)
    for action in random_actions(envs, 7):
        *_, infos = envs.step(action)
    assert infos["episode"]["l"].tolist() == [3, 3] and infos["episode"]["r"].tolist() == [0, 0]
    assert list(envs.length_queue) == [3, 3, 3, 3]

    envs = DictInfoToList(NormalizeObservation(make_vec("ant", 2, threads=1, episode_length=1)))
    envs.reset(seed=0)
    for action in random_actions(envs, 3):
        obs, *_, infos = envs.step(action)
    assert obs.shape == (2, 29) and infos == [{}, {}]

    same = make_vec("ant", 2, threads=1, episode_length=3, autoreset_mode="SameStep")
    envs = DictInfoToList(RecordEpisodeStatistics(same))
    envs.reset(seed=0)
    for action in random_actions(envs, 6):
        *_, infos = envs.step(action)
    assert infos[1]["episode"]["l"] == 3 and infos[1]["final_obs"].shape == (29,)


class OneOfThree(gymnasium.Env):
    """The middle one of three worlds as a single environment, which is what Gymnasium has a checker for."""

    def __init__(self, name):
        self.envs = make_vec(name, 3, threads=1)
        self.spec = EnvSpec("Tests/OneOfThree-v0", entry_point=functools.partial(OneOfThree, name))
        self.observation_space, self.action_space = self.envs.single_observation_space, self.envs.single_action_space
        self.metadata = {**self.envs.metadata, "render_modes": []}  # test_rendering.py looks at those

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        obs, infos = self.envs.reset(seed=seed, options=options)
        return obs[1], infos

    def step(self, action):
        obs, reward, terminated, truncated, infos = self.envs.step(np.stack([0 * action, action, -action]))
        return obs[1], reward[1], bool(terminated[1]), bool(truncated[1]), infos

    def close(self):
        self.envs.close()


@pytest.mark.parametrize("name", SIZES)
def test_gymnasium_has_nothing_to_complain_about(name):
    """Its checker is for single environments: so passive checks of all worlds, and the whole one of one of them.

    Warnings are errors here.
    """
    envs = make_vec(name, 3, threads=1)
    for observation, action in (
        (envs.single_observation_space, envs.single_action_space),
        (envs.observation_space, envs.action_space),
    ):
        passive_env_checker.check_observation_space(observation)
        passive_env_checker.check_action_space(action)
    passive_env_checker.env_reset_passive_checker(envs, seed=0)
    obs, *_ = envs.step(envs.action_space.sample())
    passive_env_checker.check_obs(obs, envs.observation_space, "step")
    check_env(OneOfThree(name))


@pytest.mark.parametrize("mode", AutoresetMode)
def test_gymnasiums_benchmark_runs_through_many_episodes(mode):
    if not hasattr(performance, "benchmark_vector_step"):
        pytest.skip("this version of Gymnasium has no benchmark of vector environments")
    envs = RecordEpisodeStatistics(make_vec("half-cheetah", 2, threads=1, episode_length=3, autoreset_mode=mode))
    assert performance.benchmark_vector_step(envs, target_duration=0.05, seed=0) > 0
    assert len(envs.length_queue) > 2 and set(envs.length_queue) == {3}


def rolled_out(envs, actions):
    """Observations, rewards and ends of that many steps, the second world a step behind the first.

    In the disabled mode worlds are reset as soon as they end.
    """
    seen = [envs.reset(seed=0)[0]]
    rewards, ends = [], []
    for step, action in enumerate(actions):
        if step == 1:
            seen.append(envs.reset(options={"reset_mask": np.array([False, True])})[0])
        obs, reward, terminated, truncated, _ = envs.step(action.copy())
        assert obs in envs.observation_space
        seen.append(obs)
        rewards.append(reward)
        ends.append(terminated | truncated)
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ends[-1].any():
            seen.append(envs.reset(options={"reset_mask": ends[-1]})[0])
    return np.stack(seen), np.stack(rewards), np.stack(ends)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_vector_wrappers_show_the_same_worlds(mode):
    def make():
        return make_vec("half-cheetah", 2, threads=1, episode_length=3, autoreset_mode=mode)

    actions = np.sign(random_actions(make(), 7))
    zero, one = np.zeros(6, np.float32), np.ones(6, np.float32)
    seen, rewards, ends = rolled_out(make(), actions)
    assert ends.any(axis=0).all() and not ends.all(axis=1).any() and not rewards.any()
    for wrap, moves in [
        (lambda envs: envs, actions),
        (wrappers.ClipAction, 5 * actions),
        (lambda envs: wrappers.RescaleAction(envs, zero, one), (actions + 1) / 2),
        (lambda envs: wrappers.TransformAction(envs, lambda a: -a), -actions),
        (lambda envs: wrappers.ClipReward(envs, -1.0, 1.0), actions),
        (wrappers.NormalizeReward, actions),
        (wrappers.RecordEpisodeStatistics, actions),
        (wrappers.DictInfoToList, actions),
    ]:
        found = rolled_out(wrap(make()), moves)
        for ours, theirs in zip((seen, rewards, ends), found, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    raised = rolled_out(wrappers.TransformReward(make(), lambda reward: reward + 1), actions)[1]
    np.testing.assert_array_equal(raised, rewards + 1)


def in_double(envs):
    # Gymnasium compares float32 bounds with float64's limits, which warns for any space that has bounds
    with np.errstate(over="ignore"):
        return wrappers.DtypeObservation(envs, np.float64)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_wrappers_of_vector_observations_show_the_same_worlds(mode):
    """Gymnasium allows these two modes for them: in the same-step mode last observations would not be transformed."""

    def make():
        return make_vec("half-cheetah", 2, threads=1, episode_length=3, autoreset_mode=mode)

    actions = random_actions(make(), 7)
    seen, _, ends = rolled_out(make(), actions)
    assert ends.any(axis=0).all() and not ends.all(axis=1).any()
    for wrap, change in [
        (wrappers.FlattenObservation, lambda obs: obs),
        (in_double, lambda obs: obs.astype(np.float64)),
        (lambda envs: wrappers.ReshapeObservation(envs, (3, 6)), lambda obs: obs.reshape(*obs.shape[:-1], 3, 6)),
        (lambda envs: wrappers.TransformObservation(envs, lambda obs: -obs), lambda obs: -obs),
    ]:
        found, _, found_ends = rolled_out(wrap(make()), actions)
        assert found.dtype == change(seen).dtype
        np.testing.assert_array_equal(found, change(seen))
        np.testing.assert_array_equal(found_ends, ends)


# --- misuse -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"env": "point"}, "steps MuJoCo bodies, not 'point'; known: ant, half-cheetah, humanoid, fetch-push"),
        ({"num_envs": 0}, "num_envs is 0; it must be a whole number of at least 1"),
        ({"num_envs": 2.5}, "num_envs is 2.5"),
        ({"threads": 0}, "threads is 0"),
        ({"episode_length": 0}, "env.episode_length is 0; it must be at least 1"),
        ({"solver": "pgs"}, "solver is 'pgs'; it must be one of 'newton', 'stock'"),
        ({"cone": "round"}, "cone is 'round'"),
        (
            {"autoreset_mode": "never"},
            "autoreset_mode is 'never'; it must be one of 'NextStep', 'SameStep', 'Disabled'",
        ),
    ],
)
def test_impossible_settings_are_refused(settings, complaint):
    with pytest.raises(UserError, match="make_vec") as refused:
        make_vec(**{"env": "ant", **settings})
    assert complaint in str(refused.value)


def test_impossible_calls_are_refused():
    envs = make_vec("ant", 2, threads=1)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.zeros((2, 8), np.float32))
    with pytest.raises(UserError, match="first reset must be of all worlds"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    envs.reset(seed=0)
    with pytest.raises(UserError, match=r"shape \(8,\); it must be \(2, 8\)"):
        envs.step(np.zeros(8, np.float32))
    with pytest.raises(UserError, match="unknown option 'xy'"):
        envs.reset(options={"xy": 1})
    for mask in ([True, False], np.array([1, 0]), np.array([True])):
        with pytest.raises(UserError, match="must be a boolean array"):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(UserError, match="marks no world"):
        envs.reset(options={"reset_mask": np.zeros(2, bool)})
    with pytest.raises(UserError, match="has 3 entries; it must have one for each of 2 worlds"):
        envs.reset(seed=[1, 2, 3])
    with pytest.raises(UserError, match="seeds must lie in"):
        envs.reset(seed=-1)
    envs.close()
    envs.close()
    assert envs.closed
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        envs.step(np.zeros((2, 8), np.float32))


def test_actions_that_are_no_numbers_are_refused():
    envs = wanderlust.make_vec("ant", num_envs=2)
    envs.reset(seed=0)
    actions = np.zeros((2, 8), np.float32)
    actions[1, 3] = np.nan
    with pytest.raises(UserError, match="not finite"):
        envs.step(actions)
