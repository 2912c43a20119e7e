import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import Outside, tiny_config
from wanderlust import train
from wanderlust.envs import SelfStepping, WorldState, make_engine, make_world
from wanderlust.envs.spec import EnvSpec, Groups, Transition
from wanderlust.envs.worlds.point import Point, PointConfig
from wanderlust.methods.skills import ContinuousSkills
from wanderlust.rl import replay as replays
from wanderlust.train.autoreset import EnvState, autoreset, nan_guard, no_divergence, start_episodes
from wanderlust.train.autoreset import transitions as record
from wanderlust.train.probe import make_episodes
from wanderlust.train.update import learn

SKILLS = ContinuousSkills(2)


def play(world, engine, act, skill, key, steps, renew=None, hold=1):
    """Episodes of a policy without parameters."""
    without = [None if f is None else lambda _, *given, f=f: f(*given) for f in (act, renew)]
    return make_episodes(world, engine, without[0], steps, without[1], hold)((), skill, key)


def collect(world, steps, seeds, count, act, ages=None):
    """Transitions [steps, seeds, worlds, ...] of a policy that is a function of a key and a shape."""
    engine = make_engine(world)

    def flat(tree):
        return jax.tree.map(lambda x: x.reshape(seeds * count, *x.shape[2:]), tree)

    def start(keys):
        return jax.vmap(lambda key: start_episodes(world, SKILLS.sample, key, count))(keys)

    def step(worlds, key):
        act_key, settle_key = jax.random.split(key)
        action = act(act_key, (seeds, count, world.spec.action_dim))
        after = engine.step(flat(worlds.state), flat(action))
        after = jax.tree.map(lambda x: x.reshape(seeds, count, *x.shape[1:]), after)
        keys = jax.random.split(settle_key, seeds)
        transition = record(world, worlds, action, after)
        done = transition.terminated | transition.truncated
        worlds = autoreset(world, worlds._replace(state=after), done, lambda: start(keys))
        return worlds, (transition, worlds.age)

    @jax.jit
    def run(key):
        start_key, key = jax.random.split(key)
        worlds = start(jax.random.split(start_key, seeds))
        if ages is not None:
            worlds = worlds._replace(age=jnp.asarray(ages))
        return jax.lax.scan(step, worlds, jax.random.split(key, steps))

    last, (transitions, age) = jax.device_get(run(jax.random.key(0)))
    assert isinstance(last, EnvState)
    return transitions, age


def uniform(key, shape):
    return jax.random.uniform(key, shape, minval=-1.0, maxval=1.0)


# --- PointEnv -----------------------------------------------------------------------------------------------------


def test_point_env_is_what_the_paper_says():
    world = make_world(PointConfig())
    assert isinstance(world, SelfStepping)
    spec = world.spec
    assert (spec.obs_dim, spec.action_dim, spec.episode_length, spec.groups["position"]) == (2, 2, 10, (0, 1))
    state = world.initial(jax.random.key(0))
    np.testing.assert_array_equal(world.observe(state), [0.0, 0.0])
    moved = world.step(state, jnp.array([0.25, -0.5]))
    np.testing.assert_array_equal(world.observe(moved), [0.25, -0.5])
    np.testing.assert_array_equal(world.observe(world.step(moved, jnp.array([7.0, -3.0]))), [1.25, -1.5])
    assert not world.terminated(moved)


def test_point_env_starts_uniformly_in_its_box():
    world = Point(PointConfig(start_range=3.0))
    starts = np.asarray(
        jax.jit(jax.vmap(lambda k: world.initial(k).physics))(jax.random.split(jax.random.key(0), 5000))
    )
    assert np.all(np.abs(starts) <= 3.0)
    np.testing.assert_allclose(starts.mean(axis=0), 0.0, atol=0.1)
    np.testing.assert_allclose(starts.std(axis=0), 3.0 / np.sqrt(3.0), rtol=0.03)
    np.testing.assert_array_equal(world.from_origin().initial(jax.random.key(1)).physics, [0.0, 0.0])


@pytest.mark.parametrize("start_range", [0.0, 4.0])
def test_point_env_is_normalised_by_its_spread_under_a_random_policy(start_range):
    world = Point(PointConfig(start_range=start_range))
    transitions, _ = collect(world, 10, 1, 20_000, uniform)
    np.testing.assert_allclose(transitions.next_obs.reshape(-1, 2).std(axis=0), world.spec.obs_std, rtol=0.01)
    np.testing.assert_allclose(world.spec.obs_mean, 0.0)
    assert Point(PointConfig(normalise=False)).spec.obs_std == (1.0, 1.0)


# --- episodes -----------------------------------------------------------------------------------------------------

LENGTH, AGES = 5, [[0, 3, 1], [2, 0, 4]]


@pytest.fixture(scope="module")
def point():
    """Worlds of two seeds that are at different ages to begin with, moved by actions partly outside [-1, 1]."""
    world = Point(PointConfig(start_range=2.0, episode_length=LENGTH))
    return collect(world, 23, 2, 3, lambda key, shape: 1.5 * jax.random.normal(key, shape), AGES)


def test_no_transition_crosses_a_reset(point):
    t, _ = point
    np.testing.assert_allclose(t.next_obs - t.obs, np.clip(t.action, -1.0, 1.0), atol=1e-6)
    assert np.abs(t.action).max() > 1.0


def test_the_time_limit_truncates_every_world_at_its_own_age(point):
    t, age = point
    step = np.arange(23)[:, None, None]
    expected = (step + 1 + np.array(AGES)) % LENGTH == 0
    np.testing.assert_array_equal(t.truncated, expected)
    assert not t.terminated.any()
    np.testing.assert_array_equal(age, (step + 1 + np.array(AGES)) % LENGTH)


def test_an_episode_goes_on_where_it_was_and_a_new_one_starts_afresh(point):
    t, _ = point
    ended = t.truncated[:-1]
    np.testing.assert_array_equal(t.obs[1:][~ended], t.next_obs[:-1][~ended])
    np.testing.assert_array_equal(t.skill[1:][~ended], t.skill[:-1][~ended])
    assert np.all(np.any(t.skill[1:][ended] != t.skill[:-1][ended], axis=1))
    starts = t.obs[1:][ended]
    assert np.all(np.abs(starts) <= 2.0)
    assert len(np.unique(starts, axis=0)) == len(starts) == ended.sum()  # no two worlds or seeds share a start
    skills = t.skill[1:][ended]
    assert len(np.unique(skills, axis=0)) == len(skills)


@dataclasses.dataclass(frozen=True)
class Corridor:
    """A body that walks right, one place a step, whatever it does; the world ends at 3. Starts at 0 or at -10."""

    episode_length: int = 5
    always_near: bool = False

    @property
    def spec(self):
        return EnvSpec("corridor", 1, 1, self.episode_length, Groups(position=(0,)), (0.0,), (1.0,))

    def initial(self, key):
        far = jax.random.bernoulli(key, 0.0 if self.always_near else 0.5)
        return WorldState(physics=jnp.where(far, -10.0, 0.0)[None], sensors=jnp.zeros(0))

    def observe(self, state):
        return state.physics

    def terminated(self, state):
        return state.physics[0] >= 3.0

    def measure(self, state):
        return self.observe(state)

    def from_origin(self):
        return dataclasses.replace(self, always_near=True)

    def step(self, state, action):
        return state._replace(physics=state.physics + 1.0)


@pytest.fixture(scope="module")
def corridor():
    return collect(Corridor(), 40, 2, 8, uniform)


def test_termination_and_truncation_are_told_apart(corridor):
    t, _ = corridor
    np.testing.assert_array_equal(t.terminated, t.next_obs[..., 0] == 3.0)
    np.testing.assert_array_equal(t.truncated, t.next_obs[..., 0] == -5.0)  # five steps from -10
    assert t.terminated.any()
    assert t.truncated.any()


def test_the_last_observation_is_kept_and_ages_start_over(corridor):
    t, age = corridor
    np.testing.assert_array_equal(t.next_obs, t.obs + 1.0)
    done = t.terminated | t.truncated
    np.testing.assert_array_equal(age == 0, done)
    assert set(np.unique(t.obs[1:][done[:-1]])) == {-10.0, 0.0}
    np.testing.assert_array_equal(t.obs[1:][~done[:-1]], t.next_obs[:-1][~done[:-1]])


def test_termination_on_the_last_allowed_step_is_termination():
    t, _ = collect(Corridor(episode_length=3, always_near=True), 9, 1, 2, uniform)
    np.testing.assert_array_equal(t.terminated[:, 0, 0], [False, False, True] * 3)
    assert not t.truncated.any()


def test_a_world_of_a_rollout_that_terminates_stays_where_it_ended():
    world = Corridor(always_near=True)

    def act(obs, skill, key):
        return jnp.zeros((obs.shape[0], 1))

    rollout = play(world, make_engine(world), act, jnp.zeros((2, 2)), jax.random.key(0), 5)
    np.testing.assert_array_equal(rollout.obs[:, 0, 0], [0, 1, 2, 3, 3, 3])
    np.testing.assert_array_equal(rollout.alive[:, 0], [True, True, True, False, False, False])
    assert rollout.action.shape == (5, 2, 1)


@dataclasses.dataclass(frozen=True)
class Breaking(Corridor):
    """A corridor with a hole: beyond 1 there is nothing."""

    def terminated(self, state):
        return jnp.zeros((), bool)

    def step(self, state, action):
        return state._replace(physics=jnp.where(state.physics > 0.5, jnp.nan, state.physics + 1.0))


@pytest.mark.parametrize("compiles", [True, False])
def test_a_world_of_a_rollout_that_breaks_down_stays_where_it_last_was(compiles):
    world = Breaking(always_near=True)
    engine = dataclasses.replace(make_engine(world), compiles=compiles)
    rollout = play(world, engine, lambda obs, z, key: jnp.zeros((2, 1)), jnp.zeros((2, 2)), jax.random.key(0), 4)
    np.testing.assert_array_equal(rollout.obs[:, 0, 0], [0, 1, 1, 1, 1])
    np.testing.assert_array_equal(rollout.alive[:, 0], [True, True, False, False, False])


def test_an_engine_on_the_host_plays_the_same_episodes():
    world = Corridor()
    engine = make_engine(world)
    on_host = dataclasses.replace(engine, compiles=False)

    def act(obs, skill, key):
        return jax.random.normal(key, (obs.shape[0], 1)) + skill[:, :1]

    skill = jax.random.normal(jax.random.key(1), (6, 2))
    one, other = (play(world, e, act, skill, jax.random.key(0), 5) for e in (engine, on_host))
    assert len(np.unique(one.alive.sum(axis=0))) == 2  # some terminate, some do not
    np.testing.assert_array_equal(one.alive, other.alive)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), one, other)


def test_once_all_worlds_have_ended_none_is_stepped_and_the_rollout_is_the_same_to_the_last_bit():
    """The compiled program moves them to the end."""
    world = Corridor(always_near=True)

    def act(obs, skill, key):
        return jax.random.uniform(key, (obs.shape[0], 1)) + skill[:, :1]

    def renew(obs, skill, key):
        return skill + 1.0

    outside = Outside(make_engine(world))
    skill = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    one, other = (
        play(world, engine, act, skill, jax.random.key(0), 5, renew, 2) for engine in (make_engine(world), outside)
    )
    assert outside.calls == 3  # of five
    assert len(np.unique(np.asarray(other.action))) == 10  # the policy's draws go on
    jax.tree.map(np.testing.assert_array_equal, one, other)
    assert [x.dtype for x in one] == [x.dtype for x in other]


def test_a_world_may_wait_for_the_others_when_its_episode_is_over():
    world = Corridor(episode_length=5)
    state = WorldState(physics=jnp.array([[[0.0], [-10.0]]]), sensors=jnp.zeros((1, 2, 0)))
    worlds = EnvState(state, jnp.zeros((1, 2, 2)), jnp.zeros((1, 2), jnp.int32))
    ages = []
    for _ in range(6):
        after = worlds.state._replace(physics=worlds.state.physics + 1.0)
        step = record(world, worlds, jnp.zeros((1, 2, 1)), after)
        worlds = autoreset(world, worlds._replace(state=after), step.terminated | step.truncated, None)
        ages.append(worlds.age[0].tolist())
    # the first terminates at 3 and its age jumps to the episode's length; the second is truncated after five steps
    assert ages == [[1, 1], [2, 2], [5, 3], [5, 4], [5, 5], [5, 5]]


@pytest.mark.parametrize("value", [np.nan, np.inf, 2e10])
def test_the_first_world_that_breaks_down_is_kept_with_what_led_there(value):
    seeds, count = 2, 3
    place = jnp.arange(12.0).reshape(seeds, count, 2)
    before = WorldState(place, jnp.zeros((seeds, count, 0)))
    action = -place
    fine = jax.vmap(lambda _: no_divergence(Point(PointConfig())))(jnp.arange(seeds))
    running = jnp.ones((seeds, count), bool)
    unharmed = nan_guard(fine, before, action, before, running)
    assert not unharmed.found.any()
    assert not unharmed.before.physics.any()  # nothing is written down as long as nothing is wrong

    bad = before._replace(physics=before.physics.at[1, 2, 0].set(value))
    assert not nan_guard(fine, before, action, bad, running.at[1, 2].set(False)).found.any()  # it only waited
    broken = nan_guard(fine, before, action, bad, running)
    assert broken.found.tolist() == [False, True]
    np.testing.assert_array_equal(broken.before.physics[1], place[1, 2])
    np.testing.assert_array_equal(broken.action[1], action[1, 2])
    bad = before._replace(physics=before.physics.at[:, 0, 0].set(value))
    later = nan_guard(broken, before, action, bad, running)
    np.testing.assert_array_equal(later.before.physics, [place[0, 0], place[1, 2]])  # the first one stays


def test_a_world_without_dynamics_has_no_engine():
    class Still:
        spec = Corridor().spec

    with pytest.raises(TypeError, match="no engine steps Still"):
        make_engine(Still())


# --- the time limit in the critic's target ---------------------------------------------------------------------------


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_time_limit_cuts_values_only_where_the_recipe_says_so(is_terminal):
    parts = train.assemble(tiny_config(sac_time_limit_is_terminal=is_terminal))

    @jax.jit
    def learned(key, flags):
        state = train.init_seed(parts, key)
        a, b, c = jax.random.split(key, 3)
        obs = jax.random.normal(a, (20, 2))
        no = jnp.zeros(20, bool)
        fresh = Transition(obs, uniform(b, (20, 2)), obs + 1.0, jax.random.normal(c, (20, 2)), no, no)
        fresh = fresh._replace(terminated=no | flags[0], truncated=no | flags[1])
        learner, metrics = learn(parts, state.learner, replays.append(state.replay, fresh), fresh, key)
        return learner.sac.critics, metrics["critic_loss"]

    def with_flags(terminated, truncated):
        critics, loss = learned(jax.random.key(0), jnp.array([terminated, truncated]))
        return [*map(np.asarray, jax.tree.leaves(critics)), np.asarray(loss)]

    neither, terminated, truncated = with_flags(False, False), with_flags(True, False), with_flags(False, True)
    same, other = (terminated, neither) if is_terminal else (neither, terminated)
    for x, y in zip(truncated, same, strict=True):
        np.testing.assert_array_equal(x, y)
    assert any(np.any(x != y) for x, y in zip(truncated, other, strict=True))
    assert abs(truncated[-1] - other[-1]) > 1e-4


# --- replay -------------------------------------------------------------------------------------------------------


def numbered(first, count):
    x = jnp.arange(first, first + count, dtype=jnp.float32)
    yes = x % 2 == 0
    return Transition(x[:, None], -x[:, None], x[:, None] + 0.5, 10 * x[:, None], yes, ~yes)


def empty(capacity):
    return replays.empty(jax.tree.map(lambda x: x[0], numbered(0, 1)), capacity)


def test_a_ring_fills_up_and_then_forgets_the_oldest():
    ring, seen = empty(6), []
    for i in range(5):
        ring = replays.append(ring, numbered(2 * i, 2))
        seen.append((sorted(np.asarray(ring.data.obs[: int(ring.size), 0]).tolist()), int(ring.size)))
    assert seen == [
        ([0, 1], 2),
        ([0, 1, 2, 3], 4),
        ([0, 1, 2, 3, 4, 5], 6),
        ([2, 3, 4, 5, 6, 7], 6),
        ([4, 5, 6, 7, 8, 9], 6),
    ]
    index = jnp.arange(6)
    taken = replays.take(ring, index)
    order = taken.obs[:, 0]
    expected = jax.tree.map(lambda x: x[order.astype(int)], numbered(0, 10))
    jax.tree.map(np.testing.assert_array_equal, taken, expected)  # every field of a transition stays with it


def test_draws_are_uniform_over_what_has_been_written_and_nothing_else():
    ring = replays.append(empty(12), numbered(100, 4))
    drawn = np.asarray(replays.draw(ring, jax.random.key(0), 8000))
    counts = np.bincount(drawn, minlength=12)
    assert counts[4:].sum() == 0
    np.testing.assert_allclose(counts[:4], 2000, rtol=0.1)
    assert not np.any(replays.take(ring, jnp.asarray(drawn)).obs < 100)


def test_a_batch_that_would_wrap_is_refused():
    with pytest.raises(ValueError, match="a ring of 6 cannot take batches of 4"):
        replays.append(empty(6), numbered(0, 4))
