"""VIC: one reward an episode, from where it began and ended."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import tiny_config
from wanderlust import train
from wanderlust.config import MethodConfig, SkillConfig
from wanderlust.envs.spec import Transition
from wanderlust.methods.encoder import EncoderState
from wanderlust.methods.skills import ContinuousSkills, DiscreteSkills
from wanderlust.methods.vic import Vic
from wanderlust.recipes import get_recipe
from wanderlust.rl.nets import MLP, Linear
from wanderlust.train.autoreset import start_episodes

CONFIG = MethodConfig("vic", hidden=(16,), learning_rate=1e-2)
SCALE = 2.0
STATE = EncoderState(MLP((Linear(SCALE * jnp.eye(2), jnp.array([3.0, -1.0])),), jax.nn.relu), ())


def batch(start, next_obs, skill, terminated, truncated):
    start, next_obs, skill = (jnp.array(x, jnp.float32) for x in (start, next_obs, skill))
    middle = next_obs - 7.0  # where the last step began: no part of the reward
    ends = jnp.array(terminated, bool), jnp.array(truncated, bool)
    return Transition(middle, jnp.zeros((len(start), 1)), next_obs, skill, *ends, start=start)


THREE = ([[1.0, 1.0]] * 3, [[2.0, 1.0], [1.0, 0.0], [5.0, 5.0]])


def test_reward_by_hand_for_continuous_skills():
    made = batch(*THREE, [[1.0, 0.0], [0.0, 0.0], [4.0, 4.0]], [0, 1, 0], [1, 0, 0])
    # differences of phi: (2, 0), (0, -2), (8, 8); the third episode goes on
    np.testing.assert_allclose(Vic(CONFIG, ContinuousSkills(2)).reward(STATE, made), [-0.5, -2.0, 0.0], rtol=1e-6)


def test_reward_by_hand_for_discrete_skills():
    made = batch(*THREE, [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0, 1, 0], [1, 0, 0])
    likelier = -np.log1p(np.exp(-2.0))  # log softmax of (2, 0) at its first entry, of (0, -2) at its first too
    np.testing.assert_allclose(Vic(CONFIG, DiscreteSkills(2)).reward(STATE, made), [likelier, likelier, 0], rtol=1e-5)


def test_the_loss_is_over_episodes_that_end_and_nothing_where_none_does():
    vic = Vic(CONFIG, ContinuousSkills(2))
    skill = [[1.0, 0.0], [0.0, 0.0], [4.0, 4.0]]
    np.testing.assert_allclose(vic.loss(STATE.encoder, batch(*THREE, skill, [0, 1, 0], [1, 0, 0])), 1.25, rtol=1e-6)
    none = batch(*THREE, skill, [0, 0, 0], [0, 0, 0])
    loss, grads = jax.value_and_grad(vic.loss)(STATE.encoder, none)
    assert loss == 0
    assert all(not np.any(g) for g in jax.tree.leaves(grads))


def test_learning_tells_skills_apart_by_the_difference_alone():
    skills = ContinuousSkills(2)
    vic = Vic(CONFIG, skills)
    key, draw, begun = jax.random.split(jax.random.key(0), 3)
    skill = jax.vmap(skills.sample)(jax.random.split(draw, 256))
    start = 3.0 * jax.random.normal(begun, (256, 2))
    ends = jnp.ones(256, bool)
    made = Transition(start, start, start + 2.0 * skill, skill, ~ends, ends, start=start)
    update = jax.jit(vic.update)
    state, losses = vic.init(key, 2), []
    for _ in range(300):
        state, metrics = update(state, made)
        losses.append(float(metrics["phi_loss"]))
    assert metrics["ends"] == 1.0
    assert losses[0] > 0.5  # a guess of nothing loses mean ||z||^2 / 2, which is about 1
    assert losses[-1] < 0.05
    goal = vic.towards(state, start, start + 2.0 * skill)
    assert float(jnp.mean(jnp.sum((goal - skill) ** 2, axis=1))) < 0.1


@pytest.mark.parametrize("driver", ["fused", "split"])
def test_transitions_know_where_their_episode_began(driver):
    parts = train.assemble(tiny_config("vic", driver=driver, env_start_range=5.0, schedule_steps=3))
    state, _ = train.make_driver(parts)(train.init(parts), 4)
    data = jax.tree.map(lambda x: np.asarray(x[0]), state.replay.data)
    shape = (parts.config.schedule.replay_collections, 3, parts.config.schedule.worlds)
    obs, start, ended = (
        x.reshape(*shape, *x.shape[1:]) for x in (data.obs, data.start, data.terminated | data.truncated)
    )
    fresh, goes_on = ended[:, :-1], ~ended[:, :-1]
    assert fresh.any()
    assert goes_on.any()
    np.testing.assert_array_equal(start[:, 1:][fresh], obs[:, 1:][fresh])  # an episode's first step begins there
    np.testing.assert_array_equal(start[:, 1:][goes_on], start[:, :-1][goes_on])
    assert np.any(start != obs)


def test_other_methods_carry_nothing_along():
    parts = train.assemble(tiny_config("lsd"))
    state = jax.eval_shape(lambda: train.init(parts))
    assert state.replay.data.start == () == state.worlds.start
    worlds = start_episodes(parts.world, parts.skills.sample, jax.random.key(0), 3, keeps_start=True)
    np.testing.assert_array_equal(worlds.start, jax.vmap(parts.world.observe)(worlds.state))


def test_vic_learns_skills_that_can_be_told_apart_on_point():
    config = get_recipe("laptop", "point", "vic", SkillConfig("discrete", 4))
    parts = train.assemble(config)
    state, metrics = train.make_driver(parts)(train.init(parts), 150)
    assert float(metrics["ends"][0]) == pytest.approx(0.1, abs=0.01)  # one step in ten
    state, metrics = train.make_driver(parts)(state, 50)
    assert float(metrics["phi_loss"][0]) < 0.5 * np.log(4)  # log 4 is what a guess of nothing loses
