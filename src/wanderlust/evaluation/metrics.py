"""Pure measures over NumPy arrays."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # scipy.stats takes most of a second to import

MEASURES = {
    "coverage_mode": "bins of 1 x 1 covered, mode actions",
    "coverage_sampled": "bins of 1 x 1 covered, sampled actions",
    "travelled": "‖s_T - s_0‖, normalised, mode actions",
    "distance": "distance from start to end on the plane, mode actions",
    "survived": "steps survived, mode actions",
    "survived_median": "steps survived, median, mode actions",
    "alignment": "cosine of phi(s_T) - phi(s_0) and z, mode actions",
    "coverage_unfallen": "bins covered while the object is not 5 cm lower than at first, mode actions",
    "lifted": "episodes that lift the object by more than 5 cm, mode actions",
    "held": "episodes that end with the object lifted so, mode actions",
    "highest": "metres by which the object is lifted at most, mode actions",
}
"""What an evaluation measures, by the names in evaluation.json."""


def meaning(name: str, side: float = 1.0, dims: int = 2) -> str:
    """What a measure means, where bins of the plane, or of a line, have a side of their own."""
    return MEASURES[name].replace("1 x 1", " x ".join([f"{side:g}"] * dims))


def coverage(positions: NDArray[np.floating], bin_size: float = 1.0) -> int:
    """How many bins of the plane (or line) any of the positions [..., dims] falls into; bins align at zero.

    What is not a number is nowhere.
    """
    flat = positions.reshape(-1, positions.shape[-1])
    flat = flat[np.isfinite(flat).all(axis=-1)]
    return len(np.unique(np.floor(flat / bin_size), axis=0))


def travelled(obs: NDArray[np.floating], std: NDArray[np.floating]) -> NDArray[np.floating]:
    """||s_T - s_0|| of each episode, in normalised units; obs is [time, episodes, dims]."""
    return np.linalg.norm((obs[-1] - obs[0]) / std, axis=-1)


def alignment(steps: NDArray[np.floating], codes: NDArray[np.floating]) -> float:
    """Mean cosine between phi(s_T) - phi(s_0) and the skill's code: 1 when skills move along their own direction."""
    norms = np.linalg.norm(steps, axis=-1) * np.linalg.norm(codes, axis=-1)
    return float(np.mean(np.sum(steps * codes, axis=-1) / np.maximum(norms, 1e-12)))


LIFTED = 0.05
"""Metres above its start from which an object counts as lifted, and below it as fallen."""


def of_object(path: NDArray[np.floating], bin_size: float) -> dict[str, float]:
    """Where an object with a height, [time, episodes, 3], is taken: what MEASURES has of an object."""
    above = path[..., 2] - path[0, :, 2]
    return {
        "coverage_unfallen": coverage(path[above > -LIFTED][:, :2], bin_size),
        "lifted": int(np.sum(above.max(axis=0) > LIFTED)),
        "held": int(np.sum(above[-1] > LIFTED)),
        "highest": float(above.max()),
    }


LOCOMOTION, FLIP, ROTATION, POSE = "locomotion", "flip", "rotation", "pose"

FAR = 5.0
"""Metres from start to end that make a skill one of locomotion."""
TURNED = math.pi / 2
"""Net turn about the vertical axis that makes it a rotation."""


def kind_of_motion(
    positions: NDArray[np.floating], orientations: NDArray[np.floating], steps: NDArray[np.integer]
) -> str:
    """What episodes [time, episodes, ...] of one skill do, by their medians.

    Locomotion if the end lies at least FAR from the start; else a flip if the body ends with its top below its
    bottom; else a rotation if it has turned by TURNED or more about the vertical axis; else a pose. `steps` says how
    long each episode was, since a body that has terminated stays where it was.
    """
    episodes = np.arange(positions.shape[1])
    distance = np.linalg.norm(positions[steps, episodes] - positions[0], axis=-1)
    if np.median(distance) >= FAR:
        return LOCOMOTION
    if orientations.shape[-1] not in (1, 2, 4, 6):
        return POSE
    up, heading = up_and_heading(orientations)
    if np.median(up[steps, episodes]) < 0:
        return FLIP
    turned = np.unwrap(heading, axis=0)
    if np.median(np.abs(turned[steps, episodes] - turned[0])) >= TURNED:
        return ROTATION
    return POSE


def up_and_heading(
    orientations: NDArray[np.floating],
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """The vertical part of a body's own up axis, and the angle of its own forward axis about the vertical."""
    if orientations.shape[-1] == 1:  # a pitch angle: it tips over, but does not turn about the vertical
        return np.cos(orientations[..., 0]), np.zeros(orientations.shape[:-1])
    if orientations.shape[-1] == 2:  # its cosine and sine
        return orientations[..., 0], np.zeros(orientations.shape[:-1])
    if orientations.shape[-1] == 6:  # where its own x and y axes point
        forward, left = orientations[..., :3], orientations[..., 3:]
        return np.cross(forward, left)[..., 2], np.arctan2(forward[..., 1], forward[..., 0])
    w, x, y, z = np.moveaxis(orientations / np.linalg.norm(orientations, axis=-1, keepdims=True), -1, 0)
    return 1 - 2 * (x**2 + y**2), np.arctan2(2 * (w * z + x * y), 1 - 2 * (y**2 + z**2))


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
    return Summary(float(x.mean()), error, float(stdtrit(len(x) - 1, 0.975)) * error, len(x))


def survival_median(times: NDArray[np.floating], ended: NDArray[np.bool_]) -> float:
    """The median time to an event (Kaplan-Meier), where some were only seen not to have had it until then.

    `ended` says which times led to the event. Infinite if half of them or more are not known to come to it.
    """
    share = 1.0
    for time in np.unique(times[ended]):
        share *= 1.0 - np.sum((times == time) & ended) / np.sum(times >= time)
        if share <= 0.5:
            return float(time)
    return math.inf
