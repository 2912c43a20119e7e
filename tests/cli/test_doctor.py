"""doctor says what is there, what is not and how to get it, and ends well either way."""

import importlib.util
import platform

import mujoco
import pytest

from wanderlust.cli import doctor


def test_it_says_what_works_and_what_to_install(command_line, monkeypatch, tmp_path):
    monkeypatch.setenv("WANDERLUST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor, "_rendered", lambda: "yes (as it is)")  # a process of its own: seconds
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "viser" else real(name))
    code, out, err = command_line("doctor")
    assert (code, err) == (0, "")
    lines = dict(line.strip().split(":", 1) for line in out.splitlines() if line.startswith("  "))
    assert lines["python"].strip().startswith(platform.python_version())
    assert lines["mujoco"].strip() == mujoco.__version__
    assert "yes (" in lines["engine c"] and "steps/s of 8 Ants" in lines["engine c"]
    assert lines["explorer"].strip() == "no: pip install -e '.[explorer]' (wanderlust explore)"
    assert str(tmp_path / "cache") in lines["cache"]
    assert f"WANDERLUST_CACHE={tmp_path / 'cache'}" in lines["environment"]


def broken(*_):
    raise RuntimeError("broken\nmore")


def test_what_does_not_work_is_a_line(command_line, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WANDERLUST_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(doctor, "_rendered", lambda: "no")
    monkeypatch.setattr(
        "wanderlust.gym.vector.make_vec", lambda *_: (_ for _ in ()).throw(RuntimeError("broken\nmore"))
    )
    code, out, _ = command_line("doctor")
    assert code == 0
    assert "engine c:      no: broken\n" in out
    assert "cache:         none: " in out


@pytest.mark.parametrize("backend", ["nosuch"])
def test_opengl_that_is_not_there_is_told(monkeypatch, backend):
    monkeypatch.setenv("MUJOCO_GL", backend)
    assert doctor._rendered().startswith("no: install EGL")
