"""The 24 cells of the ablation grid: each by its formula, some by the methods they are, and what they learn."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wanderlust import train
from wanderlust.config import MethodConfig, SkillConfig
from wanderlust.envs.spec import Transition
from wanderlust.errors import UserError
from wanderlust.evaluation.metrics import coverage
from wanderlust.methods import make_method
from wanderlust.methods.ablation import FORMS, USES, Ablation, AblationConfig
from wanderlust.methods.diayn import Diayn
from wanderlust.methods.lsd import Lsd, LsdState
from wanderlust.methods.skills import ContinuousSkills, DiscreteSkills
from wanderlust.recipes import get_recipe
from wanderlust.rl.nets import MLP, ROUNDING, Linear, measure_spectral

PAIRS = list(itertools.product(FORMS, USES))
CELLS = list(itertools.product(FORMS, USES, (True, False)))
SIZES = {"hidden": (16, 16), "learning_rate": 1e-3}


def cell(form, states, spectral, **changes):
    return Ablation(AblationConfig(form=form, states=states, spectral=spectral, **SIZES | changes), ContinuousSkills(2))


def linear(weight, bias):
    return MLP((Linear(jnp.array(weight), jnp.array(bias)),), jax.nn.relu)


def state_of(encoder):
    return LsdState(encoder, measure_spectral(encoder), ())


def transitions(obs, next_obs, skill):
    obs, next_obs, skill = (jnp.array(x, jnp.float32) for x in (obs, next_obs, skill))
    no = jnp.zeros(len(obs), bool)
    return Transition(obs, jnp.zeros((len(obs), 1)), next_obs, skill, no, no)


def random_batch(seed, obs_dim=3, count=64):
    a, b, c = np.random.default_rng(seed).normal(size=(3, count, obs_dim))
    return transitions(a, a + b, c[:, :2])


def assert_same(ours, theirs):
    """Bit for bit, array by array."""
    ours, theirs = jax.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


# --- rewards by hand ------------------------------------------------------------------------------------------------


def test_there_are_three_forms_and_four_uses_of_states():
    assert len(CELLS) == 24
    fields = AblationConfig.__dataclass_fields__
    assert set(FORMS) == set(fields["form"].type.__args__)
    assert set(USES) == set(fields["states"].type.__args__)


# phi(s) = (4 s_1, 2 s_2) + (1, -1), at s = (1, 1) and s' = (2, 1/2), for z = (3, 4):
# phi(s) = (5, 1), phi(s') = (9, 0), phi(s' - s) = phi(1, -1/2) = (5, -2), phi(s') - phi(s) = (4, -1)
BY_HAND = {
    ("normal", "state"): -(2**2 + 3**2) / 2,
    ("normal", "next-state"): -(6**2 + 4**2) / 2,
    ("normal", "change"): -(2**2 + 6**2) / 2,
    ("normal", "step"): -(1**2 + 5**2) / 2,
    ("von-mises-fisher", "state"): 19 / (26**0.5 * 5),
    ("von-mises-fisher", "next-state"): 3 / 5,
    ("von-mises-fisher", "change"): 7 / (29**0.5 * 5),
    ("von-mises-fisher", "step"): 8 / (17**0.5 * 5),
    ("inner-product", "state"): 19,
    ("inner-product", "next-state"): 27,
    ("inner-product", "change"): 7,
    ("inner-product", "step"): 8,
}


@pytest.mark.parametrize(("form", "states"), PAIRS)
def test_reward_by_hand_without_the_constraint(form, states):
    state = state_of(linear([[4.0, 0.0], [0.0, 2.0]], [1.0, -1.0]))
    batch = transitions([[1.0, 1.0]], [[2.0, 0.5]], [[3.0, 4.0]])
    reward = cell(form, states, spectral=False).reward(state, batch)
    np.testing.assert_allclose(reward, [BY_HAND[form, states]], rtol=1e-6)


@pytest.mark.parametrize(("form", "states"), PAIRS)
def test_under_the_constraint_the_reward_is_that_of_the_normalised_network(form, states):
    """The largest singular value of diag(4, 2) is 4; biases are not divided."""
    batch = random_batch(0, obs_dim=2)
    constrained = cell(form, states, spectral=True).reward(
        state_of(linear([[4.0, 0.0], [0.0, 2.0]], [1.0, -1.0])), batch
    )
    n = 1.0 + ROUNDING
    divided = cell(form, states, spectral=False).reward(
        state_of(linear([[1.0 / n, 0.0], [0.0, 0.5 / n]], [1.0, -1.0])), batch
    )
    np.testing.assert_allclose(constrained, divided, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("states", USES)
def test_each_use_reads_its_states_and_no_others(states):
    method = cell("inner-product", states, spectral=False)
    state, batch = method.init(jax.random.key(0), 3), random_batch(1)
    moved = (
        batch._replace(obs=batch.obs + 1.0),
        batch._replace(next_obs=batch.next_obs + 1.0),
        batch._replace(obs=batch.obs + 1.0, next_obs=batch.next_obs + 1.0),
    )
    here, *elsewhere = (method.reward(state, b) for b in (batch, *moved))
    changed = [not np.allclose(here, there, rtol=1e-3, atol=1e-4) for there in elsewhere]
    assert (
        changed
        == {
            "state": [True, False, True],
            "next-state": [False, True, True],
            "change": [True, True, False],
            "step": [True, True, True],
        }[states]
    )


# --- loss and update --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learned():
    """Of every cell: the mean reward of a batch before and after twenty updates on it, and the loss of each."""
    batch = random_batch(2)

    def learn(choice, key):
        method = cell(*choice, hidden=(16,), learning_rate=3e-4)
        state = method.init(key, 3)
        last, losses = jax.lax.scan(lambda s, _: method.update(s, batch), state, length=20)
        return *(jnp.mean(method.reward(s, batch)) for s in (state, last)), losses["phi_loss"]

    found = jax.jit(lambda key: [learn(choice, key) for choice in CELLS])(jax.random.key(0))
    return dict(zip(CELLS, found, strict=True))


@pytest.mark.parametrize("choice", CELLS)
def test_phi_maximises_the_reward_in_every_cell(learned, choice):
    first, last, losses = learned[choice]
    assert first < last
    assert losses[0] == pytest.approx(-float(first), rel=1e-4)  # of the state before the update
    assert np.all(np.diff(losses) < 0)


def test_the_gradient_of_the_cosine_turns_phi_and_does_not_stretch_it():
    """d cos(x, z) / dx = (z / |z| - cos x / |x|) / |x|, which is orthogonal to x; here x is the bias."""
    method = cell("von-mises-fisher", "next-state", spectral=False)
    encoder = linear([[0.0, 0.0], [0.0, 0.0]], [3.0, 4.0])
    batch = transitions([[7.0, 7.0]], [[8.0, 8.0]], [[0.0, -2.0]])
    grad = jax.grad(method.loss)(encoder, batch).layers[0].bias
    cosine = -4.0 / 5.0
    expected = -(np.array([0.0, -1.0]) - cosine * np.array([0.6, 0.8])) / 5.0
    np.testing.assert_allclose(grad, expected, rtol=1e-5)
    assert float(grad @ jnp.array([3.0, 4.0])) == pytest.approx(0.0, abs=1e-6)


def test_a_body_that_stands_still_gives_no_direction_and_no_broken_gradient():
    method = cell("von-mises-fisher", "step", spectral=False)
    state = method.init(jax.random.key(0), 3)
    obs = np.ones((4, 3))
    batch = transitions(obs, obs, np.ones((4, 2)))
    np.testing.assert_array_equal(method.reward(state, batch), np.zeros(4))
    after, _ = jax.jit(method.update)(state, batch)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(after))


def test_phi_stretches_nothing_under_the_constraint_and_only_then():
    """Inner products ask for ever larger steps: what the constraint is there for."""
    batch = random_batch(3)
    for spectral in (True, False):
        method = cell("inner-product", "step", spectral, hidden=(16,), learning_rate=1e-2)

        @jax.jit
        def stretch(key, method=method):
            state = jax.lax.fori_loop(0, 200, lambda _, s: method.update(s, batch)[0], method.init(key, 3))
            step = method.represent(state, batch.next_obs) - method.represent(state, batch.obs)
            length = jnp.linalg.norm(batch.next_obs - batch.obs, axis=1)
            return jnp.max(jnp.linalg.norm(step, axis=1) / length)

        worst = float(stretch(jax.random.key(0)))
        assert 0.5 < worst <= 1.0 + 1e-5 if spectral else worst > 10.0


# --- the cells that have a name -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "theirs", "ours"),
    [("lsd", Lsd, ("inner-product", "step", True)), ("diayn", Diayn, ("normal", "next-state", False))],
)
def test_a_cell_with_a_name_is_that_method_bit_for_bit(name, theirs, ours):
    method, named = cell(*ours), theirs(MethodConfig(name, **SIZES), ContinuousSkills(2))
    batch, goal = random_batch(4), random_batch(5).obs

    def seen(method):
        def go(key):
            state = method.init(key, 3)
            first = (method.reward(state, batch), method.represent(state, batch.obs))
            state, metrics = jax.lax.scan(lambda s, _: method.update(s, batch), state, length=3)
            return state, metrics, first, method.towards(state, batch.obs, goal)

        return jax.jit(go)(jax.random.key(7))

    mine, its = seen(method), seen(named)
    assert_same(mine, its)
    assert mine[1].keys() == its[1].keys() == {"phi_loss"}


def test_visr_is_the_cosine_of_phi_at_the_current_state_and_the_skill():
    method = cell("von-mises-fisher", "state", spectral=False)
    state, batch = method.init(jax.random.key(0), 3), random_batch(6)
    phi, z = np.asarray(method.represent(state, batch.obs), np.float64), np.asarray(batch.skill, np.float64)
    cosine = np.sum(phi * z, axis=1) / (np.linalg.norm(phi, axis=1) * np.linalg.norm(z, axis=1))
    np.testing.assert_allclose(method.reward(state, batch), cosine, rtol=1e-4, atol=1e-5)
    longer = method.reward(state, batch._replace(skill=5.0 * batch.skill))
    np.testing.assert_allclose(longer, cosine, rtol=1e-4, atol=1e-5)


# --- a world with a known optimum -----------------------------------------------------------------------------------

SHARE = 0.1


@pytest.mark.parametrize("spectral", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_the_optimum_where_skills_are_small_states(form, spectral):
    """Skill z leads to s' = z / 10. A phi that may not stretch says s' at best, and one that may says z itself.

    Normal form: -0.9^2 E|z|^2 / 2 under the constraint, 0 without. Inner product: E|z|^2 / 10, or without bound. The
    cosine is 1 either way: directions need no lengths.
    """
    z = np.random.default_rng(0).normal(size=(128, 2))
    z = np.concatenate([z, -z])  # their mean is 0, so that a bias earns nothing
    batch = transitions(np.zeros((256, 2)), SHARE * z, z)
    method = cell(form, "next-state", spectral, hidden=(64,), learning_rate=1e-2)

    @jax.jit
    def learn(key):
        state = jax.lax.fori_loop(0, 600, lambda _, s: method.update(s, batch)[0], method.init(key, 2))
        return jnp.mean(method.reward(state, batch))

    reached = float(learn(jax.random.key(1)))
    size = np.mean(np.sum(z**2, axis=1))
    if form == "von-mises-fisher":
        assert 0.97 < reached <= 1.0 + 1e-6
    elif form == "normal":
        bound = -0.5 * (1 - SHARE) ** 2 * size if spectral else 0.0
        assert bound - 0.05 * size < reached <= bound + 0.01 * size
    elif spectral:
        assert 0.6 * SHARE * size < reached <= 1.01 * SHARE * size
    else:
        assert reached > 100 * size


# --- downstream -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("form", "states"), PAIRS)
def test_the_skill_towards_a_goal(form, states):
    """phi(s) = s + (1, 0): at the goal (3, 4) it says (4, 4); the way there from (3, 1) is (0, 3) long."""
    state = state_of(linear([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0]))
    obs, goal = jnp.array([[3.0, 1.0]]), jnp.array([[3.0, 4.0]])
    skill = cell(form, states, spectral=False).towards(state, obs, goal)
    said = {"state": [4.0, 4.0], "next-state": [4.0, 4.0], "change": [1.0, 3.0], "step": [0.0, 3.0]}[states]
    if form == "normal" and states in ("state", "next-state"):
        np.testing.assert_allclose(skill, [said], rtol=1e-6)
    else:
        expected = ContinuousSkills(2).expected_norm * np.array([said]) / np.linalg.norm(said)
        np.testing.assert_allclose(skill, expected, rtol=1e-5, atol=1e-6)


def test_discrete_skills_are_refused_in_one_line(command_line, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"takes continuous skills, not discrete ones; leave --discrete out") as caught:
        make_method(AblationConfig(**SIZES), DiscreteSkills(4))
    assert "\n" not in str(caught.value)
    monkeypatch.chdir(tmp_path)
    code, _, err = command_line("discover", "point", "--method", "ablation", "--discrete", 4)
    assert (code, err) == (2, f"wanderlust: {caught.value}\n")
    assert list(tmp_path.iterdir()) == []


# --- PointEnv -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def on_point():
    """Coverage of 100 skills after 100 epochs: the cell that is LSD, and "DIAYN with SN"."""

    def covered(**choice):
        config = get_recipe("laptop", "point", "ablation", SkillConfig())
        config = dataclasses.replace(
            config,
            method=dataclasses.replace(config.method, hidden=(32, 32), **choice),
            sac=dataclasses.replace(config.sac, hidden=(32, 32)),
        )
        parts = train.assemble(config)
        state, _ = train.make_driver(parts)(train.init(parts), 100)
        return coverage(np.asarray(train.make_probe(parts, 100)(state.learner.sac.policy).obs))

    return covered(), covered(form="normal", states="next-state")


def test_lsd_covers_the_plane_and_diayn_under_the_same_constraint_does_not(on_point):
    """The paper's point about "DIAYN with SN": the constraint alone does not make skills travel."""
    lsd, diayn = on_point
    assert lsd > 200 > 100 > diayn
