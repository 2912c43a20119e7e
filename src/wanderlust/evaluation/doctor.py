"""A doctor for models: what a body is made of, what engines can do with it, how fast and how steady it is."""

import time
from typing import Any, NamedTuple

import jax
import mujoco
import numpy as np

from wanderlust.envs import MujocoWorld, WorldState
from wanderlust.envs.base import Steered, sane
from wanderlust.envs.engines.mujoco_c import CEngine
from wanderlust.envs.engines.select import warp_misses
from wanderlust.envs.mjcf import Controls, muted, set_physics
from wanderlust.errors import UserError

BODIES = 64
SECONDS = 1.0
"""Of the clock, for which steps are counted; and of simulated time, for which a body is left to itself."""
QUIET = 0.05
"""Largest entry of |qvel| of a body that has come to rest."""


class Actuator(NamedTuple):
    """One of a model's."""

    name: str
    drives: str
    low: float
    high: float
    """The controls that actions -1 and 1 stand for."""


class AtRest(NamedTuple):
    """A body left to itself, controls as near to zero as their ranges allow."""

    contacts: int
    deepest: float
    """Metres by which its parts overlap where they do most."""
    speed: float
    """Largest entry of |qvel|."""
    finite: bool


class Speed(NamedTuple):
    """What the engine `c` did within a second."""

    control_steps: int
    physics_steps: int
    threads: int


class Violent(NamedTuple):
    """Bodies under actions that jump from one end to the other."""

    steps: int
    broken: int
    fastest: float
    """Largest entry of |qvel| of those that did not break down."""


def actuators(model: mujoco.MjModel) -> list[Actuator]:
    """What moves a model, with the range of each control."""
    controls, found = Controls.of_model(model), []
    kinds = {int(kind): name.removeprefix("mjTRN_").lower() for name, kind in mujoco.mjtTrn.__members__.items()}
    objects = {"joint": model.joint, "jointinparent": model.joint, "tendon": model.tendon, "site": model.site}
    for n in range(model.nu):
        kind, target = kinds.get(int(model.actuator_trntype[n]), ""), int(model.actuator_trnid[n, 0])
        what = f"{kind} {objects[kind](target).name}" if kind in objects else kind
        muscle = int(model.actuator_dyntype[n]) == int(mujoco.mjtDyn.mjDYN_MUSCLE)
        low = float(controls.low[n])
        name = model.actuator(n).name or str(n)
        found.append(Actuator(name, f"{what}{', a muscle' if muscle else ''}", low, low + 2 * float(controls.half[n])))
    return found


def at_rest(world: MujocoWorld) -> AtRest:
    """Leave a body to itself for a second."""
    model = world.model
    data = mujoco.MjData(model)
    set_physics(model, data, np.asarray(world.initial(jax.random.key(0)).physics))
    if not isinstance(world, Steered):
        controls = Controls.of_model(model)
        data.ctrl[:] = np.clip(0.0, controls.low, controls.low + 2 * controls.half)
    with muted():
        for _ in range(max(1, round(SECONDS / model.opt.timestep))):
            mujoco.mj_step(model, data)
    finite = bool(np.isfinite(data.qpos).all() and np.isfinite(data.qvel).all())
    depth = -float(data.contact.dist.min()) if data.ncon else 0.0
    return AtRest(int(data.ncon), max(0.0, depth), float(np.abs(data.qvel).max(initial=0.0)), finite)


def measure_speed(world: MujocoWorld) -> Speed:
    """Count the steps that the engine `c` makes in a second, of 64 bodies under random actions, on all cores."""
    engine, draw = CEngine(world), np.random.default_rng(0)
    state, steps = _starts(world), 0
    size = world.action_dim  # type: ignore[attr-defined]
    state = engine.step(state, np.zeros((BODIES, size), np.float32))  # type: ignore[arg-type]  # made ready
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        action: Any = draw.uniform(-1.0, 1.0, (BODIES, size)).astype(np.float32)
        state, steps = engine.step(state, action), steps + BODIES
    seconds = time.monotonic() - began
    return Speed(round(steps / seconds), round(steps * world.frame_skip / seconds), engine.threads)


def shaken(world: MujocoWorld, steps: int = 100) -> Violent:
    """Whether bodies break down under actions that are random and full."""
    engine, draw, state = CEngine(world), np.random.default_rng(0), _starts(world)
    size, model = world.action_dim, world.model  # type: ignore[attr-defined]
    ok = np.ones(BODIES, bool)
    fastest = 0.0
    for _ in range(steps):
        action: Any = draw.choice((-1.0, 1.0), (BODIES, size)).astype(np.float32)
        state = engine.step(state, action)
        ok &= np.asarray(sane(state))
        speeds = np.asarray(state.physics)[ok, 1 + model.nq : 1 + model.nq + model.nv]
        fastest = max(fastest, float(np.abs(speeds).max(initial=0.0)))
    return Violent(steps, int(BODIES - ok.sum()), fastest)


def engine_notes(world: MujocoWorld) -> dict[str, str]:
    """What each engine can do with a model."""
    try:
        missing = warp_misses(world)
        warp = f"cannot step it: {missing}" if missing else "can step it"
    except UserError:
        warp = "was not checked: MuJoCo Warp is not installed (wanderlust[cuda])"
    return {"c": "can step it", "warp": warp}


def _starts(world: MujocoWorld) -> WorldState:
    keys = jax.random.split(jax.random.key(0), BODIES)
    state: WorldState = jax.device_get(jax.vmap(world.initial)(keys))
    return state
