import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from wanderlust.config import SkillConfig
from wanderlust.methods.skills import BoxSkills, ContinuousSkills, DiscreteSkills, make_skills

COUNT = 20_000


def draw(skills, count=COUNT):
    return np.asarray(jax.jit(jax.vmap(skills.sample))(jax.random.split(jax.random.key(0), count)))


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_expected_norm_is_the_mean_of_the_chi_distribution(dim):
    numeric, _ = integrate.quad(lambda r: r * stats.chi(dim).pdf(r), 0, 40)
    assert ContinuousSkills(dim).expected_norm == pytest.approx(numeric, rel=1e-9)


def test_expected_norm_in_the_plane():
    assert ContinuousSkills(2).expected_norm == pytest.approx(1.2533, abs=5e-5)


@pytest.mark.parametrize("dim", [1, 3])
def test_continuous_skills_are_standard_normal(dim):
    z = draw(ContinuousSkills(dim))
    assert z.shape == (COUNT, dim)
    for column in z.T:
        assert stats.kstest(column, "norm").pvalue > 1e-3
    np.testing.assert_allclose(np.cov(z.T).reshape(dim, dim), np.eye(dim), atol=0.05)
    assert np.linalg.norm(z, axis=1).mean() == pytest.approx(ContinuousSkills(dim).expected_norm, abs=0.02)


def test_the_code_of_a_continuous_skill_is_the_skill():
    z = draw(ContinuousSkills(3), 5)
    np.testing.assert_array_equal(jax.vmap(ContinuousSkills(3).code)(z), z)


@pytest.mark.parametrize("count", [2, 3, 16])
def test_discrete_skills_are_one_hot_and_equally_likely(count):
    z = draw(DiscreteSkills(count))
    assert z.shape == (COUNT, count)
    assert set(np.unique(z)) == {0.0, 1.0}
    np.testing.assert_array_equal(z.sum(axis=1), 1.0)
    assert stats.chisquare(z.sum(axis=0)).pvalue > 1e-3


@pytest.mark.parametrize("count", [2, 3, 6, 16])
def test_codes_are_one_at_the_skill_and_negative_elsewhere_with_mean_zero(count):
    skills = DiscreteSkills(count)
    codes = np.asarray(jax.vmap(skills.code)(skills.all()))
    expected = np.where(np.eye(count) == 1, 1.0, -1.0 / (count - 1))
    np.testing.assert_allclose(codes, expected, rtol=1e-6)
    np.testing.assert_allclose(codes.mean(axis=0), 0.0, atol=1e-7)
    np.testing.assert_allclose(codes.mean(axis=1), 0.0, atol=1e-7)


def test_all_lists_every_skill_once():
    np.testing.assert_array_equal(DiscreteSkills(4).all(), np.eye(4))


@pytest.mark.parametrize(
    ("skills", "is_skill"),
    [
        (ContinuousSkills(2), lambda z: True),
        (ContinuousSkills(3, unit_length=True), lambda z: np.isclose(np.linalg.norm(z), 1.0)),
        (DiscreteSkills(3), lambda z: sorted(z) == [0.0, 0.0, 1.0]),
        (BoxSkills(2), lambda z: np.all(np.abs(z) <= 1.0)),
    ],
)
def test_no_skill_is_nearer_to_a_vector_than_the_nearest(skills, is_skill):
    drawn, nearest = draw(skills, 500), jax.jit(jax.vmap(skills.nearest))
    vectors = np.random.default_rng(0).uniform(-2, 2, (200, skills.size)).astype(np.float32)
    found = np.asarray(nearest(vectors))
    assert all(is_skill(z) for z in found)
    away = np.linalg.norm(vectors - found, axis=1)
    assert np.all(away[:, None] <= np.linalg.norm(vectors[:, None] - drawn[None], axis=2) + 1e-6)
    np.testing.assert_allclose(nearest(drawn), drawn, atol=1e-6)


def test_the_nearest_direction_has_length_one_wherever_the_vector_ends():
    nearest = jax.jit(jax.vmap(ContinuousSkills(2, unit_length=True).nearest))
    extreme = np.array([[3e19, 4e19], [3e-30, -4e-30], [np.nan, 0.0]], np.float32)
    np.testing.assert_allclose(nearest(extreme), [[0.6, 0.8], [0.6, -0.8], [np.nan, np.nan]], rtol=1e-6)
    vectors = jnp.array([[1.2, -1.6], [0.03, -0.04], [-2.0, 0.0], [1e-30, 1e-30], [0.0, 0.0]])
    found = np.asarray(nearest(vectors))
    np.testing.assert_allclose(found[:3], [[0.6, -0.8], [0.6, -0.8], [-1.0, 0.0]], rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-6)  # 0 has no direction, and gets one


def test_make_skills_gives_what_the_configuration_says():
    assert make_skills(SkillConfig("continuous", 3)) == ContinuousSkills(3)
    assert make_skills(SkillConfig("discrete", 6)) == DiscreteSkills(6)
    assert make_skills(SkillConfig("discrete", 6)).size == 6
