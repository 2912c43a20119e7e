"""Statistics of anybody's environment, against states that are known, however its episodes follow each other."""

import dataclasses

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import TransformObservation

import wanderlust
from wanderlust.api import configure
from wanderlust.envs import make_engine, make_world
from wanderlust.envs.statistics import random_statistics
from wanderlust.errors import UserError
from wanderlust.gym.statistics import moments_in_batches

START = -1e6
"""What an episode of `Stairs` starts with: a mean that one of these got into would show it."""


class Stairs(gymnasium.Env):
    """Shows 1, 2, ... and is over after `length` steps: terminated, or truncated if that is odd. 0.1 never changes."""

    def __init__(self, length=3, observation=None, action=None):
        self.length, self.closed, self.at = length, 0, None
        self.observation_space = observation or spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = action or spaces.Discrete(3)

    def show(self, value):
        return np.array([value, 0.1])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.show(START), {}

    def step(self, action):
        assert action in self.action_space
        assert self.at is not None and self.at < self.length, "a step of an episode that is over"
        self.at += 1
        over = self.at == self.length
        return self.show(float(self.at)), 0.0, over and self.length % 2 == 0, over and self.length % 2 == 1, {}

    def close(self):
        self.closed += 1


class Recorder(gymnasium.Wrapper):
    """Keeps what it shows after each step, what it starts with, and its actions."""

    def __init__(self, env):
        super().__init__(env)
        self.starts, self.seen, self.actions = [], [], []

    def reset(self, **kwargs):
        obs, info = super().reset(**kwargs)
        self.starts.append(np.array(obs, np.float64))
        return obs, info

    def step(self, action):
        obs, *rest = super().step(action)
        self.seen.append(np.array(obs, np.float64))
        self.actions.append(np.array(action))
        return obs, *rest


def climbed(steps, *lengths):
    """What stairs of these lengths show in that many steps each."""
    return np.array([at % length + 1 for length in lengths for at in range(steps)])


def assert_climbed(found, steps, *lengths):
    expected = climbed(steps, *lengths)
    mean, std = found
    assert mean == (pytest.approx(expected.mean(), rel=1e-12), 0.1)
    assert std == (pytest.approx(expected.std(), rel=1e-12), 1.0)


# --- which states count ---------------------------------------------------------------------------------------------


def test_an_episode_that_ends_is_begun_anew_and_its_start_does_not_count():
    for length in (2, 3, 4, 5, 7):
        assert_climbed(wanderlust.normalise(Stairs(length), rollouts=2, steps=5), 5, length)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", AutoresetMode)
def test_autoreset_modes_neither_add_states_nor_lose_any(mode, copy):
    """Worlds that end at different times: each counts for as many states, whichever steps only began an episode."""
    lengths = (1, 2, 3, 4, 9)
    envs = SyncVectorEnv([lambda n=n: Stairs(n) for n in lengths], copy=copy, autoreset_mode=mode)
    found = wanderlust.normalise(envs, rollouts=6, steps=7)  # two batches
    assert_climbed(found, 7, *lengths)
    assert not envs.closed


def test_wrapped_worlds():
    envs = SyncVectorEnv([lambda n=n: Stairs(n) for n in (2, 3)], autoreset_mode=AutoresetMode.DISABLED)
    doubled = TransformObservation(envs, lambda obs: obs * (2.0, 1.0))
    mean, std = wanderlust.normalise(doubled, rollouts=2, steps=4)
    assert_climbed(((mean[0] / 2, mean[1]), (std[0] / 2, std[1])), 4, 2, 3)


def test_rollouts_are_rounded_up_to_whole_batches():
    recorders = []

    def make():
        recorders.append(Recorder(Stairs(9)))
        return recorders[-1]

    wanderlust.normalise(SyncVectorEnv([make] * 3), rollouts=4, steps=5)
    assert [len(recorder.seen) for recorder in recorders] == [10, 10, 10]


@pytest.mark.parametrize(("name", "ends"), [("Pendulum-v1", False), ("CartPole-v1", True), ("Hopper-v5", True)])
def test_gymnasiums_own(name, ends):
    """Continuous and discrete actions, episodes that end and that do not: all that was seen after a step counts."""
    made = Recorder(gymnasium.make(name))
    mean, std = wanderlust.normalise(made, rollouts=4, steps=40, seed=5)
    assert len(made.seen) == 160
    assert (len(made.starts) > 4) == ends
    np.testing.assert_allclose(mean, np.mean(made.seen, axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(std, np.std(made.seen, axis=0), rtol=1e-9)
    assert wanderlust.normalise(name, rollouts=4, steps=40, seed=5) == (mean, std)


def test_bodies_as_vector_environments():
    def found(mode, length):
        envs = wanderlust.make_vec("half-cheetah", 3, threads=1, episode_length=length, autoreset_mode=mode)
        numbers = wanderlust.normalise(envs, rollouts=3, steps=4)
        assert not envs.closed and envs.reset(seed=0)[0].shape == (3, 18)
        return numbers

    after, within, never = AutoresetMode
    assert found(after, 4) == found(within, 4) == found(never, 4)
    assert found(within, 3) == found(never, 3) != found(never, 4)
    assert found(after, 3) != found(never, 3)  # it draws actions also for steps that only begin an episode


def test_images_and_whole_numbers():
    class Image(Stairs):
        def show(self, value):
            return np.full((2, 2, 1), max(value, 0), np.uint8) + np.arange(4, dtype=np.uint8).reshape(2, 2, 1)

    box = spaces.Box(0, 255, (2, 2, 1), np.uint8)
    for env in (Image(observation=box), SyncVectorEnv([lambda: Image(observation=box)] * 2)):
        mean, std = wanderlust.normalise(env, rollouts=2, steps=3)
        assert mean == pytest.approx((2, 3, 4, 5)) and std == pytest.approx([np.sqrt(2 / 3)] * 4)


@pytest.mark.parametrize(
    "space", [spaces.Box(-2, 2, (3,)), spaces.Discrete(4, start=5), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(3)]
)
def test_actions_are_drawn_from_the_whole_space(space):
    made = Recorder(Stairs(action=space))
    wanderlust.normalise(made, rollouts=40, steps=3)  # `Stairs` looks whether they are in it
    drawn = np.array(made.actions)
    if isinstance(space, spaces.Box):
        assert drawn.min() < -1.9 and drawn.max() > 1.9
    else:
        sizes = {spaces.Discrete: [4], spaces.MultiDiscrete: [2, 3], spaces.MultiBinary: [2, 2, 2]}[type(space)]
        assert [len(set(column)) for column in drawn.reshape(120, -1).T] == sizes


# --- numbers --------------------------------------------------------------------------------------------------------


def test_small_differences_of_large_numbers():
    """The difference of two means of squares would have no digit left."""
    states = 1e9 + np.random.default_rng(0).uniform(size=(1_000, 2))
    moments, origin = moments_in_batches(np.split(states, [1, 1, 2, 40, 999]))
    np.testing.assert_allclose(origin + moments.mean - 1e9, (states - 1e9).mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(moments.variance, (states - 1e9).var(axis=0), rtol=1e-9)


def test_a_seed_is_a_set_of_numbers_and_the_users_action_space_draws_on():
    for env in (gymnasium.make("Pendulum-v1"), SyncVectorEnv([lambda: gymnasium.make("Pendulum-v1")] * 2)):
        env.action_space.seed(1)
        before = env.action_space.np_random.bit_generator.state
        first = wanderlust.normalise(env, rollouts=4, steps=10, seed=3)
        assert env.action_space.np_random.bit_generator.state == before
        env.reset(seed=9)
        env.step(env.action_space.sample())
        assert wanderlust.normalise(env, rollouts=4, steps=10, seed=np.int64(3)) == first
        other = wanderlust.normalise(env, rollouts=4, steps=10, seed=4)
        assert np.abs(np.subtract(first, other)).min() > 1e-6


def test_actions_are_not_the_draws_that_starts_were_made_of():
    class Noisy(Stairs):
        def show(self, value):
            return self.np_random.uniform(-1, 1, 2)

    made = Recorder(Noisy(action=spaces.Box(-1, 1, (2,), np.float64)))
    wanderlust.normalise(made, rollouts=2, steps=3)
    drawn = np.concatenate([np.ravel(made.starts + made.seen), np.ravel(made.actions)])
    assert len(np.unique(drawn)) == len(drawn)


# --- worlds by name -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["point", "ant"])
def test_worlds_of_ours_are_measured_as_before(name):
    world = make_world(configure(name).env)
    expected = random_statistics(world, make_engine(world, "auto"), 3, 2, 7)
    assert wanderlust.normalise(name, rollouts=3, steps=2, seed=7) == expected


# --- whose it is, and misuse ----------------------------------------------------------------------------------------


@pytest.fixture
def registered(monkeypatch):
    """Register an environment for one test; what has been made of it."""
    made = []

    def register(make):
        def keep():
            made.append(make())
            return made[-1]

        spec = gymnasium.envs.registration.EnvSpec("Tests/Stairs-v0", entry_point=keep)
        monkeypatch.setitem(gymnasium.registry, spec.id, spec)
        return made

    return register


class Lost(Stairs):
    """Shows this in its second step."""

    def __init__(self, where=np.nan):
        super().__init__()
        self.where = where

    def show(self, value):
        return np.array([value, self.where if value == 2 else 0.1])


def test_what_is_made_here_is_closed_and_what_is_handed_over_is_not(registered):
    made = registered(Stairs)
    assert_climbed(wanderlust.normalise("Tests/Stairs-v0", rollouts=2, steps=4), 4, 3)
    assert [env.closed for env in made] == [1]
    mine = Stairs()
    wanderlust.normalise(mine, rollouts=2, steps=4)
    assert mine.closed == 0 and mine.at == 1  # it stands where its last step led it


def test_what_is_made_here_is_closed_also_if_it_breaks_down(registered):
    made = registered(Lost)
    with pytest.raises(UserError, match="led Tests/Stairs-v0 to where its observation is not finite"):
        wanderlust.normalise("Tests/Stairs-v0", rollouts=2, steps=4)
    assert [env.closed for env in made] == [1]


@dataclasses.dataclass
class Wrong:
    env: object
    complaint: str
    settings: dict = dataclasses.field(default_factory=dict)


def vector(**changes):
    envs = SyncVectorEnv([Stairs] * 2)
    envs.metadata = {**envs.metadata, **changes}
    return envs


WRONG = {
    "name": Wrong(
        "Hoper-v5", "'Hoper-v5' is no world of ours, and Gymnasium cannot make it: .* Did you mean: `Hopper`"
    ),
    "version": Wrong("Hopper-v99", "Gymnasium cannot make it: Environment version `v99`"),
    "module": Wrong("no_such_module:Hopper-v5", "Gymnasium cannot make it: No module named 'no_such_module'"),
    "no id": Wrong("", "'' is no world of ours, and Gymnasium cannot make it: Malformed"),
    "no environment": Wrong(3, "env is of type int; it must be a name, a gymnasium.Env or a VectorEnv"),
    "class": Wrong(Stairs, "env is of type "),
    "observations": Wrong(Stairs(observation=spaces.Discrete(3)), "Stairs observes a Discrete; it must be a Box"),
    "many observations": Wrong(
        SyncVectorEnv([lambda: Stairs(observation=spaces.Dict(x=spaces.Box(0, 1)))] * 2),
        "SyncVectorEnv observes a Dict; it must be a Box, such as Gymnasium's wrapper FlattenObservation makes",
    ),
    "seed": Wrong(Stairs(), "seed is -1; Gymnasium takes none below 0", {"seed": -1}),
    "engine": Wrong(Stairs(), r"engines step our worlds only \(point, ant, .*\); leave it out", {"engine": "c"}),
    "nan": Wrong(Lost(), "led Lost to where its observation is not finite"),
    "infinite": Wrong(Lost(np.inf), "led Lost to where its observation is not finite"),
    "too large": Wrong(Lost(1e200), "led Lost to where its observation is not finite or too large to be squared"),
    "one": Wrong(Stairs(), "rollouts is 1; a standard deviation needs at least 2", {"rollouts": 1}),
    "no mode": Wrong(
        vector(autoreset_mode=None), "metadata of SyncVectorEnv: autoreset_mode is None; it must be one of 'NextStep'"
    ),
    "another mode": Wrong(
        vector(autoreset_mode=AutoresetMode.SAME_STEP),
        r"SyncVectorEnv begins episodes in the same step, but left no infos\['final_obs'\]",
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_cannot_be_is_refused_in_one_line(wrong):
    with pytest.raises(UserError, match=wrong.complaint) as refused:
        wanderlust.normalise(wrong.env, **{"rollouts": 2, "steps": 4, **wrong.settings})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("env", ["point", "CartPole-v1", Stairs()])
@pytest.mark.parametrize("value", [2.5, 1e4, True, "10", None, np.float64(3)])
def test_amounts_are_whole_numbers(env, value):
    for name in ("rollouts", "steps", "seed"):
        with pytest.raises(UserError, match=f"^{name} is .*; it must be a whole number$"):
            wanderlust.normalise(env, **{"rollouts": 2, "steps": 1, name: value})


def test_whole_numbers_of_numpy_will_do():
    assert_climbed(wanderlust.normalise(Stairs(), rollouts=np.int32(2), steps=np.uint8(4), seed=np.int64(1)), 4, 3)
