"""Learned skills from Python: shapes, agreement with the networks on disk, discrete skills by number, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wanderlust
from helpers import tiny_config
from trained import trained
from wanderlust import train
from wanderlust.errors import UserError
from wanderlust.runs.files import ArrayFile
from wanderlust.runs.learned import Learned, of_seed
from wanderlust.runs.loading import Skills


@pytest.fixture(scope="module")
def skills() -> Skills:
    return wanderlust.load(trained())


@pytest.fixture(scope="module")
def discrete() -> Skills:
    return wanderlust.load(trained(discrete=4))


OBS = np.array([[0.0, 0.0], [3.0, -2.0], [-7.5, 20.0]])
Z = np.array([[1.0, 0.5], [-0.3, 2.0], [0.0, -1.0]])


def weights(run: wanderlust.Run, name: str, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """The layers of a network as they stand in the checkpoint."""
    file = ArrayFile(run.checkpoints()[4])
    layers = range(3)
    return [tuple(file.read(f"learner/{name}/layers/{i}/{part}")[seed] for part in ("weight", "bias")) for i in layers]


def test_a_run_can_be_given_as_a_run_a_path_or_text():
    run = trained()
    for form in (run, run.path, str(run.path)):
        np.testing.assert_array_equal(wanderlust.load(form).act(OBS, Z), wanderlust.load(run).act(OBS, Z))


def test_actions_are_the_policy_s(skills):
    """The network by hand: normalised observation and skill side by side, two tanh layers, tanh of the mean."""
    x = np.concatenate([OBS / np.array(skills.spec.obs_std), Z], axis=1)
    (w0, b0), (w1, b1), (w2, b2) = weights(trained(), "sac/policy/mlp")
    mean = (np.tanh(np.tanh(x @ w0 + b0) @ w1 + b1) @ w2 + b2)[:, :2]
    np.testing.assert_allclose(skills.act(OBS, Z), np.tanh(mean), atol=1e-5)


def test_phi_is_the_normalised_network(skills):
    """By hand: every layer of the encoder divided by its norm, which is the largest singular value or just above."""
    layers = weights(trained(), "method/encoder")
    file = ArrayFile(trained().checkpoints()[4])
    x = OBS / np.array(skills.spec.obs_std)
    for i, (w, b) in enumerate(layers):
        norm = file.read(f"learner/method/spectral/norm/{i}")[0]
        assert np.linalg.norm(w, 2) < norm < 1.01 * np.linalg.norm(w, 2)
        x = x @ (w / norm) + b
        x = np.maximum(x, 0) if i < 2 else x
    np.testing.assert_allclose(skills.phi(OBS), x, rtol=1e-5, atol=1e-5)


def test_the_skill_towards_a_goal_is_the_direction_on_the_map(skills):
    goal = np.array([[5.0, 5.0], [0.0, 1.0], [-1.0, 0.0]])
    direction = skills.phi(goal) - skills.phi(OBS)
    expected = np.sqrt(np.pi / 2) * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    np.testing.assert_allclose(skills.towards(OBS, goal), expected, atol=1e-4)


def test_one_example_or_a_batch(skills):
    assert skills.act(OBS, Z).shape == (3, 2)
    assert skills.phi(OBS).shape == (3, 2)
    assert skills.towards(OBS, OBS + 1).shape == (3, 2)
    for i in range(3):
        assert skills.act(OBS[i], Z[i]).shape == skills.phi(OBS[i]).shape == (2,)
        np.testing.assert_allclose(skills.act(OBS[i], Z[i]), skills.act(OBS, Z)[i], atol=1e-6)
        np.testing.assert_allclose(skills.phi(OBS[i]), skills.phi(OBS)[i], atol=1e-6)
        np.testing.assert_allclose(skills.towards(OBS[i], [9, 9]), skills.towards(OBS, [9, 9])[i], atol=1e-5)
    np.testing.assert_allclose(skills.act(OBS, Z[1]), skills.act(OBS, np.tile(Z[1], (3, 1))), atol=1e-6)
    assert skills.act([0, 0], [1, 0]).dtype == np.float32  # lists and whole numbers will do
    assert isinstance(skills.act([0, 0], [1, 0]), np.ndarray)


def test_actions_are_repeatable_and_within_bounds(skills):
    far = 1e6 * np.ones((3, 2))
    assert np.all(np.abs(skills.act(far, Z)) <= 1)
    np.testing.assert_array_equal(skills.act(OBS, Z), skills.act(OBS, Z))
    np.testing.assert_array_equal(skills.act(OBS, Z, seed=3), skills.act(OBS, Z, seed=3))
    assert np.all(np.abs(skills.act(OBS, Z, seed=3)) <= 1)
    assert not np.allclose(skills.act(OBS, Z, seed=3), skills.act(OBS, Z, seed=4))
    assert not np.allclose(skills.act(OBS, Z, seed=3), skills.act(OBS, Z))


def test_sampled_actions_spread_around_the_mode(skills):
    many = skills.act(np.zeros((4000, 2)), Z[0], seed=0)
    mode = skills.act(np.zeros(2), Z[0])
    assert many.std() > 0.3  # a policy that has hardly learned is wide
    np.testing.assert_allclose(np.median(many, axis=0), mode, atol=0.1)  # tanh keeps the median


def test_skills_are_drawn_from_the_prior(skills, discrete):
    z = skills.sample(5000, seed=1)
    assert z.shape == (5000, 2)
    assert z.dtype == np.float32
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=0.06)
    np.testing.assert_allclose(np.cov(z.T), np.eye(2), atol=0.1)
    np.testing.assert_array_equal(skills.sample(5), skills.sample(5, seed=0))
    assert not np.array_equal(skills.sample(5), skills.sample(5, seed=1))
    ones = discrete.sample(2000)
    assert ones.shape == (2000, 4)
    assert set(ones.ravel()) == {0.0, 1.0}
    np.testing.assert_array_equal(ones.sum(axis=1), 1)
    np.testing.assert_allclose(ones.mean(axis=0), 0.25, atol=0.05)


def test_the_nearest_skills_to_any_vectors(skills, discrete):
    np.testing.assert_array_equal(skills.nearest(Z), Z.astype(np.float32))  # normal skills are of any length
    np.testing.assert_array_equal(discrete.nearest([0.1, -3.0, 0.4, 0.2]), [0, 0, 1, 0])
    directions = train.assemble(tiny_config("metra", skills_unit_length=True))
    state = train.init(directions).learner
    found = Skills(directions, of_seed(Learned(state.sac.policy, state.method), 0)).nearest(Z)
    np.testing.assert_allclose(found, Z / np.linalg.norm(Z, axis=1, keepdims=True), rtol=1e-5)
    with pytest.raises(UserError, match=r"z has shape \(3,\); it must be \(2,\) or \(n, 2\)"):
        skills.nearest([1, 2, 3])


def test_a_discrete_skill_by_number_is_its_one_hot(discrete):
    assert discrete.skill_dim == 4
    eye = np.eye(4)
    for k in range(4):
        np.testing.assert_array_equal(discrete.act(OBS, k), discrete.act(OBS, eye[k]))
        np.testing.assert_array_equal(discrete.act(OBS[0], np.int64(k)), discrete.act(OBS[0], eye[k]))
    assert len({discrete.act(OBS[1], k).tobytes() for k in range(4)}) == 4
    assert discrete.act(OBS, eye[[0, 1, 2]]).shape == (3, 2)


def test_the_discrete_skill_towards_a_goal_is_the_one_whose_code_points_there_best(discrete):
    rng = np.random.default_rng(0)
    obs, goal = rng.normal(size=(2, 50, 2)) * 10
    codes = np.where(np.eye(4) == 1, 1.0, -1 / 3)
    best = np.argmax((discrete.phi(goal) - discrete.phi(obs)) @ codes.T, axis=1)
    chosen = discrete.towards(obs, goal)
    np.testing.assert_array_equal(chosen, np.eye(4)[best])
    assert len(set(best)) > 1


def test_diayn_goes_by_the_goal_alone():
    skills = wanderlust.load(trained("diayn"))
    goal = np.array([4.0, -1.0])
    np.testing.assert_allclose(skills.towards(OBS, goal), np.tile(skills.phi(goal), (3, 1)), atol=1e-6)


def test_seeds_of_a_run_are_counted_from_zero():
    run = trained(seeds=3)
    actions = [wanderlust.load(run, seed=k).act(OBS, Z) for k in range(3)]
    assert len({a.tobytes() for a in actions}) == 3
    for k in range(3):
        layers = weights(run, "sac/policy/mlp", seed=k)
        x = np.concatenate([OBS / np.array(wanderlust.load(run).spec.obs_std), Z], axis=1)
        x = np.tanh(np.tanh(x @ layers[0][0] + layers[0][1]) @ layers[1][0] + layers[1][1])
        np.testing.assert_allclose(actions[k], np.tanh(x @ layers[2][0] + layers[2][1])[:, :2], atol=1e-5)
    for seed in (3, -1):
        with pytest.raises(UserError, match=f"no seed {seed}; it has 3"):
            wanderlust.load(run, seed=seed)


def test_loading_reads_what_training_left():
    parts = train.assemble(trained().config)
    _, state = trained().load(train.saved_form(parts))
    policy = jax.tree.map(lambda x: x[0], state.learner.sac.policy)
    by_hand = jax.vmap(policy)(parts.view.for_policy(jnp.asarray(OBS, jnp.float32)), jnp.asarray(Z, jnp.float32))
    np.testing.assert_allclose(wanderlust.load(trained()).act(OBS, Z), by_hand.mode(), atol=1e-6)


def test_what_does_not_fit_is_one_line(skills, discrete):
    wrong = [
        (lambda: skills.act([0, 0, 0], [1, 0]), r"obs has shape \(3,\); it must be \(2,\) or \(n, 2\)"),
        (lambda: skills.act(0.0, [1, 0]), r"obs has shape \(\)"),
        (lambda: skills.act(np.zeros((2, 2, 2)), [1, 0]), r"obs has shape \(2, 2, 2\)"),
        (lambda: skills.act([0, 0], [1, 0, 0]), r"z has shape \(3,\); it must be \(2,\)"),
        (lambda: skills.act([0, 0], 1), r"z has shape \(\)"),
        (lambda: skills.phi([1]), r"obs has shape \(1,\)"),
        (lambda: skills.towards([0, 0], [1, 2, 3]), r"goal has shape \(3,\)"),
        (lambda: discrete.act([0, 0], 4), "there is no skill 4; this run has skills 0 to 3"),
        (lambda: discrete.act([0, 0], -1), "there is no skill -1"),
        (lambda: discrete.act([0, 0], [1, 0]), r"z has shape \(2,\)"),
        (lambda: skills.sample(0), "cannot sample 0 skills"),
        (lambda: skills.sample(-2), "cannot sample -2 skills"),
    ]
    for call, message in wrong:
        with pytest.raises(UserError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [1, 3])
def test_batches_of_different_sizes_are_one_line(skills, count):
    """Two skills for one or three observations: which belongs to which is not said."""
    for call in (skills.act, skills.towards):
        with pytest.raises(UserError) as caught:
            call(OBS[:count], Z[:2])
        assert "\n" not in str(caught.value)
        assert "2" in str(caught.value)
        assert str(count) in str(caught.value)
