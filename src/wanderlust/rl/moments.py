"""Running mean and variance of the entries of a vector, by which networks see what they are given."""

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class Moments(NamedTuple):
    """Mean and variance of each entry."""

    mean: Float[Array, "*entries"]
    variance: Float[Array, "*entries"]

    def normalise(
        self, x: Float[Array, "*batch"], in_root: float = 0.0, on_root: float = 0.0
    ) -> Float[Array, "*batch"]:
        """Subtract the mean and divide by the standard deviation, with a number added in or on its root."""
        return (x - _leading(self.mean, x)) / _leading(self._deviation(in_root, on_root), x)

    def restore(self, x: Float[Array, "*batch"], in_root: float = 0.0) -> Float[Array, "*batch"]:
        """The reverse of `normalise`."""
        return _leading(self.mean, x) + _leading(self._deviation(in_root), x) * x

    def merge(
        self,
        new: "Moments",
        share: float | Float[Array, ""],
        keep: float | Float[Array, ""] | None = None,
        spread: Literal["old", "new"] | None = "old",
    ) -> "Moments":
        """The moments of a mixture: `share` of the new and `keep` of these, 1 - share by default.

        The distance between the two means is part of the variance. `spread` says to which of the two variances it is
        added first, which differs by rounding alone; None leaves it out.
        """
        keep = 1.0 - share if keep is None else keep
        shift, old_variance, new_variance = new.mean - self.mean, self.variance, new.variance
        if spread == "old":
            old_variance = old_variance + share * shift**2
        if spread == "new":
            new_variance = new_variance + keep * shift**2
        mean = self.mean + share * shift if spread else keep * self.mean + share * new.mean
        return Moments(mean, keep * old_variance + share * new_variance)

    def _deviation(self, in_root: float = 0.0, on_root: float = 0.0) -> Float[Array, "*entries"]:
        deviation = jnp.sqrt(self.variance + in_root if in_root else self.variance)
        return deviation + on_root if on_root else deviation


def unit_moments(size: int) -> Moments:
    """Mean 0 and variance 1: before anything is seen."""
    return Moments(jnp.zeros(size), jnp.ones(size))


def moments_of(
    x: Float[Array, "*batch"], valid: Bool[Array, "*rows"] | None = None, divide_last: bool = False
) -> Moments:
    """The moments of the rows of a batch, or of its valid rows.

    Each valid row is divided by their number and then summed; or, which differs by rounding, the sum is divided.
    """
    if valid is None:
        return Moments(jnp.mean(x, axis=0), jnp.var(x, axis=0))
    rows, there, count = tuple(range(valid.ndim)), valid[..., None], jnp.maximum(jnp.sum(valid), 1)

    def mean_of(y: Array) -> Array:
        if divide_last:
            return jnp.sum(jnp.where(there, y, 0.0), axis=rows) / count
        return jnp.sum(there / count * y, axis=rows)

    mean = mean_of(x)
    return Moments(mean, mean_of((x - _leading(mean, x)) ** 2))


def _leading(entries: Float[Array, "*entries"], x: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """The entries with the leading axes of a batch."""
    return entries.reshape((1,) * (x.ndim - entries.ndim) + entries.shape)
