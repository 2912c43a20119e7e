"""PPO by hand where it can be computed by hand, and on worlds whose best choice is known."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wanderlust.rl.nets import MLP, Linear
from wanderlust.rl.ppo import Episodes, Ppo, PpoBatch, PpoConfig, PpoNetworks, likeliest_choices, sample_choices

CONFIG = PpoConfig(hidden=(16,), learning_rate=1e-2, discount=0.9, trace=0.8, entropy=0.0)


def fixed(weight, bias):
    """A network of one layer."""
    return MLP((Linear(jnp.array(weight, jnp.float32), jnp.array(bias, jnp.float32)),), jax.nn.relu)


UNIFORM = fixed([[0.0, 0.0]], [0.0, 0.0])
SAYS_OBS = fixed([[1.0]], [0.0])


def episodes(obs, reward, next_obs, last):
    column = lambda x, kind: jnp.array(x, kind)[:, None]  # noqa: E731
    zeros = jnp.zeros((len(reward), 1))
    return Episodes(
        column(obs, jnp.float32)[..., None],
        zeros.astype(jnp.int32),
        zeros,
        column(reward, jnp.float32),
        column(next_obs, jnp.float32)[..., None],
        column(last, bool),
    )


def with_advantages(happened, config=CONFIG):
    ppo = Ppo(config, 1, 2)
    state = jax.jit(ppo.init)(jax.random.key(0))._replace(networks=PpoNetworks(UNIFORM, SAYS_OBS))
    return jax.jit(ppo.with_advantages)(state, happened)


# --- advantages and returns -------------------------------------------------------------------------------------------


def test_advantages_by_hand():
    """Values are the observations themselves: 1, 2, 3; gamma 0.9, lambda 0.8; the last step is terminal."""
    batch = with_advantages(episodes([1, 2, 3], [0.5, 0, 4], [2, 3, 99], [0, 0, 1]))
    td_error = [0.5 + 0.9 * 2 - 1, 0.9 * 3 - 2, 4 - 3]
    third = td_error[2]
    second = td_error[1] + 0.72 * third
    first = td_error[0] + 0.72 * second
    np.testing.assert_allclose(batch.advantage[:, 0], [first, second, third], rtol=1e-6)


def test_targets_are_discounted_returns():
    batch = with_advantages(episodes([1, 2, 3], [0.5, 0, 4], [2, 3, 99], [0, 0, 1]))
    np.testing.assert_allclose(batch.target[:, 0], [0.5 + 0.81 * 4, 0.9 * 4, 4], rtol=1e-6)


def test_nothing_leaks_from_one_episode_into_the_one_before():
    batch = with_advantages(episodes([1, 1], [0, 1000], [7, 1], [1, 1]))
    np.testing.assert_allclose(batch.advantage[:, 0], [-1, 999], rtol=1e-6)
    np.testing.assert_allclose(batch.target[:, 0], [0, 1000], rtol=1e-6)


# --- losses -----------------------------------------------------------------------------------------------------------


def batch_of(logits, action, old, advantage, target=0.0):
    """One-hot observations, so that row k of a linear network is what it says of entry k."""
    count = len(action)
    zeros = jnp.zeros(count)
    return fixed(logits, [0.0] * len(logits[0])), PpoBatch(
        jnp.eye(count), jnp.array(action), jnp.log(jnp.array(old)), jnp.array(advantage, jnp.float32), zeros + target
    )


def test_the_clipped_objective_by_hand():
    """Ratios 1.5, 1.5, 0.5, 0.5 and 1; a gain counts up to 1.2 or down to 0.8, a loss counts in full."""
    probability = [0.6, 0.6, 0.2, 0.2, 0.5]
    policy, batch = batch_of(
        [[math.log(p), math.log(1 - p)] for p in probability], [0] * 5, [0.4] * 4 + [0.5], [1, -1, 1, -1, 0]
    )
    loss, metrics = jax.jit(Ppo(CONFIG, 5, 2).policy_loss)(policy, batch)
    scale = 1 / math.sqrt(0.8)  # advantages have mean 0 and variance 0.8
    expected = scale * (1.2 - 1.5 + 0.5 - 0.8) / 5
    assert float(loss) == pytest.approx(-expected, rel=1e-5)
    assert float(metrics["clipped"]) == pytest.approx(0.8)


def test_entropy_is_rewarded():
    policy, batch = batch_of([[math.log(0.9), math.log(0.1)], [0.0, 0.0]], [0, 1], [0.9, 0.5], [0.0, 0.0])
    expected = (-(0.9 * math.log(0.9) + 0.1 * math.log(0.1)) + math.log(2)) / 2
    loss, metrics = jax.jit(Ppo(PpoConfig(entropy=0.3), 2, 2).policy_loss)(policy, batch)
    assert float(metrics["entropy"]) == pytest.approx(expected, rel=1e-5)
    assert float(loss) == pytest.approx(-0.3 * expected, rel=1e-5)


def test_advantages_are_standardised_and_no_gradient_is_left_beyond_the_clip():
    ppo = Ppo(CONFIG, 2, 2)
    gradient = jax.jit(jax.grad(lambda policy, batch: ppo.policy_loss(policy, batch)[0]))
    policy, batch = batch_of([[math.log(0.6), math.log(0.4)]] * 2, [0, 0], [0.4, 0.6], [100.0, -100.0])
    weight = np.asarray(gradient(policy, batch).layers[0].weight)
    np.testing.assert_allclose(weight[0], 0, atol=1e-6)  # gained beyond the clip already
    # of ratio 1 and advantage -1: d(-ratio * -1)/d logit_0 = 1 - p, halved by the mean
    np.testing.assert_allclose(weight[1], [0.4 / 2, -0.4 / 2], rtol=1e-5)


def test_the_value_loss_is_the_mean_square():
    value = fixed([[1.0], [3.0]], [0.0])
    _, batch = batch_of([[0.0, 0.0]] * 2, [0, 0], [0.5, 0.5], [0.0, 0.0], target=2.0)
    assert float(jax.jit(Ppo(CONFIG, 2, 2).value_loss)(value, batch)) == pytest.approx(1.0)


def test_choices_are_drawn_as_often_as_the_policy_says():
    policy = fixed([[0.0, 0.0, 0.0]], [math.log(0.2), math.log(0.5), math.log(0.3)])
    action, log_prob = jax.jit(sample_choices)(policy, jnp.zeros((20_000, 1)), jax.random.key(0))
    np.testing.assert_allclose(np.bincount(action) / 20_000, [0.2, 0.5, 0.3], atol=0.02)
    np.testing.assert_allclose(np.exp(log_prob), np.array([0.2, 0.5, 0.3])[np.asarray(action)], rtol=1e-5)
    assert set(np.asarray(jax.jit(likeliest_choices)(policy, jnp.zeros((4, 1))))) == {1}


# --- worlds whose best choice is known ------------------------------------------------------------------------------

WORLDS, EPOCHS = 64, 60


def learn(ppo, begin, step, length):
    """Epochs of episodes of a fixed length, four gradient steps of everything after each."""

    def epoch(state, key):
        start, acts, key = jax.random.split(key, 3)

        def one(obs, key):
            action, log_prob = sample_choices(state.networks.policy, obs, key)
            next_obs, reward = step(obs, action)
            return next_obs, (obs, action, log_prob, reward, next_obs)

        _, seen = jax.lax.scan(one, begin(start), jax.random.split(acts, length))
        over = jnp.broadcast_to(jnp.arange(length)[:, None] == length - 1, (length, WORLDS))
        batch = ppo.with_advantages(state, Episodes(*seen, over))
        batch = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch)
        state, _ = jax.lax.scan(lambda s, _: ppo.update(s, batch), state, None, length=4)
        return state, jnp.mean(seen[3])

    @jax.jit
    def train(key):
        a, b = jax.random.split(key)
        return jax.lax.scan(epoch, ppo.init(a), jax.random.split(b, EPOCHS))

    return train(jax.random.key(0))


def chances(state, obs):
    return np.asarray(jax.nn.softmax(jax.vmap(state.networks.policy)(jnp.array(obs, jnp.float32))))


def test_a_bandit_is_solved():
    ppo = Ppo(CONFIG, 1, 4)
    pays = jnp.array([0.0, 0.2, 1.0, 0.5])
    state, rewards = learn(ppo, lambda key: jnp.zeros((WORLDS, 1)), lambda obs, a: (obs, pays[a]), 1)
    assert chances(state, [[0.0]])[0, 2] > 0.9
    assert rewards[0] < 0.6 and rewards[-1] > 0.9


def test_the_choice_depends_on_the_observation():
    ppo = Ppo(CONFIG, 1, 2)
    begin = lambda key: jax.random.rademacher(key, (WORLDS, 1), float)  # noqa: E731
    state, _ = learn(ppo, begin, lambda obs, a: (obs, jnp.where((obs[:, 0] > 0) == (a == 1), 1.0, 0.0)), 1)
    right = chances(state, [[1.0], [-1.0]])
    assert right[0, 1] > 0.9 and right[1, 0] > 0.9


def test_a_reward_that_comes_later_is_traced_to_the_choice_that_earned_it():
    """The first choice decides whether the second step pays; a small reward at once leads the other way."""
    ppo = Ppo(PpoConfig(hidden=(16,), learning_rate=1e-2, discount=0.9, entropy=0.0), 1, 2)

    def step(obs, action):
        first = obs[:, 0] == 0
        after = jnp.where(first, jnp.where(action == 1, 1.0, -1.0), obs[:, 0])
        reward = jnp.where(first, jnp.where(action == 0, 0.3, 0.0), jnp.where(obs[:, 0] > 0, 1.0, 0.0))
        return after[:, None], reward

    state, _ = learn(ppo, lambda key: jnp.zeros((WORLDS, 1)), step, 2)
    assert chances(state, [[0.0]])[0, 1] > 0.9
    value = jax.vmap(state.networks.value)(jnp.array([[0.0], [1.0]]))[:, 0]
    np.testing.assert_allclose(value, [0.9, 1.0], atol=0.1)
