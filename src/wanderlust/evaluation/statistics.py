"""What numbers of a few independent trainings say: bootstrap intervals, the interquartile mean, and what is ordered.

A seed is a training of its own; batches or episodes of one policy are none. SciPy's statistics take a while to import,
so they are when they are needed.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

RESAMPLES = 9999
CONFIDENCE = 0.95


class Spread(NamedTuple):
    """One measure over training seeds."""

    mean: float
    low: float
    """Ends of the 95% bootstrap interval of the mean; NaN for one seed."""
    high: float
    iqm: float
    """The mean of the middle half of the seeds; of all of them where there are fewer than four."""
    per_seed: tuple[float, ...]


def spread(values: Sequence[float]) -> Spread:
    """Mean, its bootstrap interval (percentiles of resampled means) and interquartile mean of one value per seed."""
    from scipy import stats

    x = np.asarray(values, dtype=np.float64)
    low, high = _interval((x,), np.mean) if len(x) > 1 else (math.nan, math.nan)
    return Spread(float(x.mean()), low, high, float(stats.trim_mean(x, 0.25)), tuple(x.tolist()))


class Difference(NamedTuple):
    """How much more one row reaches than another."""

    mean: float
    low: float
    high: float
    p: float
    """Of the permutation test, two-sided: how often seeds that are shuffled between the rows differ as much."""

    @property
    def ordered(self) -> bool:
        """Whether the seeds say which one is ahead: the interval excludes zero, and a shuffle seldom does as well.

        A bootstrap of few seeds is too sure of itself: the permutation test keeps three against three from any claim.
        """
        return (self.low > 0 or self.high < 0) and self.p < 1 - CONFIDENCE


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """The difference of the means of two rows, whose seeds are independent trainings."""
    from scipy import stats

    a, b = (np.asarray(x, dtype=np.float64) for x in (ours, theirs))
    mean = float(a.mean() - b.mean())
    if min(len(a), len(b)) < 2:
        return Difference(mean, math.nan, math.nan, 1.0)
    low, high = _interval((a, b), _difference_of_means)
    test = stats.permutation_test(
        (a, b), _difference_of_means, vectorized=True, n_resamples=RESAMPLES, rng=np.random.default_rng(0)
    )
    return Difference(mean, low, high, float(test.pvalue))


def orderings(rows: Mapping[str, Sequence[float]]) -> list[str]:
    """A sentence for each pair of rows that the seeds do order."""
    found = []
    for (one, ours), (other, theirs) in itertools.combinations(rows.items(), 2):
        gap = difference(ours, theirs)
        if gap.ordered:
            ahead, behind = (one, other) if gap.mean > 0 else (other, one)
            low, high = sorted((abs(gap.low), abs(gap.high)))
            found.append(f"{ahead} is ahead of {behind} by {abs(gap.mean):.4g} ({low:.4g} to {high:.4g})")
    return found


def _difference_of_means(x: Any, y: Any, axis: int = -1) -> Any:
    return np.mean(x, axis=axis) - np.mean(y, axis=axis)


def _interval(samples: tuple[Any, ...], statistic: Any) -> tuple[float, float]:
    from scipy import stats

    if all(np.ptp(sample) == 0 for sample in samples):  # nothing to resample
        same = float(statistic(*samples))
        return same, same
    found = stats.bootstrap(
        samples,
        statistic,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(found.low), float(found.high)
