"""Worlds made of model files: what the rules decide, what is observed, where episodes start, what is refused."""

import dataclasses
import shutil

import jax
import mujoco
import numpy as np
import pytest

import wanderlust
from model_files import ARM, ASSETS, BALL, BUG, DRIVE, write
from wanderlust import train
from wanderlust.envs.base import WorldState
from wanderlust.envs.engines.mujoco_c import CEngine
from wanderlust.envs.mjcf import Controls, physics_of
from wanderlust.envs.models.facts import nice, starts_of
from wanderlust.envs.names import focus_entries
from wanderlust.errors import UserError


def at(world, **parts):
    """A state of the start, but for some entries of qpos."""
    physics = physics_of(world.model, world.facts.start)
    for entry, value in parts.items():
        physics[1 + int(entry[1:])] = value
    return WorldState(physics.astype(np.float32), np.zeros(world.model.nsensordata, np.float32))


def test_what_the_rules_decide_about_files_that_gymnasium_installs():
    hopper = wanderlust.world_from_mjcf(ASSETS / "hopper.xml")
    config, groups = hopper.config, hopper.groups
    assert (config.root, config.position, config.frame_skip, config.episode_length, config.bin) == (
        "torso", ("rootx",), 10, 250, 0.2,
    )  # fmt: skip
    assert [len(groups[name]) for name in ("position", "height", "orientation", "joints")] == [1, 1, 2, 3]
    np.testing.assert_allclose(np.asarray(hopper.observe(at(hopper)))[groups["height"][0]], 1.25, rtol=1e-6)
    swimmer = wanderlust.world_from_mjcf(ASSETS / "swimmer.xml")
    assert swimmer.config.position == ("slider1", "slider2") and "heading" in swimmer.groups
    assert "orientation" not in swimmer.groups and swimmer.facts.turn is None  # it turns and cannot tilt
    ant = wanderlust.world_from_mjcf(ASSETS / "ant.xml")
    assert ant.config.frame_skip == 2 and len(ant.groups["orientation"]) == 6
    reacher = wanderlust.world_from_mjcf(ASSETS / "reacher.xml")
    assert reacher.config.root == "none" and reacher.config.position == ("joint1",) and reacher.unit == "rad"


def test_a_free_body_without_actuators_is_an_object_and_no_root(tmp_path):
    world = wanderlust.world_from_mjcf(write(tmp_path, BALL + ARM, DRIVE))
    assert world.config.root == "none" and world.config.position == ("shoulder",)
    names = np.array(world.layout.names)
    assert names[list(world.groups["object"])].tolist() == ["ball x", "ball y", "ball z"]
    assert len(world.groups["object_rotation"]) == 6 and len(world.groups["object_velocity"]) == 3
    assert names[list(world.groups["joints"])].tolist() == ["shoulder", "cos elbow", "sin elbow"]
    crawling = wanderlust.world_from_mjcf(write(tmp_path, BALL + BUG.format(z=0.2), '<motor joint="leg"/>'))
    assert (
        crawling.config.root == "bug"
        and np.array(crawling.layout.names)[list(crawling.groups["object"])][0] == "ball x"
    )


def test_no_entry_jumps_where_a_body_turns_on(tmp_path):
    world = wanderlust.world_from_mjcf(write(tmp_path, BUG.format(z=0.2), '<motor joint="leg"/>'))
    quaternion = np.array([0.2, 0.4, -0.8, 0.4])
    quaternion /= np.linalg.norm(quaternion)
    seen, other = (
        np.asarray(world.observe(at(world, **{f"q{3 + k}": sign * x for k, x in enumerate(quaternion)})))
        for sign in (1, -1)
    )
    np.testing.assert_array_equal(seen, other)
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, quaternion)
    expected = matrix.reshape(3, 3)[:, :2].T.reshape(-1)
    np.testing.assert_allclose(seen[list(world.groups["orientation"])], expected, atol=1e-6)
    arm = wanderlust.world_from_mjcf(write(tmp_path, ARM, DRIVE))
    once, twice = (np.asarray(arm.observe(at(arm, q1=angle))) for angle in (0.3, 0.3 + 4 * np.pi))
    np.testing.assert_allclose(once, twice, atol=1e-5)
    cosine, sine = (once[arm.layout.names.index(f"{part} elbow")] for part in ("cos", "sin"))
    np.testing.assert_allclose((cosine, sine), (np.cos(0.3), np.sin(0.3)), rtol=1e-5)


def test_actions_are_mapped_to_ranges_and_muscles_to_0_1(tmp_path):
    more = '<tendon><spatial name="t"><site site="a"/><site site="b"/></spatial></tendon>'
    sites = '<site name="a" pos="0 0 1.2"/>' + ARM.replace(
        '<body name="lower"', '<site name="b" pos=".2 0 .1"/><body name="lower"'
    )
    world = wanderlust.world_from_mjcf(write(tmp_path, sites, DRIVE + '<muscle tendon="t" ctrllimited="false"/>', more))
    controls = Controls.of_model(world.model)
    np.testing.assert_allclose(controls.of(np.array([-1.0, -1, -1])), [-2, -1, 0])
    np.testing.assert_allclose(controls.of(np.array([1.0, 1, 1])), [4, 1, 1])
    np.testing.assert_allclose(controls.of_batch(np.zeros((1, 3), np.float32))[0], [1, 0, 0.5])


def test_episodes_start_near_the_start_on_the_joints_own_ground(tmp_path):
    keyframe = '<keyframe><key name="up" qpos="0 0 .5 .6 0 .8 0 .78"/></keyframe>'
    path = write(tmp_path, BUG.format(z=0.2), '<motor joint="leg"/>', keyframe)
    world = wanderlust.world_from_mjcf(path, keyframe="up", noise=0.1)
    qpos = starts_of(world.config)[:, 1:9].astype(np.float64)
    np.testing.assert_allclose(np.linalg.norm(qpos[:, 3:7], axis=1), 1, atol=1e-6)
    angle = 2 * np.arccos(np.clip(np.abs(qpos[:, 3:7] @ [0.6, 0, 0.8, 0]), 0, 1))
    assert 0.05 < angle.max() <= 0.1 * np.sqrt(3) + 1e-4  # each velocity that turns it is up to 0.1
    assert qpos[:, 2].min() >= 0.5 and qpos[:, 2].max() <= 0.5 + 0.1 * world.facts.size  # never into the floor
    assert qpos[:, 7].max() <= np.radians(45) + 1e-6 and qpos[:, 7].min() < 0.75
    assert wanderlust.world_from_mjcf(path, keyframe="0", noise=0.1).facts.start.qpos[2] == 0.5
    state = jax.vmap(world.initial)(jax.random.split(jax.random.key(0), 4))
    assert np.ptp(np.asarray(state.physics)[:, 8]) > 0
    sunk = wanderlust.world_from_mjcf(write(tmp_path, BUG.format(z=-0.3), '<motor joint="leg"/>'))
    assert sunk.facts.lifted > 0.3 and any("out of the floor" in words for words in sunk.repairs)


def test_an_episode_ends_where_it_was_asked_to(tmp_path):
    path = write(tmp_path, BUG.format(z=0.2), '<motor joint="leg"/>')
    world = wanderlust.world_from_mjcf(path, terminate_below=0.1, terminate_tilted=60.0)
    turned = {angle: (np.cos(np.radians(angle) / 2), np.sin(np.radians(angle) / 2)) for angle in (50, 70)}
    cases = (({}, False), ({"q2": 0.05}, True), *(({"q3": w, "q4": x}, a == 70) for a, (w, x) in turned.items()))
    for parts, ends in cases:
        assert bool(world.terminated(at(world, **parts))) is ends
    plain = wanderlust.world_from_mjcf(path)
    assert not plain.terminated(at(plain, q2=-1.0)) and plain.fallen(at(plain, q3=0.0, q4=1.0))
    hopper = wanderlust.world_from_mjcf(ASSETS / "hopper.xml", terminate_below=0.7, terminate_tilted=30)
    assert not hopper.terminated(at(hopper)) and hopper.terminated(at(hopper, q1=0.6))
    assert hopper.terminated(at(hopper, q2=0.6)) and not hopper.terminated(at(hopper, q2=0.5))
    with pytest.raises(UserError, match=r"would end every episode at once: the root starts at a height of 1\.25"):
        wanderlust.world_from_mjcf(ASSETS / "hopper.xml", terminate_below=1.3)
    with pytest.raises(UserError, match="needs a root that can tilt"):
        wanderlust.world_from_mjcf(ASSETS / "swimmer.xml", terminate_tilted=30)


def test_sensors_are_observed_if_they_are_asked_for(tmp_path):
    more = (
        '<sensor><framelinvel name="quick" objtype="body" objname="bug"/><jointpos name="bent" joint="leg"/></sensor>'
    )
    path = write(tmp_path, BUG.format(z=0.3), '<motor joint="leg"/>', more)
    assert wanderlust.world_from_mjcf(path).model.nsensor == 0
    world = wanderlust.world_from_mjcf(path, sensors=("bent",))
    assert world.groups["sensor:bent"] == world.groups["sensors"] and len(world.groups["sensors"]) == 1
    state = jax.vmap(world.initial)(jax.random.split(jax.random.key(1), 2))
    after = CEngine(world, threads=1).step(jax.device_get(state), np.ones((2, 1), np.float32))
    seen = np.asarray(jax.vmap(world.observe)(after))
    np.testing.assert_allclose(seen[:, world.groups["sensors"][0]], after.physics[:, 8], rtol=1e-5)
    assert focus_entries(world, "sensor:bent, qpos[7], leg velocity") == tuple(
        world.layout.names.index(name) for name in ("bent", "leg", "leg velocity")
    )
    with pytest.raises(UserError, match="does not observe all of qpos"):
        focus_entries(world, "qpos[3:7]")
    assert len(wanderlust.world_from_mjcf(path, sensors=("all",)).groups["sensors"]) == 4
    with pytest.raises(UserError, match=r"no sensor 'no'; it has quick, bent, or all"):
        wanderlust.world_from_mjcf(path, sensors=("no",))


def test_bins_are_the_largest_nice_length_within_a_length():
    assert [nice(x) for x in (0.24, 1.93, 0.99, 5.0, 12.0, 0.1)] == [0.2, 1.0, 0.5, 5.0, 10.0, 0.1]


def test_numbers_for_learning_follow_the_rules():
    from wanderlust.recipes import get_recipe, usual_skills

    world = wanderlust.world_from_mjcf(ASSETS / "hopper.xml")
    config = get_recipe("laptop", world.config, "lsd", usual_skills("lsd"))
    moved = world.trial.moved
    assert config.sac.discount == pytest.approx(1 - 1 / 125) and config.schedule.steps == 50
    assert config.sac.alpha == pytest.approx(10 * 0.01 * moved / 0.09, abs=1e-5) and config.method.reward_scale == 10
    assert (config.schedule.sac_steps, config.schedule.method_steps, config.schedule.sac_batch) == (256, 256, 256)
    assert config.sac.position_scale == pytest.approx(max(1.0, moved * 250 / 10), abs=0.05)
    assert config.schedule.replay_collections == 128
    assert config.env == dataclasses.replace(world.config, focus="position")
    assert min(world.trial.std) > 0 and world.trial.broken == 0
    cosine, sine = (world.layout.names.index(f"{part} rooty") for part in ("cos", "sin"))
    assert world.trial.std[cosine] == world.trial.std[sine]  # a cosine alone hardly changes near upright
    joint = world.layout.names.index("thigh_joint")
    assert world.trial.std[joint] >= 0.01 * np.radians(150)
    flat = wanderlust.world_from_mjcf(ASSETS / "swimmer.xml")
    assert flat.trial.std[0] == flat.trial.std[1], "a metre is as far to the side as ahead"
    metra = get_recipe("laptop", world.config, "metra", usual_skills("metra"))
    assert (metra.sac.alpha, metra.method.reward_scale) == (0.04, 1.0), "its reward counts steps, not metres"


def test_what_is_said_of_the_focus_stays(tmp_path):
    from wanderlust.recipes import get_recipe, usual_skills

    plain, joints = (wanderlust.world_from_mjcf(ASSETS / "hopper.xml", focus=focus) for focus in ("", "joints"))
    for world, method, focus in ((joints, "lsd", "joints"), (plain, "lsd-xy", ""), (plain, "diayn-o", "position")):
        config = get_recipe("laptop", world.config, method, usual_skills(method))
        assert config.env.focus == focus
        assert train.assemble(config).view.method_dim == (3 if focus == "joints" else 1)
    lower = get_recipe("laptop", plain.config, "linearizer", usual_skills("linearizer"))
    jax.eval_shape(lambda: train.init(train.assemble(lower)))
    assert lower.skills.size == 1, "a goal has as many entries as are seen"
    assert focus_entries(plain, "all") == tuple(range(plain.spec.obs_dim))


# --- bad input -------------------------------------------------------------------------------------------------------

MESH = '<asset><mesh file="{}"/></asset>'
REFUSED = {
    "missing mesh": ((BUG.format(z=1), '<motor joint="leg"/>', MESH.format("gone.stl")), "not there: .*gone.stl"),
    "outside": ((BUG.format(z=1), '<motor joint="leg"/>', MESH.format("../../x.stl")), "outside .* --assets FOLDER"),
    "no actuators": ((ARM, ""), "no actuators.* --env.motors"),
    "no freedom": (('<geom size=".1"/>', ""), "no degrees of freedom"),
    "refused by MuJoCo": (('<geom type="blob"/>', ""), "MuJoCo refuses it: .*blob"),
    "NaN at the start": ((ARM, DRIVE, '<keyframe><key qpos="nan 0"/></keyframe>'), "not finite|MuJoCo refuses"),
    "replicate": (
        ('<replicate count="100000"><replicate count="100000"><geom size=".1"/></replicate></replicate>' + ARM, DRIVE),
        "more than 50,000 elements",
    ),
    "flexcomp": (('<flexcomp name="f" type="grid" count="1000 1000 1000"/>' + ARM, DRIVE), "more than 50,000 elements"),
    "texture": ((ARM, DRIVE, '<asset><texture builtin="flat" width="90000" height="90000"/></asset>'), "points"),
    "memory": ((ARM, DRIVE, '<size memory="100T"/>'), "asks for more than 4 GB"),
    "plugin": ((ARM, DRIVE, '<extension><plugin plugin="evil.thing"/></extension>'), "evil.thing.*--allow-plugins"),
    "solver": ((ARM, DRIVE, '<option iterations="2000000000"/>'), "iterations is 2000000000"),
    "not XML": (("<body>", ""), "not well-formed XML"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_one_line(case, tmp_path):
    parts, message = REFUSED[case]
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    options = {"keyframe": "0"} if case == "NaN at the start" else {}
    with pytest.raises(UserError, match=message) as refused:
        wanderlust.world_from_mjcf(write(folder, *parts), **options)
    assert "\n" not in str(refused.value) and [file.name for file in folder.iterdir()] == ["mine.xml"]


def test_includes_are_put_in_and_circles_refused(tmp_path):
    path = write(tmp_path, '<include file="parts/arm.xml"/>', DRIVE)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "arm.xml").write_text(f"<mujocoinclude>{ARM}</mujocoinclude>")
    world = wanderlust.world_from_mjcf(path)
    assert world.model.nv == 2 and set(world.files()) == {"model/mine.xml", "model/trial.json"}
    (tmp_path / "parts" / "arm.xml").write_text('<mujocoinclude><include file="mine.xml"/></mujocoinclude>')
    with pytest.raises(UserError, match=r"go in a circle: mine\.xml"):
        wanderlust.world_from_mjcf(path)
    for n in range(9):  # nine files, each ten times in the one before
        again = f'<include file="parts/{n + 1}.xml"/>' * 10
        (tmp_path / "parts" / f"{n}.xml").write_text(f"<mujocoinclude>{again}</mujocoinclude>")
    (tmp_path / "parts" / "9.xml").write_text("<mujocoinclude><geom/></mujocoinclude>")
    (tmp_path / "parts" / "arm.xml").write_text('<mujocoinclude><include file="parts/0.xml"/></mujocoinclude>')
    with pytest.raises(UserError, match="includes have more than 50,000 elements"):
        wanderlust.world_from_mjcf(path)
    (tmp_path / "parts" / "arm.xml").write_text('<!DOCTYPE m [<!ENTITY a "aaaa">]><mujocoinclude/>')
    with pytest.raises(UserError, match="declares a document type"):
        wanderlust.world_from_mjcf(path)


def test_a_model_within_a_model_is_taken_along_and_counted(tmp_path):
    (tmp_path / "leg.xml").write_text(f'<mujoco model="leg"><worldbody>{ARM}</worldbody></mujoco>')
    body = '<body name="b" pos="0 0 2"><freejoint/><geom size=".1"/>{}</body>'
    asset = '<asset><model name="leg" file="leg.xml"/></asset>'
    one = '<attach model="leg" body="upper" prefix="p-"/>'
    motor = '<motor joint="p-elbow"/>'
    world = wanderlust.world_from_mjcf(write(tmp_path, body.format(one), motor, asset))
    assert world.model.nv == 8 and len(world.files()) == 3
    copies = f'<replicate count="9000">{one}</replicate>'
    with pytest.raises(UserError, match="more than 50,000 elements, copies included"):
        wanderlust.world_from_mjcf(write(tmp_path, body.format(copies), motor, asset))


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "secret.stl").write_text("solid")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "mesh.stl").symlink_to(tmp_path / "secret.stl")
    path = write(folder, ARM, DRIVE, MESH.format("mesh.stl"))
    with pytest.raises(UserError, match="which is outside"):
        wanderlust.world_from_mjcf(path)
    with pytest.raises(UserError, match=r"MuJoCo refuses it: .*stl"):  # allowed, and then looked at
        wanderlust.world_from_mjcf(path, assets=str(tmp_path))


def test_the_command_line_refuses_in_one_line_and_writes_nothing(command_line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, ARM, "")
    for arguments, words in (
        ((path,), "no actuators"),
        (("gone.xml",), "there is no model file gone.xml"),
        ((ASSETS / "hopper.xml", "--env.root", "elbow"), "the model has the bodies torso, thigh, leg, foot"),
        ((ASSETS / "hopper.xml", "--env.keyframe", "7"), "no keyframe '7'; it has none"),
        ((ASSETS / "hopper.xml", "--env.position", "x"), "no entry 'x'; there are rootx, rootz, cos rooty"),
        ((ASSETS / "hopper.xml", "--terminate-tilted", "190"), "must be within 0 and 180"),
        ((ASSETS / "hopper.xml", "--env.frame-skip", "9999"), "env.frame_skip is 9999; it can be 2,000"),
        ((ASSETS / "hopper.xml", "--recipe", "fast"), "no recipe 'fast'"),
    ):
        code, out, err = command_line("discover", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1) and words in err, err
    assert [file.name for file in tmp_path.iterdir()] == ["mine.xml"]


# --- a run -----------------------------------------------------------------------------------------------------------

SMALL = (
    "schedule.epochs=4", "schedule.worlds=4", "schedule.steps=10", "schedule.sac_steps=2", "schedule.method_steps=2",
    "schedule.sac_batch=16", "schedule.replay_collections=2", "sac.hidden=[8]", "method.hidden=[8]", "log_every=2",
    "checkpoint_every=2", "env.episode_length=20",
)  # fmt: skip


def forget():
    """What a new process would not know."""
    from wanderlust import train
    from wanderlust.envs.models import bundle, facts, trial

    bundle._known.clear()
    trial._known.clear()
    facts._facts.cache_clear()
    train.assemble.cache_clear()


def test_a_run_takes_its_model_along(tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    mesh = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]])
    (folder / "tetra.obj").write_text(
        "".join(f"v {x} {y} {z}\n" for x, y, z in mesh) + "f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    )
    body = BUG.format(z=0.3).replace("</freejoint>", "") + '<geom type="mesh" mesh="tetra" pos="2 2 2"/>'
    path = write(folder, body, '<motor joint="leg"/>', MESH.format("tetra.obj"))
    changes = (*SMALL, "env.terminate_below=-1.5")
    run = wanderlust.discover(str(path), changes=changes, out=tmp_path / "run", budget_seconds=1e-6, quiet=True)
    assert sorted(file.name for file in (run.path / "model").iterdir()) == ["mine.xml", "tetra.obj", "trial.json"]
    trial = wanderlust.world_from_mjcf(path).trial
    obs = np.linspace(-1, 1, len(trial.mean), dtype=np.float32)
    shutil.rmtree(folder)
    forget()
    moved = (tmp_path / "run").rename(tmp_path / "elsewhere")
    run = wanderlust.discover(resume=moved, quiet=True)
    assert [row["epoch"] for row in run.metrics()] == [2, 4]
    before = wanderlust.load(moved)
    env = wanderlust.SkillEnv(before, before.world, hold=5)
    seen, _ = env.reset(seed=0)
    assert seen.shape == obs.shape
    for option in range(4):
        seen, reward, _, truncated, info = env.step(np.array([1.0, 0.0], np.float32))
        assert reward == 0.0 and info["steps"] == 5 and truncated == (option == 3)
    action = before.act(obs, before.sample(1)[0])
    assert before.world.config.terminate_below == -1.5 and before.spec.obs_mean == trial.mean
    forget()
    again = wanderlust.load(moved)
    np.testing.assert_array_equal(again.act(obs, again.sample(1)[0]), action)
    forget()
    (moved / "model" / "mine.xml").write_text((moved / "model" / "mine.xml").read_text() + " ")
    with pytest.raises(UserError, match="damaged or was changed"):
        wanderlust.load(moved)
    (moved / "model" / "mine.xml").unlink()
    with pytest.raises(UserError, match="the run's model is missing"):
        wanderlust.load(moved)


def test_a_world_serves_make_vec_and_discover(tmp_path):
    world = wanderlust.world_from_mjcf(write(tmp_path, BUG.format(z=0.3), '<motor joint="leg"/>'), episode_length=3)
    envs = wanderlust.make_vec(world, 2)
    obs, _ = envs.reset(seed=0)
    assert obs.shape == (2, len(world.layout.names))
    for step in range(3):
        obs, _, _, truncated, _ = envs.step(np.zeros((2, 1), np.float32))
        assert truncated.all() == (step == 2)
    assert wanderlust.make_vec(str(tmp_path / "mine.xml"), 1).config.episode_length == 250
    from wanderlust.api import configure

    assert configure(world).env == dataclasses.replace(world.config, focus="position")
    with pytest.raises(UserError, match="env is 3; it must be a name"):
        configure(3)
