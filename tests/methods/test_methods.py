import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import tiny_config
from wanderlust.config import MethodConfig, method_config
from wanderlust.envs.spec import EnvSpec, Groups, Transition
from wanderlust.errors import UserError
from wanderlust.methods import VIEWS, View, make_method, parse_method
from wanderlust.methods.diayn import Diayn, DiaynState
from wanderlust.methods.encoder import EncoderState
from wanderlust.methods.lsd import Lsd, LsdState
from wanderlust.methods.skills import ContinuousSkills, DiscreteSkills
from wanderlust.methods.views import with_position
from wanderlust.rl.nets import MLP, ROUNDING, Linear, measure_spectral

HIDDEN = (16, 16)


def config(name="lsd", rate=1e-3):
    return MethodConfig(name, hidden=HIDDEN, learning_rate=rate)


def linear(weight, bias):
    return MLP((Linear(jnp.array(weight), jnp.array(bias)),), jax.nn.relu)


def lsd_state(weight, bias):
    encoder = linear(weight, bias)
    return LsdState(encoder, measure_spectral(encoder), ())


def transitions(obs, next_obs, skill):
    obs, next_obs, skill = (jnp.array(x, jnp.float32) for x in (obs, next_obs, skill))
    no = jnp.zeros(len(obs), bool)
    return Transition(obs, jnp.zeros((len(obs), 1)), next_obs, skill, no, no)


def random_batch(key, skills, obs_dim=3, count=64):
    a, b, c = jax.random.split(key, 3)
    skill = jax.vmap(skills.sample)(jax.random.split(a, count))
    obs = jax.random.normal(b, (count, obs_dim))
    return transitions(obs, obs + jax.random.normal(c, (count, obs_dim)), skill)


# --- LSD ----------------------------------------------------------------------------------------------------------


def test_lsd_reward_by_hand_for_continuous_skills():
    # the largest singular value of diag(4, 2) is 4: phi(s) = (s_1, s_2 / 2) / (1 + ROUNDING) + bias
    state = lsd_state([[4.0, 0.0], [0.0, 2.0]], [10.0, -7.0])
    batch = transitions(
        [[0.0, 0.0], [1.0, 1.0], [2.0, -1.0]], [[1.0, 0.0], [1.0, 3.0], [1.0, 1.0]], [[2, 5], [2, 5], [-1, 3]]
    )
    expected = np.array([1 * 2, 1 * 5, -1 * -1 + 1 * 3]) / (1 + ROUNDING)
    np.testing.assert_allclose(Lsd(config(), ContinuousSkills(2)).reward(state, batch), expected, rtol=1e-5)


def test_lsd_reward_by_hand_for_discrete_skills():
    """Equation 14: the step along the skill's own entry less the mean step along all the others."""
    state = lsd_state([[4.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]], [1.0, 2.0, 3.0])
    move = [2.0, 4.0, -8.0]
    step = np.array([2.0, 2.0, -2.0]) / (1 + ROUNDING)  # of phi
    batch = transitions(np.ones((3, 3)), np.ones((3, 3)) + move, np.eye(3))
    expected = []
    for k in range(3):
        others = [step[i] for i in range(3) if i != k]
        expected.append(step[k] - sum(others) / (3 - 1))
    np.testing.assert_allclose(Lsd(config(), DiscreteSkills(3)).reward(state, batch), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("skills", [ContinuousSkills(3), DiscreteSkills(4)])
def test_lsd_rewards_of_an_episode_telescope(skills):
    lsd = Lsd(config(), skills)

    @jax.jit
    def run(key):
        a, b, c = jax.random.split(key, 3)
        state = lsd.init(a, 3)
        path = jnp.cumsum(jax.random.normal(b, (26, 3)), axis=0)
        z = skills.sample(c)
        no = jnp.zeros(25, bool)
        steps = Transition(path[:-1], jnp.zeros((25, 1)), path[1:], jnp.tile(z, (25, 1)), no, no)
        phi = lsd.represent(state, path)
        return lsd.reward(state, steps), (phi[-1] - phi[0]) @ skills.code(z)

    for seed in range(3):
        rewards, whole = run(jax.random.key(seed))
        assert float(jnp.sum(rewards)) == pytest.approx(float(whole), rel=1e-4, abs=1e-5)
        assert float(jnp.max(jnp.abs(rewards))) > 1e-2


def test_lsd_picks_the_skill_that_points_from_here_to_the_goal():
    state = lsd_state([[4.0, 0.0], [0.0, 4.0]], [3.0, 3.0])  # phi keeps directions
    obs, goal = jnp.array([[1.0, 1.0], [0.0, 0.0]]), jnp.array([[4.0, 5.0], [0.0, -0.1]])
    z = Lsd(config(), ContinuousSkills(2)).towards(state, obs, goal)
    norm = ContinuousSkills(2).expected_norm
    np.testing.assert_allclose(z, norm * np.array([[0.6, 0.8], [0.0, -1.0]]), rtol=1e-4, atol=1e-5)


def test_lsd_skill_towards_the_place_one_is_at_is_finite():
    state = lsd_state([[4.0, 0.0], [0.0, 4.0]], [3.0, 3.0])
    here = jnp.ones((1, 2))
    assert np.all(np.isfinite(Lsd(config(), ContinuousSkills(2)).towards(state, here, here)))


def test_lsd_picks_the_discrete_skill_whose_code_points_there_best():
    skills = DiscreteSkills(3)
    lsd = Lsd(config(), skills)
    state = lsd_state(np.eye(3, dtype=np.float32) * 2, [0.0, 9.0, 0.0])
    a, b = jax.random.split(jax.random.key(0))
    obs, goal = jax.random.normal(a, (50, 3)), jax.random.normal(b, (50, 3))
    picked = np.asarray(lsd.towards(state, obs, goal))
    direction = np.asarray(lsd.represent(state, goal) - lsd.represent(state, obs))
    codes = np.asarray(jax.vmap(skills.code)(skills.all()))
    np.testing.assert_array_equal(picked, np.eye(3)[(direction @ codes.T).argmax(axis=1)])
    assert len(np.unique(picked, axis=0)) == 3


# --- DIAYN --------------------------------------------------------------------------------------------------------


def test_diayn_reward_by_hand_for_continuous_skills():
    state = EncoderState(linear([[2.0, 0.0], [1.0, -1.0]], [0.5, 0.0]), ())
    batch = transitions([[7.0, 7.0], [8.0, 8.0]], [[1.0, 1.0], [0.0, 2.0]], [[1.0, 0.0], [2.5, -2.0]])
    # guesses at s': (3.5, -1) and (2.5, -2)
    expected = [-0.5 * (2.5**2 + 1.0**2), 0.0]
    np.testing.assert_allclose(Diayn(config("diayn"), ContinuousSkills(2)).reward(state, batch), expected, rtol=1e-6)


def test_diayn_reward_by_hand_for_discrete_skills():
    state = EncoderState(linear([[1.0, 2.0, 3.0]], [0.0, 0.0, 1.0]), ())
    batch = transitions([[50.0], [60.0]], [[1.0], [-1.0]], [[0, 1, 0], [1, 0, 0]])
    logits = np.array([[1.0, 2.0, 4.0], [-1.0, -2.0, -2.0]])
    log_softmax = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    expected = [log_softmax[0, 1], log_softmax[1, 0]]
    np.testing.assert_allclose(Diayn(config("diayn"), DiscreteSkills(3)).reward(state, batch), expected, rtol=1e-5)


def learns_variance(skills=None):
    skills = skills or ContinuousSkills(2)
    return Diayn(method_config("diayn", hidden=HIDDEN, learning_rate=1e-2, learned_variance=True), skills)


def test_diayn_reward_by_hand_for_a_learned_variance():
    """The log-density of the skill, up to its constant; a network that is too sure is stopped at 1e-6."""
    mean = linear([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])
    log_std = linear([[0.0, 0.0], [0.0, 0.0]], [np.log(2.0), np.log(0.5)])
    batch = transitions([[0.0, 0.0]] * 2, [[1.0, 3.0], [2.0, 5.0]], [[3.0, 2.0], [2.0, 5.0]])
    diayn = learns_variance()
    expected = [-0.5 * ((2 / 2) ** 2 + (1 / 0.5) ** 2) - np.log(2.0 * 0.5), -np.log(2.0 * 0.5)]
    np.testing.assert_allclose(diayn.reward(DiaynState(mean, (), log_std), batch), expected, rtol=1e-5, atol=1e-6)
    sure = linear([[0.0, 0.0], [0.0, 0.0]], [-1000.0, -1000.0])
    exact = diayn.reward(DiaynState(mean, (), sure), batch)[1]
    np.testing.assert_allclose(exact, -2 * np.log(1e-6), rtol=1e-5)


def test_diayn_learns_how_sure_it_can_be():
    """Skills that the state shows up to noise of 0.1: sigma goes there, and both networks move."""
    diayn = learns_variance()
    key = jax.random.key(0)
    state = diayn.init(key, 2)
    skill = jax.random.normal(key, (256, 2))
    batch = transitions(skill, skill + 0.1 * jax.random.normal(jax.random.key(1), (256, 2)), skill)
    before = diayn.reward(state, batch).mean()
    update = jax.jit(diayn.update)
    for _ in range(1500):
        state, metrics = update(state, batch)
    std = jnp.exp(jax.vmap(state.log_std)(batch.next_obs))
    assert 0.06 < jnp.median(std) < 0.2
    assert diayn.reward(state, batch).mean() > before + 2
    np.testing.assert_allclose(metrics["phi_loss"], -diayn.reward(state, batch).mean(), rtol=0.05)


def test_a_variance_is_learned_of_continuous_skills_alone():
    with pytest.raises(UserError, match=r"method\.learned_variance is true; it is of continuous skills"):
        tiny_config("diayn", 4, method_learned_variance=True)


@pytest.mark.parametrize("skills", [ContinuousSkills(2), DiscreteSkills(3)])
def test_diayn_reads_the_next_state_only(skills):
    diayn = Diayn(config("diayn"), skills)

    @jax.jit
    def rewards(key):
        state = diayn.init(key, 3)
        batch = random_batch(key, skills)
        other_obs = batch._replace(obs=batch.obs + 1.0)
        other_next = batch._replace(next_obs=batch.next_obs + 1.0)
        return [diayn.reward(state, b) for b in (batch, other_obs, other_next)]

    here, other_obs, other_next = rewards(jax.random.key(0))
    np.testing.assert_array_equal(here, other_obs)
    assert not np.allclose(here, other_next)


def test_diayn_picks_what_the_discriminator_expects_at_the_goal():
    state = EncoderState(linear([[2.0, 0.0], [1.0, -1.0]], [0.5, 0.0]), ())
    obs, goal = jnp.zeros((2, 2)), jnp.array([[1.0, 1.0], [0.0, -3.0]])
    guess = np.array([[3.5, -1.0], [-2.5, 3.0]])
    np.testing.assert_allclose(Diayn(config("diayn"), ContinuousSkills(2)).towards(state, obs, goal), guess, rtol=1e-6)
    discrete = Diayn(config("diayn"), DiscreteSkills(2)).towards(state, obs, goal)
    np.testing.assert_array_equal(discrete, [[1, 0], [0, 1]])


# --- all methods --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("skills", [ContinuousSkills(2), DiscreteSkills(3)], ids=["continuous", "discrete"])
@pytest.mark.parametrize("name", ["lsd", "diayn"])
def test_updates_of_the_network_raise_the_mean_reward_of_the_batch(name, skills):
    method = make_method(config(name), skills)

    @jax.jit
    def rewards(key):
        batch = random_batch(key, skills)
        state = method.init(key, 3)
        first = method.reward(state, batch)
        state, metrics = method.update(state, batch)
        second = method.reward(state, batch)
        state = jax.lax.fori_loop(0, 50, lambda _, s: method.update(s, batch)[0], state)
        return jnp.mean(first), jnp.mean(second), jnp.mean(method.reward(state, batch)), metrics["phi_loss"]

    first, second, last, loss = rewards(jax.random.key(0))
    assert first < second < last
    assert float(loss) == pytest.approx(-float(first), rel=1e-5)  # the loss is of the state before the update


def test_methods_by_name():
    assert isinstance(make_method(config("lsd"), ContinuousSkills(2)), Lsd)
    assert isinstance(make_method(config("diayn"), ContinuousSkills(2)), Diayn)
    with pytest.raises(UserError, match="unknown method 'lds'"):
        make_method(config("lds"), ContinuousSkills(2))
    assert parse_method("DIAYN-xyo") == ("diayn", "xyo")
    assert parse_method("lsd") == ("lsd", "")
    with pytest.raises(UserError, match="unknown variant"):
        parse_method("lsd-yx")


# --- views --------------------------------------------------------------------------------------------------------

SPEC = EnvSpec(
    name="probe",
    obs_dim=4,
    action_dim=1,
    episode_length=5,
    groups=Groups(position=(1, 3)),
    obs_mean=(1.0, 2.0, 3.0, 4.0),
    obs_std=(1.0, 2.0, 4.0, 8.0),
)
OBS = jnp.array([[3.0, 6.0, 11.0, 12.0], [0.0, 0.0, 3.0, 4.0]])
SEEN = np.array([[2.0, 2.0, 2.0, 1.0], [-1.0, -1.0, 0.0, 0.0]])  # normalised by hand


@pytest.mark.parametrize("variant", ["", *VIEWS])
def test_what_policy_and_method_see(variant):
    view = View(SPEC, variant)
    hidden = SEEN * [1, 0, 1, 0] if variant in ("o", "xyo") else SEEN
    np.testing.assert_allclose(view.for_policy(OBS), hidden)
    position = SEEN[:, [1, 3]] if variant in ("xy", "xyo") else SEEN
    np.testing.assert_allclose(view.for_method(OBS), position)
    np.testing.assert_allclose(view.for_method(OBS[0]), position[0])  # one observation, no batch
    assert view.method_dim == position.shape[1]


def test_the_position_that_a_policy_sees_can_be_scaled_and_a_method_sees_it_in_full():
    view = View(SPEC, position_scale=10.0)
    np.testing.assert_allclose(view.for_policy(OBS), SEEN * [1, 0.1, 1, 0.1], rtol=1e-6)
    np.testing.assert_allclose(view.for_method(OBS), SEEN)


@pytest.mark.parametrize("variant", ["", *VIEWS])
@pytest.mark.parametrize("name", ["lsd", "diayn"])
def test_views_go_with_any_method(name, variant):
    view, skills = View(SPEC, variant), ContinuousSkills(2)
    method = make_method(dataclasses.replace(config(name), view=variant), skills)

    @jax.jit
    def rewards(key):
        state = method.init(key, view.method_dim)
        batch = random_batch(key, skills, obs_dim=4)
        other_body = batch._replace(next_obs=batch.next_obs.at[:, jnp.array([0, 2])].add(1.0))
        other_place = batch._replace(next_obs=batch.next_obs.at[:, jnp.array([1, 3])].add(1.0))
        return [method.reward(state, view.transition_for_method(b)) for b in (batch, other_body, other_place)]

    here, other_body, other_place = rewards(jax.random.key(1))
    assert not np.allclose(here, other_place)
    if variant in ("xy", "xyo"):
        np.testing.assert_array_equal(here, other_body)
    else:
        assert not np.allclose(here, other_body)


def test_a_view_changes_nothing_but_the_observations_of_a_transition():
    batch = random_batch(jax.random.key(0), ContinuousSkills(2), obs_dim=4)
    seen = View(SPEC, "xy").transition_for_method(batch)
    for name in ("action", "skill", "terminated", "truncated"):
        assert getattr(seen, name) is getattr(batch, name)
    np.testing.assert_allclose(seen.next_obs[:, 1], (batch.next_obs[:, 3] - 4.0) / 8.0, rtol=1e-6)


def test_a_goal_state_differs_in_its_position_only():
    moved = with_position(SPEC, OBS, jnp.array([[50.0, 60.0], [70.0, 80.0]]))
    np.testing.assert_array_equal(moved, [[3.0, 50.0, 11.0, 60.0], [0.0, 70.0, 3.0, 80.0]])


# --- the focus of a world ---------------------------------------------------------------------------------------------

FOCUSED = dataclasses.replace(SPEC, groups=Groups(position=(1, 3), thing=(3, 1, 0)), focus="thing")
RAW = dataclasses.replace(FOCUSED, raw_focus=True)


def test_a_method_sees_the_focus_of_a_world_normalised_or_raw():
    np.testing.assert_allclose(View(FOCUSED).for_method(OBS), SEEN[:, [3, 1, 0]])
    np.testing.assert_array_equal(View(RAW).for_method(OBS), OBS[:, jnp.array([3, 1, 0])])
    np.testing.assert_array_equal(View(RAW, "o").for_method(OBS), OBS[:, jnp.array([3, 1, 0])])
    assert View(RAW).method_dim == 3 and View(RAW).places((1, 3)) == (1, 0)
    for variant in ("xy", "xyo"):  # the prior is what it was
        np.testing.assert_allclose(View(RAW, variant).for_method(OBS), SEEN[:, [1, 3]])
    np.testing.assert_allclose(View(RAW).for_policy(OBS), SEEN)


def test_groups_that_a_method_asks_for_come_raw_and_in_order_whatever_the_focus():
    for spec, variant in ((SPEC, ""), (FOCUSED, "xy")):
        groups = Groups(position=(1, 3), first=(2,), second=(0, 1))
        view = View(dataclasses.replace(spec, groups=groups, focus=""), variant, sees=("second", "first"))
        np.testing.assert_array_equal(view.for_method(OBS), OBS[:, jnp.array([0, 1, 2])])


def test_changes_of_a_raw_focus_are_not_scaled():
    batch = random_batch(jax.random.key(0), ContinuousSkills(2), obs_dim=4)
    seen = View(RAW).transition_for_method(batch._replace(drift=batch.obs))
    np.testing.assert_allclose(seen.drift, batch.obs[:, jnp.array([3, 1, 0])])


def test_a_goal_is_a_position_or_all_of_the_focus():
    position = with_position(RAW, OBS, jnp.array([[50.0, 60.0], [70.0, 80.0]]))
    np.testing.assert_array_equal(position, [[3.0, 50.0, 11.0, 60.0], [0.0, 70.0, 3.0, 80.0]])
    whole = with_position(RAW, OBS, jnp.array([[50.0, 60.0, 7.0], [70.0, 80.0, 9.0]]))
    np.testing.assert_array_equal(whole, [[7.0, 60.0, 11.0, 50.0], [9.0, 80.0, 3.0, 70.0]])
    with pytest.raises(UserError, match="a goal of probe is 2 or 3 numbers, not 4"):
        with_position(RAW, OBS, OBS)
