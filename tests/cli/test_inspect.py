"""`wanderlust inspect`: what it finds, and what it refuses."""

import os
import types

import jax
import pytest

import wanderlust
from model_files import ARM, ASSETS, BUG, DRIVE, write
from wanderlust.envs.engines import warp as warp_engine
from wanderlust.envs.engines.select import choose_engine, warp_misses
from wanderlust.errors import UserError
from wanderlust.evaluation import doctor


def test_what_it_says_of_a_file(command_line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = command_line(
        "inspect", write(tmp_path, BUG.format(z=0.2), '<motor joint="leg"/>'), "--picture", "x.png"
    )
    assert code == 0, err
    words = " ".join(out.split())
    for said in (
        "mine: 2 bodies, 2 joints, 7 degrees of freedom, 1 actuators", "bug, by its free joint", "joint leg",
        "control steps a second", "at rest", "none breaks down", "warp can step it",
    ):  # fmt: skip
        assert said in words, said
    assert (tmp_path / "x.png").exists() != ("no picture: nothing can be rendered" in words)
    assert {file.name for file in tmp_path.iterdir()} <= {"mine.xml", "x.png"}


def test_it_knows_worlds_by_name_and_refuses_the_rest(command_line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, words in (
        (("point",), "its dynamics are a formula"),
        (("nothing",), "the path of a .xml or .mjcf or .urdf file; or package.module:Name"),
        (("ant", "--free-base"), "ant is no model file; leave out --free-base"),
        (("gone.urdf",), "there is no model file gone.urdf"),
    ):
        code, _, err = command_line("inspect", *arguments)
        assert code == 2 and words in err and err.count("\n") == 1


def test_actuators_have_the_ranges_that_actions_are_mapped_to(tmp_path):
    world = wanderlust.world_from_mjcf(write(tmp_path, ARM, DRIVE))
    found = doctor.actuators(world.model)
    assert [(one.drives, one.low, one.high) for one in found] == [("joint shoulder", -2, 4), ("joint elbow", -1, 1)]


def test_bodies_that_fall_rest_or_break_down_are_told_apart(tmp_path):
    resting = doctor.at_rest(wanderlust.world_from_mjcf(write(tmp_path, BUG.format(z=0.06), '<motor joint="leg"/>')))
    assert resting.contacts >= 3 and resting.speed < 0.5 and resting.finite
    high = doctor.at_rest(wanderlust.world_from_mjcf(write(tmp_path, BUG.format(z=50), '<motor joint="leg"/>')))
    assert high.contacts == 0 and high.speed == pytest.approx(9.81, rel=0.02)
    steady = wanderlust.world_from_mjcf(ASSETS / "hopper.xml")
    assert doctor.shaken(steady, 10).broken == 0
    wild = '<motor joint="shoulder" gear="1e9"/><motor joint="elbow" gear="1e9"/>'
    with pytest.raises(UserError, match="every body breaks down"):
        _ = wanderlust.world_from_mjcf(write(tmp_path, ARM, wild)).trial
    assert doctor.shaken(wanderlust.world_from_mjcf(write(tmp_path, ARM, wild)), 10).broken == doctor.BODIES


def test_a_feature_that_warp_does_not_have_is_named(tmp_path, monkeypatch):
    world = wanderlust.world_from_mjcf(write(tmp_path, ARM, DRIVE))
    assert warp_misses(world) == ""
    plugin = '<extension><plugin plugin="mujoco.pid"/></extension>'
    pid = '<plugin plugin="mujoco.pid" joint="elbow"><config key="kp" value="2"/></plugin>'
    servo = wanderlust.world_from_mjcf(write(tmp_path, ARM, pid, plugin, "servo.xml"))
    assert "plugin" in warp_misses(servo).lower()
    with pytest.raises(UserError, match=r"--engine warp cannot step mjcf:servo: .*plugins.*; use --engine c"):
        choose_engine(servo, "warp")
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    engine, why = choose_engine(servo)
    assert engine == "c" and "cannot step this model" in why and "plugins" in why
    assert choose_engine(world)[0] == "warp"


def test_warp_is_not_heard_of_where_there_is_no_gpu(monkeypatch, capfd):
    said = b"Warp CUDA warning: Could not find or load the NVIDIA CUDA driver. No GPU.\nsomething else\n"
    fake = types.SimpleNamespace(init=lambda: os.write(2, said))
    monkeypatch.setattr(warp_engine, "_import", lambda module: fake)
    warp_engine._begin_without_gpu.__wrapped__()
    os.write(2, b"afterwards\n")
    assert capfd.readouterr().err in ("something else\nafterwards\n", "afterwards\nsomething else\n")
