"""Running moments: of a batch, of its valid rows, and of mixtures."""

import jax.numpy as jnp
import numpy as np
import pytest

from wanderlust.rl.moments import Moments, moments_of, unit_moments

X = np.random.default_rng(0).normal(3.0, 2.0, (6, 5, 2)).astype(np.float32)
VALID = np.random.default_rng(1).random((6, 5)) < 0.6


@pytest.mark.parametrize("divide_last", [False, True])
def test_gaps_do_not_count(divide_last):
    got = moments_of(jnp.where(VALID[..., None], X, 1e6), jnp.asarray(VALID), divide_last)
    np.testing.assert_allclose(got.mean, X[VALID].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(got.variance, X[VALID].var(axis=0), rtol=1e-4)
    empty = moments_of(jnp.asarray(X), jnp.zeros((6, 5), bool), divide_last)
    assert not np.any(empty.mean) and not np.any(empty.variance)


@pytest.mark.parametrize("spread", ["old", "new"])
def test_a_merge_has_the_moments_of_both_samples_together(spread):
    one, other = X[:2].reshape(-1, 2), X[2:].reshape(-1, 2) + 5.0
    share = len(other) / (len(one) + len(other))
    got = moments_of(jnp.asarray(one)).merge(moments_of(jnp.asarray(other)), share, spread=spread)
    both = np.concatenate([one, other])
    np.testing.assert_allclose(got.mean, both.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(got.variance, both.var(axis=0), rtol=1e-5)


def test_without_spread_variances_are_averaged():
    got = Moments(jnp.zeros(()), jnp.ones(())).merge(Moments(jnp.full((), 4.0), jnp.full((), 3.0)), 0.25, spread=None)
    assert (float(got.mean), float(got.variance)) == (1.0, 1.5)


def test_what_is_normalised_can_be_restored():
    moments = Moments(jnp.array([1.0, -2.0]), jnp.array([4.0, 0.0]))
    for x in (jnp.asarray(X[0, 0]), jnp.asarray(X[0]), jnp.asarray(X)):
        normalised = moments.normalise(x, in_root=1e-4)
        np.testing.assert_allclose(normalised[..., 0], (x[..., 0] - 1) / 2, rtol=1e-4)
        np.testing.assert_allclose(moments.restore(normalised, in_root=1e-4), x, rtol=1e-5)
        np.testing.assert_allclose(moments.normalise(x, on_root=0.5)[..., 1], (x[..., 1] + 2) / 0.5, rtol=1e-5)
        np.testing.assert_array_equal(unit_moments(2).normalise(x), x)
