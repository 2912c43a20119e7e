"""Driving: what counts as reached, as a fall and as a fall for good, and one real drive."""

import dataclasses
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wanderlust import train
from wanderlust.evaluation.drive import (
    RANGE,
    Event,
    drive_measures,
    drive_verdict,
    evaluate_drive,
    random_goals,
    times_to,
)
from wanderlust.evaluation.metrics import survival_median
from wanderlust.methods.views import NEAR, seen_from_body
from wanderlust.registry import WORLDS
from wanderlust.runs.pace import PATIENCE, Pace, pace_of
from wanderlust.runs.zoo import open_run


def test_the_median_time_to_an_event_knows_of_bodies_that_never_had_it():
    times = np.array([10.0, 20.0, 30.0, 40.0])
    assert survival_median(times, np.ones(4, bool)) == 20
    assert survival_median(times, np.zeros(4, bool)) == math.inf
    # after 10: 3/4; the one that left at 20 no longer counts; after 30: 3/4 * 1/2
    assert survival_median(times, np.array([True, False, True, False])) == 30


def test_times_go_from_event_to_event_and_what_is_left_is_no_event():
    happened = np.zeros(10, bool)
    happened[[2, 6]] = True
    times, ended = times_to(happened)
    assert times.tolist() == [3, 4, 3] and ended.tolist() == [True, True, False]
    times, ended = times_to(np.array([False, True]))
    assert times.tolist() == [2] and ended.tolist() == [True]


def test_measures_count_events_of_each_body():
    reached, missed, fell, lost = np.zeros((4, 1000, 2), bool)
    reached[:3, 0], missed[3, 0] = True, True
    reached[0, 1], missed[1, 1] = True, True
    fell[[100, 300], 0], lost[[400], 0] = True, True
    found = drive_measures(Event(reached, missed, fell, lost))
    assert found["goals"] == 6
    assert found["reached_share"]["per_body"] == [0.75, 0.5]
    assert found["reached_share"]["mean"] == 0.625
    assert found["falls_per_1000_steps"]["per_body"] == [2, 0]
    assert found["unrecovered_falls_per_1000_steps"]["mean"] == 0.5
    assert (found["recovered_share"], found["put_up"]) == (0.5, 1)
    assert found["steps_between_falls"]["at_most"] == 1000
    assert found["steps_between_unrecovered_falls"]["median"] is None  # of three times one led to a fall: 2/3 are left
    assert found["steps_between_falls"]["median"] == 200  # 101, 200, then 699 and 1,000 without: 3/4, 2/4


@pytest.mark.parametrize(
    ("share", "median", "looked", "words"),
    [
        (0.95, None, 10_000, "good to drive: 95% of the goals reached, more than 10,000 steps"),
        (0.95, 5001.0, 10_000, "good to drive"),
        (0.95, 5000.0, 10_000, "it stays down too often"),
        (0.5, None, 10_000, "it misses too many goals"),
        (0.95, None, 300, "it was not driven for long enough to tell"),
    ],
)
def test_the_verdict_is_by_shares_and_medians(share, median, looked, words):
    between = {"median": median, "at_most": looked}
    said = drive_verdict({"metrics": {"reached_share": {"mean": share}, "steps_between_unrecovered_falls": between}})
    assert words in said
    assert ("not good" in said) == ("good to drive:" not in said)


def test_goals_fill_the_disc_and_the_line_evenly():
    away = np.linalg.norm(np.asarray(random_goals(jax.random.key(0), 20_000, 2)), axis=1)
    assert away.max() <= RANGE + 1e-4
    assert np.mean(away < RANGE / 2) == pytest.approx(0.25, abs=0.02)
    on_line = np.asarray(random_goals(jax.random.key(0), 20_000, 1))[:, 0]
    assert np.mean(np.abs(on_line) < RANGE / 2) == pytest.approx(0.5, abs=0.02)
    assert np.mean(on_line > 0) == pytest.approx(0.5, abs=0.02)


def test_a_body_is_told_that_it_stands_at_the_origin():
    spec = world("ant").spec
    obs = jnp.arange(2 * spec.obs_dim, dtype=jnp.float32).reshape(2, -1)
    goal = jnp.array([[3.0, 5.0], [29.0, 130.0]])
    here, way = seen_from_body(spec, obs, goal)
    np.testing.assert_array_equal(here[:, :2], 0)
    np.testing.assert_array_equal(here[:, 2:], obs[:, 2:])
    np.testing.assert_allclose(way, [[3, 4], [0, NEAR]], atol=1e-5)  # from (0, 1), and from (29, 30), too far away


def world(name):
    return WORLDS.get(name)(WORLDS.get(name).configure(name))


def test_a_body_has_fallen_when_it_is_upside_down():
    ant, cheetah, humanoid = world("ant"), world("half-cheetah"), world("humanoid")
    start = ant.initial(jax.random.key(0))
    turned = (
        [math.cos(a / 2) for a in (1.5, 1.65)],
        [math.sin(a / 2) for a in (1.5, 1.65)],
    )  # just less and more than 90°
    for axis in (5, 6):
        for k, lies in ((0, False), (1, True)):
            physics = start.physics.at[4:8].set(0.0).at[4].set(turned[0][k]).at[axis].set(turned[1][k])
            assert bool(ant.fallen(start._replace(physics=physics))) == lies
    yaw = start._replace(physics=start.physics.at[4:8].set(jnp.array([0.0, 0.0, 0.0, 1.0])))
    assert not ant.fallen(yaw)
    start = cheetah.initial(jax.random.key(0))
    for angle, lies in ((0.5, False), (3.0, True), (6.3, False), (-2.0, True)):
        assert bool(cheetah.fallen(start._replace(physics=start.physics.at[3].set(angle)))) == lies
    start = humanoid.initial(jax.random.key(0))
    assert not humanoid.fallen(start)
    assert humanoid.fallen(start._replace(physics=start.physics.at[3].set(0.5)))


def test_the_pace_is_that_of_the_card():
    entry = open_run("zoo:ant-agile-10")
    card = json.loads((entry.path / "card.json").read_text())["metrics"]
    parts = train.assemble(dataclasses.replace(entry.config, engine="c"))
    pace = pace_of(dataclasses.replace(entry, out=entry.path / "nowhere"), parts, None)
    assert pace.speed == pytest.approx(card["distance"] / card["survived"])
    assert pace.radius == 1.0  # the world's own: more than four steps of 0.21
    assert Pace(0.5, 2.0).steps(13.0) == PATIENCE * 15 / 0.5


def test_skills_of_the_zoo_are_driven(tmp_path):
    run = dataclasses.replace(open_run("zoo:ant-agile-10"), out=tmp_path)
    found = evaluate_drive(run, bodies=6, steps=150, engine="c")
    assert json.loads((tmp_path / "evaluation" / "drive.json").read_text()) == found
    (one,) = found["seeds"]
    assert one["metrics"]["goals"] >= 6  # a goal is 10 m away on average, 50 steps
    assert one["metrics"]["reached_share"]["mean"] > 0.8
    assert found["fallen"] == "its own upward axis points below the horizon"
