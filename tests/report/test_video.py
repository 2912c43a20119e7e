"""Films: what is rendered is what happened, files are whole, and what is missing is named in one line."""

import json
import sys

import jax
import numpy as np
import pytest
from PIL import Image

from trained import copy_of, run_python, trained, tree
from wanderlust.envs import make_world
from wanderlust.errors import UserError
from wanderlust.methods.skills import BoxSkills, ContinuousSkills, DiscreteSkills, spread
from wanderlust.registry import WORLDS
from wanderlust.report.comparison import read_record
from wanderlust.report.document import films_of
from wanderlust.report.video import film, opengl, stage
from wanderlust.report.video.canvas import Camera, Canvas, Scenery
from wanderlust.report.video.shooting import Shoot, Shooting, Take
from wanderlust.report.video.writing import write_gif
from wanderlust.runs.files import ArrayFile

RED, GREEN, BLUE = np.eye(3)


@pytest.fixture(scope="module", autouse=True)
def renderer():
    try:
        opengl.backend()
    except UserError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def ant():
    return make_world(WORLDS.get("ant").configure("ant"))


def states(world, *places):
    """One body at rest, at some places on the floor."""
    rest = np.asarray(world.initial(jax.random.key(0)).physics, np.float64)
    found = np.tile(rest, (len(places), 1))
    found[:, 1:3] = places
    return found


def take_of(world, physics, colours=None, seconds=0.05, **facts):
    """Bodies side by side: physics [time, bodies, physics]."""
    position = physics[..., 1 : 1 + min(2, len(world.spec.groups["position"]))]
    count = physics.shape[1]
    facts = {"alive": np.ones(physics.shape[:2], bool), "names": [f"skill {n}" for n in range(count)]} | facts
    return Take(world, physics, position, colours=colours, title="a title", seconds=seconds, **facts)


def painted(picture, colour):
    """Pixels whose largest share is of a pure colour."""
    colour = np.asarray(colour, bool)
    x = picture.astype(int)
    return (x[..., colour].min(axis=-1) > 2 * x[..., ~colour].max(axis=-1)) & (x[..., colour].min(axis=-1) > 60)


def decoded(path):
    import av

    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        return [frame.to_ndarray(format="rgb24") for frame in file.decode(stream)], float(stream.average_rate)


# --- scenes -----------------------------------------------------------------------------------------------------------


def test_the_camera_sees_the_body_where_it_is_and_the_floor_has_no_end(ant):
    here, there = states(ant, (0.0, 0.0), (1000.0, -3000.0))
    with Canvas(ant, 128, 96) as canvas:
        seen = []
        for physics in (here, there):
            camera = Camera(canvas.place_of(physics), 4.0, 60.0, -25.0)
            picture = canvas.render([Scenery([physics], camera, [RED])])
            mine = painted(picture, RED)
            assert 0.01 < mine.mean() < 0.4
            rows, columns = np.nonzero(mine)
            assert abs(rows.mean() - 48) < 10 and abs(columns.mean() - 64) < 8
            seen.append(picture[60:][~mine[60:]])
        assert all(floor.std() > 3 and floor.mean() > 120 for floor in seen)  # squares of two greys, also far away
        away = Camera(np.array([50.0, 0.0, 0.5]), 4.0, 60.0, -25.0)
        assert not painted(canvas.render([Scenery([here], away, [RED])]), RED).any()


@pytest.mark.parametrize("quality", ["plain", "high"])
def test_bodies_throw_a_shadow(ant, quality):
    (physics,) = states(ant, (0.0, 0.0))
    physics[3] = 1.5  # metres up
    with Canvas(ant, 128, 96, quality) as canvas:
        camera = Camera(np.array([0.0, 0.0, 0.7]), 6.0, 60.0, -35.0)
        picture = canvas.render([Scenery([physics], camera, [RED])]).astype(int)
        grey = np.ptp(picture, axis=-1) < 20
        dark = grey & (picture.max(axis=-1) < 165)
        assert 0.004 < dark[40:].mean() < 0.2


def test_several_bodies_are_in_one_scene_or_in_cells_in_order(ant):
    physics = states(ant, (0.0, -2.0), (0.0, 2.0))
    with Canvas(ant, 160, 80) as canvas:
        above = Camera(np.zeros(3), 14.0, 90.0, -89.0)
        both = canvas.render([Scenery(list(physics), above, [RED, BLUE])])
        assert painted(both, RED).sum() > 20 and painted(both, BLUE).sum() > 20
        assert np.nonzero(painted(both, RED))[0].mean() > 40 > np.nonzero(painted(both, BLUE))[0].mean()  # north is up
        cells = [
            Scenery([p], Camera(canvas.place_of(p), 5.0, 60.0, -25.0), [c])
            for p, c in zip(physics, (RED, BLUE), strict=True)
        ]
        beside = canvas.render(cells, columns=2)
        assert painted(beside[:, :80], RED).any() and not painted(beside[:, 80:], RED).any()
        assert painted(beside[:, 80:], BLUE).any() and not painted(beside[:, :80], BLUE).any()


def test_the_model_of_the_world_stays_as_it_is(ant):
    before = (ant.model.geom_size.copy(), ant.model.mat_reflectance.copy(), ant.model.vis.quality.shadowsize)
    model = stage.picture_model(ant, 64, 64)
    assert (model.nq, model.nv) == (ant.model.nq, ant.model.nv) and model is not ant.model
    assert np.array_equal(before[0], ant.model.geom_size) and np.array_equal(before[1], ant.model.mat_reflectance)
    assert ant.model.vis.quality.shadowsize == before[2] != model.vis.quality.shadowsize


@pytest.mark.parametrize("name", ["half-cheetah", "humanoid", "fetch-push"])
def test_every_world_can_be_filmed(name):
    if name.startswith("fetch"):
        pytest.importorskip("gymnasium_robotics")
    world = make_world(WORLDS.get(name).configure(name))
    physics = np.asarray(world.initial(jax.random.key(0)).physics, np.float64)[None, None]
    with Shoot(take_of(world, physics), Shooting(width=128)) as shoot:
        picture = shoot.picture(0)
        assert picture.shape == (shoot.size.height, 128, 3) and shoot.size.height % 2 == 0
        middle = picture[shoot.size.head :][20:-10, 30:-30].astype(int)
        assert (np.ptp(middle, axis=-1) > 25).mean() > 0.01  # something that is not the grey of the floor


def test_a_film_shows_what_happened(ant, tmp_path):
    """The files have every picture in order, at real time, and words where they belong."""
    steps = np.linspace(0.0, 3.0, 7)
    physics = np.stack([states(ant, (x, 0.0), (0.0, x)) for x in steps])
    alive = np.ones((7, 2), bool)
    alive[5:, 1] = False
    take = take_of(ant, physics, np.array([RED, BLUE]), alive=alive)
    made = film.film(take, Shooting(width=256, paint=True), tmp_path / "video", "skills")
    names = [path.name for path in made.files]
    assert names == ["skills.mp4", "skills.gif", "skills.png"] and sorted(
        p.name for p in (tmp_path / "video").iterdir()
    )
    pictures, rate = decoded(made.files[0])
    assert len(pictures) == made.pictures == 7 and rate == made.fps == 20.0
    high, wide, _ = pictures[0].shape
    assert (wide, high % 2) == (256, 0)
    assert painted(pictures[-1][:, :128], RED).any() and painted(pictures[-1][:, 128:], BLUE).any()
    assert pictures[0][:24].min() < 120 < pictures[0][:2].min()  # the title, in dark letters on white
    with Image.open(made.files[1]) as gif:
        assert gif.n_frames == 4 and gif.info["loop"] == 0 and gif.info["duration"] == 100
    with Image.open(made.files[2]) as strip:
        assert strip.height > 2 * 100 and strip.width > 6 * 100  # six moments of two skills
    with Shoot(take, Shooting(width=256)) as shoot:
        assert shoot.said(0, 0) == "0.0 m" and shoot.said(6, 0) == "3.0 m" and shoot.said(6, 1) == "3.0 m  over"


def test_fast_bodies_are_not_shown_at_every_step(ant):
    take = take_of(ant, np.repeat(states(ant, (0, 0))[None], 9, axis=0), seconds=0.01)
    assert (take.stride, take.fps) == (3, pytest.approx(100 / 3)) and list(take.times) == [0, 3, 6]


def test_a_gif_repeats_and_keeps_its_pace(tmp_path):
    pictures = [Image.new("RGB", (8, 8), (40 * n, 0, 0)) for n in range(5)]
    with Image.open(write_gif(tmp_path / "x.gif", pictures, 0.08)) as gif:
        assert (gif.n_frames, gif.info["duration"], gif.info["loop"]) == (5, 80, 0)


# --- which skills -----------------------------------------------------------------------------------------------------


def test_skills_of_a_film():
    key = jax.random.key(0)
    assert np.array_equal(spread(DiscreteSkills(5), 9, key), np.eye(5))
    plane = np.asarray(spread(ContinuousSkills(2), 9, key))
    angles = np.degrees(np.arctan2(plane[:, 1], plane[:, 0])) % 360
    assert np.allclose(np.sort(angles), 40 * np.arange(9), atol=1e-3)
    assert np.allclose(np.linalg.norm(plane, axis=1), ContinuousSkills(2).expected_norm, atol=1e-5)
    line = np.asarray(spread(ContinuousSkills(1), 5, key))[:, 0]
    assert np.all(np.diff(line) > 0.5) and np.isclose(line.sum(), 0.0, atol=1e-6)
    many = np.asarray(spread(ContinuousSkills(5, unit_length=True), 9, key))
    apart = many @ many.T - 2 * np.eye(9)
    assert many.shape == (9, 5) and np.allclose(np.linalg.norm(many, axis=1), 1.0, atol=1e-5)
    drawn = np.asarray(jax.vmap(ContinuousSkills(5, True).sample)(jax.random.split(jax.random.key(1), 9)))
    assert apart.max() < (drawn @ drawn.T - 2 * np.eye(9)).max()  # none is as near to another as random ones are
    assert np.abs(np.asarray(spread(BoxSkills(3), 4, key))).max() <= 1.0


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_film_of_a_zoo_entry(here, command_line):
    code, out, err = command_line("video", "zoo:ant-agile-10", "--steps", 4, "--size", 120, "--skills", 4)
    assert code == 0, err
    folder = here / "runs" / "zoo-ant-agile-10" / "video"
    assert sorted(path.name for path in folder.iterdir()) == ["skills.gif", "skills.mp4", "skills.png"]
    assert f"film: {folder.relative_to(here) / 'skills.mp4'}" in out and "picture 5/5" in err
    assert len(decoded(folder / "skills.mp4")[0]) == 5


def test_points_are_filmed_from_above(here, command_line):
    run = copy_of(trained(), here / "run")
    code, _, err = command_line("video", "run", "--size", 120)
    assert code == 0, err
    pictures, rate = decoded(run.path / "video" / "skills.mp4")
    assert rate == 20.0 and len(pictures) == 5 * 4 + 1 + 15
    assert np.abs(pictures[0].astype(int) - pictures[-1]).mean() > 0.5


BAD = {
    "no steps": ("--steps 0", "--steps is 0"),
    "no time": ("--seconds 0", "--seconds is 0"),
    "both": ("--steps 3 --seconds 1", "exclude each other"),
    "no skills": ("--skills 0", "--skills is 0"),
    "tiny": ("--size 10", "--size is 10"),
    "no such seed": ("--seed 4", "has no seed 4"),
    "a path for a name": ("--name ../x", "--name is '../x'"),
    "a name that is taken": ("--name mine", "mine.mp4 already exists; choose another --name, or --replace it"),
}


@pytest.mark.parametrize("case", BAD)
def test_video_refuses(case, here, command_line):
    run = copy_of(trained(), here / "run")
    (run.path / "video").mkdir()
    (run.path / "video" / "mine.mp4").write_bytes(b"mine")
    before = tree(here)
    words, message = BAD[case]
    code, _, err = command_line("video", "run", *words.split())
    assert (code, len(err.strip().splitlines())) == (2, 1) and message in err
    assert tree(here) == before


# --- what is missing --------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh_backend(monkeypatch):
    """The choice is made again, here and after the test."""
    for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    opengl.backend.cache_clear()
    yield monkeypatch
    opengl.backend.cache_clear()


@pytest.mark.skipif(sys.platform != "linux", reason="names packages of Debian")
def test_a_machine_without_opengl_is_told_what_to_install(fresh_backend, here, command_line):
    fresh_backend.setattr(opengl, "_library", lambda name: None)
    code, _, err = command_line("video", "zoo:ant-agile-10")
    assert code == 2 and len(err.strip().splitlines()) == 1
    assert "apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri or apt-get install libosmesa6" in err
    assert "step" not in err and list(here.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="EGL and OSMesa are Linux's")
def test_the_choice_of_opengl(fresh_backend):
    working = {"egl"}
    fresh_backend.setattr(opengl, "_works", lambda name: name in working)
    assert opengl.backend() == "egl"
    for setting, have, found in (("osmesa", {"egl", "osmesa"}, "osmesa"), ("", {"osmesa"}, "osmesa")):
        working = have
        fresh_backend.setenv("MUJOCO_GL", setting)
        opengl.backend.cache_clear()
        assert opengl.backend() == found
    for setting, message in (
        ("egl", "EGL cannot be used here; apt-get install libegl1"),
        ("off", "MUJOCO_GL is 'off'"),
    ):
        fresh_backend.setenv("MUJOCO_GL", setting)
        opengl.backend.cache_clear()
        with pytest.raises(UserError, match=message):
            opengl.backend()


def test_a_machine_without_pyav_is_told_what_to_install(here, command_line, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    code, _, err = command_line("video", "zoo:ant-agile-10")
    assert code == 2 and err == "wanderlust: films are written by PyAV: pip install 'wanderlust[video]'\n"
    assert list(here.iterdir()) == []


def test_osmesa_draws_what_egl_draws(ant, tmp_path):
    """In a process of its own: PyOpenGL keeps to the first library it has loaded."""
    if not all(map(opengl._works, opengl.PACKAGES)) or opengl.backend() != "egl":
        pytest.skip("EGL and OSMesa are not both there")
    program = (
        "import os, sys, numpy as np; os.environ['MUJOCO_GL'] = 'osmesa'; from wanderlust.envs import make_world;"
        "from wanderlust.registry import WORLDS; from wanderlust.report.video.canvas import Camera, Canvas, Scenery;"
        "world = make_world(WORLDS.get('ant').configure('ant')); canvas = Canvas(world, 96, 64);"
        "scene = Scenery([np.array(STATE)], Camera(np.array([0.0, 0.0, 0.7]), 4.0, 60.0, -25.0));"
        "print(canvas.render([scene]).tobytes().hex())"
    ).replace("STATE", str(states(ant, (0.0, 0.0))[0].tolist()))
    code, out, err = run_python("-W", "error", "-c", program, cwd=tmp_path)
    assert (code, err) == (0, "")
    other = np.frombuffer(bytes.fromhex(out.strip()), np.uint8).reshape(64, 96, 3)
    with Canvas(ant, 96, 64) as canvas:
        camera = Camera(np.array([0.0, 0.0, 0.7]), 4.0, 60.0, -25.0)
        mine = canvas.render([Scenery(list(states(ant, (0.0, 0.0))), camera)])
    assert np.abs(mine.astype(int) - other).mean() < 2.0 < 10 < mine.std()


# --- on the way to goals, and in tasks --------------------------------------------------------------------------------


def test_reach_and_downstream_film_what_they_did(here, command_line):
    run = copy_of(trained(), here / "run")
    code, out, err = command_line("reach", "run", "--goal", 3, 0, "--goal", 0, 3, "--steps-per-goal", 3, "--video")
    assert code == 0, err
    steps = sum(leg["steps"] for leg in json.loads((run.path / "reach" / "reach.json").read_text())["legs"])
    assert len(decoded(run.path / "reach" / "film.mp4")[0]) == 4 * steps + 1 + 15
    assert "film: run/reach/film.mp4" in out
    code, _, err = command_line("downstream", "run", "--task", "point-goal", "--episodes", 2, "--seeds", 1, "--video")
    assert code == 0, err
    folder = run.path / "downstream" / "point-goal-zero-shot"
    data = ArrayFile(folder / "paths.safetensors")
    position, physics = data.read("position"), data.read("physics")
    assert np.array_equal(position[1:], physics)  # PointEnv's state is where it is
    assert len(decoded(folder / "film.mp4")[0]) == len(physics) + 15  # so many steps need none in between
    captions = films_of(read_record(run, "run"))
    assert {path.parent.name for path in captions} == {"reach", "point-goal-zero-shot"}
