"""What the recipes of the bodies add to the learner: the joint order, whole episodes, a late start, half precision."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import tiny_config
from wanderlust import train
from wanderlust.config import SacConfig
from wanderlust.envs import WorldState
from wanderlust.envs.spec import EnvSpec, Groups, Transition
from wanderlust.rl import replay as replays
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, Linear, in_precision, init_mlp
from wanderlust.rl.sac import Batch, Sac
from wanderlust.train import update

# --- the ring when only some entries are valid ------------------------------------------------------------------------


def numbered(values):
    """Transitions that carry a number as their observation."""
    x = jnp.asarray(values, jnp.float32)[:, None]
    no = jnp.zeros(len(x), bool)
    return Transition(x, x, x, x, no, no)


def test_only_valid_entries_are_stored_in_order_and_the_ring_may_wrap_anywhere():
    ring = replays.empty(jax.tree.map(lambda x: x[0], numbered([0.0])), capacity=5)
    append = jax.jit(replays.append_valid)
    ring = append(ring, numbered([1, 2, 3, 4]), jnp.array([True, False, True, True]))
    assert (int(ring.cursor), int(ring.size)) == (3, 3)
    assert ring.data.obs[:3, 0].tolist() == [1, 3, 4]
    ring = append(ring, numbered([5, 6, 7, 8]), jnp.array([False, True, True, True]))
    assert (int(ring.cursor), int(ring.size)) == (1, 5)
    assert ring.data.obs[:, 0].tolist() == [8, 3, 4, 6, 7]
    nothing = append(ring, numbered([9, 9, 9, 9]), jnp.zeros(4, bool))
    jax.tree.map(np.testing.assert_array_equal, nothing, ring)


def test_a_batch_larger_than_the_ring_is_refused():
    ring = replays.empty(jax.tree.map(lambda x: x[0], numbered([0.0])), capacity=3)
    with pytest.raises(ValueError, match="ring of 3 cannot take a batch of 4"):
        replays.append_valid(ring, numbered([1, 2, 3, 4]), jnp.ones(4, bool))


# --- whole episodes, and when learning begins -------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Cliff:
    """A point that moves one place a step; beyond its edge, drawn at the start, the episode is over."""

    length: int = 5

    @property
    def spec(self):
        return EnvSpec("cliff", 2, 2, self.length, Groups(position=(0, 1)), (0.0, 0.0), (1.0, 1.0))

    def initial(self, key):
        return WorldState(jnp.array([0.0, 0.0]).at[1].set(jax.random.randint(key, (), 2, 9)), jnp.zeros(0))

    def observe(self, state):
        return state.physics

    def terminated(self, state):
        return state.physics[0] >= state.physics[1]

    def from_origin(self):
        return self

    def step(self, state, action):
        return state._replace(physics=state.physics + jnp.array([1.0, 0.0]))


def episodes(driver, **changes):
    config = tiny_config(
        schedule_collect="episodes",
        schedule_method_batch=16,
        schedule_worlds=6,
        schedule_replay_collections=4,
        driver=driver,
        **changes,
    )
    parts = train.assemble(config)
    world = Cliff()
    return dataclasses.replace(parts, world=world, engine=dataclasses.replace(parts.engine, world=world))


@pytest.mark.parametrize("driver", ["fused", "split"])
def test_an_epoch_of_episodes_is_one_episode_of_every_world(driver):
    parts = episodes(driver)
    state = train.init(parts)
    lengths = np.minimum(np.asarray(state.worlds.state.physics)[0, :, 1], 5)  # steps to the edge, or the time limit
    state, metrics = train.make_driver(parts)(state, 1)
    assert metrics["steps"].tolist() == [lengths.sum()]
    assert 6 * 2 < lengths.sum() < 6 * 5  # some ended early, some did not
    size = int(state.replay.size[0])
    assert size == lengths.sum()
    stored = jax.tree.map(lambda x: np.asarray(x)[0, :size], state.replay.data)
    assert (stored.obs[:, 0] < stored.obs[:, 1]).all()  # nothing from beyond the edge
    assert (stored.terminated | stored.truncated).sum() == 6  # every world ends exactly once
    np.testing.assert_array_equal(stored.next_obs[:, 0], stored.obs[:, 0] + 1)
    assert not np.asarray(state.worlds.age).any()  # and all begin anew together
    assert not np.asarray(state.worlds.state.physics)[..., 0].any()


def test_both_drivers_collect_the_same_episodes():
    ends = []
    for driver in ("fused", "split"):
        parts = episodes(driver)
        ends.append(train.make_driver(parts)(train.init(parts), 3))
    one, other = ((state.learner, metrics) for state, metrics in ends)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), one, other)


def test_nothing_is_learned_before_enough_is_stored():
    parts = train.assemble(tiny_config(schedule_learn_from=3 * 20, schedule_replay_collections=4))  # 20 an epoch
    advance, state = train.make_driver(parts), train.init(parts)
    before = jax.device_get(state.learner)
    state, metrics = advance(state, 2)
    jax.tree.map(np.testing.assert_array_equal, before, jax.device_get(state.learner))
    assert metrics["critic_loss"].tolist() == [0.0]
    assert metrics["steps"].tolist() == [20.0]
    state, metrics = advance(state, 1)
    assert metrics["critic_loss"][0] > 0
    moved = jax.tree.map(lambda a, b: bool(np.any(a != b)), before, jax.device_get(state.learner))
    assert any(jax.tree.leaves(moved.sac.policy))
    assert any(jax.tree.leaves(moved.method))


def test_when_a_seed_begins_to_learn_is_its_own_business():
    changes = {"schedule_learn_from": 25, "schedule_sac_steps": 1, "schedule_method_steps": 1}
    together = episodes("fused", seeds=3, **changes)
    state, metrics = train.make_driver(together)(train.init(together), 1)
    begun = np.asarray(state.replay.size) >= 25
    assert begun.any()
    assert not begun.all()
    np.testing.assert_array_equal(np.asarray(metrics["critic_loss"]) > 0, begun)
    np.testing.assert_allclose(metrics["alpha"], np.where(begun, 0.01, 0.0), rtol=1e-6)  # means of what was learned


def test_metrics_are_means_over_the_epochs_that_learned():
    parts = train.assemble(tiny_config(schedule_learn_from=3 * 20, schedule_replay_collections=4))
    _, metrics = train.make_driver(parts)(train.init(parts), 4)  # two of the four learn
    np.testing.assert_allclose(metrics["alpha"], [0.01], rtol=1e-6)
    assert metrics["steps"].tolist() == [20.0]


# --- the joint order --------------------------------------------------------------------------------------------------


def test_the_joint_order_is_a_step_of_each_from_one_batch():
    parts = train.assemble(tiny_config(schedule_order="joint", sac_target_update="step"))
    state = train.init(parts)
    state, _ = train.make_driver(parts)(state, 2)  # something to learn from
    learner, replay = jax.tree.map(lambda x: x[0], (state.learner, state.replay))
    key = jax.random.key(5)
    learned, metrics = jax.jit(partial(update.learn, parts))(learner, replay, replay.data, key)

    rewards = []
    reward_of, method_step = jax.jit(parts.method.reward), jax.jit(parts.method.update)
    sac_step = jax.jit(parts.sac.update)
    for step_key in jax.random.split(key, parts.config.schedule.sac_steps):
        draw, noise = jax.random.split(step_key)
        batch = replays.take(replay, replays.draw(replay, draw, parts.config.schedule.sac_batch))
        seen = parts.view.transition_for_method(batch)
        reward = reward_of(learner.method, seen)  # of phi before its step
        method, _ = method_step(learner.method, seen)
        terminal = batch.terminated | batch.truncated
        obs, next_obs = parts.view.for_policy(batch.obs), parts.view.for_policy(batch.next_obs)
        sac, _ = sac_step(learner.sac, Batch(obs, batch.skill, batch.action, reward, next_obs, terminal), noise)
        learner = train.Learner(sac, method)
        rewards.append(float(reward.mean()))
    np.testing.assert_allclose(metrics["reward"], np.mean(rewards), rtol=1e-5)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), learned.sac, learner.sac)
    # phi's last bias cancels in phi(s') - phi(s): what its gradient is, is rounding, which Adam makes a step of
    for one, other in zip(learned.method.encoder.layers, learner.method.encoder.layers, strict=True):
        np.testing.assert_allclose(one.weight, other.weight, rtol=1e-4, atol=1e-6)


# --- networks ---------------------------------------------------------------------------------------------------------


def test_layer_norm_by_hand():
    mlp = init_mlp(jax.random.key(0), (3, 8, 1), GLOROT_UNIFORM, layer_norm=True)
    first, last = mlp.layers
    x = np.array([0.3, -2.0, 1.0], np.float32)
    hidden = x @ np.asarray(first.weight) + np.asarray(first.bias)
    hidden = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-5)
    expected = np.maximum(hidden, 0) @ np.asarray(last.weight) + np.asarray(last.bias)
    np.testing.assert_allclose(mlp(jnp.asarray(x)), expected, rtol=1e-5)
    shifted = MLP((dataclasses.replace(first, bias=first.bias + 7.0), last), mlp.activation, True)
    np.testing.assert_allclose(shifted(jnp.asarray(x)), expected, rtol=1e-4)  # a common shift is taken out again


def test_only_the_critics_are_normalised():
    state = Sac(SacConfig(hidden=(8, 8), critic_layer_norm=True), 2, 2, 1).init(jax.random.key(0))
    assert (state.critics.mlp.layer_norm, state.targets.mlp.layer_norm, state.policy.mlp.layer_norm) == (
        True,
        True,
        False,
    )


def test_half_precision_products_give_float32_and_nearly_the_same():
    mlp = init_mlp(jax.random.key(0), (16, 64, 64, 3), GLOROT_UNIFORM)
    half = in_precision(mlp, "bfloat16")
    assert {layer.weight.dtype for layer in half.layers} == {jnp.dtype(jnp.bfloat16)}
    assert in_precision(mlp, "float32") is mlp
    x = jax.random.normal(jax.random.key(1), (200, 16))
    exact, rounded = jax.vmap(mlp)(x), jax.vmap(half)(x)
    assert rounded.dtype == jnp.float32
    error = np.abs(np.asarray(exact - rounded))
    # three layers, each rounded to 8 bits (2^-9 of the larger terms of its sums)
    assert 0 < error.max() < 0.05 * np.abs(np.asarray(exact)).max()


def test_large_values_are_not_rounded_to_half_precision():
    """A critic of a body that lives long: values near 40, where bfloat16 has steps of a quarter."""
    mlp = init_mlp(jax.random.key(0), (16, 64, 1), GLOROT_UNIFORM)
    mlp = MLP((mlp.layers[0], Linear(mlp.layers[1].weight, jnp.array([40.1]))), mlp.activation)
    x = jax.random.normal(jax.random.key(1), (500, 16))
    exact, rounded = jax.vmap(mlp)(x), jax.vmap(in_precision(mlp, "bfloat16"))(x)
    assert float(jnp.abs(exact - rounded).max()) < 0.02
    assert len(np.unique(np.asarray(rounded))) > 490


def test_gradients_in_half_precision_are_float32_and_point_the_same_way():
    def gradients(precision):
        sac = Sac(SacConfig(hidden=(64, 64), critic_layer_norm=True), 4, 2, 2, precision)
        state = Sac(SacConfig(hidden=(64, 64), critic_layer_norm=True), 4, 2, 2).init(jax.random.key(0))
        keys = jax.random.split(jax.random.key(1), 5)
        batch = Batch(
            obs=jax.random.normal(keys[0], (256, 4)),
            skill=jax.random.normal(keys[1], (256, 2)),
            action=jax.random.uniform(keys[2], (256, 2), minval=-1.0),
            reward=jax.random.normal(keys[3], (256,)),
            next_obs=jax.random.normal(keys[4], (256, 4)),
            terminal=jnp.zeros(256, bool),
        )
        grads, _ = jax.grad(sac.critic_loss, has_aux=True)(state.critics, state, batch, jax.random.key(2))
        leaves = jax.tree.leaves(grads)
        assert {x.dtype for x in leaves} == {jnp.dtype(jnp.float32)}
        return np.concatenate([np.asarray(x).ravel() for x in leaves])

    exact, rounded = gradients("float32"), gradients("bfloat16")
    cosine = exact @ rounded / np.linalg.norm(exact) / np.linalg.norm(rounded)
    assert 0.999 < cosine < 1.0


# --- the alive bonus --------------------------------------------------------------------------------------------------


def test_the_alive_bonus_is_part_of_what_critics_learn_and_not_of_the_reward_that_is_shown(monkeypatch):
    seen = []
    parts = train.assemble(tiny_config(sac_alive_bonus=0.25))
    monkeypatch.setattr(Sac, "update", lambda self, state, batch, key: (seen.append(batch.reward), (state, {}))[1])
    state = train.init(parts)
    replay = jax.tree.map(lambda x: x[0], state.replay)
    batch = replays.take(replay, jnp.zeros(16, jnp.int32))
    reward = jnp.linspace(-1, 1, 16)
    _, metrics = update.sac_update(
        parts, jax.tree.map(lambda x: x[0], state.learner.sac), batch, reward, jax.random.key(0)
    )
    np.testing.assert_allclose(seen[0], reward + 0.25, rtol=1e-6)
    np.testing.assert_allclose(metrics["reward"], 0.0, atol=1e-6)
