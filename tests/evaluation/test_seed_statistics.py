"""What a few seeds say, and what they do not."""

import math

import numpy as np
import pytest

from wanderlust.evaluation.statistics import difference, orderings, spread


def test_an_interval_holds_the_mean_and_narrows_with_seeds():
    few, many = spread([1.0, 2.0, 3.0, 10.0]), spread([1.0, 2.0, 3.0, 10.0] * 4)
    assert few.mean == many.mean == 4.0
    assert few.iqm == 2.5  # the middle half: of four seeds two
    assert few.low < many.low < 4.0 < many.high < few.high


def test_as_many_intervals_as_they_say_hold_the_truth():
    draw = np.random.default_rng(0)
    held = [found.low <= 0.0 <= found.high for found in (spread(draw.normal(size=30)) for _ in range(100))]
    assert 0.88 <= np.mean(held) <= 0.99


def test_one_seed_has_no_interval_and_equal_seeds_have_no_width():
    assert math.isnan(spread([3.0]).low)
    assert spread([2.0, 2.0, 2.0])[:3] == (2.0, 2.0, 2.0)


def test_three_seeds_never_order_two_rows_and_four_may():
    assert not difference([1, 2, 3], [101, 102, 103]).ordered
    gap = difference([101, 102, 103, 104], [1, 2, 3, 4])
    assert gap.ordered
    assert gap.mean == 100.0
    assert gap.low < 100.0 < gap.high
    assert gap.p == pytest.approx(2 / 70)  # of all ways to deal eight seeds to two rows
    assert not difference([1, 2, 3, 4], [3, 1, 4, 2]).ordered


def test_sentences_name_who_is_ahead():
    rows = {"lsd": [10.0, 11, 12, 13, 14], "diayn": [1.0, 2, 3, 4, 5], "dads": [9.0, 11, 12, 14, 15], "one": [50.0]}
    said = orderings(rows)
    assert [sentence.partition(" by ")[0] for sentence in said] == ["lsd is ahead of diayn", "dads is ahead of diayn"]
    assert said[0].startswith("lsd is ahead of diayn by 9 (")
