"""Pure measures over NumPy arrays."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats


def coverage(positions: NDArray[np.floating], bin_size: float = 1.0) -> int:
    """How many bins of the plane (or line) any of the positions [..., dims] falls into; bins align at zero."""
    flat = positions.reshape(-1, positions.shape[-1])
    return len(np.unique(np.floor(flat / bin_size), axis=0))


def travelled(obs: NDArray[np.floating], std: NDArray[np.floating]) -> NDArray[np.floating]:
    """||s_T - s_0|| of each episode, in normalised units; obs is [time, episodes, dims]."""
    return np.linalg.norm((obs[-1] - obs[0]) / std, axis=-1)


def alignment(steps: NDArray[np.floating], codes: NDArray[np.floating]) -> float:
    """Mean cosine between phi(s_T) - phi(s_0) and the skill's code: 1 when skills move along their own direction."""
    norms = np.linalg.norm(steps, axis=-1) * np.linalg.norm(codes, axis=-1)
    return float(np.mean(np.sum(steps * codes, axis=-1) / np.maximum(norms, 1e-12)))


class Summary(NamedTuple):
    """A mean over seeds with its spread."""

    mean: float
    standard_error: float
    ci95: float
    """Half the width of the 95% confidence interval (Student's t); infinite for one seed."""
    seeds: int


def summarise(values: NDArray[np.floating] | list[float]) -> Summary:
    """Mean, standard error and 95% confidence interval of one value per seed."""
    x = np.asarray(values, dtype=np.float64)
    if len(x) < 2:
        return Summary(float(x.mean()), math.inf, math.inf, len(x))
    error = float(x.std(ddof=1) / math.sqrt(len(x)))
    return Summary(float(x.mean()), error, float(stats.t.ppf(0.975, len(x) - 1)) * error, len(x))
