"""The spiral of goals: where they lie, and which count as reached."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

from wanderlust.envs import make_world
from wanderlust.envs.worlds.point import PointConfig

FILE = Path(__file__).parents[2] / "benchmarks" / "spiral.py"


@pytest.fixture(scope="module")
def spiral():
    spec = importlib.util.spec_from_file_location("spiral", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Straight:
    """Goes straight to the goal by at most 1 in each coordinate, wherever it is told that it stands."""

    def __init__(self):
        self.told = []

    def towards(self, obs, goal):
        return np.clip(goal - obs, -1, 1)

    def act(self, obs, z):
        self.told.append(np.array(obs))
        return z


def test_goals_lie_on_a_spiral_at_even_distances(spiral):
    goals = spiral.lay_out(inner=5.0, outer=40.0, pitch=20.0, spacing=8.0)
    radius = np.linalg.norm(goals, axis=1)
    assert 5 < radius[0] < 13 and 32 < radius[-1] <= 40 and np.all(np.diff(radius) > 0)
    apart = np.linalg.norm(np.diff(goals, axis=0), axis=1)
    assert np.all(np.abs(apart - 8) < 0.8)
    turned = np.unwrap(np.arctan2(goals[:, 1], goals[:, 0]))
    np.testing.assert_allclose(np.diff(radius) / np.diff(turned), 20 / (2 * math.pi), rtol=1e-3)


def test_goals_are_called_in_order_when_reached_or_late(spiral):
    goals = np.array([[5, 0], [5, 1], [-100, 0], [-15, 0]], np.float32)
    skills = Straight()
    walks = spiral.follow(skills, make_world(PointConfig()).from_origin(), goals, 1.0, 20, starts=2, seed=0)
    for walk in walks:
        legs = [(leg["reached"], leg["steps"], leg["distance"]) for leg in walk["legs"]]
        assert legs == [
            (True, 4, 1.0),  # at (4, 0): the radius itself is near enough
            (True, 1, 0.0),
            (False, 20, 85.0),  # given up at (-15, 0)
            (True, 0, 0.0),  # where it happens to be
        ]
        assert [leg["goal"] for leg in walk["legs"]] == goals.tolist()
        assert len(walk["path"]) == 1 + 4 + 1 + 20 and walk["path"][4] == [4, 0] and walk["path"][0] == [0, 0]
        assert walk["upside_down_at"] is None  # a point has no back
    assert len(skills.told) >= 25 and not np.any(skills.told)  # the policy is told that it stands at the origin


def test_a_body_on_its_back_is_noticed_once(spiral):
    walk = {"legs": [], "path": [], "upside_down_at": None}
    upright, leaning, over = [1, 0, 0, 0], [3, 0.8, 0, 1], [0.1, 0.3, 0, 0]  # of any length
    for pose in (upright, leaning, over, upright, over):
        spiral.note(walk, np.array([3, 4, *pose], np.float32), [0, 1], [2, 3, 4, 5])
    assert walk["upside_down_at"] == 2 and walk["path"] == [[3, 4]] * 5
