"""From a file to a specification that MuJoCo compiles, and to one line where it does not."""

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from wanderlust.envs.mjcf import compiled, muted
from wanderlust.envs.models import urdf
from wanderlust.envs.models.bundle import Bundle
from wanderlust.envs.models.collect import LARGEST_TEXT, SUFFIXES, Collected, Collector, collect_mjcf
from wanderlust.errors import UserError, require_path

MOST_ITERATIONS = 10_000
"""Of a solver, in one physics step."""


def collect(path: Path | str, assets: str = "", allow_plugins: bool = False) -> Collected:
    """A model file with all that it needs."""
    require_path("the model", path)
    path = Path(path)
    if not os.path.isfile(path):  # noqa: PTH113 - which knows names that are too long
        raise UserError(f"there is no model file {path}")
    if assets and not Path(assets).is_dir():
        raise UserError(f"--assets {assets} is no folder")
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"{path} is no model file; one ends in {', '.join(SUFFIXES)}")
    if path.stat().st_size > LARGEST_TEXT:
        raise UserError(f"{path} has {path.stat().st_size:,} bytes; a model file can have {LARGEST_TEXT:,}")
    collector = Collector(path, Path(assets) if assets else None, allow_plugins)
    try:
        return _collected(collector, path)
    except OSError as error:  # a name in it that no file system takes, a file that cannot be read
        raise collector.refuse(f"a file that it names cannot be read: {error.strerror}") from None


def _collected(collector: Collector, path: Path) -> Collected:
    root = collector.parse(path)
    if root.tag == "robot":
        return urdf.collect_urdf(collector, root)
    if root.tag != "mujoco":
        raise UserError(f"{path} is neither MJCF nor a URDF: its first element is {root.tag}, not mujoco or robot")
    return collect_mjcf(collector, root)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn what MuJoCo refuses into one line."""
    try:
        with muted(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (ValueError, mujoco.FatalError) as error:
        words = " ".join(
            re.sub(r"^(XML )?Error: ", "", line.strip()) for line in str(error).splitlines() if line.strip()
        )
        raise UserError(f"{name}: MuJoCo refuses it: {words.rstrip(' .')}") from None


def specification(bundle: Bundle, motors: bool, free_base: bool, floor: bool) -> tuple[mujoco.MjSpec, list[str]]:
    """The specification of a model with what it is to get beside what its file has; what was added, in words."""
    said: list[str] = []
    with explained(bundle.main):
        within = {name: data for name, data in bundle.assets.items() if name.endswith(".xml")}
        spec = mujoco.MjSpec.from_string(bundle.text, include=within, assets=bundle.assets)
        if bundle.is_urdf:
            # damping by limits of velocity may be stiff, which this integrator takes in its stride
            spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        if free_base:
            said += urdf.add_free_base(spec)
        if floor:
            said += urdf.add_floor(spec)
        if motors or (bundle.is_urdf and not len(spec.actuators)):
            said += urdf.add_motors(spec)
    option: Any = spec.option
    for name in ("iterations", "ls_iterations", "noslip_iterations", "ccd_iterations", "sdf_iterations"):
        if getattr(option, name) > MOST_ITERATIONS:
            raise UserError(f"{bundle.main}: option {name} is {getattr(option, name)}; it can be {MOST_ITERATIONS:,}")
    return spec, said


def keep_sensors(spec: mujoco.MjSpec, wanted: tuple[str, ...], main: str) -> None:
    """Take out all sensors but those that are to be observed: each of them costs time in every step."""
    names = [sensor.name for sensor in spec.sensors]
    if wanted == ("all",):
        return
    if unknown := [name for name in wanted if name not in names]:
        have = f"it has {', '.join(filter(None, names))}, or all" if names else "it has none"
        raise UserError(f"{main}: env.sensors: there is no sensor {unknown[0]!r}; {have}")
    for sensor in list(spec.sensors):
        if sensor.name not in wanted:
            spec.delete(sensor)


def checked_model(spec: mujoco.MjSpec, main: str) -> mujoco.MjModel:
    """The compiled model, if something can be learned with it."""
    with explained(main):
        model = compiled(spec)
    if not model.nv:
        raise UserError(
            f"{main}: it has no degrees of freedom: no joint lets anything move; --env.free-base frees its base"
        )
    if not model.nu:
        raise UserError(
            f"{main}: it has no actuators, so that no action could move it; --env.motors puts one on each joint"
        )
    return model


def start_of(model: mujoco.MjModel, keyframe: str, main: str) -> Any:
    """Data at the model's start: a keyframe by its name or number, or the model's own pose, nothing in the floor."""
    data = mujoco.MjData(model)
    if keyframe:
        names = [model.key(n).name for n in range(model.nkey)]
        number = names.index(keyframe) if keyframe in names else int(keyframe) if keyframe.isdecimal() else -1
        if not 0 <= number < model.nkey:
            have = f"it has {', '.join(name or str(n) for n, name in enumerate(names))}" if names else "it has none"
            raise UserError(f"{main}: env.keyframe: there is no keyframe {keyframe!r}; {have}")
        mujoco.mj_resetDataKeyframe(model, data, number)
    with muted():
        mujoco.mj_forward(model, data)
    if not all(np.all(np.isfinite(x)) for x in (data.qpos, data.qvel, data.qacc)):
        raise UserError(f"{main}: its start is not finite (NaN or infinite): look at its keyframe, inertias and masses")
    return data
