"""A world made of a model file, MJCF or URDF: what is not said of it is decided by rule (docs/your-robot.md)."""

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Bool, Float, Key
from numpy.typing import NDArray

from wanderlust.config import build, to_json
from wanderlust.config.bounds import CountOrZero, Weight
from wanderlust.envs.base import WorldState
from wanderlust.envs.mjcf import physics_of
from wanderlust.envs.models import bundle as bundles
from wanderlust.envs.models import opening, urdf
from wanderlust.envs.models.layout import (
    FREE,
    HINGE,
    NO_ROOT,
    SLIDE,
    Layout,
    ModelRoot,
    entries_named,
    find_root,
    is_upright,
    make_layout,
)
from wanderlust.envs.models.trial import Trial, try_random
from wanderlust.envs.poses import lift_out
from wanderlust.envs.rotations import matrix_of
from wanderlust.envs.spec import Groups
from wanderlust.envs.worlds.body import SENSED_STARTS, Body, BodyConfig
from wanderlust.errors import UserError, require

PREFIX = "mjcf:"
CONTROL_SECONDS = 0.02
"""What a control step should last."""
MOST_SUBSTEPS = 100
EPISODE_SECONDS = 10.0
SHORTEST_EPISODE, LONGEST_EPISODE = 100, 500
"""Control steps."""
TRIAL = "trial.json"
"""Beside the model in a run's folder: what random actions did."""


@dataclasses.dataclass(frozen=True)
class ModelConfig(BodyConfig):
    """What can be chosen of a world that a model file makes; what is left open is decided by rule and written here."""

    short_flags: ClassVar[tuple[str, ...]] = ("assets", "allow_plugins", "terminate_below", "terminate_tilted")

    episode_length: CountOrZero = 0
    """Control steps of an episode; 0 for 10 seconds, but 100 to 500 steps."""
    model: str = ""
    """Hash of the model with all its files; they lie in the run's folder `model`."""
    file: str = ""
    """The model's file there."""
    assets: str = ""
    """The folder that all of a model's files must lie in, by default its own; only used to find them."""
    allow_plugins: bool = False
    """Take a model that asks for plugins other than MuJoCo's own; your program must have loaded them."""
    root: str = ""
    """The body whose free joint, or slides, carry the whole; by default that of the body with most driven joints.
    `none` for one that stays where it is."""
    position: tuple[str, ...] = ()
    """Names of the entries that are drawn and counted, one or two; by default where the root is on the plane, or the
    first two driven joints."""
    sensors: tuple[str, ...] = ()
    """Names of sensors that are observed, too, or `all`; by default none."""
    frame_skip: CountOrZero = 0
    """Physics steps of a control step; 0 for as many as make 0.02 s, at most 100."""
    keyframe: str = ""
    """The keyframe that episodes start from, by name or number; by default the model's own pose."""
    noise: Weight = 0.05
    """Starts differ by up to so much in each velocity and position: radians, metres for bodies of a metre or more, and
    else body lengths."""
    bin: Weight = 0.0
    """Side of the bins in which coverage is counted; 0 for the largest of 1, 2 or 5 times a power of ten within the
    body's length."""
    motors: bool = False
    """A motor on every joint that nothing drives; URDFs without actuators have them in any case."""
    free_base: bool = False
    """Let the first body move freely."""
    floor: bool = False
    """Add an endless floor at height 0, unless there is a plane."""
    terminate_below: float | None = None
    """End an episode when the root is lower than this; by default never."""
    terminate_tilted: float | None = None
    """End an episode when the root is tilted by more than so many degrees from its start; by default never."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            bool(re.fullmatch(rf"{PREFIX}[\w.+-]{{1,100}}", self.name)),
            f"env.name is {self.name!r}; that of a model file is {PREFIX}NAME",
        )
        require(bool(re.fullmatch("[0-9a-f]{64}", self.model)), "env.model must be a hash: 64 hexadecimal digits")
        require(len(self.position) <= 2, f"env.position has {len(self.position)} names; it can have two")
        tilted = self.terminate_tilted
        require(tilted is None or 0 < tilted < 180, f"env.terminate_tilted is {tilted}; it must be within 0 and 180")

    def files(self) -> dict[str, bytes]:
        kept = {f"{bundles.FOLDER}/{name}": data for name, data in bundles.known(self.model).files.items()}
        world = ModelFile(self)
        return {**kept, f"{bundles.FOLDER}/{TRIAL}": world.trial.to_json(_trial_key(world))}

    def find_files(self, folder: Path) -> None:
        bundles.read_beside(folder, self.file, self.model)
        place = folder / bundles.FOLDER / TRIAL
        if place.is_file() and place.stat().st_size < bundles.LARGEST:
            world = ModelFile(self)
            key = _trial_key(world)
            found = Trial.from_json(place.read_bytes(), key)
            if found is not None and len(found.mean) == len(world.layout.names):
                _trials.setdefault(key, found)


class Facts(NamedTuple):
    """What a model is, as far as its world needs to know."""

    model: mujoco.MjModel
    start: Any
    """Data at the start."""
    lifted: float
    """Metres by which the start was raised, out of the floor."""
    root: ModelRoot
    layout: Layout
    size: float
    """Length of the body: the longest side of the box around it at the start."""
    said: tuple[str, ...]
    """What was added to the file's model, in words."""
    height: tuple[int, float] | None
    """Entry of qpos that is the root's height, and what is to be added to it."""
    turn: int | None
    """First entry of qpos of the root's orientation, a quaternion or a hinge about a level axis."""


@dataclasses.dataclass(frozen=True)
class ModelFile(Body):
    """A body from a model file; its configuration says all that was decided."""

    config: ModelConfig

    Config = ModelConfig
    summary = "a body from your own model file, MJCF or URDF"

    def __post_init__(self) -> None:
        facts, config = self.facts, self.config
        require(config.frame_skip > 0 and config.episode_length > 0 and config.bin > 0, "env is not decided yet")
        entries = facts.layout.groups["position"]
        if config.position:
            entries = entries_named(facts.layout, config.position, "env.position")
        fall = (
            "its own upward axis points below the horizon" if facts.turn is not None else "its world ends the episode"
        )
        own = {
            "frame_skip": config.frame_skip,
            "episode_length": config.episode_length,
            "groups": Groups({**facts.layout.groups, "position": entries}),
            "bin": config.bin,
            "goal_radius": config.bin,
            "example_goals": ((4.0 * config.bin, 2.0 * config.bin), (-3.0 * config.bin, 4.0 * config.bin)),
            "fall": fall,
        }
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @classmethod
    def configure(cls, name: str, given: Mapping[str, Any] | None = None) -> ModelConfig:  # type: ignore[override]
        """The configuration of the world that a model file makes: what is `given`, and the rest by rule."""
        if name.startswith(PREFIX):
            raise UserError(f"{name} is the environment of a run; start from the model's file, or with --config")
        given = dict(given or {})
        assets, allow = given.pop("assets", ""), given.get("allow_plugins", False)
        collected = opening.collect(name, str(assets), allow is True)
        digest = bundles.remember(collected.bundle)
        _repairs.setdefault(digest, collected.repairs)
        stem = re.sub(r"[^\w.+-]", "_", Path(name).stem, flags=re.ASCII)[:100]
        said = {"name": f"{PREFIX}{stem}", **given, "model": digest, "file": collected.bundle.main}
        return decided(build(ModelConfig, said, Path(name).name))

    @property
    def facts(self) -> Facts:
        """What its model is; cached and shared."""
        return _facts(_without_choices(self.config))

    @property
    def layout(self) -> Layout:
        """What is observed."""
        return self.facts.layout

    @property
    def trial(self) -> Trial:
        """What random actions do to it: measured once, and kept beside a run."""
        world = self.from_origin()
        key = _trial_key(world)
        if key not in _trials:
            with jax.ensure_compile_time_eval():
                _trials[key] = try_random(world, _ranges(self.facts))
        return _trials[key]

    @property
    def statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:  # type: ignore[override]
        return self.trial.mean, self.trial.std

    @property
    def entry_names(self) -> tuple[str, ...]:
        """Of the observation."""
        return self.layout.names

    @property
    def unit(self) -> str:
        """Of the position."""
        kinds = {int(kind) for kind in self.facts.model.jnt_type}
        return "m" if self.facts.root.moves or SLIDE in kinds else "rad"

    @property
    def repairs(self) -> tuple[str, ...]:
        """What was changed of the file's model, in words."""
        lifted = (f"raised by {self.facts.lifted:.3g} m, out of the floor",) if self.facts.lifted else ()
        return (*_repairs.get(self.config.model, ()), *self.facts.said, *lifted)

    def load(self) -> mujoco.MjSpec:
        return _specified(self.config)[0]

    def start(self, key: Key[Array, ""]) -> Float[Array, " physics"]:
        starts, model = jnp.asarray(_starts(self)), self.model
        physics = starts[jax.random.randint(key, (), 0, len(starts))]
        return physics.at[1 : 1 + model.nq].set(self._placed(physics[1 : 1 + model.nq], key))

    @property
    def place_in_qpos(self) -> tuple[int, ...]:
        select, groups = self.layout.select, self.groups["position"]
        return tuple(int(select[entry]) for entry in groups if select[entry] < self.layout.nq)

    def observe(self, state: WorldState) -> Float[Array, " obs"]:
        return self.layout.observe(state.physics, state.sensors)

    def measure(self, state: WorldState) -> Float[Array, " obs"]:
        return self.observe(state)

    def terminated(self, state: WorldState) -> Bool[Array, ""]:
        facts, config = self.facts, self.config
        over = jnp.zeros(state.physics.shape[:-1], bool)
        if config.terminate_below is not None and facts.height is not None:
            over |= state.physics[..., 1 + facts.height[0]] + facts.height[1] < config.terminate_below
        if config.terminate_tilted is not None and facts.turn is not None:
            over |= self.upright(state) < float(np.cos(np.radians(config.terminate_tilted)))
        return over

    def fallen(self, state: WorldState) -> Bool[Array, ""]:
        if self.facts.turn is None:
            return self.terminated(state)
        return self.terminated(state) | (self.upright(state) < 0)

    def upright(self, state: WorldState) -> Float[Array, ""]:
        """Cosine of the angle by which the root is tilted from its start."""
        facts = self.facts
        at = 1 + facts.turn  # type: ignore[operator]
        start = facts.start.qpos[facts.turn :]
        if int(facts.model.jnt_type[facts.root.joints[0]]) != FREE:
            return jnp.cos(state.physics[..., at] - float(start[0]))
        pose = np.zeros(9)
        mujoco.mju_quat2Mat(pose, start[:4])
        turned = matrix_of(state.physics[..., at : at + 4])[..., 2, :]  # the vertical, as the body has it
        return sum(float(pose[6 + k]) * turned[..., k] for k in range(3))  # ... and had it


_repairs: dict[str, tuple[str, ...]] = {}
"""Of the models that were read from their files, by hash."""
_trials: dict[str, Trial] = {}


def decided(config: ModelConfig) -> ModelConfig:
    """The same with all that was left open decided by rule."""
    facts = _facts(_without_choices(config))
    step = float(facts.model.opt.timestep)
    skip = config.frame_skip or int(np.clip(round(CONTROL_SECONDS / step), 1, MOST_SUBSTEPS))
    length = config.episode_length or int(
        np.clip(round(EPISODE_SECONDS / (skip * step)), SHORTEST_EPISODE, LONGEST_EPISODE)
    )
    names, entries = facts.layout.names, facts.layout.groups["position"]
    if config.terminate_below is not None and facts.height is None:
        raise UserError("--terminate-below needs a root that can rise: a free joint or an upright slide")
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


def _without_choices(config: ModelConfig) -> ModelConfig:
    """The same but for what the model itself does not depend on, so that it is compiled once."""
    plain: dict[str, Any] = {
        "name": PREFIX + "x", "episode_length": 1, "frame_skip": 1, "bin": 1.0, "noise": 0.0, "position": (),
        "terminate_below": None, "terminate_tilted": None, "start_pose": "model", "start_range": 0.0,
    }  # fmt: skip
    return dataclasses.replace(config, **plain)


def _specified(config: ModelConfig) -> tuple[mujoco.MjSpec, list[str]]:
    spec, said = opening.specification(bundles.known(config.model), config.motors, config.free_base, config.floor)
    opening.keep_sensors(spec, config.sensors, config.file)
    return spec, said


@functools.cache
def _facts(config: ModelConfig) -> Facts:
    spec, said = _specified(config)
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
        return nice(facts.size)
    ranges = _ranges(facts)[list(facts.layout.groups["position"])]
    return nice(float(ranges.max()) / 20 if ranges.max() > 0 else 0.1)


def nice(length: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not larger."""
    power = 10.0 ** np.floor(np.log10(max(length, 1e-6)))
    return float(round(max(k for k in (1, 2, 5) if k * power <= length * (1 + 1e-9)) * power, 9))


def _ranges(facts: Facts) -> NDArray[np.float64]:
    """By how much each observed entry can change, where its joint says so, and 0 elsewhere."""
    whole = np.zeros(facts.model.nq)
    for joint in np.flatnonzero(facts.model.jnt_limited):
        if int(facts.model.jnt_type[joint]) in (HINGE, SLIDE):
            whole[facts.model.jnt_qposadr[joint]] = np.ptp(facts.model.jnt_range[joint])
    select = facts.layout.select
    return np.where(select < facts.model.nq, whole[np.minimum(select, facts.model.nq - 1)], 0.0)


def _trial_key(world: ModelFile) -> str:
    plain = dataclasses.replace(
        world.from_origin().config, episode_length=1, terminate_below=None, terminate_tilted=None
    )
    return hashlib.sha256(to_json(plain).encode()).hexdigest()


@functools.cache
def _starts(world: ModelFile) -> NDArray[np.float32]:
    """Physics that episodes start from: the start, moved by noise along the joints' own coordinates."""
    facts, noise, draw = world.facts, world.config.noise, np.random.default_rng(0)
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


def world_from_mjcf(path: Path | str, **given: Any) -> ModelFile:
    """The world that a model file makes, for `discover`, `make_vec` and `SkillEnv`.

    Args:
        path: a MJCF (.xml) or URDF (.urdf) file.
        given: what is not to be decided by rule, by the names of the flags ``--env.*``: ``terminate_below=0.3``,
            ``sensors=("all",)``.

    Returns:
        The world; ``world.config`` has all that was decided.
    """
    lists = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    return ModelFile(ModelFile.configure(str(path), lists))
