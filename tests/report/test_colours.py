"""Colours: the cyclic map is uniform, closed and told apart by people who do not tell red from green."""

import numpy as np
import pytest

from wanderlust.report.plots.colours import (
    ALONG,
    AWAY,
    BASELINE,
    MISSED,
    PAPER,
    RADIUS,
    REACHED,
    WHEEL,
    distinct,
    oklab,
    on_wheel,
    seen_with,
    srgb,
)

TURNS = np.arange(360) / 360
BLIND = ("deuteranopia", "protanopia")


def of_hex(name):
    return np.array([int(name[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def apart(colours):
    return np.linalg.norm(colours[:, None] - colours[None], axis=-1)


def test_oklab_is_that_of_its_author():
    """Values of Ottosson's page, for white, and for the primaries of sRGB by their XYZ."""
    assert oklab(np.array([1.0, 1.0, 1.0])) == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)
    assert oklab(np.array([1.0, 0.0, 0.0])) == pytest.approx([0.62796, 0.22486, 0.12585], abs=1e-4)
    assert oklab(np.array([0.0, 0.0, 1.0])) == pytest.approx([0.45201, -0.03246, -0.31153], abs=1e-4)
    some = np.random.default_rng(0).uniform(size=(50, 3))
    assert srgb(oklab(some)) == pytest.approx(some, abs=1e-6)


def test_colour_blindness_keeps_greys_and_confuses_red_with_green():
    greys = np.linspace(0, 1, 5)[:, None].repeat(3, axis=1)
    for kind in BLIND:
        assert seen_with(kind, greys) == pytest.approx(greys, abs=0.01)
    red, green = srgb(np.array([[0.6, 0.12, 0.05], [0.6, -0.12, 0.05]]))
    pair = np.stack([red, green])
    assert apart(oklab(seen_with("deuteranopia", pair)))[0, 1] < 0.4 * apart(oklab(pair))[0, 1]


def test_the_wheel_is_closed_and_its_steps_are_equal():
    assert on_wheel(np.array([0.0])) == pytest.approx(on_wheel(np.array([1.0])), abs=1e-12)
    assert WHEEL(0.0) == pytest.approx(WHEEL(1.0))
    lab = oklab(on_wheel(TURNS))
    steps = np.linalg.norm(np.roll(lab, -1, axis=0) - lab, axis=1)
    assert steps.max() / steps.min() < 1.01


def test_the_wheel_is_seen_on_white_and_on_black():
    lab = oklab(on_wheel(TURNS))
    assert lab[:, 0].min() > 0.5
    assert lab[:, 0].max() < 0.8
    assert np.hypot(lab[:, 1], lab[:, 2]).min() > 0.08  # no direction is grey: grey is for random actions


@pytest.mark.parametrize("kind", BLIND)
def test_directions_differ_for_people_who_do_not_tell_red_from_green(kind):
    """A circle of one lightness would be folded: opposite directions would look alike. This one is not."""
    away = np.abs((np.arange(360)[:, None] - np.arange(360)[None] + 180) % 360 - 180)
    usual, theirs = (apart(oklab(colours)) for colours in (on_wheel(TURNS), seen_with(kind, on_wheel(TURNS))))
    steps = theirs[away == 1]
    assert steps.min() > 0.5 * usual[away == 1].mean()
    assert theirs[away >= 90].min() > 0.1
    angle = 2 * np.pi * TURNS[:, None]
    flat = np.concatenate([np.full_like(angle, 0.65), 0.1 * np.cos(angle), 0.1 * np.sin(angle)], axis=1)
    folded = apart(oklab(seen_with(kind, srgb(flat))))
    assert folded[away >= 90].min() / 0.1 < 0.6 * theirs[away >= 90].min() / RADIUS


def test_distinct_colours_are_apart_for_everyone_and_keep_their_places():
    for kind in (None, *BLIND):
        colours = distinct(8) if kind is None else seen_with(kind, distinct(8))
        assert (apart(oklab(colours)) + np.eye(8)).min() > 0.05
    assert np.array_equal(distinct(16)[:8], distinct(8))
    assert len({tuple(colour) for colour in distinct(40)}) == 40
    assert (apart(oklab(np.stack([of_hex(BASELINE), *distinct(40)])))[0, 1:]).min() > 0.06


def test_reached_and_missed_differ_for_everyone_and_from_the_ground():
    pair = np.stack([of_hex(REACHED), of_hex(MISSED)])
    for kind in (*BLIND, "tritanopia"):
        assert apart(oklab(seen_with(kind, pair)))[0, 1] > 0.2
    assert apart(oklab(np.stack([*pair, of_hex(PAPER)])))[2, :2].min() > 0.3


def test_maps_of_values_are_even():
    away = oklab(np.array([AWAY(x)[:3] for x in np.linspace(0, 1, AWAY.N)]))
    assert away[AWAY.N // 2, 0] > 0.95  # nothing is nearly white
    along = oklab(np.array([ALONG(x)[:3] for x in np.linspace(0, 1, ALONG.N)]))
    assert np.all(np.diff(along[:, 0]) < 0.001)  # time runs from light to dark
