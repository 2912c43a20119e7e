"""A world of one's own: all of its physics survives between steps, its sensors are read, and it needs no numbers."""

import jax
import mujoco
import numpy as np
import pytest
from small_worlds import Arm, DelayedArm, arm, arm_starts

from wanderlust.api import configure, start_run, train
from wanderlust.envs import WorldState, make_engine
from wanderlust.envs.engines.mujoco_c import CEngine
from wanderlust.envs.mjcf import compiled, name_floor_contacts, physics_of, set_physics
from wanderlust.errors import UserError
from wanderlust.registry import WORLDS


def by_mujoco(world, state, action):
    """One control step of one world, by MuJoCo's own functions: physics after it, and sensors there."""
    model = world.model
    data = mujoco.MjData(model)
    set_physics(model, data, state)
    low, high = np.where(model.actuator_ctrllimited[:, None], model.actuator_ctrlrange, (-1.0, 1.0)).T
    data.ctrl[:] = low + (action + 1) / 2 * (high - low)
    for _ in range(world.frame_skip):
        mujoco.mj_step(model, data)
    physics = physics_of(model, data)
    mujoco.mj_forward(model, data)
    return physics, data.sensordata.copy()


@pytest.mark.parametrize("kind", [Arm, DelayedArm])
def test_all_of_the_physics_goes_through_the_state(kind):
    """Every step with an engine of its own: nothing but the state can carry activations, delays and mocap poses."""
    world, random = arm(kind), np.random.default_rng(0)
    model, state = world.model, arm_starts(world)
    assert (model.na, bool(model.nhistory)) == ((2, True) if kind is DelayedArm else (1, False))
    mocap = state.physics[:, -7:].copy()
    for _ in range(6):
        action = random.uniform(-1, 1, (3, model.nu)).astype(np.float32)
        before, state = state, CEngine(world, threads=2).step(state, action)
        for k in range(3):
            physics, sensors = by_mujoco(world, before.physics[k], action[k])
            np.testing.assert_allclose(state.physics[k], physics, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(state.sensors[k], sensors, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(state.physics[:, -7:], mocap)
    first = 1 + model.nq + model.nv
    assert np.abs(state.physics[:, first : first + model.na]).min() > 1e-4  # the activations are at work
    forgotten = state.physics.copy()
    forgotten[:, first : first + model.na] = 0.0
    apart = CEngine(world).step(state, action).physics - CEngine(world).step(WorldState(forgotten, ()), action).physics
    assert np.abs(apart[:, 1]).min() > 1e-6
    load = state.physics[:, 2:5] - mocap[:, :3]  # behind the hinge: where the load is
    assert np.abs(load).max() < 0.05 < np.ptp(state.physics[:, 2])


def test_warp_refuses_what_it_cannot_step():
    with pytest.raises(UserError, match="--engine warp cannot step arm: it has plugins or delays; use --engine c"):
        make_engine(arm(DelayedArm), "warp")


def test_episodes_start_with_sensors_that_are_read():
    world = arm()
    state = world.initial(jax.random.key(3))
    data = mujoco.MjData(world.model)
    set_physics(world.model, data, np.asarray(state.physics))
    mujoco.mj_forward(world.model, data)
    np.testing.assert_allclose(state.sensors, data.sensordata, atol=1e-6)
    np.testing.assert_array_equal(world.measure(state), [*world.observe(state), *state.sensors])


def test_a_world_without_tuned_numbers_trains_on_the_fallback_recipe(monkeypatch, tmp_path):
    monkeypatch.setattr(WORLDS, "_found", {**WORLDS._found})
    monkeypatch.setattr(Arm, "recipe_overrides", {"laptop": ("schedule.epochs=7",)})
    WORLDS.register("arm", Arm)
    asked = configure("arm")
    assert (asked.recipe, asked.env.episode_length, asked.schedule.epochs) == ("laptop", 20, 7)
    assert asked.engine == "c" and asked.driver == "split"
    with pytest.raises(UserError, match="there is no recipe 'fast' for arm; known: laptop"):
        configure("arm", recipe="fast")
    small = ("schedule.epochs=1", "schedule.worlds=2", "schedule.steps=20", "schedule.sac_steps=1")
    small += ("schedule.method_steps=1", "schedule.sac_batch=8", "schedule.method_batch=8")
    small += ("sac.hidden=[8]", "method.hidden=[8]", "schedule.replay_collections=2")
    run = start_run(configure("arm", set=small), tmp_path / "run")
    assert train(run, quiet=True).epoch == 1


# --- faster models ---------------------------------------------------------------------------------------------------

FLOOR = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 0.1"/>{second}
    <body pos="0 0 1"><freejoint/>
      <geom name="one" size="0.1" {flags}/><geom name="two" pos="0.3 0 0" size="0.1" friction="0.5 0.1 0.1" {flags}/>
    </body>
  </worldbody>
</mujoco>
"""


def named(**parts):
    spec = mujoco.MjSpec.from_string(FLOOR.format(**{"second": "", "flags": 'conaffinity="0"', **parts}))
    name_floor_contacts(spec)
    return compiled(spec)


def test_contacts_are_named_only_where_all_of_them_are_with_one_floor():
    model = named()
    assert model.npair == 2 and not model.geom_contype.any()
    assert sorted(model.pair_friction[:, 0]) == [1.0, 1.0]  # of two geoms the larger counts
    second = '<geom name="ceiling" type="plane" size="5 5 0.1" pos="0 0 9" zaxis="0 0 -1"/>'
    for other in (named(second=second), named(flags="")):
        assert other.npair == 0 and other.geom_contype.all()
    nameless = mujoco.MjSpec.from_string(FLOOR.format(second="", flags='conaffinity="0"').replace('name="floor"', ""))
    name_floor_contacts(nameless)
    assert compiled(nameless).npair == 0
