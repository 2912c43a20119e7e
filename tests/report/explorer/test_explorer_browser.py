"""The explorer in a real browser: a person picks a skill, clicks goals, pushes, pauses, and leaves."""

import os
import time
from pathlib import Path
from urllib.parse import urlsplit

import chromium
import numpy as np
import pytest
from test_explorer_server import free_port

from helpers import optimised
from wanderlust.report.explorer.server import Explorer, SkillSet
from wanderlust.report.explorer.simulation import PUSH
from wanderlust.runs.zoo import open_run

pytestmark = pytest.mark.browser


def until(true, what, seconds=90.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what} has not come about"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def explorer():
    chromium.find()
    with optimised():
        sets = [SkillSet(f"zoo:{name}", open_run(f"zoo:{name}"), 0) for name in ("ant-agile-10", "ant-16")]
        made = Explorer(sets)
        made.address = made.open(port=free_port())
        yield made
        made.close()


def middle_of(explorer):
    """Of the view: the place on the floor at the origin of the scene."""
    return explorer.scene.offset.copy()


def moved_along(explorer, direction, metres):
    """Wait until the body has gone so far in a direction, at three times real time."""
    simulation = explorer.simulation
    start = simulation.place[:2].copy()
    explorer.loop.speed = 3.0
    until(lambda: (simulation.place[:2] - start) @ direction > metres, f"a way of {metres} m along {direction}")
    explorer.loop.speed = 1.0


def test_a_person_drives_the_body(explorer):
    simulation, asked = explorer.simulation, []
    time.sleep(0.2)
    assert simulation.steps == 0  # nobody watches
    with chromium.browser() as browser:
        page = browser.new_page(viewport={"width": 900, "height": 620})
        page.on("request", lambda request: asked.append(urlsplit(request.url)))
        page.goto(explorer.address)
        page.wait_for_selector("canvas")
        until(lambda: simulation.steps > 0, "a first step")
        until(lambda: explorer.server.get_clients(), "a viewer")
        (viewer,) = explorer.server.get_clients().values()
        until(lambda: explorer.panel._map is not None, "the paths of random skills")
        page.wait_for_selector("svg[aria-label='the learned map'] circle")
        chromium.frames(page, 3)

        # a click inside the ring picks a skill, which leads where it was clicked
        for wanted in (np.array([1.0, 0.0]), np.array([-1.0, 0.0])):
            page.mouse.click(*chromium.pixel(page, viewer.camera, (*(1.3 * wanted), 0.0)))
            until(lambda: not simulation.goals, "a skill in place of the goal")
            turn = explorer.scene.disc._turn
            until(lambda z=turn.T @ wanted: simulation.skill @ z > 0.9 * np.linalg.norm(simulation.skill), "the skill")
            moved_along(explorer, wanted, 4.0)

        # clicks on the floor are goals, one after the other
        page.get_by_role("button", name="Pause").click()
        until(lambda: simulation.paused, "a pause")
        chromium.frames(page, 3)

        # the ring can be dragged along, and a click on the body pushes it away from the viewer
        page.mouse.move(*chromium.pixel(page, viewer.camera, (1.62, 0.0, 0.0)))
        page.mouse.down()
        for angle in np.linspace(0.2, np.pi / 2, 6):
            page.mouse.move(*chromium.pixel(page, viewer.camera, (1.62 * np.cos(angle), 1.62 * np.sin(angle), 0.0)))
            chromium.frames(page, 1)
        page.mouse.up()
        up = explorer.scene.disc._turn.T @ np.array([0.0, 1.0])
        until(
            lambda: simulation.skill @ up > 0.97 * np.linalg.norm(simulation.skill) > 1.5, "the skill that was dragged"
        )
        torso = simulation.mechanics.poses(simulation.state)[0][1] - (*middle_of(explorer), 0.0)
        before = simulation.state.physics.copy()
        page.mouse.click(*chromium.pixel(page, viewer.camera, torso))
        until(lambda: not np.array_equal(simulation.state.physics, before), "a push")
        gained = (simulation.state.physics - before)[0, 1 + simulation.mechanics.model.nq :][:2]
        sight = (torso - viewer.camera.position)[:2]
        assert gained @ sight == pytest.approx(PUSH * np.linalg.norm(sight), rel=0.01)

        steps, reached, goals = simulation.steps, simulation.reached, []
        for away in ((2.6, 2.2), (-2.6, 2.6)):
            page.mouse.click(*chromium.pixel(page, viewer.camera, (*away, explorer.scene._root.position[2])))
            goals.append(middle_of(explorer) + away)
            until(lambda: len(simulation.goals) == len(goals), "a goal")
        assert np.allclose(simulation.goals, goals, atol=0.15) and simulation.steps == steps
        page.screenshot(path=screenshot("goals"))
        page.get_by_role("button", name="Go on").click()
        until(lambda: simulation.reached > reached, "the first goal")
        assert tuple(simulation.goals) and np.allclose(simulation.goals[0], goals[1], atol=0.15)
        until(lambda: simulation.waits, "the second goal")
        assert simulation.mechanics.distance(simulation.obs, simulation.goals[0]) < 6.0

        # another set of skills of the same body, from a list, seen by a second viewer too
        other = browser.new_page(viewport={"width": 400, "height": 300})
        other.goto(explorer.address)
        until(lambda: len(explorer.server.get_clients()) == 2, "a second viewer")
        page.get_by_role("button", name="Reset").click()
        until(lambda: simulation.seconds < 5.0, "a reset")
        explorer._choose("zoo:ant-16")
        until(lambda: simulation.skills.discrete, "the other skills")
        page.wait_for_selector("text=16 discrete skills of ant")
        other.close()
        until(lambda: len(explorer.server.get_clients()) == 1, "one viewer")
        steps = simulation.steps
        until(lambda: simulation.steps > steps, "a step for who stays")
        page.close()
        until(lambda: not explorer.server.get_clients(), "nobody left")
    time.sleep(0.3)
    steps, cpu = simulation.steps, time.process_time()
    until(lambda: not any(finder.is_alive() for finder in explorer._finders), "quiet")
    cpu = time.process_time()
    time.sleep(1.0)
    assert simulation.steps == steps and time.process_time() - cpu < 0.2  # and nothing runs hot
    here = urlsplit(explorer.address).netloc
    assert {place.netloc for place in asked if place.scheme not in ("blob", "data")} == {here}
    assert all(place.path.startswith(explorer.address) for place in asked if place.scheme == "blob")


def screenshot(name):
    """Where pictures of the test are kept: WANDERLUST_SCREENSHOTS, or a folder of the suite's cache."""
    folder = Path(os.environ.get("WANDERLUST_SCREENSHOTS") or f"{os.environ['WANDERLUST_CACHE']}/screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"explorer-{name}.png"
