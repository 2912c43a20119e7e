"""IBOL: the linearizer and the upper level, by hand where there is a closed form, on PointEnv where there is none."""

import dataclasses
import functools
import json
import math
import shutil
import tempfile
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import one_seed_rollout, optimised, tiny_config
from trained import copy_of, tree
from wanderlust import train
from wanderlust.api import configure
from wanderlust.config import (
    RunConfig,
    SacConfig,
    ScheduleConfig,
    SkillConfig,
    StageConfig,
    method_config,
    to_json,
    with_changes,
)
from wanderlust.downstream.controllers.options import (
    ControlledSkills,
    make_option_rollout,
    random_policy,
    set_up_task,
)
from wanderlust.downstream.tasks import make_task
from wanderlust.envs.engines.formula import JaxEngine
from wanderlust.envs.spec import EnvSpec, Transition
from wanderlust.envs.worlds.point import PointConfig
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.gym.skill_env import SkillEnv
from wanderlust.methods import View, make_method
from wanderlust.methods.ibol import ibol
from wanderlust.methods.ibol.ibol import (
    Networks,
    Terms,
    Trajectories,
    decision_densities,
    leave_one_out_advantage,
    over_time,
)
from wanderlust.methods.ibol.linearizer import LinearizerState
from wanderlust.methods.ibol.nets import Beta, BetaPolicy, Normal, init_beta_policy, init_encoder
from wanderlust.methods.skills import BoxSkills, ContinuousSkills
from wanderlust.recipes import RECIPES, get_recipe
from wanderlust.rl.moments import Moments
from wanderlust.runs import learned as learned_files
from wanderlust.runs import loading
from wanderlust.runs.files import ArrayFile
from wanderlust.runs.learned import Learned
from wanderlust.runs.publish import TOLERATED, publish
from wanderlust.runs.run import Run
from wanderlust.train import loop, stages
from wanderlust.train.autoreset import drift
from wanderlust.train.drivers import FusedDriver, SplitDriver
from wanderlust.train.probe import make_episodes
from wanderlust_experiments import coverage

KEY = jax.random.key(0)
SAC = SacConfig(
    hidden=(32,),
    policy_learning_rate=3e-3,
    critic_learning_rate=3e-3,
    discount=0.8,
    target_update="step",
    target_step=0.05,
    time_limit_is_terminal=False,
)


def config(lower_epochs: int = 4, epochs: int = 4, hold: int = 2, **changes) -> RunConfig:
    """Both levels on PointEnv: episodes of six steps, goals for two of them."""
    lower = ScheduleConfig(
        epochs=lower_epochs, worlds=32, steps=6, sac_steps=4, sac_batch=128, method_steps=4, order="joint"
    )
    upper = ScheduleConfig(
        epochs=epochs, worlds=64, steps=6, sac_steps=4, sac_batch=64, method_steps=4, order="joint", collect="episodes"
    )
    first = StageConfig(method_config("linearizer", block=2, hold=hold), SkillConfig("box", 2), SAC, lower)
    numbers = {"samples": 4, "alternatives": 8, "hidden": (32,), "learning_rate": 1e-2}
    made = RunConfig(
        env=PointConfig(episode_length=6),
        method=method_config("ibol", first=first, **numbers),
        skills=SkillConfig("continuous", 2),
        sac=SAC,
        schedule=upper,
        engine="jax",
        log_every=2,
        checkpoint_every=2,
    )
    return dataclasses.replace(made, **changes)


IBOL = make_method(config().method, ContinuousSkills(2))


# --- the linearizer --------------------------------------------------------------------------------------------------


def test_drift_is_that_of_the_whole_block():
    """Ages 1..7 of an episode of eight steps in blocks of three, then the start of the next episode."""
    age = jnp.array([1, 2, 3, 4, 5, 6, 7, 0, 1])[:, None]
    obs = jnp.array([1.0, 3.0, 6.0, 10.0, 15.0, 21.0, 28.0, 100.0, 107.0])[:, None, None]
    after = jnp.array([3.0, 6.0, 10.0, 15.0, 21.0, 28.0, 36.0, 107.0, 115.0])[:, None, None]
    no = jnp.zeros((9, 1), bool)
    ends = no.at[6].set(True)
    for terminated, truncated in ((ends, no), (no, ends)):
        steps = Transition(obs, jnp.zeros((9, 1, 1)), after, jnp.zeros((9, 1, 1)), terminated, truncated)
        got = np.asarray(jax.jit(functools.partial(drift, block=3))(steps, age))[:, 0, 0]
        cut = [(6 - 1) / 2] * 2  # its first step is not in the collection: judged by the two that are
        whole = [(21 - 6) / 3] * 3
        tail = [(36 - 21) / 3] * 2  # the episode ended: divided by three all the same
        begun = [(115 - 100) / 2] * 2  # its last step is not in the collection
        np.testing.assert_allclose(got, [*cut, *whole, *tail, *begun], rtol=1e-6)


def test_the_linearizers_reward_is_the_move_along_the_goal():
    spec = EnvSpec("x", 3, 1, 10, (0, 1), obs_mean=(5.0, -2.0, 1.0), obs_std=(2.0, 4.0, 0.5))
    moved, goal = np.array([[4.0, 2.0, -1.0], [0.0, 8.0, 0.5]], np.float32), np.array([[1.0, -0.5, 0.25], [0.1, 1, 1]])
    nothing = jnp.zeros((2, 3))
    batch = Transition(
        nothing, nothing, nothing, jnp.asarray(goal), jnp.zeros(2, bool), jnp.zeros(2, bool), drift=jnp.asarray(moved)
    )
    method = make_method(method_config("linearizer"), BoxSkills(3))
    state = method.init(KEY, 3)
    got = jax.jit(lambda b: method.reward(state, View(spec).transition_for_method(b)))(batch)
    by_hand = [(4 / 2 * 1 - 2 / 4 * 0.5 - 1 / 0.5 * 0.25) / math.sqrt(3), (8 / 4 * 1 + 0.5 / 0.5) / math.sqrt(3)]
    np.testing.assert_allclose(got, by_hand, rtol=1e-6)


def test_standardised_rewards_follow_the_first_batch_and_then_move_slowly():
    method = make_method(method_config("linearizer", standardise=True, keep=0.75), BoxSkills(1))

    def batch(moves):
        x, no = jnp.array(moves)[:, None], jnp.zeros(len(moves), bool)
        return Transition(x, x, x, jnp.ones_like(x), no, no, drift=x)

    state = method.init(KEY, 1)
    np.testing.assert_allclose(method.reward(state, batch([3.0])), [3.0], rtol=1e-6)
    state, metrics = jax.jit(method.update)(state, batch([1.0, 5.0]))
    np.testing.assert_allclose([state.mean, state.variance, metrics["move"]], [3.0, 4.0, 3.0])
    state, _ = jax.jit(method.update)(state, batch([7.0, 7.0]))
    np.testing.assert_allclose([state.mean, state.variance], [4.0, 3.0])
    np.testing.assert_allclose(method.reward(state, batch([4.0 + math.sqrt(3.0)])), [1.0], rtol=1e-6)
    plain = make_method(method_config("linearizer"), BoxSkills(1))
    np.testing.assert_allclose(plain.reward(LinearizerState(*map(jnp.asarray, (4.0, 3.0, True))), batch([2.0])), [2.0])


def test_towards_is_as_long_as_the_box_allows():
    method = make_method(method_config("linearizer"), BoxSkills(2))
    got = method.towards(method.init(KEY, 2), jnp.array([[1.0, 1.0]]), jnp.array([[5.0, -7.0]]))
    np.testing.assert_allclose(got, [[0.5, -1.0]], rtol=1e-6)


# --- distributions ---------------------------------------------------------------------------------------------------


def test_beta_log_density_and_mode_by_hand():
    a, b = (1.5, 3.0), (2.5, 1.2)
    dist = Beta(jnp.array(a), jnp.array(b))
    x = (-0.4, 0.9)

    def by_hand(a: float, b: float, x: float) -> float:
        y = (x + 1) / 2
        norm = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
        return (a - 1) * math.log(y) + (b - 1) * math.log(1 - y) - norm - math.log(2)

    np.testing.assert_allclose(jax.jit(dist.log_density)(jnp.array(x)), sum(map(by_hand, a, b, x)), rtol=1e-5)
    one = Beta(jnp.array([1.5]), jnp.array([2.5]))
    grid = jnp.linspace(-1, 1, 20001)[1:-1]
    density = np.exp(jax.jit(jax.vmap(lambda g: one.log_density(g[None])))(grid))
    assert density.sum() * 1e-4 == pytest.approx(1.0, abs=1e-3)
    assert float(one.mode()[0]) == pytest.approx(float(grid[density.argmax()]), abs=1e-3)


def test_beta_samples_have_its_mean_and_stay_inside():
    dist = Beta(jnp.array([2.0, 1.05]), jnp.array([6.0, 1.05]))
    drawn = np.asarray(jax.jit(jax.vmap(dist.sample))(jax.random.split(KEY, 20_000)))
    assert drawn.mean(axis=0) == pytest.approx([2 * 2 / 8 - 1, 0.0], abs=0.02)
    assert drawn.var(axis=0) == pytest.approx([4 * 2 * 6 / 8**2 / 9, 4 / 4 / 3.1], rel=0.04)
    assert np.abs(drawn).max() < 1
    assert np.isfinite(jax.vmap(dist.log_density)(drawn)).all()


def test_policies_begin_wide_and_never_have_walls():
    policy = init_beta_policy(KEY, 3, 2, 4, (8, 8))
    dist = jax.vmap(lambda s: policy(s, jnp.zeros(2)))(100 * jax.random.normal(KEY, (50, 3)))
    assert min(float(dist.a.min()), float(dist.b.min())) > 1.05 - 1e-6
    here = policy(jnp.zeros(3), jnp.zeros(2))  # biases are zero: softplus(0) + 1.05
    np.testing.assert_allclose([*here.a, *here.b], math.log(2) + 1.05, rtol=1e-6)


def test_normal_divergence_and_density_by_hand():
    mean, std = (0.5, -2.0), (0.1, 3.0)
    dist = Normal(jnp.array(mean), jnp.log(jnp.array(std)))
    divergence = sum(0.5 * (m**2 + s**2 - 1) - math.log(s) for m, s in zip(mean, std, strict=True))
    np.testing.assert_allclose(dist.divergence(), divergence, rtol=1e-5)
    at = (0.3, 1.0)
    each = [
        -0.5 * ((x - m) / s) ** 2 - math.log(s * math.sqrt(2 * math.pi)) for x, m, s in zip(at, mean, std, strict=True)
    ]
    np.testing.assert_allclose(dist.log_density(jnp.array(at)), sum(each), rtol=1e-5)
    np.testing.assert_allclose(dist.sample(jnp.array([1.0, -1.0])), [0.6, -5.0], rtol=1e-5)


# --- the encoder -----------------------------------------------------------------------------------------------------


def test_the_encoder_reads_both_ways_and_stops_where_the_trajectory_ends():
    encoder = init_encoder(KEY, 3, 2, (5, 7))
    states, valid = jax.random.normal(KEY, (6, 3)), jnp.arange(6) < 4

    def walk(cell, order):
        memory, outputs = (jnp.zeros(5), jnp.zeros(5)), {}
        for t in order:
            memory = cell(states[t], memory)
            outputs[t] = memory[0]
        return sum(outputs.values()) / len(outputs)

    pooled = jnp.concatenate([walk(encoder.onward, range(4)), walk(encoder.back, (3, 2, 1, 0))])
    read = jax.jit(lambda states: encoder(states, valid))
    got = read(states)
    np.testing.assert_allclose(got.mean, encoder.mean(pooled), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got.log_std, encoder.log_std(pooled), rtol=1e-4, atol=1e-5)
    other = read(states.at[4:].set(1e3))
    np.testing.assert_array_equal(got.mean, other.mean)


def test_the_encoder_begins_sharp_and_far_apart():
    encoder = init_encoder(KEY, 3, 2, (64, 64))
    states = jax.random.normal(KEY, (200, 5, 3))
    codes = jax.jit(jax.vmap(lambda s: encoder(s, jnp.ones(5, bool))))(states)
    np.testing.assert_allclose(np.exp(np.median(codes.log_std)), 0.1, rtol=0.05)
    narrow = eqx.tree_at(lambda e: e.mean.layers[-1].weight, encoder, encoder.mean.layers[-1].weight / 10)
    codes_of = jax.jit(jax.vmap(lambda s: narrow(s, jnp.ones(5, bool)).mean))
    np.testing.assert_allclose(codes.mean, 10 * codes_of(states), rtol=1e-3, atol=1e-4)


# --- the objective ---------------------------------------------------------------------------------------------------


def some_trajectories(count: int = 5) -> Trajectories:
    keys = jax.random.split(KEY, 3)
    return Trajectories(
        obs=jax.random.normal(keys[0], (count, 3, 2)),
        goal=jax.random.uniform(keys[1], (count, 3, 2), minval=-0.9, maxval=0.9),
        parameter=jax.random.normal(keys[2], (count, 2)),
        valid=jnp.arange(3)[None] < jnp.array([3, 3, 2, 1, 3][:count])[:, None],
    )


NETWORKS: Networks = IBOL.init(jax.random.key(1), 2).networks
SEEN = some_trajectories()


def test_means_over_time_leave_out_what_follows_the_end():
    x, valid = jnp.array([[1.0, 3.0, jnp.nan], [4.0, 5.0, 9.0]]), jnp.array([[True, True, False], [True] * 3])
    np.testing.assert_allclose(over_time(x, valid), [2.0, 6.0])


def test_terms_and_returns_by_hand():
    noise = jax.random.normal(KEY, (4, 5, 2))
    terms = jax.jit(IBOL.terms)(NETWORKS, SEEN, noise)
    k = 2  # of its three decisions the last is not valid
    code = NETWORKS.encoder(SEEN.obs[k], SEEN.valid[k])
    logs = [
        NETWORKS.skill(SEEN.obs[k, t], code.mean + jnp.exp(code.log_std) * noise[n, k]).log_density(SEEN.goal[k, t])
        for n in range(4)
        for t in range(2)
    ]
    np.testing.assert_allclose(terms.imitation[k], np.mean(logs), rtol=1e-4)
    np.testing.assert_allclose(terms.divergence[k], code.divergence(), rtol=1e-4)
    np.testing.assert_allclose(terms.recovery[k], code.log_density(SEEN.parameter[k]), rtol=1e-4)
    method = make_method(
        dataclasses.replace(config().method, bottleneck=0.5, recovery=3.0, spread=7.0), ContinuousSkills(2)
    )
    got = method.returns(Terms(jnp.array([2.0]), jnp.array([10.0]), jnp.array([-4.0])), jnp.array([0.25]))
    np.testing.assert_allclose(got, [2.0 - 0.5 * 10 - 3.0 * 4 + 7.0 * 0.25])


def test_surprise_is_minus_the_log_of_the_mean_density():
    blind = eqx.tree_at(
        lambda p: p.mlp.layers[0].weight, NETWORKS.sampling, NETWORKS.sampling.mlp.layers[0].weight.at[2:].set(0)
    )
    exact = -over_time(decision_densities(blind, SEEN, SEEN.parameter), SEEN.valid)  # u does not matter to it
    surprise = jax.jit(IBOL.surprise)
    np.testing.assert_allclose(surprise(blind, SEEN, KEY), exact, rtol=1e-4, atol=1e-5)
    eager = eqx.tree_at(lambda p: p.mlp.layers[0].weight, NETWORKS.sampling, 5 * NETWORKS.sampling.mlp.layers[0].weight)

    def densities(key):
        other = jax.random.normal(key, (5, 3, 2))
        return jax.vmap(jax.vmap(lambda s, u, g: eager(s, u).log_density(g)))(SEEN.obs, other, SEEN.goal)

    each = np.exp(jax.jit(jax.vmap(densities))(jax.random.split(KEY, 8)))
    by_hand = -over_time(jnp.log(each.mean(axis=0)), SEEN.valid)  # the log of the mean, not the mean of the log
    np.testing.assert_allclose(surprise(eager, SEEN, KEY), by_hand, rtol=1e-4)


def test_surprise_is_the_same_however_much_of_it_is_computed_at_once(monkeypatch):
    together = IBOL.surprise(NETWORKS.sampling, SEEN, KEY)
    monkeypatch.setattr(ibol, "AT_ONCE", 3 * SEEN.valid.size)  # 8 alternatives: two rounds of three, and two more
    np.testing.assert_allclose(IBOL.surprise(NETWORKS.sampling, SEEN, KEY), together, rtol=1e-5)


def test_each_network_follows_its_own_gradient():
    """Sampling: REINFORCE on the sum of log-densities, the returns being numbers. The others: their objective alone."""
    noise_key, other_key = jax.random.split(KEY)
    noise = jax.random.normal(noise_key, (4, 5, 2))
    c = config().method

    def objective(networks):
        t = IBOL.terms(networks, SEEN, noise)
        return jnp.mean(t.imitation - c.bottleneck * t.divergence + c.recovery * t.recovery)

    def reinforce(sampling, returns):
        logs = decision_densities(sampling, SEEN, SEEN.parameter)
        return jnp.mean(jnp.sum(jnp.where(SEEN.valid, logs, 0), axis=1) * returns)

    @jax.jit
    def gradients(networks):
        returns = IBOL.returns(IBOL.terms(networks, SEEN, noise), IBOL.surprise(networks.sampling, SEEN, other_key))
        of_loss = jax.grad(lambda n: IBOL.loss(n, SEEN, KEY)[0])(networks)
        return of_loss, jax.grad(objective)(networks), jax.grad(reinforce)(networks.sampling, returns)

    grads, uphill, likelier = gradients(NETWORKS)
    for name in ("skill", "encoder"):
        for got, by_hand in zip(*(jax.tree.leaves(getattr(g, name)) for g in (grads, uphill)), strict=True):
            np.testing.assert_allclose(got, -by_hand, rtol=1e-3, atol=1e-5)
    for got, by_hand in zip(jax.tree.leaves(grads.sampling), jax.tree.leaves(likelier), strict=True):
        np.testing.assert_allclose(got, -by_hand, rtol=1e-3, atol=1e-4)
        assert np.abs(got).max() > 0


def test_a_baseline_is_the_mean_of_the_others():
    np.testing.assert_allclose(
        leave_one_out_advantage(jnp.array([1.0, 2.0, 6.0])), [1 - 4, 2 - 3.5, 6 - 1.5], rtol=1e-6
    )
    baseline = jax.jacobian(lambda returns: returns - leave_one_out_advantage(returns))(jnp.arange(5.0))
    np.testing.assert_allclose(np.diag(baseline), 0, atol=1e-6)  # so the expected gradient stays what it is


def test_with_a_baseline_only_the_sampling_policy_learns_otherwise():
    judging = make_method(dataclasses.replace(IBOL.config, baseline=True), IBOL.skills)

    @jax.jit
    def gradients(networks):
        noise_key, other_key = jax.random.split(KEY)
        terms = IBOL.terms(networks, SEEN, jax.random.normal(noise_key, (4, 5, 2)))
        judged = leave_one_out_advantage(IBOL.returns(terms, IBOL.surprise(networks.sampling, SEEN, other_key)))

        def reinforce(sampling):
            logs = decision_densities(sampling, SEEN, SEEN.parameter)
            return jnp.mean(jnp.sum(jnp.where(SEEN.valid, logs, 0), axis=1) * judged)

        both = [jax.grad(lambda n, m=m: m.loss(n, SEEN, KEY)[0])(networks) for m in (IBOL, judging)]
        return both, jax.grad(reinforce)(networks.sampling)

    (without, having), likelier = gradients(NETWORKS)
    for got, by_hand in zip(jax.tree.leaves(having.sampling), jax.tree.leaves(likelier), strict=True):
        np.testing.assert_allclose(got, -by_hand, rtol=1e-3, atol=1e-4)
    same = [jax.tree.leaves((g.skill, g.encoder)) for g in (without, having)]
    assert all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(*same, strict=True))
    pairs = zip(jax.tree.leaves(without.sampling), jax.tree.leaves(having.sampling), strict=True)
    assert max(np.abs(a - b).max() for a, b in pairs) > 0.1


def test_statistics_become_those_of_a_mixture():
    method = make_method(dataclasses.replace(config().method, statistics_keep=0.75), ContinuousSkills(2))
    state = IBOL.init(KEY, 2)._replace(statistics=Moments(jnp.array([1.0, 0.0]), jnp.array([4.0, 1.0])))
    obs = jnp.array([[[5.0, 0.0], [9.0, 2.0]], [[7.0, 4.0], [99.0, 99.0]]])
    batch = Trajectories(obs, obs, obs[:, 0], jnp.array([[True, True], [True, False]]))
    got = jax.jit(method.update_statistics)(state, batch).statistics
    old, new = np.array([[1 + 2, 0 + 1], [1 - 2, 0 - 1]]), np.array([[5.0, 0], [9, 2], [7, 4]])
    mean = 0.75 * old.mean(axis=0) + 0.25 * new.mean(axis=0)
    variance = 0.75 * (old**2).mean(axis=0) + 0.25 * (new**2).mean(axis=0) - mean**2
    np.testing.assert_allclose(got.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(got.variance, variance, rtol=1e-5)
    np.testing.assert_allclose(
        got.normalise(jnp.array([[3.0, 1.0]]))[0], (np.array([3.0, 1.0]) - mean) / np.sqrt(variance), rtol=1e-4
    )


# --- goals that are held ---------------------------------------------------------------------------------------------


def lower(made: RunConfig) -> RunConfig:
    first = stages.earlier(made)
    assert first is not None
    return first


def assert_drivers_agree(parts: train.Setup) -> train.TrainState:
    one, other = (driver(parts)(train.init(parts), 2) for driver in (FusedDriver, SplitDriver))
    for a, b in zip(jax.tree.leaves(one[0].learner), jax.tree.leaves(other[0].learner), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)
    for name, value in one[1].items():
        np.testing.assert_allclose(value, other[1][name], rtol=2e-3, atol=2e-4)
    return one[0]


def test_both_drivers_lead_the_lower_level_alike():
    assert_drivers_agree(train.assemble(config()))


def test_a_linearizers_goals_change_after_every_block_under_both_drivers():
    state = assert_drivers_agree(train.assemble(lower(config())))
    skill = np.asarray(state.replay.data.skill).reshape(6, 32, 2)
    same = (skill[1:] == skill[:-1]).all(axis=(1, 2))
    assert same.tolist() == [True, False, True, False, True]
    assert train.assemble(lower(config(hold=0))).hold == 0
    assert (np.abs(skill) <= 1).all() and (skill.std(axis=(0, 1)) > 0.5).all()
    moved = np.asarray(state.replay.data.drift).reshape(6, 32, 2)
    obs, after = (np.asarray(x).reshape(6, 32, 2) for x in (state.replay.data.obs, state.replay.data.next_obs))
    np.testing.assert_allclose(moved[2], (after[3] - obs[2]) / 2, rtol=1e-5, atol=1e-6)


def test_subgoals_of_rollouts_are_renewed_at_the_right_steps():
    world = train.assemble(config()).world
    for engine in (JaxEngine(world), JaxEngine(world, compiles=False)):
        episodes = make_episodes(
            world, engine, lambda _, obs, command, key: command, 5, lambda _, obs, command, key: 0.1 + obs / 10, hold=2
        )
        rollout = episodes((), jnp.full((2, 2), 9.0), KEY)
        obs = np.asarray(rollout.obs)[:, 0, 0]
        np.testing.assert_allclose(np.diff(obs), [0.1 + obs[t] / 10 for t in (0, 0, 2, 2, 4)], rtol=1e-5)
        np.testing.assert_array_equal(rollout.skill, np.full((2, 2), 9.0))


def test_the_lower_level_is_given_the_goal_alone_and_takes_its_mode():
    parts = train.assemble(config())
    learner = jax.tree.map(lambda x: x[0], train.init(parts).learner)
    actor = train.skill_policy(parts, learner)
    obs, z = jax.random.normal(KEY, (3, 2)), jax.random.normal(jax.random.key(5), (3, 2))

    @jax.jit
    def everything():
        command = train.set_subgoals(parts, actor, obs, z)
        goals = jnp.stack([learner.method.networks.skill(parts.view.for_method(o), z).mode() for o, z in rows])
        seen = [parts.view.for_policy(o) for o, _ in rows]
        by_hand = jnp.stack([actor.policy(s, g).mode() for s, g in zip(seen, goals, strict=True)])
        return command, goals, train.actions(parts, actor, obs, z), by_hand, train.actions(parts, actor, obs, z, KEY)

    rows = list(zip(obs, z, strict=True))
    command, goals, got, by_hand, drawn = everything()
    np.testing.assert_allclose(command, np.concatenate([z, goals], axis=1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got, by_hand, rtol=1e-4, atol=1e-6)
    assert np.abs(drawn - by_hand).max() > 1e-4
    assert train.skill_policy(parts, learner, collecting=True).goal_policy.policy is learner.method.networks.sampling


def test_a_command_is_a_skill_and_no_goal_yet():
    parts = train.assemble(config())
    drawn = parts.sample_command(KEY)
    goal = parts.method.high_level.lower.skills.size
    np.testing.assert_array_equal(drawn, [*parts.skills.sample(KEY), *[0] * goal])
    assert parts.command_size == len(drawn) and goal > 0


# --- runs ------------------------------------------------------------------------------------------------------------

_folder = tempfile.TemporaryDirectory(prefix="wanderlust-ibol-")


@functools.cache
def learned() -> Run:
    """Both stages, long enough to see what they do."""
    made = config(150, 100, log_every=50, checkpoint_every=50)
    run = stages.start(made, Path(_folder.name) / "run")
    with optimised():
        assert stages.train_run(run, quiet=True).reason == "finished"
    return run


def explained(parts: train.Setup, policy) -> float:
    """The share of the variance of end positions, with drawn goals, that is linear in z: 0 if skills do not matter."""
    skill = jax.random.normal(KEY, (200, 2))
    rollout = one_seed_rollout(parts, policy, skill, KEY, mode=False)
    ends = np.asarray(rollout.obs[-1])
    inputs = np.c_[skill, np.ones(200)]
    left = ends - inputs @ np.linalg.lstsq(inputs, ends, rcond=None)[0]
    return float(1 - left.var(axis=0).sum() / ends.var(axis=0).sum())


def test_the_linearizer_learns_to_move_along_its_goals():
    first, _ = stages.runs(learned())
    result = json.loads((first.evaluation / "evaluation.json").read_text())["metrics"]
    assert result["alignment"]["mean"] > 0.9
    assert result["distance"]["mean"] > 5.0  # the farthest there is in six steps is 6 to 8.5


def test_the_upper_level_learns_skills_that_lead_to_different_places():
    run = learned()
    parts = train.assemble(run.config)
    first, _ = stages.runs(run)
    fresh = stages._last_stage_state(run, first, True, lambda text: None)
    before = train.skill_policy(parts, jax.tree.map(lambda x: x[0], fresh.learner))
    _, after = learned_files.load_learner(run, parts)
    shares = [explained(parts, p) for p in (before, jax.tree.map(lambda x: x[0], after.policy))]
    assert shares[0] < 0.15 and shares[1] > 0.3, shares
    rows = run.metrics()
    for name in ("imitation", "recovery", "reward"):
        assert rows[-1][name][0] > rows[0][name][0]
    measured = evaluate(run)
    assert measured["metrics"]["distance"]["mean"] > 3.0
    assert measured["env_steps_before"] == first.metrics()[-1]["env_steps"] > 0


def test_a_first_stage_that_time_cut_short_is_told_with_the_steps_it_made(tmp_path):
    run = stages.start(config(50, 2, log_every=1, checkpoint_every=50), tmp_path / "run")
    stages.train_run(run, budget_seconds=1e-9, quiet=True)
    first, _ = stages.runs(run)
    made = first.metrics()[-1]["env_steps"]
    assert 0 < made < 50 * first.config.schedule.collection
    assert evaluate(run, episodes=2)["env_steps_before"] == made


def test_the_lower_level_stays_as_the_first_stage_has_left_it():
    first, last = stages.runs(learned())
    a, b = (ArrayFile(run.checkpoints()[run.config.schedule.epochs]) for run in (first, last))
    names = [name for name in b.shapes() if name.startswith("learner/sac/")]
    assert names and all(name.startswith("learner/sac/policy/") for name in names)
    for name in names:
        np.testing.assert_array_equal(a.read(name), b.read(name))


def test_loaded_skills_act():
    skills = loading.load(learned())
    assert skills.act(np.zeros(2), skills.sample(1)[0]).shape == (2,)
    right = skills.act(np.zeros((50, 2)), skills.sample(50))
    assert right.std(axis=0).min() > 0.1


def test_goals_stand_for_a_block_where_skills_are_actions():
    skills = loading.load(learned())
    block, hold = skills.decides_every, 5
    assert 1 < block < hold
    env = SkillEnv(skills, make_task("point-goal", goal_range=1000.0, radius=1e-3, slot=20), hold=hold)
    position = env.reset(seed=0)[0][:2]
    apart = 0.0
    for z in 2 * skills.sample(4).clip(-1, 1):
        for step in range(hold):
            if step % block == 0:
                command = skills.decide(position, z)
                np.testing.assert_array_equal(command[:2], z)
            apart = max(apart, np.abs(skills.follow(position, command) - skills.act(position, z)).max())
            position = position + skills.follow(position, command)
        np.testing.assert_allclose(env.step(z)[0][:2], position, rtol=1e-4, atol=1e-4)
    assert apart > 1e-3  # so that it matters


def test_goals_stand_for_a_block_where_a_controller_holds_skills():
    run = learned()
    skills, parts, hold = loading.load(run), train.assemble(run.config), 5
    of_all = learned_files.load_learner(run, parts)[1]
    game = set_up_task(parts, make_task("point-goal", goal_range=1000.0, radius=1e-3, slot=10))
    play = make_option_rollout(game, random_policy(parts, hold), paths=True)
    turns = jax.device_get(play(ControlledSkills(of_all), jax.random.split(KEY, 1), 4))
    for turn in range(2):
        position, z = turns.seen[turn, 0, :, :2], turns.choice.skill[turn, 0]
        for step in range(hold):
            command = skills.decide(position, z) if step % skills.decides_every == 0 else command
            position = position + skills.follow(position, command)
            np.testing.assert_allclose(turns.path[turn, step, 0, :, :2], position, rtol=1e-4, atol=1e-4)


def test_commands_of_other_methods_are_the_skill():
    parts = train.assemble(tiny_config())
    one = jax.tree.map(lambda x: x[0], train.init(parts).learner)
    skills = loading.Skills(parts, Learned(train.skill_policy(parts, one), one.method))
    z = skills.sample(3)
    assert skills.decides_every == 0
    np.testing.assert_array_equal(skills.decide(np.ones((3, 2)), z), z)
    np.testing.assert_array_equal(skills.follow(np.ones((3, 2)), z), skills.act(np.ones((3, 2)), z))


def assert_same_end(one: Run, other: Run) -> None:
    a, b = (ArrayFile(run.checkpoints()[100]) for run in (one, other))
    assert a.shapes() == b.shapes()
    for name in a.shapes():
        assert a.read(name).tobytes() == b.read(name).tobytes(), name


@optimised()
def test_stopped_in_either_stage_it_ends_the_same(tmp_path):
    upper = copy_of(learned(), tmp_path / "upper")
    upper.checkpoints()[100].unlink()
    assert stages.train_run(loop.resume(upper.path), quiet=True).reason == "finished"
    assert_same_end(learned(), upper)
    below = copy_of(learned(), tmp_path / "below")
    for path in (*below.checkpoints().values(), below.path / "metrics.jsonl"):
        path.unlink()  # as if the last stage had never begun
    shutil.rmtree(below.evaluation, ignore_errors=True)
    stages.runs(below)[0].checkpoints()[150].unlink()
    assert stages.train_run(loop.resume(below.path), quiet=True).reason == "finished"
    assert_same_end(learned(), below)


# --- what a user can put right ---------------------------------------------------------------------------------------


def test_discrete_skills_are_refused_in_one_line(command_line, tmp_path):
    for method, words in (("ibol", "leave --discrete out"), ("linearizer", "leave --discrete out")):
        code, _, err = command_line("discover", "point", "--method", method, "--discrete", 4, "--out", tmp_path / "run")
        assert (code, err.count("\n")) == (2, 1)
        assert words in err
    assert list(tmp_path.iterdir()) == []


def test_what_ibol_cannot_do_is_said_in_one_line(command_line, tmp_path):
    run = learned()
    before = tree(run.path)
    code, _, err = command_line("reach", run.path, "--goal", 1, 1)
    assert (code, err.count("\n")) == (2, 1)
    assert "ibol cannot choose a skill for a goal" in err
    assert tree(run.path) == before


def test_ibol_can_be_published(tmp_path, monkeypatch):
    run = learned()
    evaluate(run)
    folder, facts = publish(run, "two-levels", zoo=tmp_path)
    assert set(facts["stored"]) == {"policy", "networks", "statistics"}
    assert "wanderlust reach" not in (folder / "card.md").read_text()
    monkeypatch.setenv("WANDERLUST_ZOO", str(tmp_path))
    ours, theirs = loading.load("zoo:two-levels"), loading.load(run)
    obs, z = np.random.default_rng(0).normal(size=(2, 20, 2))
    np.testing.assert_allclose(ours.act(obs, z), theirs.act(obs, z), atol=2 * TOLERATED.action)
    np.testing.assert_allclose(ours.phi(obs), theirs.phi(obs), atol=0.05)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schedule": ScheduleConfig(1, 4, 6, 1, 4, 1)}, "learns from whole trajectories: episodes"),
        ({"env": PointConfig(episode_length=3)}, "at least two goals"),
    ],
)
def test_impossible_runs_are_refused(change, words):
    made = config()
    if "env" in change:
        change["schedule"] = dataclasses.replace(made.schedule, steps=3)
    with pytest.raises(UserError, match=words):
        dataclasses.replace(made, **change)


def test_impossible_methods_are_refused():
    method = config().method
    with pytest.raises(UserError, match="needs a 'linearizer'"):
        dataclasses.replace(method, first=dataclasses.replace(method.first, method=method_config("lsd")))
    with pytest.raises(UserError, match="must be the same"):
        dataclasses.replace(method, view="o")
    with pytest.raises(UserError, match=r"multiple of method\.block"):
        method_config("linearizer", block=10, hold=5)
    with pytest.raises(UserError, match="as many entries as the state that is seen, 2"):
        make_method(method_config("linearizer"), BoxSkills(3)).init(KEY, 2)


@pytest.mark.parametrize("alone", ["schedule.sac_batch=1", "schedule.worlds=1"])
def test_a_baseline_needs_others(alone):
    made = get_recipe("laptop", "ant", "ibol", SkillConfig())
    with pytest.raises(UserError, match=r"method\.baseline needs other trajectories.*at least 2$"):
        with_changes(made, (alone,))
    with_changes(made, (alone, "method.baseline=false"))


def test_a_configuration_survives_its_file(tmp_path):
    made = get_recipe("laptop", "point", "ibol-o", SkillConfig())
    assert made.method.first.method.standardise and made.method.view == "o"
    run = Run.create(tmp_path / "run", made)
    assert Run.open(run.path).config == made
    assert to_json(made) == (run.path / "config.json").read_text()


def test_the_published_numbers():
    made = get_recipe("paper", "ant", "ibol-o", SkillConfig())
    method, first = made.method, made.method.first
    assert (method.hidden, method.learning_rate, method.samples, method.alternatives) == ((512, 512), 1e-4, 16, 100)
    assert (method.bottleneck, method.recovery, method.spread, method.baseline) == (1e-2, 2.0, 1.0, False)
    schedule = made.schedule
    assert (schedule.epochs, schedule.worlds, schedule.sac_steps, schedule.sac_batch) == (10_000, 64, 4, 64)
    assert first.method.standardise and (first.method.block, first.method.hold, first.method.keep) == (10, 0, 0.99)
    assert first.skills == SkillConfig("box", 29)
    assert (first.sac.discount, first.sac.alpha, first.sac.learn_alpha) == (0.995, 0.1, True)
    assert (first.sac.policy_learning_rate, first.sac.critic_learning_rate, first.sac.hidden) == (
        3e-4,
        3e-4,
        (1024, 1024),
    )
    assert (first.schedule.worlds, first.schedule.sac_batch, first.schedule.sac_steps) == (10, 2000, 4)
    plain = get_recipe("paper", "ant", "ibol", SkillConfig()).method.first
    assert (plain.schedule.sac_batch, plain.method.standardise, plain.sac.discount) == (1024, False, 0.99)


@pytest.mark.parametrize(("recipe", "env"), RECIPES)
def test_every_recipe_goes_through_a_collection_four_times_with_goals_of_whole_episodes(recipe, env):
    made = get_recipe(recipe, env, "ibol", SkillConfig())
    schedule = made.schedule
    assert made.method.first.method.hold == 0  # a linearizer whose goals change swings its limbs instead of walking
    assert schedule.sac_steps * schedule.sac_batch == 4 * schedule.worlds  # REINFORCE takes it for what is done now


@pytest.mark.parametrize(("recipe", "env"), [("laptop", "point"), ("paper", "ant"), ("fast", "humanoid")])
def test_recipes_assemble(recipe, env):
    for view in ("", "o", "xy"):
        suffix = f"-{view}" if view else ""
        made = get_recipe(recipe, env, f"ibol{suffix}", SkillConfig("continuous", 3))
        assert lower(made).method == get_recipe(recipe, env, f"linearizer{suffix}", SkillConfig()).method
        upper, below = train.assemble(made), train.assemble(lower(made))
        spec = upper.world.spec
        goal = len(spec.groups["position"]) if view == "xy" else spec.obs_dim
        assert below.skills.size == goal and below.config.schedule.steps % below.method.block == 0
        assert upper.config.schedule.steps == spec.episode_length and upper.hold == below.method.block
        states = [jax.eval_shape(lambda parts=parts: train.init(parts)) for parts in (upper, below)]
        widths = [[x.shape for x in jax.tree.leaves(s.learner.sac.policy)] for s in states]
        assert widths[0] == widths[1]
        networks = states[0].learner.method.networks
        for policy in (networks.sampling, networks.skill):
            assert policy.mlp.layers[0].weight.shape[1] == goal + 3  # what the upper level sees, and u or z
            assert policy.mlp.layers[-1].bias.shape == (1, 2 * goal)
        assert states[0].replay.data.obs.shape[1] == 0 and states[0].worlds.skill.shape[-1] == 3 + goal


@pytest.mark.parametrize("name", ["ibol", "ibol-o"])
def test_in_the_study_of_coverage_both_levels_share_the_steps_of_lsd(name):
    shared = configure("point", seeds=2, budget_steps=40_000)
    row = coverage.row_config(name, shared, "laptop", SkillConfig(), ())
    below = lower(row)
    mine = sum(c.schedule.epochs * c.schedule.collection for c in (row, below))
    assert 40_000 <= mine < 40_000 + row.schedule.collection + below.schedule.collection
    assert 0.4 < below.schedule.epochs * below.schedule.collection / mine < 0.6
    assert below.sac.hidden == shared.sac.hidden and (below.sac.alpha, below.sac.learn_alpha) == (0.1, True)
    assert (row.seeds, row.schedule.collect, row.env) == (2, "episodes", PointConfig())


def test_the_beta_policy_reads_both_state_and_skill():
    policy: BetaPolicy = NETWORKS.skill
    here = policy(jnp.zeros(2), jnp.zeros(2)).a
    assert np.abs(policy(jnp.ones(2), jnp.zeros(2)).a - here).max() > 1e-3
    assert np.abs(policy(jnp.zeros(2), jnp.ones(2)).a - here).max() > 1e-3
