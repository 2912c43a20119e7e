"""MuJoCo models: the files Gymnasium installs, opened with MjSpec, and every change to them in this one place."""

import functools
import warnings
from importlib import resources

import mujoco

from wanderlust.config import BodyConfig

FILES = {"ant": "ant.xml", "half-cheetah": "half_cheetah.xml", "humanoid": "humanoid.xml"}


@functools.cache
def load_model(config: BodyConfig) -> mujoco.MjModel:
    """The compiled model of a body. It is shared: nobody may change it."""
    spec = _open(FILES[config.name])
    if config.solver == "newton":
        # Humanoid's file asks for PGS, which no GPU engine has. Newton solves the same problem to a smaller residual.
        # The other two files ask for nothing, and Newton is MuJoCo's default.
        spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    if config.cone == "elliptic":
        # Friction pyramids need a tangent. For a capsule within 30 degrees of a plane's normal the GPU engines take a
        # fixed one and the C engine the capsule's axis: the pyramid is turned, and single steps of Ant differ. Round
        # cones have no such choice. They cost the GPU about a third of its speed, so the files' pyramids stay default.
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    return _compiled(spec)


def _open(name: str) -> mujoco.MjSpec:
    asset = resources.files("gymnasium") / "envs" / "mujoco" / "assets" / name
    with resources.as_file(asset) as path:
        return mujoco.MjSpec.from_file(str(path))


def _compiled(spec: mujoco.MjSpec) -> mujoco.MjModel:
    with warnings.catch_warnings():
        # HalfCheetah's file sets its total mass in a way that MuJoCo will drop one day; until then it is what we want.
        warnings.filterwarnings("ignore", message=".*settotalmass.*")
        return spec.compile()
