"""MuJoCo models: opening them, changing them with MjSpec, and how actions become controls."""

import contextlib
import copy
import importlib.util
import warnings
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from wanderlust.errors import UserError

FULL = int(mujoco.mjtState.mjSTATE_FULLPHYSICS)
MOCAP = int(mujoco.mjtState.mjSTATE_MOCAP_POS) | int(mujoco.mjtState.mjSTATE_MOCAP_QUAT)


def open_gymnasium(name: str) -> mujoco.MjSpec:
    """One of the model files that Gymnasium installs."""
    asset = resources.files("gymnasium") / "envs" / "mujoco" / "assets" / name
    with resources.as_file(asset) as path:
        return mujoco.MjSpec.from_file(str(path))


def open_robotics(name: str) -> mujoco.MjSpec:
    """One of the model files that Gymnasium-Robotics installs; its Python code is neither needed nor imported."""
    found = importlib.util.find_spec("gymnasium_robotics")
    if found is None or not found.submodule_search_locations:
        raise UserError("the Fetch models come with Gymnasium-Robotics: pip install 'wanderlust[fetch]'")
    return mujoco.MjSpec.from_file(str(Path(found.submodule_search_locations[0]) / "envs" / "assets" / name))


def compiled(spec: mujoco.MjSpec) -> mujoco.MjModel:
    """The model of a specification."""
    with warnings.catch_warnings():
        # HalfCheetah's file sets its total mass in a way that MuJoCo will drop one day; until then it is what we want.
        warnings.filterwarnings("ignore", message=".*settotalmass.*")
        return spec.compile()


def physics_of(model: mujoco.MjModel, data: mujoco.MjData) -> NDArray[np.float64]:
    """The physics of `WorldState`: mjSTATE_FULLPHYSICS, and then mocap poses."""
    parts = []
    for part in (FULL, MOCAP):
        parts.append(np.zeros(mujoco.mj_stateSize(model, part)))
        mujoco.mj_getState(model, data, parts[-1], part)
    return np.concatenate(parts)


def set_physics(model: mujoco.MjModel, data: mujoco.MjData, physics: Any) -> None:
    """Put `data` into a state of `physics_of`."""
    full = mujoco.mj_stateSize(model, FULL)
    for part, values in ((FULL, physics[:full]), (MOCAP, physics[full:])):
        mujoco.mj_setState(model, data, np.asarray(values, np.float64), part)


class Controls(NamedTuple):
    """What actions in [-1, 1] are as a model's controls."""

    low: NDArray[np.float64]
    half: NDArray[np.float64]
    """Of the range."""

    @classmethod
    def of_model(cls, model: mujoco.MjModel) -> "Controls":
        """The model's control ranges; where it sets none, [-1, 1], and [0, 1] for muscles."""
        muscle = model.actuator_dyntype == int(mujoco.mjtDyn.mjDYN_MUSCLE)
        usual = np.where(muscle[:, None], (0.0, 1.0), (-1.0, 1.0))
        low, high = np.where(model.actuator_ctrllimited[:, None], model.actuator_ctrlrange, usual).T.copy()
        return cls(low, 0.5 * (high - low))

    def of_worlds(self, count: int) -> "Controls":
        """The same, a row for each of so many worlds: NumPy is fastest on arrays of one shape."""
        return Controls(np.tile(self.low, (count, 1)), np.tile(self.half, (count, 1)))

    def of(self, action: Any) -> Any:
        """[..., action] NumPy in, NumPy in double precision out."""
        wide = np.asarray(action, np.float64)
        return self.low + (np.minimum(np.maximum(wide, -1.0), 1.0) + 1.0) * self.half

    def of_batch(self, action: Float[Array, "worlds action"]) -> Float[Array, "worlds control"]:
        """The same in JAX."""
        low, half = jnp.asarray(self.low, jnp.float32)[None], jnp.asarray(self.half, jnp.float32)[None]
        return low + (jnp.clip(action, -1.0, 1.0) + 1.0) * half


# --- faster models for the engine `c`, with the same results ---------------------------------------------------------


def drop_islands(spec: mujoco.MjSpec) -> None:
    """Do not look for parts of the scene that can be solved apart: for worlds that are one body."""
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_ISLAND


def name_floor_contacts(spec: mujoco.MjSpec) -> None:
    """Say which geoms can touch, where that is only the floor and each of the others (Ant and HalfCheetah).

    The engine would otherwise sort all bodies along an axis at every step to find pairs that may be close, and then
    learn that none of them may touch. Each pair gets the contact parameters that the engine itself gives it, read from
    a model whose floor is so high that everything touches it. A model with other contacts, or geoms without names, is
    left as it is.
    """
    floors = [geom for geom in spec.geoms if geom.type == mujoco.mjtGeom.mjGEOM_PLANE]
    others = [geom for geom in spec.geoms if geom.type != mujoco.mjtGeom.mjGEOM_PLANE]
    nameless = not all(geom.name for geom in spec.geoms)
    if len(floors) != 1 or nameless or any(one.contype & other.conaffinity for one in others for other in others):
        return
    raised = spec.copy()
    raised.geom(floors[0].name).pos[2] += 100.0
    model = compiled(raised)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    touching = {tuple(contact.geom.tolist()): contact for contact in data.contact}
    if len(touching) != len(others):
        return
    for (one, other), contact in touching.items():
        spec.add_pair(
            geomname1=model.geom(one).name,
            geomname2=model.geom(other).name,
            condim=contact.dim,
            friction=contact.friction,
            solref=contact.solref,
            solreffriction=contact.solreffriction,
            solimp=contact.solimp,
            margin=contact.includemargin,
            gap=0.0,
        )
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 0


_GEOMETRIC = ("FRAMEPOS", "FRAMEQUAT", "FRAMELINVEL", "FRAMEANGVEL")


def without_forces(model: mujoco.MjModel) -> mujoco.MjModel:
    """A copy in which nothing touches, for reading sensors that do not ask for it; the model itself if some do."""
    if not set(model.sensor_type.tolist()) <= {int(getattr(mujoco.mjtSensor, f"mjSENS_{kind}")) for kind in _GEOMETRIC}:
        return model
    free = copy.copy(model)
    free.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    return free


# --- MuJoCo's warnings -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """Keep MuJoCo's warnings from the terminal and from a file MUJOCO_LOG.TXT in the working folder.

    One body that breaks down can cause thousands of them. What they warn of is looked for in the states themselves.
    """
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(_ignore)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def ignore_warnings() -> None:
    """The same for good, unless a program already handles MuJoCo's warnings."""
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_ignore)


def _ignore(message: str) -> None:
    pass
