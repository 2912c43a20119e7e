import dataclasses
import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import one_seed_rollout, tiny_config
from trained import copy_of, trained
from wanderlust import train
from wanderlust.cli import reports
from wanderlust.config import SkillConfig
from wanderlust.envs.spec import Transition
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.methods import dads as module
from wanderlust.methods import make_method
from wanderlust.methods.dads import Dads, DadsConfig, DadsState, Moments
from wanderlust.methods.skills import ContinuousSkills, DiscreteSkills
from wanderlust.recipes import get_recipe, usual_skills
from wanderlust.report import plots
from wanderlust.rl.nets import MLP, Linear
from wanderlust.runs.run import Run


def config(view="", **changes):
    return DadsConfig(view=view, hidden=(16, 8), learning_rate=1e-2, **changes)


def affine(weight, bias):
    """Dynamics with mean (s, z) W + b: a hidden layer holds both signs of it, and ReLU keeps one of them."""
    w, b = np.array(weight, np.float32), np.array(bias, np.float32)
    eye = np.eye(len(b), dtype=np.float32)
    hidden = Linear(jnp.concatenate([w, -w], axis=1), jnp.concatenate([b, -b]))
    return MLP((hidden, Linear(jnp.concatenate([eye, -eye]), jnp.zeros(len(b)))), jax.nn.relu)


def moments(mean, variance):
    return Moments(jnp.array(mean, jnp.float32), jnp.array(variance, jnp.float32))


def state_of(encoder, states, changes, updates=0.0, opt=()):
    return DadsState(encoder, states, changes, jnp.float32(updates), jax.random.key(3), opt)


def transitions(obs, change, skill):
    obs, change, skill = (jnp.array(x, jnp.float32) for x in (obs, change, skill))
    no = jnp.zeros(len(obs), bool)
    return Transition(obs, jnp.zeros((len(obs), 1)), obs + change, skill, no, no)


def random_batch(key, skills, obs_dim=3, count=64):
    a, b, c = jax.random.split(key, 3)
    skill = jax.vmap(skills.sample)(jax.random.split(a, count))
    return transitions(jax.random.normal(b, (count, obs_dim)), jax.random.normal(c, (count, obs_dim)), skill)


def log_density(x, mean):
    """Of a Gaussian of standard deviation 1, with its constant."""
    return -0.5 * np.sum((x - mean) ** 2) - 0.5 * len(x) * np.log(2 * np.pi)


# --- reward -------------------------------------------------------------------------------------------------------

WEIGHT, BIAS = [[0.5, -0.2], [0.1, 0.3], [1.0, 0.0], [0.4, -2.0], [-0.6, 0.7]], [0.3, -0.1]  # two of s, three of z
STATES, CHANGES = ([1.0, -2.0], [4.0, 0.25]), ([0.5, 0.1], [0.09, 0.01])
OBS = np.array([[1.0, -1.5], [3.0, 0.0], [-2.0, 2.0]])
CHANGE = np.array([[0.8, 0.1], [0.2, 0.0], [0.5, 0.35]])


def by_hand(k, skill):
    """log q of the k-th change under a skill, one entry at a time."""
    seen = (OBS[k] - STATES[0]) / np.sqrt(np.array(STATES[1]) + 1e-5)
    target = (CHANGE[k] - CHANGES[0]) / np.sqrt(np.array(CHANGES[1]) + 1e-5)
    return log_density(target, np.concatenate([seen, skill]) @ np.array(WEIGHT) + BIAS)


def test_reward_by_hand_for_continuous_skills():
    dads = Dads(config(alternatives=4), ContinuousSkills(3))
    state = state_of(affine(WEIGHT, BIAS), moments(*STATES), moments(*CHANGES))
    skill = np.array([[0.5, -1.0, 2.0], [0.0, 0.1, 0.0], [-1.0, 0.0, 1.0]])
    others = np.asarray(dads.alternatives(state))
    assert others.shape == (4, 3)
    expected = []
    for k in range(3):
        ratio = [np.exp(by_hand(k, other) - by_hand(k, skill[k])) for other in others]
        expected.append(np.log(4 + 1) - np.log(1 + sum(ratio)))
    np.testing.assert_allclose(dads.reward(state, transitions(OBS, CHANGE, skill)), expected, rtol=1e-4, atol=1e-4)


def test_reward_by_hand_for_discrete_skills():
    """All other skills, none of them drawn: Bayes' posterior of the skill, as seen from a uniform prior."""
    dads = Dads(config(alternatives=100), DiscreteSkills(3))
    state = state_of(affine(WEIGHT, BIAS), moments(*STATES), moments(*CHANGES))
    for shown in ([0, 1, 2], [2, 0, 0]):
        expected = []
        for k, own in enumerate(shown):
            likelihood = np.exp([by_hand(k, z) for z in np.eye(3)])
            others = [likelihood[i] / likelihood[own] for i in range(3) if i != own]
            expected.append(np.log(3) - np.log(1 + sum(others)))
            assert expected[-1] == pytest.approx(np.log(likelihood[own] / likelihood.sum() * 3))
        reward = dads.reward(state, transitions(OBS, CHANGE, np.eye(3)[shown]))
        np.testing.assert_allclose(reward, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dim", [2, 5])
def test_reward_of_skills_that_are_their_own_change(dim):
    """If z ~ N(0, I) moves by z, then E[q(s'|s, z') / q(s'|s, z)] = 2^(-d/2) exp(-||z||^2 / 4) in closed form."""
    dads = Dads(config(alternatives=20_000), ContinuousSkills(dim))
    weight = np.concatenate([np.zeros((dim, dim)), np.eye(dim)])
    unit = moments(np.zeros(dim), np.ones(dim) - 1e-5)
    state = state_of(affine(weight, np.zeros(dim)), unit, unit)
    skill = np.stack([np.zeros(dim), np.full(dim, 0.5), np.eye(dim)[0]])
    expected = 0.5 * dim * math.log(2) + np.sum(skill**2, axis=1) / 4
    reward = dads.reward(state, transitions(np.ones((3, dim)), skill, skill))
    np.testing.assert_allclose(reward, expected, atol=0.03)


def test_rewards_stay_finite_and_within_their_bounds():
    dads = Dads(config(alternatives=9), ContinuousSkills(1))
    unit = moments([0.0], [1.0])
    state = state_of(affine([[0.0], [1000.0]], [0.0]), unit, unit)  # the slightest change of skill is told apart
    skill = jnp.zeros((1, 1))
    known = dads.reward(state, transitions([[0.0]], [[0.0]], skill))
    hopeless = dads.reward(state, transitions([[0.0]], 1000.0 * dads.alternatives(state)[:1], skill))
    assert float(known[0]) == pytest.approx(math.log(10), rel=1e-6)  # nothing is above the logarithm of the count
    ratio = math.exp(50) + 8 * math.exp(-50)
    assert float(hopeless[0]) == pytest.approx(math.log(10) - math.log1p(ratio), rel=0.1)
    assert float(hopeless[0]) > math.log(10) - math.log1p(9 * math.exp(50)) - 1e-3


@pytest.mark.parametrize("hidden", [(16,), (16, 8, 12)])
@pytest.mark.parametrize("at_once", [1, 4 * 7 * 16, 2**26], ids=["one-by-one", "four-and-a-rest", "whole"])
def test_in_parts_as_in_one(hidden, at_once, monkeypatch):
    """Split first layer and groups of skills give what the network gives for every pair."""
    dads = Dads(dataclasses.replace(config(), hidden=hidden), ContinuousSkills(2))
    state = dads.init(jax.random.key(0), 3)
    bumps = jax.random.normal(jax.random.key(1), (sum(hidden) + 3,))  # biases start at zero: they must count too
    starts = np.cumsum([0, *hidden])
    layers = tuple(
        Linear(layer.weight, bumps[start : start + len(layer.bias)])
        for layer, start in zip(state.encoder.layers, starts, strict=True)
    )
    encoder = MLP(layers, state.encoder.activation)
    seen, change = jax.random.normal(jax.random.key(2), (2, 7, 3))
    skills = jax.random.normal(jax.random.key(4), (10, 2))
    monkeypatch.setattr(module, "AT_ONCE_ON_CPU" if jax.default_backend() == "cpu" else "AT_ONCE", at_once)
    found = module._log_q_of_each(encoder, seen, change, skills)
    pairs = jnp.concatenate([jnp.tile(seen[None], (10, 1, 1)), jnp.tile(skills[:, None], (1, 7, 1))], axis=2)
    mean = jax.vmap(jax.vmap(encoder))(pairs)
    np.testing.assert_allclose(found, -0.5 * np.sum((change[None] - mean) ** 2, axis=2), rtol=1e-4, atol=1e-4)


def sizes(jaxpr):
    """Entries of every array of a program, those of inner programs included."""
    for eqn in jaxpr.eqns:
        yield from (math.prod(v.aval.shape) for v in eqn.outvars)
        for inner in jax.tree.leaves(eqn.params, is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from sizes(inner)


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_memory_of_a_large_batch_is_bounded(backend, monkeypatch):
    """On a CPU one other skill at a time, if no more fit; on a GPU as many as fit."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    dads = Dads(dataclasses.replace(config(), hidden=(256, 256)), ContinuousSkills(2))
    batch, width = 8192, 256

    def reward(key):
        return dads.reward(dads.init(key, 29), random_batch(key, dads.skills, 29, batch))

    largest = max(sizes(jax.make_jaxpr(reward)(jax.random.key(0)).jaxpr))  # nothing is computed
    if backend == "cpu":
        assert module.AT_ONCE_ON_CPU < batch * width == largest
    else:
        assert 20 * batch * width < largest <= module.AT_ONCE < 100 * batch * width


def test_alternatives_are_those_of_the_prior_and_new_after_each_update():
    skills = ContinuousSkills(2)
    dads = Dads(config(alternatives=3000), skills)
    batch = random_batch(jax.random.key(1), skills)
    first = dads.init(jax.random.key(0), 3)
    second, _ = jax.jit(dads.update)(first, batch)
    a, b = (np.asarray(dads.alternatives(state)) for state in (first, second))
    np.testing.assert_array_equal(a, dads.alternatives(first))  # rewards of one state are a pure function
    assert len(np.unique(np.concatenate([a, b]), axis=0)) == 6000
    assert not np.any(np.all(a == np.asarray(skills.sample(second.key)), axis=1))  # no key draws and splits as well
    for drawn in (a, b):
        np.testing.assert_allclose(drawn.mean(axis=0), 0.0, atol=0.1)
        np.testing.assert_allclose(np.cov(drawn.T), np.eye(2), atol=0.1)
    assert abs(np.corrcoef(a[:, 0], b[:, 0])[0, 1]) < 0.1
    directions = Dads(config(), ContinuousSkills(2, unit_length=True)).alternatives(first)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1.0, rtol=1e-5)


def test_rewards_pass_no_gradient_to_the_dynamics():
    skills = ContinuousSkills(2)
    dads = Dads(config(), skills)
    state, batch = dads.init(jax.random.key(0), 3), random_batch(jax.random.key(1), skills)
    through_reward = jax.jit(jax.grad(lambda encoder: jnp.sum(dads.reward(state._replace(encoder=encoder), batch))))
    assert not any(np.any(g) for g in jax.tree.leaves(through_reward(state.encoder)))
    through_loss = jax.jit(jax.grad(dads.loss))(state.encoder, state, batch)
    assert all(np.any(g) for g in jax.tree.leaves(through_loss))


# --- loss and update ----------------------------------------------------------------------------------------------


def test_loss_and_its_gradient_by_hand():
    dads = Dads(config(), DiscreteSkills(3))
    encoder = affine(WEIGHT, BIAS)
    state = state_of(encoder, moments(*STATES), moments(*CHANGES))
    batch = transitions(OBS, CHANGE, np.eye(3)[[0, 2, 1]])
    loss, grads = jax.value_and_grad(dads.loss)(encoder, state, batch)
    expected = -np.mean([by_hand(k, np.eye(3)[own]) for k, own in enumerate([0, 2, 1])]) - math.log(2 * math.pi)
    assert float(loss) == pytest.approx(expected, rel=1e-4)
    seen = (OBS - STATES[0]) / np.sqrt(np.array(STATES[1]) + 1e-5)
    target = (CHANGE - CHANGES[0]) / np.sqrt(np.array(CHANGES[1]) + 1e-5)
    mean = np.concatenate([seen, np.eye(3)[[0, 2, 1]]], axis=1) @ np.array(WEIGHT) + BIAS
    np.testing.assert_allclose(grads.layers[-1].bias, np.mean(mean - target, axis=0), rtol=1e-4, atol=1e-4)


def test_an_update_reports_the_loss_before_it_and_lowers_it():
    skills = DiscreteSkills(3)
    dads = Dads(config(), skills)
    batch = random_batch(jax.random.key(1), skills)
    state = dads.init(jax.random.key(0), 3)._replace(updates=jnp.float32(1e6))
    after, metrics = jax.jit(dads.update)(state, batch)
    assert float(metrics["phi_loss"]) == pytest.approx(float(dads.loss(state.encoder, state, batch)), rel=1e-5)
    assert float(dads.loss(after.encoder, state, batch)) < float(metrics["phi_loss"])


def test_transitions_that_end_an_episode_count_like_all_others():
    """Their next state is what the step produced, so the change is a true one."""
    skills = ContinuousSkills(2)
    dads = Dads(config(), skills)
    state, batch = dads.init(jax.random.key(0), 3), random_batch(jax.random.key(1), skills)
    ended = batch._replace(terminated=jnp.arange(64) % 2 == 0, truncated=jnp.arange(64) % 3 == 0)
    reward = jax.jit(dads.reward)
    np.testing.assert_array_equal(reward(state, batch), reward(state, ended))
    update = jax.jit(dads.update)
    one, other = (update(state, b)[0]._replace(key=()) for b in (batch, ended))
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_statistics_are_those_of_all_batches_so_far():
    skills = ContinuousSkills(2)
    dads = Dads(config(), skills)
    batches = [random_batch(jax.random.key(k), skills) for k in range(5)]
    batches = [b._replace(obs=b.obs * (k + 1.0) + 7.0 * k) for k, b in enumerate(batches)]  # they drift
    state, update = dads.init(jax.random.key(0), 3), jax.jit(dads.update)
    for n, batch in enumerate(batches, 1):
        state, _ = update(state, batch)
        seen = np.concatenate([b.obs for b in batches[:n]])
        change = np.concatenate([b.next_obs - b.obs for b in batches[:n]])
        for found, data in ((state.states, seen), (state.changes, change)):
            np.testing.assert_allclose(found.mean, data.mean(axis=0), rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose(found.variance, data.var(axis=0), rtol=1e-3)
    assert float(state.updates) == 5


def test_statistics_move_by_a_hundredth_in_the_long_run():
    skills = ContinuousSkills(2)
    dads = Dads(config(), skills)
    batch = random_batch(jax.random.key(1), skills)
    old = moments([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    state = dads.init(jax.random.key(0), 3)._replace(states=old, changes=old, updates=jnp.float32(1000))
    after, _ = jax.jit(dads.update)(state, batch)
    for found, data in ((after.states, batch.obs), (after.changes, batch.next_obs - batch.obs)):
        mean, variance = np.mean(data, axis=0), np.var(data, axis=0)
        np.testing.assert_allclose(found.mean, 0.99 * old.mean + 0.01 * mean, rtol=1e-5)
        mixed = 0.99 * (old.variance + old.mean**2) + 0.01 * (variance + mean**2) - np.asarray(found.mean) ** 2
        np.testing.assert_allclose(found.variance, mixed, rtol=1e-5)


@pytest.mark.parametrize("view", ["", "xyo"])
def test_the_dynamics_learn_what_each_skill_does(view):
    """Two skills, one of which turns back at the origin: the most likely mean is the mean change of its kind."""
    dads = Dads(config(view), DiscreteSkills(2))
    key, noise = jax.random.split(jax.random.key(0))
    obs = jax.random.uniform(key, (400, 1), minval=-1.0, maxval=1.0)
    which = jnp.arange(400) % 2
    change = jnp.where(which[:, None] == 0, 0.02, 0.01 - 0.01 * jnp.sign(obs))
    change = change + 0.001 * jax.random.normal(noise, (400, 1))
    batch = transitions(obs, change, np.eye(2)[which])

    @jax.jit
    def learned(state):
        return jax.lax.fori_loop(0, 1000, lambda _, s: dads.update(s, batch)[0], state)

    state = learned(dads.init(jax.random.key(1), 1))
    probe = jnp.array([[-0.5], [-0.5], [0.5], [0.5]])
    expected = [[0.02], [0.02], [0.02], [0.0]] if view == "" else [[0.02], [0.01], [0.02], [0.01]]
    np.testing.assert_allclose(dads.predict(state, probe, jnp.eye(2)[jnp.array([0, 1, 0, 1])]), expected, atol=2e-3)


# --- what the dynamics see, and what they are for -----------------------------------------------------------------


def test_prediction_by_hand_in_the_units_of_the_view():
    dads = Dads(config(), ContinuousSkills(3))
    state = state_of(affine(WEIGHT, BIAS), moments(*STATES), moments(*CHANGES))
    skill = np.array([[0.5, -1.0, 2.0], [0.0, 0.1, 0.0], [-1.0, 0.0, 1.0]])
    seen = (OBS - STATES[0]) / np.sqrt(STATES[1])
    mean = np.concatenate([seen, skill], axis=1) @ np.array(WEIGHT) + BIAS
    expected = CHANGES[0] + np.sqrt(CHANGES[1]) * mean
    np.testing.assert_allclose(dads.predict(state, jnp.array(OBS), jnp.array(skill)), expected, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("view", ["", "xy", "o", "xyo"])
def test_under_xyo_the_dynamics_see_the_skill_alone(view):
    skills = ContinuousSkills(2)
    dads = Dads(config(view), skills)
    state, batch = dads.init(jax.random.key(0), 2), random_batch(jax.random.key(1), skills, obs_dim=2)
    state = state._replace(states=moments([5.0, 6.0], [2.0, 3.0]))
    elsewhere = batch._replace(obs=batch.obs + 1.0, next_obs=batch.next_obs + 1.0)
    farther = batch._replace(next_obs=batch.next_obs + 1.0)
    reward = jax.jit(dads.reward)
    here, there, other = (np.asarray(reward(state, b)) for b in (batch, elsewhere, farther))
    assert np.allclose(here, there, atol=1e-5) == (view == "xyo")
    same = np.allclose(dads.predict(state, batch.obs, batch.skill), dads.predict(state, elsewhere.obs, batch.skill))
    assert same == (view == "xyo")
    assert not np.allclose(here, other, atol=1e-2)


def test_dads_by_name_and_what_it_does_not_have():
    dads = make_method(config(), DiscreteSkills(5))
    assert isinstance(dads, Dads)
    state, obs = dads.init(jax.random.key(0), 3), jnp.zeros((4, 3))
    with pytest.raises(UserError, match="dads cannot choose a skill for a goal; it plans"):
        dads.towards(state, obs, obs)
    code = np.asarray(dads.represent(state, obs))
    assert code.shape == (4, 5) and np.all(np.isnan(code))


# --- runs ---------------------------------------------------------------------------------------------------------


def test_a_run_is_evaluated_and_drawn_without_a_map_of_states(tmp_path):
    parts = train.assemble(tiny_config("dads"))
    run = Run.create(tmp_path / "run", parts.config)
    run.save(2, train.to_save(train.init(parts)))
    result = evaluate(run, episodes=20)
    assert math.isnan(result["metrics"]["alignment"]["mean"])
    assert np.isfinite(result["metrics"]["travelled"]["mean"])
    written = json.loads((run.evaluation / "evaluation.json").read_text())
    assert written["metrics"]["alignment"]["mean"] is None
    assert plots.draw_phi(run.path).stat().st_size > 0


def test_the_command_it_advises_after_training_works(command_line, tmp_path):
    """A skill for a goal at once there is none, so not `reach`: it plans."""
    run = copy_of(trained("dads"), tmp_path / "run")
    (run.evaluation / "evaluation.json").unlink()  # else there is nothing left to do
    code, out, _ = command_line("discover", "--resume", run.path)
    assert code == 0
    advice = out[out.index("try next:") :].splitlines()[1].split()
    assert advice[-6:] == ["downstream", str(run.path), "--task", "point-goal", "--controller", "mppi"]
    assert "reach" not in advice
    code, out, err = command_line(*advice[-6:], "--episodes", 4, "--seeds", 1)
    assert code == 0, err
    assert "mppi" in out


def test_where_no_task_has_goals_it_advises_nothing_towards_them():
    def advised(env, method):
        config = get_recipe("laptop", env, method, usual_skills(method))
        return reports.to_goals(Run(Path("a run"), config))

    assert advised("ant", "dads") == "downstream 'a run' --task ant-goal --controller mppi"
    assert advised("half-cheetah", "dads") is None
    assert advised("half-cheetah", "lsd") == "reach 'a run' --goal 12 --goal 24"
    assert advised("ant", "ibol") is None


def small(method, skills, **changes):
    recipe = get_recipe("laptop", "point", method, skills)
    return dataclasses.replace(
        recipe,
        seeds=2,
        env=dataclasses.replace(recipe.env, start_range=0.0),
        method=dataclasses.replace(recipe.method, hidden=(32, 32), **changes),
        sac=dataclasses.replace(recipe.sac, hidden=(32, 32), alpha=0.1, learn_alpha=False),
    )


def learn(config, epochs):
    """The parts, what they have learned, and the metrics of the last fifth."""
    parts = train.assemble(config)
    advance = train.make_driver(parts)
    state, _ = advance(train.init(parts), epochs - epochs // 5)
    state, metrics = advance(state, epochs // 5)
    return parts, state.learner, {name: np.asarray(value) for name, value in metrics.items()}


def test_four_skills_find_the_four_corners():
    """Of the box of actions: told apart best, at (1, 1) and (1, -1) and so on in units of the standard deviation."""
    parts, learner, metrics = learn(small("dads-xyo", SkillConfig("discrete", 4)), 200)
    best = math.log(4) - math.log(1 + 2 * math.exp(-2) + math.exp(-4))
    assert np.all(metrics["reward"] > best - 0.12)  # the noise of the policy costs some
    assert np.all(metrics["reward"] < best + 0.02)

    @jax.jit
    @jax.vmap
    def steps(learner):
        """The mean step of each skill, and the one predicted, which is the same everywhere."""
        obs = one_seed_rollout(parts, learner.sac.policy, jnp.eye(4), jax.random.key(0)).obs
        moved = parts.view.for_method(obs[-1]) - parts.view.for_method(obs[0])
        return moved / (len(obs) - 1), parts.method.predict(learner.method, jnp.zeros((4, 2)), jnp.eye(4))

    real, predicted = (np.asarray(x) for x in steps(learner))
    for seed in range(2):
        assert len(np.unique(np.sign(real[seed]), axis=0)) == 4
    np.testing.assert_allclose(predicted, real, atol=0.15)


def test_continuous_skills_are_predicted_and_told_apart():
    _, _, metrics = learn(small("dads", SkillConfig("continuous", 2), alternatives=10), 120)
    assert np.all(metrics["reward"] > 0.15)  # 0 if all skills were alike
    assert np.all(metrics["phi_loss"] < 0.5)  # 1 if only the mean were known
