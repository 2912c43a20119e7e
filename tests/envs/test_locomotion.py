"""The paper's bodies: facts of the published environments, and agreement with Gymnasium's."""

import gymnasium
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from helpers import qpos_of, qvel_of
from wanderlust.envs import make_world
from wanderlust.envs.engines.mujoco_c import CEngine
from wanderlust.envs.mjcf import muted
from wanderlust.envs.worlds.body import BodyConfig

BODIES = ("ant", "half-cheetah", "humanoid")


@pytest.fixture(params=BODIES)
def name(request):
    return request.param


# --- sizes and names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "qpos", "qvel", "actions", "seconds", "position"),
    [
        ("ant", 15, 14, 8, 0.05, (0, 1)),
        ("half-cheetah", 9, 9, 6, 0.05, (0,)),
        ("humanoid", 24, 23, 17, 0.015, (0, 1)),
    ],
)
def test_sizes_and_time(name, qpos, qvel, actions, seconds, position):
    world = make_world(BodyConfig(name, episode_length=123))
    start = world.initial(jax.random.key(0))
    assert (world.spec.obs_dim, world.spec.action_dim) == (qpos + qvel, actions)
    assert world.spec.groups["position"] == position
    assert world.spec.episode_length == 123
    assert world.control_seconds == pytest.approx(seconds)
    after = CEngine(world).step(jax.tree.map(lambda x: x[None], start), np.zeros((1, actions)))
    assert jax.tree.map(np.shape, after) == ((1, 1 + qpos + qvel), (1, 0))
    assert after.physics[0, 0] == pytest.approx(seconds)
    np.testing.assert_array_equal(world.observe(start), start.physics[1:])


ANT_JOINTS = "hip_1 ankle_1 hip_2 ankle_2 hip_3 ankle_3 hip_4 ankle_4"
CHEETAH_JOINTS = "bthigh bshin bfoot fthigh fshin ffoot"
ARMS_AND_LEGS = (
    "right_hip_x right_hip_z right_hip_y right_knee left_hip_x left_hip_z left_hip_y left_knee "
    "right_shoulder1 right_shoulder2 right_elbow left_shoulder1 left_shoulder2 left_elbow"
)


@pytest.mark.parametrize(
    ("name", "joints", "actuators", "gears"),
    [
        ("ant", ANT_JOINTS, "hip_4 ankle_4 hip_1 ankle_1 hip_2 ankle_2 hip_3 ankle_3", [150] * 8),
        ("half-cheetah", f"rootz rooty {CHEETAH_JOINTS}", CHEETAH_JOINTS, [120, 90, 60, 120, 60, 30]),
        (
            "humanoid",
            f"abdomen_z abdomen_y abdomen_x {ARMS_AND_LEGS}",
            f"abdomen_y abdomen_z abdomen_x {ARMS_AND_LEGS}",  # y before z here, z before y above
            [100] * 3 + [100, 100, 300, 200] * 2 + [25] * 6,
        ),
    ],
)
def test_entries_and_actions_are_in_the_published_order(name, joints, actuators, gears):
    model = make_world(BodyConfig(name)).model
    named = [model.joint(i).name for i in range(model.njnt)]
    free = name != "half-cheetah"
    assert named == [*(["root"] if free else ["rootx"]), *joints.split()]
    # The first joint takes x, y, z and a quaternion (and six velocities), or x alone; every other takes one entry.
    np.testing.assert_array_equal(model.jnt_qposadr, [0, *range(7 if free else 1, model.nq)])
    np.testing.assert_array_equal(model.jnt_dofadr, [0, *range(6 if free else 1, model.nv)])
    assert [model.joint(int(joint)).name for joint in model.actuator_trnid[:, 0]] == actuators.split()
    np.testing.assert_array_equal(model.actuator_gear[:, 0], gears)


# --- the model and what is changed in it -----------------------------------------------------------------------------

NEWTON, PGS = mujoco.mjtSolver.mjSOL_NEWTON, mujoco.mjtSolver.mjSOL_PGS
RK4, EULER = mujoco.mjtIntegrator.mjINT_RK4, mujoco.mjtIntegrator.mjINT_EULER
PYRAMIDS, ROUND = mujoco.mjtCone.mjCONE_PYRAMIDAL, mujoco.mjtCone.mjCONE_ELLIPTIC


@pytest.mark.parametrize(
    ("name", "stock_solver", "integrator", "mass"),
    [
        ("ant", NEWTON, RK4, None),
        ("half-cheetah", NEWTON, EULER, 14.0),
        ("humanoid", PGS, RK4, None),
    ],
)
def test_only_the_solver_and_the_cones_are_changed_and_only_where_asked(name, stock_solver, integrator, mass):
    usual, stock = make_world(BodyConfig(name)).model, make_world(BodyConfig(name, solver="stock")).model
    elliptic = make_world(BodyConfig(name, cone="elliptic")).model
    assert (usual.opt.solver, stock.opt.solver, elliptic.opt.solver) == (NEWTON, stock_solver, NEWTON)
    assert (usual.opt.cone, stock.opt.cone, elliptic.opt.cone) == (PYRAMIDS, PYRAMIDS, ROUND)
    assert {m.opt.integrator for m in (usual, stock, elliptic)} == {integrator}
    if mass is not None:
        assert usual.body_mass.sum() == pytest.approx(mass)
    theirs = gymnasium_env(name).model
    for ours in (usual, stock, elliptic):
        for field in (
            "qpos0",
            "body_mass",
            "body_inertia",
            "dof_armature",
            "dof_damping",
            "jnt_range",
            "jnt_stiffness",
        ):
            np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field), err_msg=field)
        for field in ("geom_size", "geom_friction", "geom_solref", "geom_margin", "actuator_ctrlrange"):
            np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field), err_msg=field)
        assert ours.opt.timestep == theirs.opt.timestep
        assert ours.opt.iterations == theirs.opt.iterations
    assert stock.opt.solver == theirs.opt.solver


# --- starts and ends -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "height", "position_noise", "velocity_noise", "normal"),
    [("ant", 0.75, 0.1, 0.1, True), ("half-cheetah", 0.0, 0.1, 0.1, True), ("humanoid", 1.4, 0.01, 0.01, False)],
)
def test_episodes_start_at_the_models_pose_with_noise_on_every_entry(
    name, height, position_noise, velocity_noise, normal
):
    count = 4_000
    world = make_world(BodyConfig(name))
    start = jax.vmap(world.initial)(jax.random.split(jax.random.key(0), count))
    qpos, qvel = qpos_of(world, start), qvel_of(world, start)
    pose = np.zeros(qpos.shape[1])
    if name != "half-cheetah":
        pose[2:4] = height, 1.0  # and the unit quaternion, which is not normalised after the noise
    moved = (np.asarray(qpos) - pose) / position_noise
    pushed = np.asarray(qvel) / velocity_noise
    for noise, is_normal in ((moved, False), (pushed, normal)):
        # A uniform variable in [-1, 1] has variance 1/3 and kurtosis 9/5; of 4,000 draws the mean is then known to
        # 0.009 and the variance to 0.005. Of a normal one: 1 and 3, 0.016 and 0.022. Five of those for 47 entries.
        variance = 1.0 if is_normal else 1 / 3
        kurtosis = 3.0 if is_normal else 9 / 5
        assert np.abs(noise.mean(axis=0)).max() < 5 * np.sqrt(variance / count)
        spread = variance * np.sqrt((kurtosis - 1) / count)
        np.testing.assert_allclose(noise.var(axis=0), variance, atol=5 * spread)
        far = np.abs(noise).max(axis=0)
        if is_normal:
            assert np.all((far > 2.8) & (far < 6.0))  # P = 1e-9 and 8e-6 of finding 4,000 otherwise
        else:
            assert np.all((far > 0.995) & (far < 1.0 + 1e-4))  # float32 next to 1.4 is 1e-7, 1e-5 of Humanoid's noise
    entries = np.concatenate([moved, pushed], axis=1)
    correlations = np.corrcoef(entries, rowvar=False) - np.eye(entries.shape[1])
    assert np.abs(correlations).max() < 6 / np.sqrt(count)  # 1,081 pairs of Humanoid's entries, each known to 0.016


def test_only_humanoid_ends_an_episode_and_only_by_its_height(name):
    world = make_world(BodyConfig(name))
    start = world.initial(jax.random.key(0))
    heights = jnp.array([-50.0, 0.0, 0.5, 0.999, 1.001, 1.4, 1.999, 2.001, 50.0])
    ended = jax.vmap(lambda z: world.terminated(start._replace(physics=start.physics.at[3].set(z))))(heights)
    expected = (heights < 1.0) | (heights > 2.0) if name == "humanoid" else np.zeros(len(heights), bool)
    np.testing.assert_array_equal(ended, expected)
    moved = start.physics.at[jnp.array([1, 2, 4])].set(-9.0).at[1 + world.model.nq :].add(100.0)
    assert not world.terminated(start._replace(physics=moved))


# --- actions ---------------------------------------------------------------------------------------------------------


def test_actions_span_the_control_range_and_are_clipped_to_it(name):
    """One control step next to MuJoCo's own, with the controls written down by hand."""
    world = make_world(BodyConfig(name))
    model, size = world.model, world.spec.action_dim
    strength = 0.4 if name == "humanoid" else 1.0
    np.testing.assert_array_equal(model.actuator_ctrlrange, [[-strength, strength]] * size)
    start = jax.device_get(world.initial(jax.random.key(1)))
    action = np.linspace(-1.7, 1.7, size, dtype=np.float32)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = qpos_of(world, start), qvel_of(world, start)
    data.ctrl[:] = strength * np.clip(action, -1.0, 1.0)
    mujoco.mj_step(model, data, 5)
    after = CEngine(world).step(jax.tree.map(lambda x: x[None], start), action[None])
    np.testing.assert_allclose(after.physics[0], [data.time, *data.qpos, *data.qvel], rtol=1e-6, atol=1e-7)


# --- Gymnasium -------------------------------------------------------------------------------------------------------


def gymnasium_env(name):
    """Gymnasium's environment of that body, told to show and end what the published one does."""
    twin = make_world(BodyConfig(name)).gymnasium
    with muted():  # HalfCheetah's file makes MuJoCo write a warning into the working folder
        return gymnasium.make(twin.id, **twin.options).unwrapped


STEPS = 40


def both(name, solver, together):
    """Observations and ends of four random rollouts, ours and Gymnasium's.

    With `together` both start every control step from the same state and a cold solver; otherwise only the first.
    """
    env, world = gymnasium_env(name), make_world(BodyConfig(name, solver=solver))
    engine, random = CEngine(world, threads=1), np.random.default_rng(0)
    starts = jax.device_get(jax.vmap(world.initial)(jax.random.split(jax.random.key(0), 4)))
    ended = jax.jit(world.terminated)
    ours, theirs, ends = [], [], []
    for i in range(4):
        state = jax.tree.map(lambda x: x[i : i + 1], starts)  # noqa: B023 - called at once
        env.reset(seed=i)
        env.set_state(qpos_of(world, state)[0], qvel_of(world, state)[0])
        for _ in range(STEPS):
            action = random.uniform(-1, 1, (1, world.spec.action_dim))
            if together:
                env.set_state(qpos_of(world, state)[0], qvel_of(world, state)[0])
                env.data.qacc_warmstart[:] = 0.0
            obs, _, theirs_ended, _, _ = env.step(action[0] * env.action_space.high)
            state = engine.step(state, action)
            ours.append(state.physics[0, 1:])
            theirs.append(obs)
            ends.append((bool(ended(state)[0]), theirs_ended))
    shape = (4, STEPS, -1)
    return np.reshape(ours, shape), np.reshape(theirs, shape), np.array(ends)


def test_gymnasium_makes_the_same_step_from_the_same_state(name):
    """The models and their solver are the same and so is every operation: what differs is our rounding to float32."""
    ours, theirs, ends = both(name, "stock", together=True)
    assert np.abs(theirs).max() > 5.0  # they do move
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(ends[:, 0], ends[:, 1])
    assert ends.any() == (name == "humanoid")


def test_gymnasium_goes_the_same_way_for_several_steps(name):
    """Left to themselves, they part by rounding between our control steps and by Gymnasium's warm solver.

    Contacts and joint limits enlarge both. Ten steps of 16 rollouts ended 1e-5 (Ant), 4e-4 (HalfCheetah) and 2e-5
    (Humanoid) apart, in units of metres, radians and seconds.
    """
    ours, theirs, _ = both(name, "stock", together=False)
    np.testing.assert_allclose(ours[:, :2], theirs[:, :2], rtol=1e-6, atol=5e-6)
    np.testing.assert_allclose(ours[:, :10], theirs[:, :10], atol=4e-3)


def test_newton_solves_the_problem_that_humanoids_file_leaves_to_pgs():
    """A residual apart: PGS stops after 50 iterations. Of 640 steps the worst was 1.2e-3, 99% were below 5e-5."""
    ours, theirs, _ = both("humanoid", "newton", together=True)
    apart = np.abs(ours - theirs).max(axis=2)
    assert apart.max() > 1e-6  # not the same solver
    assert apart.max() < 0.01
    assert np.quantile(apart, 0.9) < 5e-5


# --- what networks see -----------------------------------------------------------------------------------------------


def test_a_metre_is_worth_what_the_paper_makes_it_worth():
    specs = [make_world(BodyConfig(name)).spec for name in BODIES]
    assert all(len(spec.obs_mean) == len(spec.obs_std) == spec.obs_dim for spec in specs)
    worth = {spec.name: [1 / spec.obs_std[i] for i in spec.groups["position"]] for spec in specs}
    assert worth["ant"] == pytest.approx([1.60, 1.61], abs=0.005)
    assert worth["half-cheetah"] == pytest.approx([2.48], abs=0.005)
    assert worth["humanoid"] == pytest.approx([7.92, 10.74], abs=0.005)
