"""What works on this machine, what to install for the rest, and what a bug report needs: doctor."""

import contextlib
import dataclasses
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from wanderlust.errors import UserError

EXTRAS = {
    "fetch": (("gymnasium_robotics",), "the Fetch worlds"),
    "explorer": (("viser",), "wanderlust explore"),
    "onnx": (("onnx", "onnxruntime"), "wanderlust export"),
    "sb3": (("stable_baselines3",), "wanderlust.gym.sb3"),
    "cluster": (("ray",), "wanderlust sweep --ray"),
    "tensorboard": (("tensorboardX", "tensorboard"), "--log tensorboard"),
    "wandb": (("wandb",), "--log wandb"),
    "trackio": (("trackio",), "--log trackio"),
}
"""Extras, the modules they bring, and what these are for."""
INSTALL = "pip install -e '.[{}]'"
SETTINGS = ("WANDERLUST_", "JAX_", "XLA_", "MUJOCO_GL", "CUDA_VISIBLE_DEVICES", "PYOPENGL_PLATFORM")


@dataclasses.dataclass(frozen=True)
class Doctor:
    """Say what works on this machine and what to install for the rest; a bug report needs its output.

    For example:
      wanderlust doctor
    """

    def run(self, console: Console) -> int:
        for title, lines in (("versions", versions()), ("machine", machine()), ("works here", works())):
            console.print(title, style="bold")
            for name, words in lines:
                console.print(f"  {name + ':':<14} {words}")
        return 0


def versions() -> Iterator[tuple[str, str]]:
    """Of Python, of the packages that decide what a run computes, and of the source."""
    from wanderlust.runs.provenance import PACKAGES, commit, version

    yield "python", f"{platform.python_version()}, {platform.platform()}"
    for name in PACKAGES:
        yield name, version(name) or "not installed"
    yield "commit", commit() or "an installed package"
    set_here = {name: value for name, value in os.environ.items() if name.startswith(SETTINGS)}
    yield "environment", ", ".join(f"{name}={value}" for name, value in sorted(set_here.items())) or "nothing set"


def machine() -> Iterator[tuple[str, str]]:
    """Processors, memory, disk and caches."""
    from wanderlust.envs import devices
    from wanderlust.runs.provenance import processor
    from wanderlust.train.memory import in_words

    yield "processor", f"{processor()}, {devices.cores()} cores for this process, {os.cpu_count()} in all"
    yield "memory", in_words(devices.host_memory())
    yield "devices", _jax_devices()
    yield "disk", f"{in_words(shutil.disk_usage(Path.cwd()).free)} free in the working folder"
    yield "cache", _cache()


def works() -> Iterator[tuple[str, str]]:
    """Engines, OpenGL and extras: each tried, or with what it lacks."""
    yield "engine jax", "yes (worlds that are a formula)"
    yield "engine c", _stepped()
    yield "engine warp", _warp()
    yield "OpenGL", _rendered()
    for extra, (modules, what) in EXTRAS.items():
        missing = [name for name in modules if importlib.util.find_spec(name) is None]
        lacks = f"no: {INSTALL.format(extra)}" if missing else "yes"
        yield extra, f"{lacks} ({what})"


def _jax_devices() -> str:
    import jax

    try:
        found = jax.devices()
    except RuntimeError as error:  # a platform that was asked for and is not there
        return f"none: {_first_line(error)}"
    kinds = {device.device_kind if device.platform != "cpu" else "CPU" for device in found}
    return f"{len(found)} x {', '.join(sorted(kinds))}"


def _cache() -> str:
    from wanderlust.envs import devices
    from wanderlust.train.memory import in_words

    folder = devices.cache_folder()
    try:
        devices.healed_cache(folder / "xla")
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    except OSError as error:
        return f"none: {folder}: {error.strerror}"
    return f"{folder}, {in_words(size)} of compiled programs"


def _stepped() -> str:
    """Whether MuJoCo steps a body here, and in what time."""
    import numpy as np

    from wanderlust.gym.vector import make_vec

    try:
        envs = make_vec("ant", 8)
        envs.reset(seed=0)
        began = time.perf_counter()
        for _ in range(10):
            envs.step(np.zeros((8, 8), np.float32))
        rate = 80 / (time.perf_counter() - began)
    except (UserError, RuntimeError, OSError) as error:
        return f"no: {_first_line(error)}"
    return f"yes ({rate:,.0f} steps/s of 8 Ants)"


def _warp() -> str:
    import jax

    if importlib.util.find_spec("warp") is None:
        return f"no: {INSTALL.format('cuda')}"
    with contextlib.suppress(RuntimeError):
        if jax.default_backend() != "cpu":
            return "yes"
    return f"slowly, for tests: JAX sees no GPU (on a machine that has one: {INSTALL.format('cuda')})"


def _rendered() -> str:
    """Whether MuJoCo draws here, in a process of its own: a driver that is not right can end it."""
    import subprocess

    program = (
        "import mujoco; m = mujoco.MjModel.from_xml_string('<mujoco/>'); d = mujoco.MjData(m); "
        "r = mujoco.Renderer(m, 8, 8); r.update_scene(d); r.render(); r.close()"
    )
    tried = [os.environ.get("MUJOCO_GL")] if os.environ.get("MUJOCO_GL") else [None, "egl", "osmesa"]
    with tempfile.TemporaryDirectory() as folder:
        for backend in tried:
            chosen = {} if backend is None else {"MUJOCO_GL": backend}
            try:
                done = subprocess.run(
                    [sys.executable, "-c", program],
                    cwd=folder,
                    env={**os.environ, **chosen},
                    capture_output=True,
                    timeout=60,
                )
            except (OSError, subprocess.TimeoutExpired):
                continue
            if done.returncode == 0:
                return f"yes ({f'MUJOCO_GL={backend}' if backend else 'as it is'})"
    return "no: install EGL or OSMesa (Debian: apt install libegl1 libosmesa6) for films and pictures of bodies"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
