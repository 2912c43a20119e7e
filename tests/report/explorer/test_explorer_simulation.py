"""What a person does to the simulation, and what comes of it."""

import numpy as np
import pytest
from driving import ant_simulation, ant_skills, steps

import wanderlust
from trained import trained
from wanderlust.envs import make_world
from wanderlust.errors import UserError
from wanderlust.registry import WORLDS
from wanderlust.report.explorer.mechanics import Mechanics
from wanderlust.report.explorer.paths import compass, map_of, random_paths
from wanderlust.report.explorer.simulation import LIES_FOR, PUSH, Simulation


def ant_paths():
    return random_paths(ant_skills(), budget=30.0, count=12)


def heading(simulation, count=60):
    start = simulation.place[:2]
    steps(simulation, count)
    return simulation.place[:2] - start


def on_its_back(simulation):
    physics = np.array(simulation.state.physics)
    physics[0, 3] = 0.4
    physics[0, 4:8] = (0.0, 1.0, 0.0, 0.0)
    physics[0, 1 + simulation.mechanics.model.nq :] = 0.0
    simulation.state = simulation.state._replace(physics=physics)
    simulation._look()


def test_a_skill_leads_where_the_compass_says_and_another_one_changes_the_course():
    simulation = ant_simulation()
    turn = compass(ant_paths())
    assert np.allclose(turn @ turn.T, np.eye(2), atol=1e-6)
    for wanted in ((1.0, 0.0), (0.0, -1.0), (-1.0, 0.0)):
        simulation.pick(1.25 * turn.T @ np.array(wanted))
        moved = heading(simulation)
        assert moved @ wanted > 0.7 * np.linalg.norm(moved) > 2.0


def test_goals_are_reached_in_order_and_the_last_one_is_kept():
    simulation = ant_simulation()
    goals = [(5.0, 0.0), (5.0, 5.0)]
    for goal in goals:
        simulation.go_to(goal)
    reached = []
    for _ in range(400):
        before = list(simulation.goals)
        simulation.step()
        if simulation.reached > len(reached):
            reached.append((before[0], simulation.mechanics.distance(simulation.obs, before[0])))
        if simulation.waits:
            break
    assert [goal for goal, _ in reached] == goals and all(away < 1.5 for _, away in reached)
    assert simulation.waits and list(simulation.goals) == goals[1:] and simulation.reached == 2
    steps(simulation, 60)
    assert simulation.mechanics.distance(simulation.obs, goals[1]) < 6.0 and simulation.reached == 2
    simulation.go_to((0.0, 0.0))  # a new goal takes the place of the one that is kept
    assert list(simulation.goals) == [(0.0, 0.0)] and not simulation.waits


def test_a_goal_can_be_skipped_and_a_skill_drops_all():
    simulation = ant_simulation()
    for goal in ((5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)):
        simulation.go_to(goal)
    simulation.drop_goals(all_of_them=False)
    assert list(simulation.goals) == [(0.0, 5.0), (-5.0, 0.0)]
    simulation.pick_any()
    assert not simulation.goals
    with pytest.raises(UserError, match=r"no place to ant"):
        simulation.go_to((1.0, 2.0, 3.0))
    with pytest.raises(UserError, match=r"no place to ant"):
        simulation.go_to((1.0, float("nan")))


def test_a_push_adds_velocity_along_its_direction():
    simulation = ant_simulation()
    model = simulation.mechanics.model
    before = np.array(simulation.state.physics)
    simulation.push((0.0, -3.0, 9.0))
    change = simulation.state.physics - before
    expected = np.zeros(model.nv)
    expected[1] = -PUSH
    assert np.allclose(change[0, 1 + model.nq : 1 + model.nq + model.nv], expected, atol=1e-6)
    assert not change[0, : 1 + model.nq].any()


def test_a_fallen_body_is_put_up_where_it_lies_and_looks_the_same_way():
    simulation = ant_simulation()
    simulation.stands_up = False
    steps(simulation, 40)
    on_its_back(simulation)
    at = simulation.place[:2].copy()
    simulation._act = lambda: np.zeros((1, 8), np.float32)  # it lies still
    steps(simulation, int(LIES_FOR / simulation.mechanics.seconds) + 2)
    assert simulation.fallen and simulation.stood_up == 0
    simulation.stands_up = True
    simulation.step()
    assert simulation.stood_up == 1 and not simulation.fallen
    assert np.allclose(simulation.place[:2], at, atol=0.5)
    _, x, y, _ = simulation.obs[3:7]
    assert 1 - 2 * (x * x + y * y) > 0.9  # its back is up again
    del simulation._act


def test_standing_up_keeps_the_heading():
    mechanics = ant_simulation().mechanics
    state = mechanics.start(3)
    for angle in (0.5, 2.0, -2.5):
        physics = np.array(state.physics)
        physics[0, 4:8] = (np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2))
        up = mechanics.put_up(state._replace(physics=physics), seed=4)
        w, x, y, z = up.physics[0, 4:8] / np.linalg.norm(up.physics[0, 4:8])
        found = np.arctan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z))
        assert np.cos(found - angle) > 0.999


def test_broken_physics_is_put_up_and_reset_goes_back_to_the_start():
    simulation = ant_simulation()
    steps(simulation, 30)
    at = simulation.place[:2].copy()
    good = simulation.mechanics.step
    simulation.mechanics.step = lambda state, action: state._replace(physics=state.physics * np.nan)
    simulation.step()
    simulation.mechanics.step = good
    assert simulation.stood_up == 1 and np.allclose(simulation.place[:2], at)
    simulation.go_to((3.0, 3.0))
    simulation.reset()
    assert np.abs(simulation.place[:2]).max() < 0.2 and not simulation.goals and simulation.seconds == 0.0


def test_other_skills_of_the_same_body_go_on_from_where_it_is():
    simulation = ant_simulation()
    steps(simulation, 20)
    at = simulation.place.copy()
    simulation.use(wanderlust.load("zoo:ant-16"))
    assert simulation.skills.discrete and simulation.skill.sum() == 1.0 and np.array_equal(simulation.place, at)
    steps(simulation, 3)
    with pytest.raises(UserError, match=r"skills of point, and this body is of ant"):
        simulation.use(wanderlust.load(trained()))


def test_far_from_the_start_a_body_is_driven_as_it_is_there():
    """A skill sees the place where it was picked as its start, and goals are seen from the body."""
    near, far = ant_simulation(), ant_simulation()
    far.state = near.state._replace(physics=np.array(near.state.physics))
    far.state.physics[0, 1:3] += (400.0, -300.0)
    far._look()
    skill = np.array([1.0, 0.5], np.float32)
    for simulation in (near, far):
        simulation.pick(skill)
    assert np.allclose(near._act(), far._act(), atol=1e-3)
    for simulation, start in ((near, (0.0, 0.0)), (far, (400.0, -300.0))):
        simulation.go_to((start[0] + 8.0, start[1] + 2.0))
        simulation._choose()
    assert np.allclose(near.skill, far.skill, atol=1e-2) and np.allclose(near._act(), far._act(), atol=1e-2)
    arm = mechanics_of("fetch-push")
    obs = arm.look(arm.start(0)).obs[0]
    assert arm.seen_from(obs, np.ones(2, np.float32)) is obs  # an object on a table is where it is


def test_paths_and_the_map_are_of_what_the_skills_do():
    paths = ant_paths()
    assert paths.place.shape == (201, 12, 3) and paths.skill.shape == (12, 2)
    assert np.linalg.norm(paths.place[-1] - paths.place[0], axis=1).min() > 5.0
    middle, axes = map_of(paths)
    assert not middle.any() and np.array_equal(axes, np.eye(2))
    # phi of the ends points along the skills: what LSD learns
    ends = paths.phi / np.linalg.norm(paths.phi, axis=1, keepdims=True)
    assert (ends * paths.skill).sum(axis=1).mean() > 0.5 * np.linalg.norm(paths.skill, axis=1).mean()


def test_a_point_on_the_plane_can_be_driven_too():
    simulation = Simulation(wanderlust.load(trained()))
    assert simulation.mechanics.model is None
    simulation.greet()
    steps(simulation, 5)
    assert len(simulation.trail) == 5 and simulation.mechanics.place(simulation.obs)[2] == 0.0
    before = simulation.place.copy()
    simulation.push((1.0, 0.0))
    assert simulation.place[0] == pytest.approx(before[0] + 1.0)
    found, moves = simulation.mechanics.hit(simulation.state, np.array([1.0, 2.0, 4.0]), np.array([0.0, 0.0, -1.0]))
    assert np.allclose(found, (1.0, 2.0, 0.0)) and not moves


def test_skills_that_no_goal_can_choose_say_so():
    simulation = Simulation(wanderlust.load(trained("dads")))
    with pytest.raises(UserError, match=r"dads cannot choose a skill for a goal"):
        simulation.go_to((1.0, 1.0))
    simulation.greet()
    simulation.step()
    assert not simulation.goals


def mechanics_of(name):
    return Mechanics(make_world(WORLDS.get(name).configure(name)))


def test_of_an_arm_the_object_is_what_counts():
    mechanics = mechanics_of("fetch-push")
    state = mechanics.start(0)
    obs = mechanics.look(state)[0][0]
    assert mechanics.carries_object and np.allclose(mechanics.place(obs), obs[3:6])
    assert mechanics.ground == pytest.approx(0.4, abs=0.01)  # the table's top
    down = np.array([0.0, 0.0, -1.0])
    on_object, moves = mechanics.hit(state, obs[3:6] + np.array([0.0, 0.0, 0.05]), down)
    assert moves and on_object[2] == pytest.approx(obs[5] + 0.025, abs=1e-3)
    on_table, moves = mechanics.hit(state, np.array([1.5, 1.0, 1.0]), down)
    assert not moves and on_table[2] == pytest.approx(mechanics.ground, abs=1e-3)
    pushed = mechanics.pushed(state, np.array([0.6, 0.0]))
    for _ in range(5):
        pushed = mechanics.step(pushed, np.zeros((1, 4), np.float32))
    after = mechanics.look(pushed)[0][0].copy()
    assert after[3] - obs[3] > 0.01 and abs(after[4] - obs[4]) < 0.01
    seen = mechanics.look(state)
    assert not mechanics.down(seen)
    after[5] -= 0.3
    assert mechanics.down(seen._replace(obs=after[None]))


def test_a_humanoid_that_the_world_calls_fallen_is():
    mechanics = mechanics_of("humanoid")
    state = mechanics.start(0)
    assert not mechanics.down(mechanics.look(state))
    physics = np.array(state.physics)
    physics[0, 3] = 0.3
    assert mechanics.down(mechanics.look(state._replace(physics=physics)))
    up = mechanics.put_up(state._replace(physics=physics), seed=0)
    assert up.physics[0, 3] == pytest.approx(1.4, abs=0.02)


def test_a_body_on_a_line_keeps_its_place_when_it_is_put_up():
    mechanics = mechanics_of("half-cheetah")
    assert mechanics.plane == 1
    physics = np.array(mechanics.start(0).physics)
    physics[0, 1], physics[0, 3] = 7.0, np.pi
    state = mechanics.start(0)._replace(physics=physics)
    assert mechanics.down(mechanics.look(state))
    up = mechanics.put_up(state, seed=1)
    assert up.physics[0, 1] == pytest.approx(7.0) and abs(up.physics[0, 3]) < 0.2


def test_angles_of_an_arm_are_not_drawn_as_places_on_the_floor(monkeypatch):
    simulation = ant_simulation()
    assert simulation.mechanics.on_floor and np.array_equal(
        simulation.place, simulation.mechanics.place(simulation.obs)
    )
    monkeypatch.setattr(type(simulation.mechanics.world), "unit", "rad", raising=False)
    steps(simulation, 20)
    assert np.array_equal(simulation.place[:2], (0.0, 0.0)) and simulation.mechanics.place(simulation.obs)[0] != 0.0
    simulation.drop_goals()
    simulation.greet()
    assert not simulation.goals
