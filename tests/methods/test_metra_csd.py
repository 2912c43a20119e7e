"""METRA and CSD: closed forms, optima that are known, and a short run on PointEnv."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from helpers import one_seed_rollout
from wanderlust import train
from wanderlust.config import SkillConfig, method_config
from wanderlust.envs.spec import Transition
from wanderlust.methods import make_method
from wanderlust.methods.csd import Csd, CsdConfig
from wanderlust.methods.metra import Metra, MetraConfig
from wanderlust.methods.skills import ContinuousSkills, DiscreteSkills
from wanderlust.methods.views import with_position
from wanderlust.recipes import get_recipe
from wanderlust.rl.nets import MLP, Linear

BOTH = pytest.mark.parametrize("name", ["metra", "csd"])


def linear(weight, bias=0.0):
    weight = jnp.array(weight, jnp.float32)
    return MLP((Linear(weight, jnp.broadcast_to(jnp.array(bias, jnp.float32), weight.shape[1:])),), jax.nn.relu)


def transitions(obs, next_obs, skill):
    obs, next_obs, skill = (jnp.array(x, jnp.float32) for x in (obs, next_obs, skill))
    no = jnp.zeros(len(obs), bool)
    return Transition(obs, jnp.zeros((len(obs), 1)), next_obs, skill, no, no)


def normal(mean, std):
    """A model of steps that is the same everywhere: the layer's bias alone."""
    bias = np.concatenate([mean, np.log(std)])
    return linear(np.zeros((len(mean), len(bias))), bias)


def make(name, skills, **fields):
    return make_method(method_config(name, hidden=(8,), **fields), skills)


def state_of(method, encoder, model=None, multiplier=None):
    """A fresh state with these networks."""
    inputs = encoder.layers[0].weight.shape[0]
    state = method.init(jax.random.key(0), inputs)
    optimizer = method._optimizer
    state = state._replace(encoder=encoder, opt=optimizer.init(encoder))
    if model is not None:
        state = state._replace(model=model, model_opt=optimizer.init(model))
    if multiplier is not None:
        state = state._replace(log_multiplier=jnp.log(jnp.float32(multiplier)))
    return state


def test_by_name_and_with_a_state_that_starts_where_the_configuration_says():
    metra, csd = make("metra", ContinuousSkills(2)), make("csd", ContinuousSkills(2))
    assert isinstance(metra, Metra) and isinstance(csd, Csd)
    assert isinstance(metra.config, MetraConfig) and isinstance(csd.config, CsdConfig)
    for method, multiplier in ((metra, 30.0), (csd, 3000.0)):
        state = method.init(jax.random.key(0), 3)
        assert float(jnp.exp(state.log_multiplier)) == pytest.approx(multiplier, rel=1e-5)
        assert [layer.weight.shape for layer in state.encoder.layers] == [(3, 8), (8, 2)]
    assert [layer.weight.shape for layer in state.model.layers] == [(3, 8), (8, 6)]
    assert not np.allclose(state.encoder.layers[0].weight, state.model.layers[0].weight)


# --- reward -------------------------------------------------------------------------------------------------------


@BOTH
def test_reward_by_hand_for_continuous_skills(name):
    """phi is used as it is: nothing brings its stretching by 4 and 2 down to 1."""
    method = make(name, ContinuousSkills(2))
    state = state_of(method, linear([[4.0, 0.0], [0.0, 2.0]], [10.0, -7.0]))
    batch = transitions(
        [[0.0, 0.0], [1.0, 1.0], [2.0, -1.0]], [[1.0, 0.0], [1.0, 3.0], [1.0, 1.0]], [[2, 5], [2, 5], [-1, 3]]
    )
    np.testing.assert_allclose(method.reward(state, batch), [4 * 2, 4 * 5, -4 * -1 + 4 * 3], rtol=1e-6)


@BOTH
def test_reward_by_hand_for_discrete_skills(name):
    """The step along the skill's own entry less the mean step along all the others."""
    method = make(name, DiscreteSkills(3))
    state = state_of(method, linear(np.diag([4.0, 2.0, 1.0]), [1.0, 2.0, 3.0]))
    step = np.array([8.0, 8.0, -8.0])  # of phi
    batch = transitions(np.ones((3, 3)), np.ones((3, 3)) + np.array([2.0, 4.0, -8.0]), np.eye(3))
    expected = [step[k] - np.delete(step, k).sum() / 2 for k in range(3)]
    np.testing.assert_allclose(method.reward(state, batch), expected, rtol=1e-6, atol=1e-5)


# --- METRA's loss -------------------------------------------------------------------------------------------------

WEIGHT = np.array([[0.5, 0.0], [0.0, 2.0]])
SHORT, LONG = [0.2, 0.1], [1.0, 1.0]  # steps of phi: (.1, .2), of squared length .05, and (.5, 2), of 4.25


def metra_case(skills, skill):
    method = make("metra", skills, slack=1e-3)
    batch = transitions([[3.0, 3.0], [1.0, -1.0]], [[3.2, 3.1], [2.0, 0.0]], [skill, skill])
    return method, batch, np.asarray(skills.code(jnp.array(skill, jnp.float32)), float)


@pytest.mark.parametrize(
    ("skills", "skill"), [(ContinuousSkills(2), [0.6, 0.8]), (DiscreteSkills(2), [0.0, 1.0])], ids=["2d", "n2"]
)
def test_metra_loss_and_gradient_by_hand(skills, skill):
    """A step that is short enough adds the slack and no pull; one that is too long is pulled back by lambda."""
    method, batch, code = metra_case(skills, skill)
    multiplier = 7.0
    (loss, room), grad = jax.value_and_grad(method.constrained_loss, has_aux=True)(
        linear(WEIGHT, [5.0, 5.0]), jnp.log(multiplier), 1.0, batch
    )
    rewards = np.array([np.dot([0.1, 0.2], code), np.dot([0.5, 2.0], code)])
    rooms = np.array([1e-3, 1.0 - 4.25])
    assert float(room) == pytest.approx(rooms.mean(), rel=1e-5)
    assert float(loss) == pytest.approx(-np.mean(rewards + multiplier * rooms), rel=1e-5)
    pull = np.outer(LONG, [0.5, 2.0]) * 2 * multiplier  # of the long step's squared length
    expected = -(np.outer(SHORT, code) + np.outer(LONG, code) - pull) / 2
    np.testing.assert_allclose(grad.layers[0].weight, expected, rtol=1e-4)
    np.testing.assert_allclose(grad.layers[0].bias, 0.0, atol=1e-5)  # of a difference


def test_metra_bounds_the_length_of_a_step_and_not_its_mean_square():
    """A step of (0.9, 0.9) is longer than 1, though the mean of its squares is not."""
    method = make("metra", ContinuousSkills(2))
    batch = transitions([[0.0, 0.0]], [[0.9, 0.9]], [[1.0, 0.0]])
    _, room = method.constrained_loss(linear(np.eye(2)), jnp.float32(0.0), 1.0, batch)
    assert float(room) == pytest.approx(1.0 - 1.62, rel=1e-5)


# --- CSD's distance and losses ------------------------------------------------------------------------------------


def test_csd_distance_by_hand():
    csd = make("csd", ContinuousSkills(2))
    model = normal([1.0, -1.0, 0.0], [0.5, 2.0, 8.0])  # the geometric mean of the deviations is 2
    batch = transitions([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]], [[2.0, 1.0, 4.0], [2.0, 1.0, 3.0]], np.zeros((2, 2)))
    errors = np.array([[1.0, 2.0, 4.0], [0.0, 0.0, 0.0]])
    weights = np.array([(2.0 / 0.5) ** 2, (2.0 / 2.0) ** 2, (2.0 / 8.0) ** 2])
    loss, distance = csd.model_loss(model, batch)
    np.testing.assert_allclose(distance, [(errors[0] ** 2 * weights).mean(), 0.0], rtol=1e-5, atol=1e-6)
    assert float(distance[0]) == pytest.approx((16 + 4 + 1) / 3, rel=1e-5)
    log_density = stats.norm(0.0, [0.5, 2.0, 8.0]).logpdf(errors).sum(axis=1)
    assert float(loss) == pytest.approx(-log_density.mean(), rel=1e-5)


@pytest.mark.parametrize("std", [0.01, 1.0, 30.0])
def test_csd_weights_are_one_if_all_deviations_are_the_same(std):
    csd = make("csd", ContinuousSkills(2))
    batch = transitions(np.zeros((1, 3)), [[1.0, 2.0, 3.0]], np.zeros((1, 2)))
    _, distance = csd.model_loss(normal([0.0, 0.0, 1.0], [std] * 3), batch)
    np.testing.assert_allclose(distance, [(1 + 4 + 4) / 3], rtol=1e-4)


def test_csd_model_stays_finite_however_extreme_it_becomes():
    csd = make("csd", ContinuousSkills(2))
    batch = transitions(np.zeros((1, 2)), [[1.0, 1.0]], np.zeros((1, 2)))
    model = linear(np.zeros((2, 4)), [0.0, 0.0, -100.0, 100.0])  # deviations of e^-100 and e^100: clipped
    loss, distance = csd.model_loss(model, batch)
    expected = -stats.norm(0.0, [1e-6, 1e6]).logpdf([1.0, 1.0]).sum()
    assert float(loss) == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(distance, [(1e12 + 1e-12) / 2], rtol=1e-3)


@pytest.mark.parametrize(
    ("skills", "skill"), [(ContinuousSkills(2), [0.6, 0.8]), (DiscreteSkills(2), [0.0, 1.0])], ids=["2d", "n2"]
)
def test_csd_loss_and_gradient_by_hand(skills, skill):
    """As METRA's, with a bound of its own for each step, and on the mean square of phi's entries."""
    csd = make("csd", skills, slack=1e-6)
    _, batch, code = metra_case(skills, skill)
    multiplier = 7.0
    (loss, room), grad = jax.value_and_grad(csd.constrained_loss, has_aux=True)(
        linear(WEIGHT, [5.0, 5.0]), jnp.log(multiplier), jnp.array([0.5, 2.0]), batch
    )
    rewards = np.array([np.dot([0.1, 0.2], code), np.dot([0.5, 2.0], code)])
    rooms = np.array([1e-6, 2.0 - 4.25 / 2])
    assert float(room) == pytest.approx(rooms.mean(), rel=1e-4)
    assert float(loss) == pytest.approx(-np.mean(rewards + multiplier * rooms), rel=1e-5)
    pull = np.outer(LONG, [0.5, 2.0]) * multiplier
    expected = -(np.outer(SHORT, code) + np.outer(LONG, code) - pull) / 2
    np.testing.assert_allclose(grad.layers[0].weight, expected, rtol=1e-4, atol=1e-6)


def test_csd_phi_follows_the_model_but_the_model_follows_the_data_alone():
    csd = make("csd", ContinuousSkills(2))

    @jax.jit
    def run(key):
        a, b, c, d, e = jax.random.split(key, 5)
        state, other = csd.init(a, 3), csd.init(b, 3)
        batch = steps(c, jax.random.normal(d, (64, 3)), jax.random.normal(e, (64, 2)))
        starts = (state, state._replace(encoder=other.encoder), state._replace(model=other.model))
        loss, surprise = csd.model_loss(state.model, batch)
        before = csd.constrained_loss(state.encoder, state.log_multiplier, surprise, batch)
        return [csd.update(start, batch) for start in starts], (loss, *before)

    ((first, metrics), (other_phi, _), (other_model, _)), before = run(jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, first.model, other_phi.model)
    assert not np.allclose(first.encoder.layers[0].weight, other_model.encoder.layers[0].weight, atol=1e-6)
    # all three steps are from the state before the update
    named = [metrics[name] for name in ("model_loss", "phi_loss", "constraint")]
    np.testing.assert_allclose(named, before, rtol=1e-5)
    assert float(metrics["multiplier"]) == pytest.approx(3000.0, rel=1e-5)


# --- the multiplier -----------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("stretch", [0.1, 10.0], ids=["short", "long"])
def test_the_multiplier_rises_while_steps_are_too_long_and_falls_while_they_are_not(name, stretch):
    method = make(name, ContinuousSkills(2), learning_rate=0.01)
    model = normal([0.0, 0.0], [1.0, 1.0])
    state = state_of(method, linear(stretch * np.eye(2)), model if name == "csd" else None)
    batch = transitions([[0.0, 0.0]], [[0.6, 0.8]], [[0.6, 0.8]])  # a step of length 1; mean square, 1/2
    after, metrics = jax.jit(method.update)(state, batch)
    moved = float(after.log_multiplier - state.log_multiplier)
    assert moved == pytest.approx(0.01 if stretch > 1 else -0.01, rel=1e-2)  # Adam's first step is the learning rate
    bound = 1.0 if name == "metra" else 0.5
    expected = min(method.config.slack, bound * (1 - stretch**2))
    assert float(metrics["constraint"]) == pytest.approx(expected, rel=1e-4)
    assert float(metrics["multiplier"]) == pytest.approx(method.config.multiplier, rel=1e-4)  # before its step
    reward = float(method.reward(state, batch)[0])
    assert float(metrics["phi_loss"]) == pytest.approx(-reward - method.config.multiplier * expected, rel=1e-4)
    # phi itself moves along the skill while it may, and back while it must
    assert np.sign(float(after.encoder.layers[0].weight[0, 0]) - stretch) == (-1 if stretch > 1 else 1)


# --- known optima -------------------------------------------------------------------------------------------------


def optimise(method, state, batch_of, updates):
    """Many updates, each on fresh steps; the state in the end, and the metrics of each update."""

    @jax.jit
    def run(state):
        keys = jax.random.split(jax.random.key(7), updates)
        return jax.lax.scan(lambda s, key: method.update(s, batch_of(key)), state, keys)

    return run(state)


def steps(key, move, skill):
    obs = jax.random.normal(key, move.shape)
    no = jnp.zeros(len(move), bool)
    return Transition(obs, jnp.zeros((len(move), 1)), obs + move, skill, no, no)


def unit_steps(skills, scale, key, count=128):
    """Everybody walks along the code of their skill, one unit a step; the state shows it in other units."""
    a, b = jax.random.split(key)
    skill = jax.vmap(skills.sample)(jax.random.split(a, count))
    code = jax.vmap(skills.code)(skill)
    unit = code / jnp.linalg.norm(code, axis=1, keepdims=True)
    return steps(b, unit * jnp.array(scale)[None], skill)


@pytest.mark.parametrize(
    ("skills", "scale"),
    [(ContinuousSkills(2, unit_length=True), (2.0, 0.5)), (DiscreteSkills(3), (2.0, 0.5, 1.0))],
    ids=["2d", "n3"],
)
def test_metra_makes_every_step_one_long_whatever_its_units(skills, scale):
    """The best linear phi undoes the units: steps of length 1, along the code of their skill."""
    metra = Metra(MetraConfig(hidden=(8,), learning_rate=0.01), skills)
    state = state_of(metra, linear(0.1 * np.diag(1 / np.array(scale))))
    state, metrics = optimise(metra, state, functools.partial(unit_steps, skills, scale), 500)
    batch = unit_steps(skills, scale, jax.random.key(1))
    step = np.asarray(metra.represent(state, batch.next_obs) - metra.represent(state, batch.obs))
    length = np.linalg.norm(step, axis=1)
    assert length.max() ** 2 <= 1.02
    assert length.min() ** 2 >= 0.95
    code = np.asarray(jax.vmap(skills.code)(batch.skill))
    assert ((step * code).sum(axis=1) / length / np.linalg.norm(code, axis=1)).min() > 0.99
    assert np.all(np.diff(metrics["multiplier"][:50]) < 0)  # while all steps are short


def test_metra_brings_long_steps_back_to_the_bound():
    skills = ContinuousSkills(2, unit_length=True)
    metra = Metra(MetraConfig(hidden=(8,), learning_rate=0.01), skills)
    state = state_of(metra, linear(4.0 * np.eye(2)))
    state, metrics = optimise(metra, state, functools.partial(unit_steps, skills, (1.0, 1.0)), 500)
    batch = unit_steps(skills, (1.0, 1.0), jax.random.key(1))
    length = np.linalg.norm(metra.represent(state, batch.next_obs) - metra.represent(state, batch.obs), axis=1)
    assert metrics["constraint"][0] == pytest.approx(-15.0, rel=1e-4)
    assert length.max() ** 2 <= 1.02
    assert length.min() ** 2 >= 0.8
    assert np.all(np.diff(metrics["multiplier"][:50]) > 0)  # while all steps are long


@pytest.mark.parametrize("multiplier", [0.2, 2.0])
def test_metra_multiplier_ends_at_the_price_of_a_longer_step(multiplier):
    """With phi = c s the objective is c + lambda (1 - c^2): lambda = 1/2 makes c = 1 the best, and no other does."""
    skills = ContinuousSkills(2, unit_length=True)
    metra = Metra(MetraConfig(hidden=(8,), learning_rate=0.003, slack=0.1), skills)
    state = state_of(metra, linear(np.eye(2)), multiplier=multiplier)
    _, metrics = optimise(metra, state, functools.partial(unit_steps, skills, (1.0, 1.0)), 3000)
    assert float(jnp.mean(metrics["multiplier"][-1000:])) == pytest.approx(0.5, rel=0.05)
    assert abs(float(jnp.mean(metrics["constraint"][-1000:]))) < 0.02


UNITS = np.array([2.0, 0.5])


def normal_steps(drift, key, count=256):
    """Steps drawn from N(drift, I), in other units; the skill is the part that cannot be predicted."""
    a, b = jax.random.split(key)
    noise = jax.random.normal(a, (count, 2))
    return steps(b, (noise + jnp.array(drift)[None]) * jnp.array(UNITS, jnp.float32)[None], noise)


@pytest.mark.parametrize("drift", [(0.0, 0.0), (1.0, -1.0)], ids=["still", "drifting"])
def test_csd_learns_how_steps_are_distributed_and_phi_what_cannot_be_predicted(drift):
    """The model finds drift and spread, so that d is the mean square of the rest, whatever its units.

    The best linear phi undoes the units as well. Where there is a drift, it must not see it: no step is so sure that
    it could be long. What is left is the projection onto the line across the drift.
    """
    csd = Csd(CsdConfig(hidden=(8,), learning_rate=0.01, multiplier=3.0), ContinuousSkills(2))
    state = state_of(csd, linear(0.1 * np.eye(2)), normal([0.0, 0.0], [1.0, 1.0]))
    state, _ = optimise(csd, state, functools.partial(normal_steps, drift), 1000)
    mean, log_std = np.split(np.asarray(jax.vmap(state.model)(jnp.zeros((1, 2)))[0]), 2)
    np.testing.assert_allclose(mean / UNITS, drift, atol=0.05)
    np.testing.assert_allclose(np.exp(log_std) / UNITS, [1.0, 1.0], atol=0.05)
    seen = np.asarray(state.encoder.layers[0].weight) * UNITS[:, None]
    expected = np.full((2, 2), 0.5) if any(drift) else np.eye(2)
    np.testing.assert_allclose(seen, expected, atol=0.15)


# --- downstream ---------------------------------------------------------------------------------------------------


@BOTH
def test_the_skill_that_points_from_here_to_the_goal(name):
    phi = linear([[4.0, 0.0], [0.0, 4.0]], [3.0, 3.0])  # it keeps directions
    obs, goal = jnp.array([[1.0, 1.0], [0.0, 0.0]]), jnp.array([[4.0, 5.0], [0.0, -0.1]])
    for skills, norm in ((ContinuousSkills(2, unit_length=True), 1.0), (ContinuousSkills(2), np.sqrt(np.pi / 2))):
        method = make(name, skills)
        state = state_of(method, phi)
        z = method.towards(state, obs, goal)
        np.testing.assert_allclose(z, norm * np.array([[0.6, 0.8], [0.0, -1.0]]), rtol=1e-4, atol=1e-5)
        assert np.all(np.isfinite(method.towards(state, obs, obs)))


@BOTH
def test_the_discrete_skill_whose_code_points_there_best(name):
    skills = DiscreteSkills(3)
    method = make(name, skills)
    state = state_of(method, linear(np.eye(3) * 2, [0.0, 9.0, 0.0]))
    a, b = jax.random.split(jax.random.key(0))
    obs, goal = jax.random.normal(a, (50, 3)), jax.random.normal(b, (50, 3))
    picked = np.asarray(method.towards(state, obs, goal))
    codes = np.asarray(jax.vmap(skills.code)(skills.all()))
    best = (np.asarray(goal - obs) @ codes.T).argmax(axis=1)
    np.testing.assert_array_equal(picked, np.eye(3)[best])
    assert len(np.unique(picked, axis=0)) == 3


# --- on PointEnv --------------------------------------------------------------------------------------------------

ANGLES = np.linspace(0.0, 2 * np.pi, 16, endpoint=False)
GOALS = 8.0 * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)


class Short(NamedTuple):
    """A short run, and 64 random skills and 16 that were picked for goals, rolled out from the origin."""

    name: str
    parts: train.Setup
    metrics: dict
    skill: np.ndarray
    position: np.ndarray
    phi: np.ndarray


@pytest.fixture(scope="module", params=["metra", "csd"])
def short(request):
    config = get_recipe("laptop", "point", request.param, SkillConfig(unit_length=request.param == "metra"))
    config = dataclasses.replace(
        config,
        method=dataclasses.replace(config.method, hidden=(32, 32)),
        sac=dataclasses.replace(config.sac, hidden=(32, 32), alpha=0.03),
    )
    parts = train.assemble(config)
    method, view = parts.method, parts.view
    state, metrics = train.make_driver(parts)(train.init(parts), 250)
    learner = jax.tree.map(lambda x: x[0], state.learner)

    @jax.jit
    def play(learner):
        origin = jnp.zeros((16, 2))
        there = with_position(parts.world.spec, origin, jnp.array(GOALS, jnp.float32))
        picked = method.towards(learner.method, view.for_method(origin), view.for_method(there))
        drawn = jax.vmap(parts.skills.sample)(jax.random.split(jax.random.key(0), 64))
        skill = jnp.concatenate([drawn, picked])
        from_origin = dataclasses.replace(parts, world=parts.world.from_origin())
        obs = one_seed_rollout(from_origin, learner.sac.policy, skill, jax.random.key(0)).obs
        return skill, obs, jax.vmap(lambda o: method.represent(learner.method, view.for_method(o)))(obs)

    return Short(request.param, parts, metrics, *map(np.asarray, play(learner)))


def cosine(a, b):
    return (a * b).sum(axis=-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


def test_skills_on_the_plane_travel_along_their_own_direction(short):
    assert cosine(short.phi[-1] - short.phi[0], short.skill)[:64].mean() > 0.85
    assert np.linalg.norm(short.position[-1] - short.position[0], axis=1)[:64].mean() > 5.0
    slack = short.parts.config.method.slack
    if short.name == "metra":
        length = np.linalg.norm(np.diff(short.phi, axis=0), axis=2)
        assert length.max() < 1.05
        assert length.mean() > 0.85
        assert -1e-2 < short.metrics["constraint"][0] <= slack
    else:
        assert -1e-4 < short.metrics["constraint"][0] <= slack
        # moves of standard deviation 1/sqrt(3) in each direction, as a uniform policy has them, in normalised units
        entropy = 2 * stats.norm(0.0, 1 / np.sqrt(3) / short.parts.world.spec.obs_std[0]).entropy()
        assert short.metrics["model_loss"][0] == pytest.approx(entropy, abs=0.6)


def test_the_skill_that_is_picked_for_a_goal_leads_its_way(short):
    assert cosine(short.position[-1, 64:] - short.position[0, 64:], GOALS).mean() > 0.85
