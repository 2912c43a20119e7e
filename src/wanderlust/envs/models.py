"""MuJoCo models: the files Gymnasium installs, opened with MjSpec, and every change to them in this one place."""

import contextlib
import functools
import warnings
from collections.abc import Iterator
from importlib import resources

import mujoco

from wanderlust.config import BodyConfig

FILES = {"ant": "ant.xml", "half-cheetah": "half_cheetah.xml", "humanoid": "humanoid.xml"}

_POSITIONS = {"exclude_current_positions_from_observation": False}
_LEAN_HUMANOID = ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")
GYMNASIUM: dict[str, tuple[str, dict[str, bool]]] = {
    "ant": ("Ant-v5", {**_POSITIONS, "include_cfrc_ext_in_observation": False, "terminate_when_unhealthy": False}),
    "half-cheetah": ("HalfCheetah-v5", _POSITIONS),
    "humanoid": ("Humanoid-v5", {**_POSITIONS, **{f"include_{x}_in_observation": False for x in _LEAN_HUMANOID}}),
}
"""By body: Gymnasium's own environment of the same file, with what makes it observe qpos and then qvel and no more."""

Bars = tuple[float, ...]
"""Where bars lie across a body's way: their x."""


@functools.cache
def load_model(config: BodyConfig, bars: Bars = ()) -> mujoco.MjModel:
    """The compiled model of a body. It is shared: nobody may change it."""
    return _compiled(_specified(config, bars))


@functools.cache
def load_model_for_c(config: BodyConfig, bars: Bars = ()) -> mujoco.MjModel:
    """The same model as MuJoCo's own engine should have it: the same numbers come out, sooner. It is shared, too."""
    spec = _specified(config, bars)
    # Where a state stops being finite, this engine would put the body back to its start and go on as if nothing had
    # happened: a transition that never was, and nobody told. MuJoCo Warp has no such reset, and refuses the flag.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    # Islands are for scenes whose parts can be solved apart; one body is one part, and looking for more takes time.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_ISLAND
    _name_contacts(spec)
    return _compiled(spec)


def _specified(config: BodyConfig, bars: Bars) -> mujoco.MjSpec:
    """A body's file, what its configuration changes in it, and what lies in its way."""
    spec = _open(FILES[config.name])
    _lay(spec, bars)
    if config.solver == "newton":
        # Humanoid's file asks for PGS, which no GPU engine has. Newton solves the same problem to a smaller residual.
        # The other two files ask for nothing, and Newton is MuJoCo's default.
        spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    if config.cone == "elliptic":
        # Friction pyramids need a tangent. For a capsule within 30 degrees of a plane's normal the GPU engines take a
        # fixed one and the C engine the capsule's axis: the pyramid is turned, and single steps of Ant differ. Round
        # cones have no such choice. They cost the GPU about a third of its speed, so the files' pyramids stay default.
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    return spec


def _lay(spec: mujoco.MjSpec, bars: Bars) -> None:
    """Put bars across the way, as CheetahHurdle wants them: they float, from 17 to 23 cm above the floor.

    They belong to the floor, so that they neither move nor count in the mass to which HalfCheetah's file scales the
    body. A body's geoms collide with what has an affinity of 1, which in the files is the floor alone. Friction and
    softness are the file's defaults, as the floor's are.
    """
    for x in bars:
        spec.worldbody.add_geom(
            name=f"bar at {x:g}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[0.05, 1.0, 0.03],
            pos=[x, 0.0, 0.2],
            contype=1,
            conaffinity=1,
        )


def _name_contacts(spec: mujoco.MjSpec) -> None:
    """Say which geoms can touch, where that is only the floor and each of the others (Ant and HalfCheetah).

    The engine would otherwise sort all bodies along an axis at every step to find pairs that may be close, and then
    learn that none of them may touch. Each pair gets the contact parameters that the engine
    itself gives it, read from a model whose floor is so high that everything touches it.
    """
    floors = [geom for geom in spec.geoms if geom.type == mujoco.mjtGeom.mjGEOM_PLANE]
    others = [geom for geom in spec.geoms if geom.type != mujoco.mjtGeom.mjGEOM_PLANE]
    if len(floors) != 1 or any(one.contype & other.conaffinity for one in others for other in others):
        return
    raised = spec.copy()
    raised.geom(floors[0].name).pos[2] += 100.0
    model = _compiled(raised)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    touching = {tuple(contact.geom.tolist()): contact for contact in data.contact}
    assert len(touching) == len(others), "everything must touch the raised floor"
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
    """The same for good, unless somebody already handles MuJoCo's warnings."""
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_ignore)


def _ignore(message: str) -> None:
    pass


def _open(name: str) -> mujoco.MjSpec:
    asset = resources.files("gymnasium") / "envs" / "mujoco" / "assets" / name
    with resources.as_file(asset) as path:
        return mujoco.MjSpec.from_file(str(path))


def _compiled(spec: mujoco.MjSpec) -> mujoco.MjModel:
    with warnings.catch_warnings():
        # HalfCheetah's file sets its total mass in a way that MuJoCo will drop one day; until then it is what we want.
        warnings.filterwarnings("ignore", message=".*settotalmass.*")
        return spec.compile()
