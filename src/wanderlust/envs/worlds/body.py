"""What MuJoCo worlds share. A world is a subclass in a file of its own, which says what is special to it."""

import abc
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Bool, Float, Key
from numpy.typing import NDArray

from wanderlust.config import EnvConfig
from wanderlust.envs.base import Capacity, WorldState
from wanderlust.envs.engines.mujoco_c import CEngine
from wanderlust.envs.mjcf import compiled, physics_of, set_physics
from wanderlust.envs.poses import random_poses
from wanderlust.envs.spec import EnvSpec, Groups
from wanderlust.envs.statistics import Statistics, measure_statistics
from wanderlust.errors import UserError

SENSED_STARTS = 1024
"""Starts whose sensors MuJoCo has read beforehand; episodes of a world with sensors begin at one of them."""
POSES = 2048
"""Poses from which `env.start_pose` draws, if it is not `model`."""
FEWEST_POSES = 64
"""Fewer than these, of four times as many draws as `POSES`, are refused."""


@dataclasses.dataclass(frozen=True)
class BodyConfig(EnvConfig):
    """What can be chosen of a MuJoCo world."""

    solver: Literal["newton", "stock"] = "newton"
    """`stock` keeps the solver the model file asks for: PGS for Humanoid, which only the engine `c` has."""
    cone: Literal["stock", "elliptic"] = "stock"
    """Friction cones: `stock` keeps the model file's, `elliptic` makes the engines agree to rounding."""
    start_pose: Literal["model", "any", "mixed"] = "model"
    """Episodes start in the model file's pose, give or take the world's noise; or in `any`: turned anyhow, joints
    anywhere within their ranges, just above the floor; or `mixed`, half and half. Tasks and evaluation always start
    in the model's."""
    start_range: float = 0.0
    """Episodes start uniformly within this many metres of the origin, along each axis of the plane."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.start_range <= 1e4:
            raise UserError(f"env.start_range is {self.start_range}; it must be in [0, 1e4]")

    def start_within(self, reach: float) -> EnvConfig | None:
        return dataclasses.replace(self, start_range=reach)


class Twin(NamedTuple):
    """Gymnasium's own environment of the same model, with what makes it observe the same."""

    id: str
    options: Mapping[str, bool]


@dataclasses.dataclass(frozen=True)
class Body(abc.ABC):
    """A MuJoCo model that starts at its own pose, gives or takes noise, and observes qpos and then qvel."""

    config: BodyConfig

    Config: ClassVar[type[BodyConfig]] = BodyConfig
    summary: ClassVar[str] = ""
    """One line for `wanderlust list`; those of ours are in `registry.py`."""
    frame_skip: ClassVar[int] = 5
    """Physics steps of one control step."""
    episode_length: ClassVar[int] = 200
    """Control steps, unless the configuration says otherwise."""
    option_length: ClassVar[int] = 25
    """Control steps that a high-level policy lets a skill act before it chooses another."""
    groups: ClassVar[Groups] = Groups(position=(0, 1))
    """Names of observation entries, at least `position`: the plane (or line) that is drawn and counted in bins."""
    bin: ClassVar[float] = 1.0
    """Side of these bins."""
    fall: ClassVar[str] = "its own upward axis points below the horizon"
    """What `fallen` looks for, in words."""
    goal_radius: ClassVar[float] = 1.0
    """How near a place counts as reached in `wanderlust reach`, unless its `--radius` says otherwise."""
    example_goals: ClassVar[tuple[tuple[float, ...], ...]] = ((12.0, 4.0), (24.0, 0.0))
    """Places to try `wanderlust reach` with."""
    focus: ClassVar[str] = ""
    """Name of the group that a method's network sees by default; nothing for the whole observation."""
    raw_focus: ClassVar[bool] = False
    """Whether it sees that group as it is observed, not normalised."""
    position_noise: ClassVar[float] = 0.0
    """An episode starts at the model's own pose, every entry of qpos moved by U(-noise, noise)."""
    velocity_noise: ClassVar[float] = 0.0
    """... and every entry of qvel by U(-noise, noise), or by noise times N(0, 1)."""
    velocity_is_normal: ClassVar[bool] = False
    statistics: ClassVar[Statistics | None] = None
    """Mean and deviation of the observation, by which networks see it; None to have a random policy's measured."""
    capacity: ClassVar[Capacity | None] = None
    gymnasium: ClassVar[Twin | None] = None
    recipe_overrides: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """By recipe: changes to its fallback for worlds without tuned numbers, such as ``schedule.epochs=500``."""

    @classmethod
    def configure(cls, name: str) -> BodyConfig:
        """The configuration of this world under its registered name."""
        return cls.Config(name, cls.episode_length)

    @abc.abstractmethod
    def load(self) -> mujoco.MjSpec:
        """The model's specification; the configuration's solver and cone are put in afterwards."""

    def speed_up(self, spec: mujoco.MjSpec) -> None:  # noqa: B027 - a choice, not a duty
        """Changes that make the engine `c` faster and leave its results as they are; none unless a world knows some."""

    @property
    def model(self) -> mujoco.MjModel:
        """Cached and shared; do not mutate."""
        return _model(self)

    @property
    def model_for_c(self) -> mujoco.MjModel:
        """Cached and shared; do not mutate."""
        return _model_for_c(self)

    @property
    def spec(self) -> EnvSpec:
        mean, std = self.statistics or _measured(self.from_origin())
        return EnvSpec(
            name=self.config.name,
            obs_dim=len(mean),
            action_dim=self.action_dim,
            episode_length=self.config.episode_length,
            groups=self.groups,
            obs_mean=mean,
            obs_std=std,
            bin=self.bin,
            focus=self.focus,
            raw_focus=self.raw_focus,
        )

    @property
    def action_dim(self) -> int:
        """Entries of an action: one for each control of the model, unless a world has its own rule (`Steered`)."""
        return int(self.model.nu)

    @property
    def control_seconds(self) -> float:
        """Simulated time of one control step."""
        return self.frame_skip * float(self.model.opt.timestep)

    def initial(self, key: Key[Array, ""]) -> WorldState:
        if not self.model.nsensordata:
            return WorldState(self.start(key), jnp.zeros(0))
        at = jax.random.randint(key, (), 0, SENSED_STARTS)
        return jax.tree.map(lambda x: jnp.asarray(x)[at], _sensed_starts(self))

    def start(self, key: Key[Array, ""]) -> Float[Array, " physics"]:
        """Draw the physics an episode starts from."""
        model = self.model
        position_key, velocity_key = jax.random.split(key)
        moved = jax.random.uniform(position_key, (model.nq,), minval=-1.0, maxval=1.0)
        if self.velocity_is_normal:
            pushed = jax.random.normal(velocity_key, (model.nv,))
        else:
            pushed = jax.random.uniform(velocity_key, (model.nv,), minval=-1.0, maxval=1.0)
        qpos = self._placed(jnp.asarray(model.qpos0, jnp.float32) + self.position_noise * moved, key)
        rest = physics_of(model, mujoco.MjData(model)).astype(np.float32)
        after = rest[1 + model.nq + model.nv :]
        return jnp.concatenate([rest[:1], qpos, self.velocity_noise * pushed, after])

    def _placed(self, qpos: Float[Array, " nq"], key: Key[Array, ""]) -> Float[Array, " nq"]:
        """The pose of the model or another one, and somewhere else, as the configuration has it."""
        pose, reach = self.config.start_pose, self.config.start_range
        which, share, place = (jax.random.fold_in(key, n) for n in (1, 2, 3))
        if pose != "model":
            poses = jnp.asarray(_poses(self), jnp.float32)
            drawn = poses[jax.random.randint(which, (), 0, len(poses))]
            qpos = drawn if pose == "any" else jnp.where(jax.random.bernoulli(share), drawn, qpos)
        if reach:
            at = jnp.array(self.place_in_qpos)
            qpos = qpos.at[at].add(jax.random.uniform(place, at.shape, minval=-reach, maxval=reach))
        return qpos

    @property
    def place_in_qpos(self) -> tuple[int, ...]:
        """The entries of qpos that say where the body is."""
        return self.groups["position"]

    def observe(self, state: WorldState) -> Float[Array, " obs"]:
        """Of one world, or of a batch in NumPy (`gym/vector.py`)."""
        return state.physics[..., 1 : 1 + self.model.nq + self.model.nv]

    def measure(self, state: WorldState) -> Float[Array, " obs+sensors"]:
        return jnp.concatenate([self.observe(state), state.sensors])

    def terminated(self, state: WorldState) -> Bool[Array, ""]:
        return jnp.zeros(state.physics.shape[:-1], bool)

    def fallen(self, state: WorldState) -> Bool[Array, ""]:
        """Whether the body's own upward axis points below the horizon. A body without an orientation never falls."""
        obs, entries = self.observe(state), self.groups.get("orientation", ())
        turned = obs[..., jnp.array(entries, int)]
        if len(entries) == 4:
            return turned[..., 0] ** 2 + turned[..., 3] ** 2 < turned[..., 1] ** 2 + turned[..., 2] ** 2
        return jnp.cos(turned).sum(axis=-1) < 0 if entries else jnp.zeros(obs.shape[:-1], bool)

    def from_origin(self) -> "Body":
        """Bodies start at their model's own place and in its pose, give or take the noise."""
        if self.config.start_pose == "model" and not self.config.start_range:
            return self
        return dataclasses.replace(self, config=dataclasses.replace(self.config, start_pose="model", start_range=0.0))


def _specified(world: Body) -> mujoco.MjSpec:
    spec = world.load()
    if world.config.solver == "newton":
        # Humanoid's file asks for PGS, which no GPU engine has. Newton solves the same problem to a smaller residual,
        # and is MuJoCo's default.
        spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    if world.config.cone == "elliptic":
        # Friction pyramids need a tangent. For a capsule within 30 degrees of a plane's normal the GPU engines take a
        # fixed one and the C engine the capsule's axis: the pyramid is turned, and single steps of Ant differ. Round
        # cones have no such choice. They cost the GPU about a third of its speed, so the files' pyramids stay default.
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    return spec


@functools.cache
def _model(world: Body) -> mujoco.MjModel:
    return compiled(_specified(world))


@functools.cache
def _model_for_c(world: Body) -> mujoco.MjModel:
    spec = _specified(world)
    # Where a state stops being finite, this engine would put the body back to its start and go on as if nothing had
    # happened: a transition that never was, and no error. MuJoCo Warp has no such reset, and refuses the flag.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    world.speed_up(spec)
    return compiled(spec)


@functools.cache
def _poses(world: Body) -> NDArray[np.float64]:
    """Poses in which nothing is in the floor and no episode is over at once."""
    model, draw = world.model, np.random.default_rng(0)
    rest = physics_of(model, mujoco.MjData(model))
    found: list[Any] = []
    for _ in range(4):
        poses = random_poses(model, POSES, draw)
        physics: Any = np.tile(rest, (len(poses), 1))
        physics[:, 1 : 1 + model.nq] = poses
        with jax.ensure_compile_time_eval():
            over = np.asarray(world.terminated(WorldState(physics, physics[:, :0])))
        found.extend(poses[~over])
        if len(found) >= POSES:
            break
    if len(found) < FEWEST_POSES:
        raise UserError(f"{world.config.name} ends at once in nearly every pose: leave env.start_pose as it is, model")
    return np.array(found[:POSES])


@functools.cache
def _measured(world: Body) -> Statistics:
    with jax.ensure_compile_time_eval():
        return measure_statistics(world, CEngine(world), world.config.name, world.action_dim, rollouts=200)


@functools.cache
def _sensed_starts(world: Body) -> WorldState:
    """Some starts and what the model's sensors read there."""
    model = world.model
    with jax.ensure_compile_time_eval():
        starts: Any = np.asarray(jax.vmap(world.start)(jax.random.split(jax.random.key(0), SENSED_STARTS)))
    sensors: Any = np.zeros((SENSED_STARTS, model.nsensordata), np.float32)
    data = mujoco.MjData(model)
    for start, reading in zip(starts, sensors, strict=True):
        mujoco.mj_resetData(model, data)
        set_physics(model, data, start)
        mujoco.mj_forward(model, data)
        reading[:] = data.sensordata
    return WorldState(starts, sensors)
