"""The engines next to each other: single steps from shared states, threads, room in buffers, and which one is picked.

Warp runs on the CPU here, with the kernels it has on a GPU; tests marked `gpu` do the same there. Every model that
Warp meets costs a few seconds of compilation, the first one twenty.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from small_worlds import arm, arm_starts

from helpers import body_state, qpos_of
from wanderlust.downstream import episodes
from wanderlust.downstream.tasks import make_task
from wanderlust.envs import choose_engine, make_engine, make_world
from wanderlust.envs.base import Capacity, sane
from wanderlust.envs.devices import cache_folder
from wanderlust.envs.engines import select
from wanderlust.envs.engines.formula import JaxEngine
from wanderlust.envs.engines.mujoco_c import CEngine
from wanderlust.envs.engines.warp import WarpEngine, import_warp
from wanderlust.envs.mjcf import set_physics
from wanderlust.envs.worlds.ant import Ant
from wanderlust.envs.worlds.body import BodyConfig
from wanderlust.envs.worlds.half_cheetah import HalfCheetah
from wanderlust.envs.worlds.humanoid import Humanoid
from wanderlust.envs.worlds.point import PointConfig
from wanderlust.errors import UserError
from wanderlust.runs.broken import Broken, Origin, replay

WORLDS = 16


def needs_gpu(test):
    """Left out without one: each further model costs Warp seconds of compilation."""
    reason = "needs a GPU: WANDERLUST_TEST_PLATFORMS=cuda,cpu pytest -m gpu"
    return pytest.mark.gpu(pytest.mark.skipif("jax.default_backend() == 'cpu'", reason=reason)(test))


BODIES = [(Ant, "ant"), (HalfCheetah, "half-cheetah"), (Humanoid, "humanoid")]


@functools.cache
def warp(name, cone="stock"):
    """One engine of each kind for all tests: kernels and buffers are made once."""
    if jax.default_backend() == "cpu":
        import_warp().config.optimization_level = 0  # compiled in two thirds of the time
    return WarpEngine(make_world(BodyConfig(name, cone=cone)))


def starts(world, count, seed=0):
    return jax.device_get(jax.vmap(world.initial)(jax.random.split(jax.random.key(seed), count)))


def tumbled(world, count, seed=0, settle=10):
    """Bodies thrown from anywhere: turned any way, joints anywhere in their range, moving fast; `settle` steps later.

    Poses drawn like that may have limbs inside each other, which none of a body's own motions leads to.
    """
    model, random = world.model, np.random.default_rng(seed)
    qpos = qpos_of(world, starts(world, count, seed)).copy()
    limited = model.jnt_limited > 0
    qpos[:, model.jnt_qposadr[limited]] = random.uniform(*model.jnt_range[limited].T, (count, limited.sum()))
    if world.spec.name == "half-cheetah":
        qpos[:, 1:3] = random.uniform([-0.4, -np.pi], [0.5, np.pi], (count, 2))
    else:
        turn = random.normal(size=(count, 4))
        qpos[:, 3:7] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
        qpos[:, 2] = random.uniform(0.3, 1.5, count)
    qvel = random.normal(size=(count, model.nv)) * random.choice([0.1, 2.0, 5.0], (count, 1))
    state, c = body_state(qpos, qvel), CEngine(world)
    for _ in range(settle):
        state = c.step(state, random.uniform(-1, 1, (count, model.nu)).astype(np.float32))
    return state


def sensed(model, physics):
    """What MuJoCo's sensors read in a state."""
    data = mujoco.MjData(model)
    set_physics(model, data, physics)
    mujoco.mj_forward(model, data)
    return data.sensordata.copy()


def difference(a, b):
    """The largest difference of any entry, per world."""
    return np.abs(a.physics[:, 1:] - b.physics[:, 1:]).max(axis=1)


# --- C against Warp --------------------------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """Single control steps of random rollouts, (steps, worlds)."""

    apart: np.ndarray
    """How far the engines' results are apart."""
    sensitivity: np.ndarray
    """How far the C engine's own result moves with its state moved by 1e-6, the rounding of float32 at 10."""
    steep: np.ndarray
    """Whether a capsule within 31 degrees of the floor's normal comes within 5 cm of the floor."""


def compared(name, cone, worlds, first, last, seed=0):
    """Rollouts of the C engine; from step `first` on, Warp makes each step as well, from the same states."""
    world, engine = make_world(BodyConfig(name, cone=cone)), warp(name, cone)
    c, step, random = CEngine(world), jax.jit(engine.step), np.random.default_rng(seed)
    state, found = starts(world, worlds, seed), []
    for t in range(last):
        action = random.uniform(-1, 1, (worlds, world.spec.action_dim)).astype(np.float32)
        after = c.step(state, action)
        if t >= first:
            moved = np.zeros(worlds)
            for _ in range(4):
                x = state.physics
                near = x + 1e-6 * random.choice([-1, 1], x.shape) * np.maximum(1, np.abs(x))
                moved = np.maximum(moved, difference(c.step(state._replace(physics=near), action), after))
            apart = difference(jax.device_get(step(state, action)), after)
            found.append((apart, moved, steep_near_floor(world, state, action)))
        state = after
    engine.check()
    return Comparison(*map(np.array, zip(*found, strict=True)))


def steep_near_floor(world, state, action):
    """For which worlds the engines choose different tangents at some moment of the step, friction being pyramids.

    They need a tangent to build a pyramid on. C takes the capsule's axis, laid flat; Warp does so only beyond 30
    degrees from the normal, and otherwise takes the y axis.
    """
    model = world.model
    data, capsules = mujoco.MjData(model), model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE
    radius, half = model.geom_size[capsules, 0], model.geom_size[capsules, 1]
    found = np.zeros(len(action), bool)
    for i, control in enumerate(action * model.actuator_ctrlrange[:, 1]):
        mujoco.mj_resetData(model, data)
        set_physics(model, data, state.physics[i])
        data.ctrl[:] = control
        for _ in range(6):
            mujoco.mj_kinematics(model, data)
            upright = np.abs(data.geom_xmat[capsules, 8])
            lowest = data.geom_xpos[capsules, 2] - upright * half - radius
            found[i] |= np.any((upright > np.cos(np.deg2rad(31))) & (lowest < 0.05))
            mujoco.mj_step(model, data)
    return found


def assert_rounding_apart(apart, sensitivity):
    """Warp computes in float32, C in float64: that is a state moved by a few roundings, not another motion.

    A contact or a joint's limit that begins or ends within the step enlarges it, in C itself as between the two, so the
    bound is made of C's own sensitivity: an Ant without a steep leg was once 0.3 off, and C itself as much. In 15,000
    steps `apart` was at most 4.3 of this unit (HalfCheetah; 2.3 for the others). In 8,700 of them it was looked at
    where C's sensitivity is below 1e-3, that is 93% of HalfCheetah's steps and 99.7% of the others': at most 2.7e-4.
    """
    assert np.all(apart < 10 * (1e-5 + sensitivity))
    calm = sensitivity < 1e-3
    assert calm.mean() > 0.85  # or the bound would say little
    assert apart[calm].max() < 1e-3
    assert np.median(apart) < 3e-5


def check_half_cheetah(worlds):
    """It moves in a plane, where the tangent is the same for both engines: all steps agree."""
    found = compared("half-cheetah", "stock", worlds, 0, 25)
    assert found.steep.any()
    assert_rounding_apart(found.apart, found.sensitivity)


def check_ant_with_round_cones(worlds):
    """There is no tangent to choose: all steps agree, those with a steep leg on the floor too."""
    found = compared("ant", "elliptic", worlds, 4, 16)
    assert found.steep.any()
    assert_rounding_apart(found.apart, found.sensitivity)


def check_pyramids(name, worlds, first, last):
    """Where no steep capsule is near the floor they agree, so whatever else parts them has one."""
    found = compared(name, "stock", worlds, first, last)
    assert found.steep.any()
    assert found.steep.mean() < 0.9
    assert_rounding_apart(found.apart[~found.steep], found.sensitivity[~found.steep])
    assert found.apart.max() < 5.0
    return found


def check_ant(worlds):
    """Its legs are the steep capsules: 28 to 41% of the steps of ten seeds disagree, by up to 2.6 (mostly rad/s)."""
    found = check_pyramids("ant", worlds, 6, 18)
    assert 0.1 < np.mean(found.apart > 0.01) < 0.6


def check_humanoid(worlds):
    """Its feet are spheres. A thigh is steep when a falling body kneels, and few of those steps disagree.

    Of the ones compared here, while it falls, that is 0 to 5.6% in ten seeds, 1.5% in all.
    """
    found = check_pyramids("humanoid", worlds, 18, 28)
    assert np.median(found.apart[found.steep]) < 3e-5


CHECKS = {
    "ant": check_ant,
    "ant, round cones": check_ant_with_round_cones,
    "half-cheetah": check_half_cheetah,
    "humanoid": check_humanoid,
}


@pytest.mark.parametrize("body", ["ant", "half-cheetah"])
def test_c_and_warp_make_the_same_steps_but_for_turned_pyramids(body):
    CHECKS[body](WORLDS)


@needs_gpu
@pytest.mark.parametrize("body", CHECKS)
def test_c_and_warp_on_a_gpu_make_the_same_steps_but_for_turned_pyramids(body):
    CHECKS[body](256)


# --- what a step depends on ------------------------------------------------------------------------------------------


def test_the_c_engine_gives_the_same_numbers_on_any_number_of_threads():
    world = make_world(BodyConfig("ant"))
    engines = [CEngine(world, threads=n) for n in (1, 2, 3)]
    states = [tumbled(world, 37)] * 3
    random = np.random.default_rng(0)
    for _ in range(8):
        action = random.uniform(-1, 1, (37, 8)).astype(np.float32)
        states = [engine.step(state, action) for engine, state in zip(engines, states, strict=True)]
    for state in states[1:]:
        np.testing.assert_array_equal(state.physics, states[0].physics)


@pytest.mark.parametrize("speed", [0.0, 7e9, 1e30, 3e38, np.inf, np.nan])  # of one world: at rest, fast, broken
def test_no_state_that_is_broken_passes_for_sane(speed):
    world = make_world(BodyConfig("ant"))
    state = tumbled(world, 5)
    state.physics[3, -1] = speed
    action = np.random.default_rng(0).uniform(-1, 1, (5, 8)).astype(np.float32)
    after, all_sane = CEngine(world, threads=2).step_checked(state, action)
    assert all_sane == (speed == 0.0)
    assert sane(after)[[0, 1, 2, 4]].all() and (sane(after)[3] or not all_sane)
    others = [0, 1, 2, 4]
    alone = CEngine(world, threads=1).step(jax.tree.map(lambda x: x[others], state), action[others])
    np.testing.assert_array_equal(after.physics[others], alone.physics)


def test_callers_share_many_cores_out_and_few_not():
    world = make_world(BodyConfig("ant"))
    few, many = CEngine(world, threads=2), CEngine(world, threads=16)
    assert few.for_callers(2) is few
    assert many.for_callers(2).threads == 8 and many.for_callers(1).threads == 16


@pytest.mark.parametrize("kind", ["c", "warp"])
def test_a_step_depends_on_nothing_but_its_own_state_and_action(kind):
    """Not on the step before (the solver starts cold) nor on the other worlds of the batch."""
    world = make_world(BodyConfig("half-cheetah"))
    step = CEngine(world).step if kind == "c" else jax.jit(warp("half-cheetah").step)
    random = np.random.default_rng(1)
    action = random.uniform(-1, 1, (WORLDS, 6)).astype(np.float32)
    state, other = tumbled(world, WORLDS, 1), tumbled(world, WORLDS, 2)
    once = jax.device_get(step(state, action))
    step(other, -action)
    turned = jax.device_get(step(jax.tree.map(lambda x: x[::-1], state), action[::-1]))
    np.testing.assert_array_equal(turned.physics[::-1], once.physics)


def test_a_batch_of_batches_is_one_batch():
    world, engine = make_world(BodyConfig("half-cheetah")), warp("half-cheetah")
    state = tumbled(world, WORLDS)
    action = np.random.default_rng(0).uniform(-1, 1, (WORLDS, 6)).astype(np.float32)
    flat = jax.jit(engine.step)(state, action)
    seeds = jax.tree.map(lambda x: x.reshape(4, WORLDS // 4, x.shape[1]), (state, action))
    nested = jax.jit(jax.vmap(engine.step))(*seeds)
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x.reshape(y.shape), y), nested, flat)

    shared = jnp.zeros((WORLDS // 4, 6))  # not batched: the same actions for all seeds
    one = jax.jit(jax.vmap(engine.step, in_axes=(0, None)))(seeds[0], shared)
    two = jax.jit(engine.step)(state, jnp.zeros((WORLDS, 6)))
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x.reshape(y.shape), y), one, two)


def test_warp_steps_activations_and_mocap_bodies_and_reads_sensors_as_c_does():
    world, random = arm(), np.random.default_rng(0)
    engine, c, state = WarpEngine(world), CEngine(world), arm_starts(world)
    step = jax.jit(engine.step)
    for _ in range(3):
        action = random.uniform(-1, 1, (3, 1)).astype(np.float32)
        on_warp, state = step(state, action), c.step(state, action)
        assert on_warp.sensors.shape == (3, 4)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3), on_warp, state)
    engine.check()


@needs_gpu
def test_a_task_gives_the_same_on_warp_as_on_c():
    """CheetahHurdle in a compiled program: its bars are in Warp's model, too."""
    task = make_task("cheetah-hurdle")
    world = task.arrange(make_world(BodyConfig("half-cheetah")))
    engine, c, worlds = make_engine(world, "warp"), make_engine(world, "c", threads=1), 4
    qpos, qvel = np.zeros((worlds, 9), np.float32), np.zeros((worlds, 9), np.float32)
    qpos[:, 0] = [2.5, 2.7, 3.3, 3.57]  # legs on the bar at 3; the back foot of the last is 5 cm from passing it
    qvel[:, 0] = [1.0, 2.0, -1.0, 4.0]
    action = np.random.default_rng(0).uniform(-1, 1, (worlds, 6)).astype(np.float32)

    @jax.jit
    def play(body):
        remembered = jax.vmap(lambda b: task.begin(world.measure(b), jax.random.key(0)))(body)
        keys = jax.random.split(jax.random.key(0), worlds)
        episode = episodes.Episode(body, remembered, jnp.zeros(worlds, jnp.int32), keys)
        start = now = episodes.begin_option(episode, jnp.ones(4, bool))
        for _ in range(2):
            now = episodes.step_option(world, task, now, engine.step(now.episode.body, action))
        return start, now

    body = body_state(qpos, qvel, sensors=3)
    for row, reading in zip(body.physics, body.sensors, strict=True):
        reading[:] = sensed(world.model, row)
    now, on_warp = play(body)
    engine.check()
    step = jax.jit(lambda now, after: episodes.step_option(world, task, now, after))
    for _ in range(2):
        now = step(now, c.step(jax.device_get(now.episode.body), action))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=5e-3), on_warp.episode.body, now.episode.body)
    assert on_warp.result.reward.tolist() == now.result.reward.tolist() == [0, 0, 0, 1]
    assert on_warp.steps.tolist() == [2] * worlds
    free = make_engine(make_world(BodyConfig("half-cheetah")), "c", threads=1)
    apart = difference(free.step(body, action), c.step(body, action))
    assert apart.max() > 0.1  # the bars are in the way


# --- room in Warp's buffers ------------------------------------------------------------------------------------------


def c_load(name):
    """The most contacts and constraint rows of one world of the C engine, in few rollouts with all kinds of actions."""
    world = make_world(BodyConfig(name))
    model, random, start = world.model, np.random.default_rng(0), tumbled(world, 40)
    data, contacts, rows = mujoco.MjData(model), 0, 0
    for i in range(40):
        mujoco.mj_resetData(model, data)
        set_physics(model, data, start.physics[i])
        held = np.sign(random.uniform(-1, 1, model.nu))
        for t in range(60):
            if t % 5 == 0:
                action = random.uniform(-1, 1, model.nu)
                data.ctrl[:] = (action, np.sign(action), held, 0.0)[i % 4] * model.actuator_ctrlrange[:, 1]
            mujoco.mj_step(model, data)
            contacts, rows = max(contacts, data.ncon), max(rows, data.nefc)
    return contacts, rows


@pytest.mark.parametrize(("body", "name"), BODIES)
def test_there_is_half_as_much_room_again_as_the_worst_case_needs(body, name):
    """Half of what is found here at least, as the worst of 1,200 longer rollouts was 1.1 to 1.6 times as much."""
    contacts, rows = c_load(name)
    assert 1.5 * contacts <= body.capacity.contacts < 6 * contacts
    assert 1.5 * rows <= body.capacity.rows < 6 * rows


@pytest.mark.parametrize("name", ["ant", "half-cheetah"])
def test_warp_counts_its_load_and_finds_room_for_tumbling_bodies(name):
    """Its buffer also holds pairs that are only close, which the C engine does not count."""
    world, engine = make_world(BodyConfig(name)), WarpEngine(make_world(BodyConfig(name)))
    state, step = tumbled(world, WORLDS), jax.jit(engine.step)
    random = np.random.default_rng(0)
    for _ in range(4):
        action = np.sign(random.uniform(-1, 1, (WORLDS, world.spec.action_dim))).astype(np.float32)
        state = jax.device_get(step(state, action))
    engine.check()
    ((contacts, rows, overflowed),) = [simulation.load() for simulation in engine._simulations.values()]
    assert not overflowed
    assert 0 < 1.5 * contacts <= engine.capacity.contacts * WORLDS
    assert 0 < 1.5 * rows <= engine.capacity.rows


@pytest.mark.parametrize("room", [Capacity(contacts=16, rows=8), Capacity(contacts=1, rows=72)])
def test_too_little_room_raises_with_the_numbers(monkeypatch, room):
    world = make_world(BodyConfig("half-cheetah"))
    low = jax.tree.map(np.copy, starts(world, WORLDS))
    low.physics[:, 2] -= 0.2  # knees on the floor
    action = np.zeros((WORLDS, 6), np.float32)

    enough = warp("half-cheetah")
    jax.block_until_ready(jax.jit(enough.step)(low, action))
    enough.check()

    monkeypatch.setattr(HalfCheetah, "capacity", room)
    engine = WarpEngine(world)
    engine.check()  # nothing has happened yet
    jax.block_until_ready(jax.jit(engine.step)(low, action))
    with pytest.raises(UserError, match="buffers of MuJoCo Warp overflowed") as raised:
        engine.check()
    said = str(raised.value)
    assert "\n" not in said
    assert f"in {WORLDS} worlds (room for {room.contacts * WORLDS})" in said
    assert f"in one world (room for {room.rows})" in said
    contacts, rows = (int(part.split()[-1]) for part in (said.split(" contacts")[0], said.split(" constraint rows")[0]))
    assert contacts > room.contacts * WORLDS or rows > room.rows
    assert "--engine c" in said


def test_a_body_that_breaks_down_is_said_to_although_its_buffers_overflow():
    world = make_world(BodyConfig("ant"))
    state, action = starts(world, 1), np.zeros((1, 8), np.float32)
    fast = state.physics + 1e4 * (np.arange(state.physics.size) > 15)
    broken = Broken(Origin(world.config, "warp", 4), np.zeros(1, np.int32), fast.astype(np.float32), action)
    (again,) = replay(broken, "warp")
    assert not again.finite
    assert again.overflow.startswith("the buffers of MuJoCo Warp overflowed: ")


# --- which one -------------------------------------------------------------------------------------------------------

POINT, ANT = make_world(PointConfig()), make_world(BodyConfig("ant"))
STOCK_HUMANOID = make_world(BodyConfig("humanoid", solver="stock"))


class Card:
    device_kind = "a card"


def with_gpu(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "devices", lambda: [Card()])


def without_warp(monkeypatch):
    def missing():
        raise UserError("--engine warp needs MuJoCo Warp")

    monkeypatch.setattr(select, "import_mujoco_warp", missing)


def test_the_engine_is_picked_by_what_is_there_with_the_reason(monkeypatch):
    assert choose_engine(POINT) == ("jax", "its dynamics are a formula")
    assert choose_engine(ANT, "c") == ("c", "asked for")
    assert choose_engine(ANT, "warp") == ("warp", "asked for")
    with monkeypatch.context() as patch:
        patch.setattr(jax, "default_backend", lambda: "cpu")
        assert choose_engine(ANT) == ("c", "JAX sees no GPU")
    with_gpu(monkeypatch)
    assert choose_engine(ANT) == ("warp", "there is a GPU (a card)")
    assert choose_engine(ANT, "c") == ("c", "asked for")
    assert choose_engine(make_world(BodyConfig("ant", solver="stock"))) == ("warp", "there is a GPU (a card)")
    assert choose_engine(STOCK_HUMANOID) == ("c", "env.solver=stock asks for PGS, which only this engine has")
    without_warp(monkeypatch)
    reason = "there is a GPU, but MuJoCo Warp is not installed: wanderlust[cuda] has it"
    assert choose_engine(ANT) == ("c", reason)


def test_what_cannot_be_picked_says_what_can(monkeypatch):
    with pytest.raises(UserError, match="--engine jax cannot step ant: choose c or warp"):
        choose_engine(ANT, "jax")
    with pytest.raises(
        UserError, match=r"no PGS solver, which env\.solver=stock \(the paper's\) asks for: use --engine c"
    ):
        choose_engine(STOCK_HUMANOID, "warp")
    with pytest.raises(UserError, match="--engine warp cannot step point: its dynamics are a formula"):
        make_engine(POINT, "warp")
    without_warp(monkeypatch)
    with pytest.raises(UserError, match="--engine warp needs MuJoCo Warp"):
        choose_engine(ANT, "warp")


def test_the_engine_that_was_picked_is_made():
    assert isinstance(make_engine(POINT), JaxEngine)
    assert isinstance(make_engine(ANT, "c"), CEngine)
    assert isinstance(make_engine(ANT, "warp"), WarpEngine)
    assert [make_engine(ANT, kind).compiles for kind in ("c", "warp")] == [False, True]


def test_warp_is_quiet_and_keeps_its_kernels_in_our_cache(capfd):
    wp = import_warp()

    @wp.kernel(module="unique")
    def double(x: wp.array(dtype=float)):
        x[wp.tid()] *= 2.0

    numbers = wp.ones(3, dtype=float, device="cpu")
    wp.launch(double, 3, inputs=[numbers], device="cpu")
    np.testing.assert_array_equal(numbers.numpy(), [2.0, 2.0, 2.0])
    assert capfd.readouterr().out == ""  # by default, a line for each kernel that is compiled or loaded
    assert any("double" in path.name for path in (cache_folder() / "warp").rglob("*.o"))


@pytest.mark.parametrize("name", ["ant", "half-cheetah", "humanoid"])
def test_the_leaner_model_of_c_makes_the_same_step_to_the_last_bit(name):
    world = make_world(BodyConfig(name))
    lean, plain = CEngine(world, 1), CEngine(world, 1)
    plain._model = model = world.model
    assert lean._model is not plain._model
    random = np.random.default_rng(0)
    state = starts(world, 16)
    for _ in range(60):
        action = random.uniform(-1, 1, (16, model.nu)).astype(np.float32)
        state, other = lean.step(state, action), plain.step(state, action)
        np.testing.assert_array_equal(state.physics, other.physics)
