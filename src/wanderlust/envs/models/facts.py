"""What the rules find out about a model, and decide where a configuration leaves something open."""

import dataclasses
import functools
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from wanderlust.envs.mjcf import physics_of
from wanderlust.envs.models import bundle as bundles
from wanderlust.envs.models import opening
from wanderlust.envs.models.config import PREFIX, ModelConfig
from wanderlust.envs.models.layout import (
    FREE,
    HINGE,
    NO_ROOT,
    SLIDE,
    ModelLayout,
    ModelRoot,
    find_root,
    is_upright,
    make_layout,
)
from wanderlust.envs.poses import lift_out
from wanderlust.envs.worlds.body import SENSED_STARTS
from wanderlust.errors import UserError

CONTROL_SECONDS = 0.02
"""What a control step should last."""
MOST_SUBSTEPS = 100
MOST_ASKED = 2_000
"""Substeps that a configuration may have; engines keep all of a control step in memory."""
EPISODE_SECONDS = 5.0
SHORTEST_EPISODE, LONGEST_EPISODE = 100, 500
"""Control steps."""


class Facts(NamedTuple):
    """What a model is, as far as its world needs to know."""

    model: mujoco.MjModel
    start: Any
    """Data at the start."""
    lifted: float
    """Metres by which the start was raised, out of the floor."""
    root: ModelRoot
    layout: ModelLayout
    size: float
    """Length of the body: the longest side of the box around it at the start."""
    said: tuple[str, ...]
    """What was added to the file's model, in words."""
    height: tuple[int, float] | None
    """Entry of qpos that is the root's height, and what is to be added to it."""
    turn: int | None
    """First entry of qpos of the root's orientation, a quaternion or a hinge about a level axis."""


def decided(config: ModelConfig) -> ModelConfig:
    """The same with all that was left open decided by rule."""
    facts = facts_of(config)
    step = float(facts.model.opt.timestep)
    if config.frame_skip > MOST_ASKED:
        raise UserError(f"env.frame_skip is {config.frame_skip}; it can be {MOST_ASKED:,}, or 0 for the rule's")
    skip = config.frame_skip or int(np.clip(round(CONTROL_SECONDS / step), 1, MOST_SUBSTEPS))
    length = config.episode_length or int(
        np.clip(round(EPISODE_SECONDS / (skip * step)), SHORTEST_EPISODE, LONGEST_EPISODE)
    )
    names, entries = facts.layout.names, facts.layout.groups["position"]
    if config.terminate_below is not None and facts.height is None:
        raise UserError("--terminate-below needs a root that can rise: a free joint or an upright slide")
    if config.terminate_below is not None and facts.height is not None:
        start = float(facts.start.qpos[facts.height[0]]) + facts.height[1]
        if start < config.terminate_below:
            raise UserError(
                f"--terminate-below {config.terminate_below:g} would end every episode at once: the root starts at a "
                f"height of {start:.3g}"
            )
    if config.terminate_tilted is not None and facts.turn is None:
        raise UserError("--terminate-tilted needs a root that can tilt: a free joint, or a hinge about a level axis")
    return dataclasses.replace(
        config,
        frame_skip=skip,
        episode_length=length,
        root=facts.model.body(facts.root.body).name if facts.root.moves else NO_ROOT,
        position=config.position or tuple(names[entry] for entry in entries),
        bin=config.bin or _bin(facts),
    )


def facts_of(config: ModelConfig) -> Facts:
    """What a model is; cached and shared."""
    return _facts(_without_choices(config))


def _without_choices(config: ModelConfig) -> ModelConfig:
    """The same but for what the model itself does not depend on, so that it is compiled once."""
    plain: dict[str, Any] = {
        "name": PREFIX + "x", "episode_length": 1, "frame_skip": 1, "bin": 1.0, "noise": 0.0, "position": (),
        "terminate_below": None, "terminate_tilted": None, "start_pose": "model", "start_range": 0.0, "focus": "",
    }  # fmt: skip
    return dataclasses.replace(config, **plain)


def specified(config: ModelConfig) -> tuple[mujoco.MjSpec, list[str]]:
    """The specification of a model as its configuration wants it, and what was added to its file's, in words."""
    spec, said = opening.specification(bundles.known(config.model), config.motors, config.free_base, config.floor)
    opening.keep_sensors(spec, config.sensors, config.file)
    return spec, said


@functools.cache
def _facts(config: ModelConfig) -> Facts:
    spec, said = specified(config)
    model = opening.checked_model(spec, config.file)
    data = opening.start_of(model, config.keyframe, config.file)
    lifted = lift_out(model, data)
    root = find_root(model, data, config.root)
    layout = make_layout(model, data, root)
    height, turn = None, None
    for joint in root.joints:
        kind, at = int(model.jnt_type[joint]), int(model.jnt_qposadr[joint])
        if kind == FREE:
            height, turn = (at + 2, 0.0), at + 3
        elif kind == SLIDE and data.xaxis[joint][2] > 0.999:
            height = (at, float(layout.offset[at]))
        elif kind == HINGE and not is_upright(data.xaxis[joint]) and not model.jnt_limited[joint]:
            turn = at
    return Facts(model, data, lifted, root, layout, _size(model, data, root.body), tuple(said), height, turn)


def _size(model: mujoco.MjModel, data: Any, body: int) -> float:
    """The longest side of the box around all that moves with a body, or at all."""
    mine = model.body_rootid[model.geom_bodyid] == body if body else model.body_weldid[model.geom_bodyid] != 0
    if not mine.any():
        return 1.0
    reach = model.geom_rbound[mine][:, None]
    box = (data.geom_xpos[mine] + reach).max(axis=0) - (data.geom_xpos[mine] - reach).min(axis=0)
    return float(box.max())


def _bin(facts: Facts) -> float:
    if facts.root.moves:
        return nice(facts.size / 4)
    ranges = ranges_of(facts)[list(facts.layout.groups["position"])]
    return nice(float(ranges.max()) / 20 if ranges.max() > 0 else 0.1)


def nice(length: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not larger."""
    power = 10.0 ** np.floor(np.log10(max(length, 1e-6)))
    return float(round(max(k for k in (1, 2, 5) if k * power <= length * (1 + 1e-9)) * power, 9))


def ranges_of(facts: Facts) -> NDArray[np.float64]:
    """By how much each observed entry can change, where its joint says so or it is of a rotation, and 0 elsewhere."""
    whole = np.zeros(facts.model.nq)
    for joint in np.flatnonzero(facts.model.jnt_limited):
        if int(facts.model.jnt_type[joint]) in (HINGE, SLIDE):
            whole[facts.model.jnt_qposadr[joint]] = np.ptp(facts.model.jnt_range[joint])
    select = facts.layout.select
    found = np.where(select < facts.model.nq, whole[np.minimum(select, facts.model.nq - 1)], 0.0)
    found[[entry for entries in facts.layout.together for entry in entries]] = 2.0
    return found


@functools.cache
def starts_of(config: ModelConfig) -> NDArray[np.float32]:
    """Physics that episodes start from: the start, moved by noise along the joints' own coordinates."""
    facts, noise, draw = facts_of(config), config.noise, np.random.default_rng(0)
    model, start = facts.model, facts.start
    scale = np.full(model.nv, noise)
    upwards = np.zeros(model.nv, bool)
    for joint in range(model.njnt):
        kind, dof = int(model.jnt_type[joint]), int(model.jnt_dofadr[joint])
        if kind in (FREE, SLIDE):
            count = 3 if kind == FREE else 1
            scale[dof : dof + count] *= min(1.0, facts.size)
            upwards[dof + count - 1] = kind == FREE or (joint in facts.root.joints and is_upright(start.xaxis[joint]))
    physics = np.tile(physics_of(model, start), (SENSED_STARTS, 1))
    limited = np.flatnonzero(model.jnt_limited & np.isin(model.jnt_type, (HINGE, SLIDE)))
    at, bounds = model.jnt_qposadr[limited], model.jnt_range[limited]
    low, high = np.minimum(bounds[:, 0], start.qpos[at]), np.maximum(bounds[:, 1], start.qpos[at])
    for row in physics:
        step = draw.uniform(-1.0, 1.0, model.nv) * scale
        qpos: Any = start.qpos.copy()
        mujoco.mj_integratePos(model, qpos, np.where(upwards, np.abs(step), step), 1.0)
        qpos[at] = np.clip(qpos[at], low, high)
        row[1 : 1 + model.nq] = qpos
        row[1 + model.nq : 1 + model.nq + model.nv] += draw.uniform(-1.0, 1.0, model.nv) * scale
    return physics.astype(np.float32)
