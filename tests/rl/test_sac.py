"""SAC on worlds whose values are known: each probe isolates one thing that can be wrong."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import optimised
from wanderlust.config import SacConfig
from wanderlust.rl.nets import MLP, Critic, Linear
from wanderlust.rl.sac import Batch, Sac, mode_actions, sample_actions, twin_values

COUNT, UPDATES = 256, 1500
CONFIG = SacConfig(
    hidden=(32, 32),
    policy_learning_rate=3e-3,
    critic_learning_rate=3e-3,
    alpha_learning_rate=1e-2,
    discount=0.8,
    alpha=1e-3,
    target_step=0.05,
)
ALPHA_CONFIG = SacConfig(**{**CONFIG.__dict__, "learn_alpha": True, "alpha": 0.5})


class Probe:
    """A learner of a fixed batch, compiled once and used for every probe."""

    def __init__(self, config, skill_dim, action_dim=1):
        self.sac = Sac(config, 1, skill_dim, action_dim)
        self.init = jax.jit(self.sac.init)
        self.compiled = jax.jit(self._fit)

    @optimised()
    def fit(self, state, batch, key):
        return self.compiled(state, batch, key)

    def _fit(self, state, batch, key):
        def step(state, key):
            state, metrics = self.sac.update(state, batch, key)
            return self.sac.end_epoch(state), metrics

        return jax.lax.scan(step, state, jax.random.split(key, UPDATES))

    def learn(self, batch, seed=0):
        a, b = jax.random.split(jax.random.key(seed))
        return self.fit(self.init(a), batch, b)

    def batch(self, obs=0.0, reward=0.0, next_obs=0.0, terminal=True, skill=0.0):
        action = jax.random.uniform(jax.random.key(7), (COUNT, self.sac.action_dim), minval=-1.0, maxval=1.0)
        fill = lambda x, *shape: jnp.broadcast_to(jnp.asarray(x, jnp.float32).reshape(-1, *shape[1:]), shape)  # noqa: E731
        return Batch(
            obs=fill(obs, COUNT, 1),
            skill=fill(skill, COUNT, 1)[:, : self.sac.skill_dim],
            action=action,
            reward=fill(reward(action) if callable(reward) else reward, COUNT),
            next_obs=fill(next_obs, COUNT, 1),
            terminal=jnp.broadcast_to(jnp.asarray(terminal), (COUNT,)),
        )


@pytest.fixture(scope="module")
def probe():
    return Probe(CONFIG, skill_dim=1)


@pytest.fixture(scope="module")
def plain_probe():
    return Probe(CONFIG, skill_dim=0)


@pytest.fixture(scope="module")
def alpha_probe():
    return Probe(ALPHA_CONFIG, skill_dim=0, action_dim=2)


def values(state, obs, action, skill=()):
    """Both critics at one point."""
    at = [jnp.full((1, 1), obs), jnp.array(skill).reshape(1, -1), jnp.full((1, 1), action)]
    return np.asarray(twin_values(state.critics, *at))[:, 0]


def mode(state, obs, skill=()):
    return float(mode_actions(state.policy, jnp.full((1, 1), obs), jnp.array(skill).reshape(1, -1))[0, 0])


def to_the_right(state, obs, skill):
    """How likely the policy's action is positive: tanh keeps signs, so it is what its normal distribution says."""
    dist = state.policy(jnp.array([obs]), jnp.array(skill))
    return 0.5 * math.erfc(-float(dist.mean[0]) / math.exp(float(dist.log_std[0])) / math.sqrt(2.0))


FIRST = jnp.arange(COUNT) % 2 == 0


# --- values -------------------------------------------------------------------------------------------------------


def test_constant_reward_at_the_end_is_the_value(plain_probe):
    state, metrics = plain_probe.learn(plain_probe.batch(reward=1.7))
    for action in (-0.9, 0.0, 0.9):
        np.testing.assert_allclose(values(state, 0.0, action), 1.7, atol=0.02)
    assert float(metrics["q"][-1]) == pytest.approx(1.7, abs=0.02)


def test_reward_that_depends_on_the_observation(plain_probe):
    obs = jnp.where(FIRST, 1.0, -1.0)
    state, _ = plain_probe.learn(plain_probe.batch(obs=obs, reward=obs))
    np.testing.assert_allclose(values(state, 1.0, 0.0), 1.0, atol=0.03)
    np.testing.assert_allclose(values(state, -1.0, 0.0), -1.0, atol=0.03)


def test_reward_one_step_later_is_discounted_once(plain_probe):
    """Observation 0 leads to 1 for nothing; 1 ends with a reward of 1."""
    batch = plain_probe.batch(obs=~FIRST, reward=~FIRST, next_obs=1.0, terminal=~FIRST)
    state, _ = plain_probe.learn(batch)
    np.testing.assert_allclose(values(state, 1.0, 0.0), 1.0, atol=0.03)
    np.testing.assert_allclose(values(state, 0.0, 0.0), CONFIG.discount, atol=0.03)


def test_value_of_a_reward_for_ever_is_the_geometric_sum(plain_probe):
    state, _ = plain_probe.learn(plain_probe.batch(reward=1.0, terminal=False))
    np.testing.assert_allclose(values(state, 0.0, 0.0), 1.0 / (1.0 - CONFIG.discount), rtol=0.02)


# --- the policy ---------------------------------------------------------------------------------------------------


def test_policy_finds_the_better_action_and_the_critics_rank_it(plain_probe):
    batch = plain_probe.batch(reward=lambda a: -4.0 * (a[:, 0] - 0.5) ** 2)
    state, _ = plain_probe.learn(batch)
    assert mode(state, 0.0) == pytest.approx(0.5, abs=0.1)
    assert np.all(values(state, 0.0, 0.5) > values(state, 0.0, -0.5) + 3.0)


def test_policy_follows_the_skill(probe):
    """The reward is the action times the skill."""
    skill = jnp.where(FIRST, 1.0, -1.0)
    state, _ = probe.learn(probe.batch(skill=skill, reward=lambda a: skill * a[:, 0]))
    assert mode(state, 0.0, [1.0]) > 0.9
    assert mode(state, 0.0, [-1.0]) < -0.9
    np.testing.assert_allclose(values(state, 0.0, 0.5, [1.0]), 0.5, atol=0.1)
    np.testing.assert_allclose(values(state, 0.0, 0.5, [-1.0]), -0.5, atol=0.1)


def test_policy_looks_ahead_for_its_skill(probe):
    """The action decides nothing now, the next step's value is the skill times the observation reached."""
    skill = jnp.where(jnp.arange(COUNT) // 2 % 2 == 0, 1.0, -1.0)
    batch = probe.batch(skill=skill, obs=0.0)
    reached = jnp.sign(batch.action)  # one observation left, one right
    batch = batch._replace(
        obs=jnp.where(FIRST[:, None], 0.0, reached),
        next_obs=reached,
        reward=jnp.where(FIRST, 0.0, skill * reached[:, 0]),
        terminal=~FIRST,
    )
    state, _ = probe.learn(batch)
    assert to_the_right(state, 0.0, [1.0]) > 0.9
    assert to_the_right(state, 0.0, [-1.0]) < 0.1


# --- entropy ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [1e-3, 0.5], ids=["too low", "too high"])
def test_learned_alpha_steers_the_entropy_to_its_target(alpha_probe, start):
    """For the reward -|a|^2 the best policy is nearly normal, and both its entropy and alpha are known."""
    batch = alpha_probe.batch(reward=lambda a: -jnp.sum(a**2, axis=1))
    a, b = jax.random.split(jax.random.key(1))
    state = alpha_probe.init(a)._replace(log_alpha=jnp.log(jnp.float32(start)))
    state, metrics = alpha_probe.fit(state, batch, b)
    assert float(metrics["entropy"][-200:].mean()) == pytest.approx(-0.5 * 2, abs=0.1)
    # pi ~ exp(-a^2 / alpha) has variance alpha / 2 and the entropy log(pi e alpha) / 2 = -1/2 a dimension
    assert float(metrics["alpha"][-1]) == pytest.approx(np.exp(-2.0) / np.pi, rel=0.3)


def test_fixed_alpha_stays(probe):
    state, metrics = probe.learn(probe.batch(reward=lambda a: a[:, 0]))
    assert float(state.log_alpha) == float(probe.init(jax.random.key(0)).log_alpha)
    np.testing.assert_allclose(metrics["alpha"], CONFIG.alpha, rtol=1e-6)


@optimised()
def test_without_a_reward_entropy_is_all_there_is_to_gain(alpha_probe):
    """The most random policy is uniform on [-1, 1]^2: its entropy is 2 log 2, its value alpha * entropy."""
    sac = Sac(SacConfig(**{**ALPHA_CONFIG.__dict__, "learn_alpha": False}), 1, 0, 2)
    state = alpha_probe.init(jax.random.key(0))
    key = jax.random.key(5)
    batch = alpha_probe.batch(terminal=False)

    def step(state, key):
        state, metrics = sac.update(state, batch, key)
        return sac.end_epoch(state), metrics

    state, metrics = jax.jit(lambda s: jax.lax.scan(step, s, jax.random.split(key, UPDATES)))(state)
    entropy = 2 * np.log(2)
    assert float(metrics["entropy"][-200:].mean()) == pytest.approx(entropy, abs=0.05)
    # Q leaves out the entropy of the step it judges, and counts that of all later ones
    expected = ALPHA_CONFIG.alpha * entropy * CONFIG.discount / (1 - CONFIG.discount)
    assert float(metrics["q"][-100:].mean()) == pytest.approx(expected, rel=0.05)


# --- the losses, by hand ------------------------------------------------------------------------------------------


def constant_critics(first, second):
    """Twins that value everything alike, at two levels."""
    weight = jnp.zeros((2, 3, 1))
    return Critic(MLP((Linear(weight, jnp.array([[first], [second]])),), jax.nn.relu))


@pytest.fixture(scope="module")
def by_hand(probe):
    state = probe.init(jax.random.key(0))
    return state._replace(
        critics=constant_critics(0.0, 1.0), targets=constant_critics(5.0, 3.0), log_alpha=jnp.float32(-100.0)
    )


def test_target_takes_the_lower_twin_and_the_loss_is_half_the_square(probe, by_hand):
    loss, q = probe.sac.critic_loss(
        by_hand.critics, by_hand, probe.batch(reward=2.0, terminal=False), jax.random.key(0)
    )
    target = 2.0 + CONFIG.discount * 3.0
    assert float(loss) == pytest.approx(0.5 * ((0 - target) ** 2 + (1 - target) ** 2), rel=1e-5)
    assert float(q) == pytest.approx(0.5)


def test_terminal_cuts_the_bootstrap(probe, by_hand):
    loss, _ = probe.sac.critic_loss(by_hand.critics, by_hand, probe.batch(reward=2.0), jax.random.key(0))
    assert float(loss) == pytest.approx(0.5 * ((0 - 2.0) ** 2 + (1 - 2.0) ** 2), rel=1e-6)


def test_target_counts_the_entropy_of_the_next_action(probe, by_hand):
    batch, key, alpha = probe.batch(reward=2.0, terminal=False), jax.random.key(3), 0.7
    state = by_hand._replace(log_alpha=jnp.log(jnp.float32(alpha)))
    loss, _ = probe.sac.critic_loss(state.critics, state, batch, key)
    log_prob = np.asarray(sample_actions(state.policy, batch.next_obs, batch.skill, key)[1])
    target = 2.0 + CONFIG.discount * (3.0 - alpha * log_prob)
    assert float(loss) == pytest.approx(0.5 * np.mean((0 - target) ** 2 + (1 - target) ** 2), rel=1e-5)


def test_policy_maximises_the_lower_twin(probe, by_hand):
    loss, entropy = probe.sac.policy_loss(by_hand.policy, by_hand, probe.batch(), jax.random.key(0))
    assert float(loss) == pytest.approx(0.0, abs=1e-6)  # -min(0, 1), alpha being 0
    other = by_hand._replace(critics=constant_critics(4.0, -2.0), log_alpha=jnp.float32(0.0))
    loss, entropy = probe.sac.policy_loss(other.policy, other, probe.batch(), jax.random.key(0))
    assert float(loss) == pytest.approx(-float(entropy) + 2.0, rel=1e-5)


def test_targets_start_as_the_critics_and_move_by_tau(probe, by_hand):
    fresh = probe.init(jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, fresh.targets, fresh.critics)
    moved = probe.sac.end_epoch(by_hand)
    np.testing.assert_allclose(moved.targets.mlp.layers[0].bias[:, 0], [4.75, 2.9], rtol=1e-6)  # 5% of the way
    jax.tree.map(np.testing.assert_array_equal, moved.critics, by_hand.critics)


def test_update_leaves_the_targets_alone(probe):
    state = probe.init(jax.random.key(0))
    after, _ = jax.jit(probe.sac.update)(state, probe.batch(reward=1.0), jax.random.key(1))
    jax.tree.map(np.testing.assert_array_equal, after.targets, state.targets)
    changed = jax.tree.map(lambda a, b: bool(np.any(a != b)), after.critics, state.critics)
    assert any(jax.tree.leaves(changed))


def test_twins_start_apart(probe):
    first, second = values(probe.init(jax.random.key(0)), 0.5, 0.5, [0.5])
    assert abs(first - second) > 1e-3
