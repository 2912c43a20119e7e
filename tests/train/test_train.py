import contextlib
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import tiny_config
from wanderlust import train
from wanderlust.envs import make_engine
from wanderlust.envs.spec import Transition
from wanderlust.envs.worlds.point import Point
from wanderlust.methods.base import Method
from wanderlust.methods.skills import make_skills
from wanderlust.rl import replay as replays
from wanderlust.train.drivers import FusedDriver, SplitDriver
from wanderlust.train.update import learn as learn_epoch

STEPPED = []


@dataclasses.dataclass(frozen=True)
class Counted(Point):
    """PointEnv that notes every time Python runs its step: once per trace, if compiled code is used again."""

    def step(self, state, action):
        STEPPED.append(1)
        return super().step(state, action)


SCHEDULES = {
    "sac-first": {"schedule_order": "sac-first", "sac_target_update": "epoch"},
    "interleaved": {
        "schedule_order": "interleaved",
        "sac_target_update": "step",
        "sac_time_limit_is_terminal": False,
        "sac_learn_alpha": True,
        "schedule_method_batch": 16,
        "schedule_steps": 3,  # episodes of 5 steps go on from one collection to the next
        "schedule_hold": 2,
        "env_start_range": 2.0,
    },
}


def assemble(schedule, **changes):
    parts = train.assemble(tiny_config(**SCHEDULES[schedule], **changes))
    world = Counted(parts.config.env)
    return dataclasses.replace(parts, world=world, engine=make_engine(world))


@pytest.fixture(scope="module", params=SCHEDULES)
def pair(request):
    """Both drivers of one configuration, two seeds, each on a device of its own in the fused one."""
    parts = assemble(request.param, seeds=2)
    return parts, train.make_driver(parts), SplitDriver(parts)


def assert_same(a, b, rtol=0.0, atol=0.0):
    def check(x, y):
        if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=atol)

    jax.tree.map(check, a, b)


def changed(a, b):
    return any(jax.tree.leaves(jax.tree.map(lambda x, y: bool(np.any(np.asarray(x) != np.asarray(y))), a, b)))


@contextlib.contextmanager
def compilations():
    """Everything JAX traces or compiles meanwhile."""
    seen = []

    def listener(event, duration, **_):
        if "/compile/" in event:
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listener)


# --- drivers ------------------------------------------------------------------------------------------------------


def test_fused_and_split_give_the_same_numbers(pair):
    parts, fused, split = pair
    fused_state, split_state = train.init(parts), train.init(parts)
    for epochs in (1, 4):
        fused_state, fused_metrics = fused(fused_state, epochs)
        split_state, split_metrics = split(split_state, epochs)
        assert_same(fused_state, split_state, rtol=1e-6, atol=1e-6)
        assert_same(fused_metrics, split_metrics, rtol=1e-6, atol=1e-6)
    assert changed(fused_state.learner, train.init(parts).learner)


def test_an_episode_keeps_its_skill_unless_told_to_hold_it_only_for_a_while(pair):
    """Episodes of five steps. Held for two, in two collections of three: 0 0 1, 1 2 and another episode."""
    parts, fused, _ = pair
    schedule = parts.config.schedule
    state, _ = fused(train.init(parts), 2)
    skill = np.asarray(state.replay.data.skill).reshape(2, 2 * schedule.steps, schedule.worlds, -1)
    same = (skill[:, 1:] == skill[:, :-1]).all(axis=-1)
    assert same.shape[1] == (5 if schedule.hold else 9)
    expected = [True, False, True, False, False] if schedule.hold else [True] * 4 + [False] + [True] * 4
    assert (same == np.array(expected)[:, None]).all()


def test_seeds_are_spread_over_devices(pair):
    parts, fused, _ = pair
    state, _ = fused(train.init(parts), 1)
    assert len(jax.devices()) == 2
    assert {shard.device for shard in state.replay.data.obs.addressable_shards} == set(jax.devices())


def test_a_run_is_deterministic_and_may_be_cut_anywhere(pair):
    parts, fused, _ = pair
    whole, _ = fused(train.init(parts), 5)
    pieces = train.init(parts)
    for epochs in (2, 1, 2):
        pieces, _ = fused(pieces, epochs)
    assert_same(whole, pieces)


def test_nothing_is_compiled_twice(pair):
    parts, fused, split = pair
    for advance in (fused, split):
        state, _ = advance(train.init(parts), 2)  # by now everything is compiled
        traced = len(STEPPED)
        with compilations() as compiled:
            for epochs in (2, 1, 5):
                state, _ = advance(state, epochs)
            assert compiled == []
            jax.jit(lambda x: x + 1.0)(jnp.zeros(3))
            assert compiled != []  # they would have been noticed
        assert len(STEPPED) == traced
    assert STEPPED


def test_metrics_are_means_over_the_epochs_of_a_chunk(pair):
    parts, fused, _ = pair
    _, whole = fused(train.init(parts), 3)
    state, single = train.init(parts), []
    for _ in range(3):
        state, metrics = fused(state, 1)
        single.append(metrics)
    expected = jax.tree.map(lambda *x: np.mean(x, axis=0), *single)
    assert_same(whole, expected, rtol=1e-5, atol=1e-6)
    assert {"reward", "critic_loss", "q", "entropy", "alpha", "phi_loss"} <= set(whole)
    assert all(v.shape == (2,) for v in whole.values())


# --- seeds --------------------------------------------------------------------------------------------------------


def test_seed_k_of_eight_is_seed_k_alone():
    eight = assemble("sac-first", seeds=8, seed=3)
    state, metrics = train.make_driver(eight)(train.init(eight), 3)
    advance = train.make_driver(assemble("sac-first"))  # the seed's number is in the state, not in the program
    pick = jax.jit(lambda tree, k: jax.tree.map(lambda x: x[k][None], tree))
    for k in (0, 5, 7):
        alone, alone_metrics = advance(train.init(assemble("sac-first", seed=3 + k)), 3)
        assert_same(pick((state, metrics), k), (alone, alone_metrics), rtol=1e-6, atol=1e-6)


def test_seeds_differ_in_everything_they_draw():
    parts = assemble("interleaved", seeds=2)
    state = train.init(parts)
    for part in (state.learner.sac.policy, state.learner.sac.critics, state.learner.method.encoder):
        weight = jax.tree.leaves(part)[0]
        assert not np.allclose(weight[0], weight[1])
    assert not np.allclose(state.worlds.skill[0], state.worlds.skill[1])
    assert not np.allclose(state.worlds.state.physics[0], state.worlds.state.physics[1])


@pytest.mark.parametrize(("seeds", "devices"), [(1, 1), (2, 2), (3, 1), (8, 2)])
def test_seed_mesh_divides_the_seeds_evenly(seeds, devices):
    assert train.seed_mesh(seeds).size == devices


# --- what an epoch is -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Counting(Method):
    """A method whose state is the number of its updates, and whose reward is that number."""

    def init(self, key, obs_dim):
        return jnp.zeros(())

    def reward(self, state, batch):
        return jnp.full(batch.obs.shape[0], state)

    def update(self, state, batch):
        return state + 1.0, {"phi_loss": jnp.zeros(())}

    def restored(self, kept):
        raise AssertionError("nothing is loaded here")


@pytest.mark.parametrize("order", ["sac-first", "interleaved", "joint"])
def test_rewards_come_from_the_current_state_of_the_method(order):
    steps = 3
    config = tiny_config(schedule_order=order, schedule_sac_steps=steps, schedule_method_steps=steps)
    parts = dataclasses.replace(train.assemble(config), method=Counting(config.method, make_skills(config.skills)))
    example = parts.world.initial(jax.random.key(0)).physics

    @jax.jit
    def learn(learner, key):
        no = jnp.zeros(20, bool)
        obs = jnp.tile(example, (20, 1))
        fresh = Transition(obs, obs, obs, obs, no, no)
        replay = replays.append(replays.empty(jax.tree.map(lambda x: x[0], fresh), 40), fresh)
        return learn_epoch(parts, learner, replay, fresh, key)

    learner = jax.jit(lambda key: train.init_seed(parts, key).learner)(jax.random.key(0))
    seen = []
    for epoch in range(2):
        learner, metrics = learn(learner, jax.random.key(epoch))
        seen.append(float(metrics["reward"]))
    # The mean over an epoch's SAC steps of how often phi was updated before. sac-first: all of the epoch's updates come
    # after; interleaved: 1, 2, 3 and then 4, 5, 6; joint: 0, 1, 2 and then 3, 4, 5
    assert seen == {"sac-first": [0.0, 3.0], "interleaved": [2.0, 5.0], "joint": [1.0, 4.0]}[order]
    assert float(learner.method) == 2 * steps


def test_one_epoch_stores_one_collection():
    parts = assemble("sac-first", seeds=2)
    schedule = parts.config.schedule
    advance = train.make_driver(parts)
    state, sizes = train.init(parts), []
    for _ in range(3):
        state, _ = advance(state, 1)
        sizes.append(np.asarray(state.replay.size).tolist())
    whole = schedule.collection
    assert sizes == [[whole] * 2, [2 * whole] * 2, [2 * whole] * 2]  # a ring of two collections
    data = state.replay.data
    np.testing.assert_allclose(data.next_obs - data.obs, np.clip(data.action, -1, 1), atol=1e-6)
    np.testing.assert_array_equal(data.truncated.sum(axis=1), 2 * schedule.worlds)


def test_the_split_driver_may_choose_actions_on_another_device_than_it_learns_on():
    parts = train.assemble(tiny_config(driver="split"))
    there = jax.devices()[1]
    drivers = SplitDriver(parts, 2), SplitDriver(parts, 2, there)
    (here, here_metrics), (away, away_metrics) = (driver(train.init(parts), 3) for driver in drivers)
    unroll, chosen_at = drivers[1]._unroll, []
    drivers[1]._unroll = lambda *args: (chosen_at.append(args[1].envs.age.device), unroll(*args))[1]
    drivers[1].collect(away)
    assert chosen_at == [there, there]
    assert {x.device for x in jax.tree.leaves(away) if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key)} == {
        jax.devices()[0]
    }
    assert_same(here, away)
    assert_same(here_metrics, away_metrics)


def test_an_engine_that_cannot_be_compiled_needs_the_split_driver():
    parts = train.assemble(tiny_config())
    engine = dataclasses.replace(parts.engine, compiles=False)
    with pytest.raises(ValueError, match="split"):
        FusedDriver(dataclasses.replace(parts, engine=engine))


# --- looking at a learner -------------------------------------------------------------------------------------------


def test_probe_shows_whole_episodes_from_the_origin_and_always_the_same_ones():
    parts = assemble("interleaved", seeds=2)
    policy = train.init(parts).learner.sac.policy
    probe = train.make_probe(parts, 6)
    paths = np.asarray(probe(policy).obs)
    assert paths.shape == (2, parts.config.env.episode_length + 1, 6, 2)
    np.testing.assert_array_equal(paths[:, 0], 0.0)  # although training starts anywhere in a box
    np.testing.assert_array_equal(paths, probe(policy).obs)
    assert np.abs(np.diff(paths, axis=1)).max() <= 1.0 + 1e-6
