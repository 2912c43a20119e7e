"""Measures against values worked out by hand or by SciPy."""

import math

import numpy as np
import pytest
from scipy import stats

from wanderlust.evaluation.metrics import alignment, coverage, kind_of_motion, of_object, summarise, travelled


def test_bins_are_half_open_and_aligned_at_zero():
    assert coverage(np.array([[0.0, 0.0], [0.5, 0.999], [0.25, 0.0]])) == 1
    assert coverage(np.array([[0.0, 0.0], [1.0, 0.0]])) == 2  # the upper edge belongs to the next bin
    assert coverage(np.array([[0.999, 0.0], [1.0, 0.0], [1.999, 0.0]])) == 2


def test_what_is_not_a_number_is_nowhere():
    assert coverage(np.full((100, 1, 2), np.nan)) == 0
    half = np.zeros((101, 1, 2))
    half[50:, :, 1] = np.nan
    assert coverage(half) == 1
    assert coverage(np.array([[0.0, np.inf], [3.0, 0.0]])) == 1


def test_negative_coordinates_have_bins_of_their_own():
    assert coverage(np.array([[-0.5, 0.5], [0.5, 0.5]])) == 2  # truncation towards zero would merge them
    assert coverage(np.array([[-1.0, 0.0], [-0.001, 0.0]])) == 1
    assert coverage(np.array([[-1.001, 0.0], [-1.0, 0.0]])) == 2
    assert coverage(np.array([[-0.5, -0.5], [0.5, 0.5], [-0.5, 0.5], [0.5, -0.5]])) == 4
    assert coverage(np.array([[-0.0, 0.5], [0.0, 0.5]])) == 1


def test_coverage_counts_over_all_leading_axes():
    episodes = np.array([[[0.5, 0.5], [1.5, 0.5]], [[0.5, 0.5], [0.5, 1.5]], [[1.2, 0.1], [0.1, 1.2]]])
    assert coverage(episodes) == 3
    assert coverage(episodes[None]) == 3
    assert coverage(np.array([[0.1], [0.2], [1.2], [-0.1]])) == 3  # bodies on a line


def test_the_size_of_a_bin_can_be_chosen():
    positions = np.array([[0.0, 0.0], [0.9, 0.0], [1.1, 0.0], [2.1, 0.0]])
    assert coverage(positions, 0.5) == 4
    assert coverage(positions, 2.0) == 2


def test_coverage_of_straight_lines_is_what_the_geometry_says():
    far = np.arange(0.0, 20.0, 0.01)
    assert coverage(np.stack([far, np.full_like(far, 0.5)], axis=1)) == 20
    assert coverage(np.stack([-far - 1e-6, far], axis=1)) == 20


def test_travelled_is_the_normalised_distance_between_first_and_last():
    obs = np.array([[[0.0, 0.0], [1.0, 1.0]], [[50.0, 50.0], [9.0, 9.0]], [[3.0, 8.0], [1.0, -3.0]]])
    np.testing.assert_allclose(travelled(obs, np.array([1.0, 2.0])), [5.0, 2.0])


def test_alignment_is_a_mean_cosine():
    codes = np.array([[1.0, 0.0], [0.0, 2.0]])
    assert alignment(np.array([[3.0, 0.0], [0.0, 0.1]]), codes) == pytest.approx(1.0)
    assert alignment(np.array([[-3.0, 0.0], [0.0, -0.1]]), codes) == pytest.approx(-1.0)
    assert alignment(np.array([[0.0, 5.0], [5.0, 0.0]]), codes) == pytest.approx(0.0)
    assert alignment(np.array([[1.0, 1.0], [0.0, 1.0]]), codes) == pytest.approx((math.sqrt(0.5) + 1) / 2)
    assert alignment(np.zeros((2, 2)), codes) == 0.0  # nothing moved: not aligned, and not NaN


@pytest.mark.parametrize("values", [[1.0, 2.0], [4.0, 4.5, 3.0, 7.0, 1.0, 2.0, 8.0, 8.5], [2.0, 2.0, 2.0]])
def test_summaries_agree_with_scipy(values):
    summary = summarise(values)
    assert summary.mean == pytest.approx(np.mean(values))
    assert summary.standard_error == pytest.approx(stats.sem(values))
    assert summary.seeds == len(values)
    if summary.standard_error:
        low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
        assert summary.mean - summary.ci95 == pytest.approx(low)
        assert summary.mean + summary.ci95 == pytest.approx(high)
    else:
        assert summary.ci95 == 0.0


def test_one_seed_has_no_interval():
    assert summarise([3.0]) == (3.0, math.inf, math.inf, 1)


def test_summaries_take_whole_numbers_and_float32():
    assert summarise(np.array([1, 2], np.float32)).mean == 1.5
    assert summarise([340, 360]).standard_error == pytest.approx(10.0)


# --- kinds of motion --------------------------------------------------------------------------------------------------


def episode(kind, count=3, time=41):
    """Positions and quaternions of bodies that do one thing, each a little differently."""
    t = np.linspace(0, 1, time)[:, None] * np.linspace(0.9, 1.1, count)
    position = np.stack([t, -t], axis=-1) * (10.0 if kind == "locomotion" else 0.5)
    angle = {"flip": 0.9 * np.pi, "rotation": 6 * np.pi, "pose": 0.4, "locomotion": 6 * np.pi}[kind] * t / 2
    axis = 1 if kind in ("flip", "pose") else 3  # about x, or about the vertical
    turned = np.zeros((*t.shape, 4))
    turned[..., 0], turned[..., axis] = np.cos(angle), np.sin(angle)
    return position, turned, np.full(count, time - 1)


@pytest.mark.parametrize("kind", ["locomotion", "flip", "rotation", "pose"])
def test_kinds_of_motion_are_told_apart(kind):
    position, turned, steps = episode(kind)
    assert kind_of_motion(position, turned, steps) == kind
    assert kind_of_motion(position, 1.07 * turned, steps) == kind  # quaternions need not be of unit length
    assert kind_of_motion(position, -turned, steps) == kind  # and q and -q are the same
    w, x, y, z = np.moveaxis(turned, -1, 0)
    forward = np.stack([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)], axis=-1)
    left = np.stack([2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)], axis=-1)
    assert kind_of_motion(position, np.concatenate([forward, left], axis=-1), steps) == kind  # as axes


def test_a_body_that_leans_to_one_side_and_turns_back_is_a_pose():
    position, turned, _ = episode("rotation")
    there_and_back = np.concatenate([turned[:11], turned[10::-1]])
    assert kind_of_motion(position[:22], there_and_back, np.full(3, 21)) == "pose"


def test_a_runner_in_a_plane_tips_over():
    position = np.zeros((5, 2, 1))
    pitch = np.linspace(0, 3.0, 5)[:, None, None] * np.ones((1, 2, 1))
    assert kind_of_motion(position, pitch, np.array([4, 4])) == "flip"
    assert kind_of_motion(position, np.concatenate([np.cos(pitch), np.sin(pitch)], -1), np.array([4, 4])) == "flip"
    assert kind_of_motion(position, pitch, np.array([1, 1])) == "pose"  # both episodes were over before
    assert kind_of_motion(position, np.zeros((5, 2, 0)), np.array([4, 4])) == "pose"


def test_what_becomes_of_an_object():
    """One is carried up and held, one is thrown up and comes back, one is pushed, one falls off the table."""
    start = np.array([[0.05, 0.05, 0.4]] * 4)
    paths = np.stack([start, start, start])
    paths[1:, 0, 2] += 0.2
    paths[1, 1, 2] += 0.06
    paths[1:, 2, 0] += 0.1
    paths[2, 2, 0] += 0.1
    paths[1, 3, 1], paths[2, 3] = 0.15, (0.05, 0.35, 0.0)
    found = of_object(paths, 0.1)
    assert found.pop("highest") == pytest.approx(0.2)
    assert found == {"coverage_unfallen": 4, "lifted": 2, "held": 1}
    assert coverage(paths[..., :2], 0.1) == 5
