"""MUSIC-u: its estimate, its reward, what it learns from, alone and added to another method."""

import dataclasses
import functools
import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import wanderlust
from helpers import Outside, tiny_config
from table_world import NAME, SIGNS, TableConfig
from wanderlust import api, cli, train
from wanderlust.config import RunConfig, SkillConfig, from_json, method_config, to_json
from wanderlust.envs import make_world
from wanderlust.envs.spec import EnvSpec, Groups, Transition
from wanderlust.errors import UserError
from wanderlust.methods.music import Music, MusicConfig, MusicState
from wanderlust.methods.skills import ContinuousSkills
from wanderlust.recipes import get_recipe
from wanderlust.rl import replay as replays
from wanderlust.rl.nets import MLP, Linear
from wanderlust.train.intrinsic import rewards, states_of
from wanderlust.train.update import learn

KEY = jax.random.key(0)
SKILLS = ContinuousSkills(2)
SPEC = EnvSpec("lab", 3, 1, 5, Groups(position=(0,), agent=(0,), object=(1, 2)), (0.0,) * 3, (1.0,) * 3)


def made(**fields):
    return Music(MusicConfig(**{"hidden": (64,), **fields}), SKILLS).for_world(SPEC)


def network(scale=0.3):
    """T(x, y) = tanh(scale |x - y_1|), by two units."""
    first = Linear(jnp.array([[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0]]), jnp.zeros(2))
    return MLP((first, Linear(scale * jnp.ones((2, 1)), jnp.zeros(1))), jax.nn.relu)


def step(obs, next_obs):
    obs, next_obs = jnp.array(obs, jnp.float32), jnp.array(next_obs, jnp.float32)
    no = jnp.zeros(len(obs), bool)
    return Transition(obs, jnp.zeros((len(obs), 1)), next_obs, jnp.zeros((len(obs), 2)), no, no)


THREE = step([[0, 1, 5], [0, 0, 5], [1, 1, 5]], [[1, 3, 5], [1, 2, 5], [1, 4, 5]])
"""x and y_1 of both states: (0, 1), (1, 3); (0, 0), (1, 2); (1, 1), (1, 4)."""


def by_hand(x, y, scale=0.3):
    def t(a, b):
        return np.tanh(scale * abs(a - b))

    together = (t(x[0], y[0]) + t(x[1], y[1])) / 2
    return together - np.log((np.exp(t(x[0], y[1])) + np.exp(t(x[1], y[0]))) / 2)


INFORMATION = np.array([by_hand(x, y) for x, y in (((0, 1), (1, 3)), ((0, 1), (0, 2)), ((1, 1), (1, 4)))])


def state(key=0, scale=0.3):
    return MusicState(network(scale), (), jax.random.key(key))


# --- reward ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coefficient", [1.0, 5000.0])
def test_the_reward_of_a_step_by_hand(coefficient):
    for scale in (0.3, -0.3):  # T that is large where the object is far, or where it is near
        information = np.array(
            [by_hand(x, y, scale) for x, y in (((0, 1), (1, 3)), ((0, 1), (0, 2)), ((1, 1), (1, 4)))]
        )
        found = made(coefficient=coefficient).reward(state(scale=scale), THREE)
        np.testing.assert_allclose(found, np.clip(coefficient * information, 0, 1) - 1, rtol=1e-5, atol=1e-6)
    assert information[1] > 0 > information[2]  # of the object that is near: one step is rewarded, one is not


def test_the_published_shuffle_rewards_nothing_in_every_other_batch():
    shared, repaired = made(coefficient=1.0, shuffle="shared"), made(coefficient=1.0)

    def each(music):
        return np.asarray(jax.jit(jax.vmap(lambda key: music.reward(state(key, -0.3), THREE)))(jnp.arange(40)))

    own, found = each(repaired), each(shared)
    assert np.all(own == own[0]) and np.any(own > -1.0)
    nothing = np.all(found == -1.0, axis=1)
    assert 10 <= nothing.sum() <= 30  # of 40
    np.testing.assert_allclose(found[~nothing], own[~nothing], rtol=1e-5)


def test_no_state_of_the_object_stays_beside_its_own_and_every_episode_has_an_order_of_its_own():
    when = jnp.tile(jnp.arange(7.0)[None, :, None], (50, 1, 2))
    swapped = np.asarray(made().shuffled(when, jax.random.key(0)))[..., 0]
    assert np.all(np.sort(swapped, axis=1) == np.arange(7)) and np.all(swapped != np.arange(7))
    assert len(np.unique(swapped, axis=0)) == 6  # turned by 1 to 6 steps
    shared = np.asarray(made(shuffle="shared").shuffled(when, jax.random.key(0)))[..., 0]
    assert len(np.unique(shared, axis=0)) == 1 and np.all(np.sort(shared[0]) == np.arange(7))


# --- the estimate ---------------------------------------------------------------------------------------------------


def episodes_of(correlation, key, count=32, time=50):
    """Agent and object whose mutual information is known: correlated normals."""
    first, second = jax.random.normal(key, (2, count, time + 1))
    other = correlation * first + jnp.sqrt(1 - correlation**2) * second
    states = jnp.stack([first, other, jnp.zeros_like(first)], axis=2)
    return Transition(states[:, :-1], (), states[:, 1:], (), (), ())


@pytest.mark.parametrize("shuffle", ["swap", "shared"])
def test_the_estimate_finds_the_information_there_is(shuffle):
    known = -0.5 * np.log(1 - 0.4**2)  # 0.087 nats
    assert estimate(0.4, shuffle) == pytest.approx(known, abs=0.012)
    assert estimate(0.0, shuffle) == pytest.approx(0.0, abs=0.012)


def test_the_estimate_of_what_is_the_same_goes_to_its_bound():
    assert 1.0 < estimate(1.0, "swap") < 2.0  # T lies in (-1, 1)


@functools.cache
def learner(shuffle):
    music = made(shuffle=shuffle, learning_rate=1e-2, hidden=(32,))

    @jax.jit
    def learned(correlation, key):
        begin, draws, test = jax.random.split(key, 3)

        def one_step(state, key):
            return music.update(state, episodes_of(correlation, key))

        state, _ = jax.lax.scan(one_step, music.init(begin, 3), jax.random.split(draws, 250))
        fresh = episodes_of(correlation, test, count=400)
        return jnp.mean(music.information(state.statistics, fresh.obs, test))

    return learned


def estimate(correlation, shuffle):
    return float(learner(shuffle)(correlation, jax.random.key(0)))


def test_the_estimate_finds_the_information_of_a_world_where_it_is_known():
    """Two signs that agree four times in five, in rollouts of random actions: ln 2 - H(0.8) = 0.193 nats."""
    world = make_world(TableConfig(SIGNS, 50))
    music = Music(MusicConfig(hidden=(32,), learning_rate=1e-2), SKILLS).for_world(world.spec)

    @jax.jit
    def episodes(key):
        actions = jax.random.uniform(key, (50, 64, 2), minval=-1.0, maxval=1.0)
        begun = jax.vmap(world.initial)(jax.random.split(key, 64))
        _, seen = jax.lax.scan(
            lambda s, a: ((after := jax.vmap(world.step)(s, a)), world.observe(after)), begun, actions
        )
        return jnp.swapaxes(seen, 0, 1)

    def one_step(state, key):
        seen = episodes(key)
        return music.update(state, Transition(seen[:, :-1], (), seen[:, 1:], (), (), ()))

    learned, _ = jax.jit(lambda s, keys: jax.lax.scan(one_step, s, keys))(
        music.init(KEY, 4), jax.random.split(KEY, 200)
    )
    found = float(jnp.mean(music.information(learned.statistics, episodes(jax.random.key(9)), KEY)))
    assert found == pytest.approx(np.log(2) + 0.8 * np.log(0.8) + 0.2 * np.log(0.2), abs=0.02)


# --- on a table -----------------------------------------------------------------------------------------------------


def on_table(method="lsd", bonus=True, **changes):
    config = tiny_config(method, **{"driver": "fused", "method_reward_scale": 500.0, **changes})
    config = dataclasses.replace(config, env=TableConfig())
    added = method_config("music", hidden=(16,), episodes=8)
    return dataclasses.replace(config, bonus=added if bonus else None)


@pytest.mark.parametrize("driver", ["fused", "split"])
def test_whole_episodes_come_back_from_the_replay(driver):
    parts = train.assemble(on_table(driver=driver))
    if driver == "split":
        parts = dataclasses.replace(parts, engine=Outside(parts.engine))
    trained, _ = train.make_driver(parts)(train.init(parts), 3)  # the first collection is overwritten
    ring = jax.tree.map(lambda x: x[0], trained.replay)
    index = np.arange(ring.data.obs.shape[0])
    found = jax.tree.map(np.asarray, replays.take(ring, replays.whole_episodes(jnp.asarray(index), 5, 4)))
    np.testing.assert_array_equal(found.next_obs[:, :-1], found.obs[:, 1:])
    np.testing.assert_array_equal(found.truncated, np.arange(5)[None] == 4 + 0 * index[:, None])
    assert np.all(found.obs[:, 0, :2] == 0.0) and np.all(found.skill == found.skill[:, :1])
    here = np.asarray(ring.data.obs)
    assert all(np.any(np.all(found.obs[i] == here[i], axis=1)) for i in index)  # a transition is in its own episode
    assert len(np.unique(found.obs[:, 0], axis=0)) == 8  # episodes of two collections


def test_what_is_learned_from_is_the_scaled_sum():
    both, plain = train.assemble(on_table()), train.assemble(on_table(bonus=False))
    trained, metrics = train.make_driver(both)(train.init(both), 1)
    assert np.all(np.isfinite(metrics["information"])) and np.all(np.isfinite(metrics["phi_loss"]))
    learner, batch = jax.tree.map(lambda x: x[0], (trained.learner, trained.replay.data))

    @jax.jit
    def earned(learner, batch):
        seen = batch._replace(obs=batch.obs[:, 2:], next_obs=batch.next_obs[:, 2:])
        expected = 500.0 * plain.method.reward(learner.method, seen), both.bonus.method.reward(learner.bonus, batch)
        return expected, rewards(plain, (learner.method,), batch), rewards(both, states_of(both, learner), batch)

    (own, added), alone, together = earned(learner, batch)
    np.testing.assert_allclose(alone, own, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(together, own + added, rtol=1e-5, atol=1e-5)
    before, after = (x.statistics.layers[0].weight for x in (train.init(both).learner.bonus, trained.learner.bonus))
    assert np.any(before != after)


@pytest.mark.parametrize("method", ["lsd", "music"])
@pytest.mark.parametrize("order", ["sac-first", "interleaved", "joint"])
def test_every_order_learns_both_networks_and_one_alone(order, method):
    config = on_table(schedule_order=order, bonus=method == "lsd")
    parts = train.assemble(config if method == "lsd" else alone(config))
    state = jax.eval_shape(lambda: train.init_seed(parts, jax.random.key(0)))
    learner, metrics = jax.eval_shape(
        partial(learn, parts), state.learner, state.replay, state.replay.data, jax.random.key(0)
    )
    assert jax.tree.map(lambda x: x.shape, learner) == jax.tree.map(lambda x: x.shape, state.learner)
    assert "information" in metrics and ("phi_loss" in metrics) == (method == "lsd")


def test_a_run_with_a_bonus_is_stopped_resumed_evaluated_and_loaded(tmp_path):
    options = {"method": "lsd", "bonus": "music", "quiet": True}
    small = ("schedule.epochs=4", "schedule.worlds=4", "schedule.sac_steps=2", "schedule.method_steps=2",
             "schedule.sac_batch=16", "schedule.replay_collections=2", "sac.hidden=[8]", "method.hidden=[8]",
             "bonus.hidden=[8]", "bonus.episodes=4", "log_every=2", "checkpoint_every=2")  # fmt: skip
    whole = wanderlust.discover(NAME, changes=small, out=tmp_path / "whole", **options)
    assert whole.config.name == "table-lsd+music-2d" and whole.config.bonus.hidden == (8,)
    assert whole.config.schedule.steps == whole.config.env.episode_length
    wanderlust.discover(NAME, changes=small, out=tmp_path / "parts", budget_seconds=1e-6, **options)
    again = wanderlust.discover(resume=tmp_path / "parts", quiet=True)
    for run in (whole, again):
        assert [row["epoch"] for row in run.metrics()] == [2, 4] and "information" in run.metrics()[-1]
    one, other = (load_file(max(run.checkpoints().items())[1]) for run in (whole, again))
    assert "learner/bonus/statistics/layers/0/weight" in one
    jax.tree.map(np.testing.assert_array_equal, one, other)
    assert json.loads((whole.evaluation / "evaluation.json").read_text())["name"] == "table-lsd+music-2d"
    skills = wanderlust.load(whole)
    obs = np.array([0.0, 0.0, 0.1, -0.1], np.float32)
    moved_hand = obs + np.array([1.0, 1.0, 0.0, 0.0], np.float32)
    np.testing.assert_array_equal(skills.phi(obs), skills.phi(moved_hand))
    towards = skills.phi([0.0, 0.0, 0.5, 0.3]) - skills.phi(obs)
    z = skills.towards(obs, [0.5, 0.3])
    np.testing.assert_allclose(z / np.linalg.norm(z), towards / np.linalg.norm(towards), rtol=1e-4)


def alone(config):
    return dataclasses.replace(config, method=method_config("music", hidden=(16,), episodes=8), bonus=None)


def test_music_alone_has_no_map_and_no_skill_for_a_goal():
    parts = train.assemble(alone(on_table()))
    assert parts.method.agent == 2 and parts.view.method_dim == 4
    with pytest.raises(UserError, match="music cannot choose a skill for a goal"):
        parts.method.towards((), jnp.zeros((1, 4)), jnp.zeros((1, 4)))
    assert np.all(np.isnan(parts.method.represent((), jnp.zeros((3, 4)))))


# --- what is refused ------------------------------------------------------------------------------------------------


def test_a_world_without_the_groups_is_named_with_what_it_lacks(command_line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (("--method", "music"), ("--with", "music")):
        code, _, err = command_line("discover", "point", *words)
        assert code == 2 and err.count("\n") == 1
        assert "music looks at the groups agent and object of the observation, and point has no group agent" in err
        assert "and no group object (it has position)" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schedule_steps": 10}, r"schedule.steps \(10\) must equal env.episode_length \(5\)"),
        ({"schedule_collect": "episodes", "schedule_method_batch": 4}, "schedule.collect must be steps"),
    ],
)
def test_collections_that_are_not_whole_episodes_are_refused(change, said):
    with pytest.raises(UserError, match=said):
        on_table(**change)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--with", "lsd"), "this reward cannot be added to another's; known: music"),
        (("--with", "nosuch"), "unknown method 'nosuch'"),
        (("--with", "music", "--method", "edl"), "edl learns in stages"),
        (("--with", "music", "--method", "ibol"), "ibol learns in stages"),
        (("--with", "music", "--method", "music"), "music is the method already"),
        (("--bonus.coefficient", "3"), "--bonus.coefficient"),
    ],
)
def test_what_cannot_be_added_is_one_line(command_line, words, said):
    code, _, err = command_line("discover", NAME, *words)
    assert code == 2 and err.count("\n") == 1 and said in err


# --- configuration and command line ---------------------------------------------------------------------------------


def test_a_bonus_survives_json_and_a_file_without_one_is_as_before():
    config = on_table()
    assert from_json(RunConfig, to_json(config), "here") == config
    data = json.loads(to_json(on_table(bonus=False)))
    assert data["bonus"] is None and data["method"].pop("reward_scale") == 500.0
    del data["bonus"]  # a file of before
    old = from_json(RunConfig, json.dumps(data), "here")
    assert old.bonus is None and old.method.reward_scale == 1.0
    data["bonus"] = {"name": "music", "colour": 1}
    with pytest.raises(UserError, match=r"there is no field bonus.colour"):
        from_json(RunConfig, json.dumps(data), "here")


def test_flags_of_a_bonus(command_line, monkeypatch):
    found = []
    monkeypatch.setattr(api, "start_run", lambda config, *_: found.append(config))
    monkeypatch.setattr(cli.skills, "train_and_report", lambda *_: 0)
    assert (
        command_line("discover", NAME, "--with", "music", "--bonus.coefficient", 7, "--set", "bonus.episodes=3")[0] == 0
    )
    assert (found[0].bonus.coefficient, found[0].bonus.episodes, found[0].method.name) == (7.0, 3, "lsd")
    code, out, _ = command_line("discover", "--with", "music", "--help")
    assert code == 0 and "--bonus.shuffle" in out and "--with METHOD" in out
    code, out, _ = command_line("discover", "--help")
    assert "--bonus." not in out and "--with METHOD" in out
    code, _, err = command_line("discover", "--resume", "run", "--with", "music")
    assert code == 2 and "leave out --with" in err
    assert "--with music" in command_line("list")[1]


def test_recipes_repair_the_shuffle_and_collect_whole_episodes():
    alone, added = (
        get_recipe("laptop", NAME, "music", SkillConfig()),
        get_recipe("laptop", NAME, "lsd", SkillConfig(), "music"),
    )
    for config, music in ((alone, alone.method), (added, added.bonus)):
        assert (music.shuffle, len(music.hidden)) == ("swap", 1)
        assert config.schedule.steps == config.env.episode_length
    plain = get_recipe("laptop", NAME, "lsd", SkillConfig())
    assert added.method == plain.method
    assert 0.9 < added.schedule.collection / plain.schedule.collection <= 1.0
