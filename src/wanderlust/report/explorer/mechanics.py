"""What can be done to a body from outside: start, step, push, put up, look where it is. No viewer, no skills."""

from functools import partial
from typing import Any, NamedTuple

import jax
import mujoco
import numpy as np
from numpy.typing import NDArray

from wanderlust.envs import MujocoWorld, SelfStepping, World, WorldState, make_engine
from wanderlust.envs.base import sane
from wanderlust.envs.mjcf import set_physics
from wanderlust.errors import UserError
from wanderlust.methods.views import goal_entries, seen_from_body
from wanderlust.report.explorer.geometry import floor_of

STEP_SECONDS = 0.2
"""What a control step lasts in a world whose dynamics know no time."""
DROPPED = 0.1
"""Metres by which an object may sink below its start before it counts as dropped."""


class Root(NamedTuple):
    """Where the joints that carry a body around are in a model."""

    free: bool
    qpos: tuple[int, ...]
    """Entries of qpos: x, y and z of a free joint, or its slides."""
    dofs: tuple[int, ...]
    """Entries of qvel that move it on the plane."""
    turn: int
    """First entry of a free joint's quaternion."""


class Seen(NamedTuple):
    """What there is to see of a batch of states."""

    obs: NDArray[np.float32]
    ended: NDArray[np.bool_]
    """The world would end the episode here."""
    fallen: NDArray[np.bool_]
    """The world says that the body has fallen."""


class Mechanics:
    """One body in its world, stepped by the engine `c` on the calling thread, or by its own formula."""

    def __init__(self, world: World) -> None:
        self.world = world.from_origin()
        self.spec = self.world.spec
        self.model = self.world.model if isinstance(self.world, MujocoWorld) else None
        self.seconds = float(getattr(self.world, "control_seconds", STEP_SECONDS))
        self.radius = float(getattr(world, "goal_radius", 1.0))
        """How near a goal is reached."""
        self.engine = make_engine(self.world, "c" if self.model is not None else "jax", threads=1)
        self._data = None if self.model is None else mujoco.MjData(self.model)
        self._root = None if self.model is None else find_root(self.model)
        self._step = jax.jit(self.engine.step) if self.engine.compiles else self.engine.step
        fallen = getattr(self.world, "fallen", self.world.terminated)
        every = (self.world.observe, self.world.terminated, fallen)
        self._look = jax.jit(lambda state: tuple(jax.vmap(function)(state) for function in every))
        self._from_body = jax.jit(partial(seen_from_body, self.spec))
        self._initial = jax.jit(jax.vmap(self.world.initial))
        self._first = self.look(self.start(0)).obs[0]
        self.ground = self._ground()
        """Height on which paths and goals are drawn."""

    # --- states: batches of worlds, in NumPy ---------------------------------------------------------------------

    def start(self, seed: int, count: int = 1) -> WorldState:
        """Fresh starts."""
        state: WorldState = jax.device_get(self._initial(jax.random.split(jax.random.key(seed), count)))
        return state

    def step(self, state: WorldState, action: NDArray[np.float32]) -> WorldState:
        """The states one control step later."""
        chosen: Any = action
        after: WorldState = jax.device_get(self._step(state, chosen))
        return after

    def look(self, state: WorldState) -> Seen:
        """What there is to see of a batch of states."""
        return Seen(*jax.device_get(self._look(state)))

    def broken(self, state: WorldState) -> bool:
        """Whether the physics is no longer a number."""
        return not bool(np.all(sane(state)))

    # --- where it is ---------------------------------------------------------------------------------------------

    @property
    def carries_object(self) -> bool:
        """Whether skills and goals are about an object, and the body stays where it stands."""
        return bool(self.spec.focus)

    @property
    def plane(self) -> int:
        """Dimensions of the place that is drawn and that goals are of: 1 for bodies on a line."""
        return min(2, len(self.spec.groups["position"]))

    @property
    def unit(self) -> str:
        """Of places: m, or for instance rad, where a place is the angles of an arm."""
        return str(getattr(self.world, "unit", "m"))

    @property
    def on_floor(self) -> bool:
        """Whether places are places on the floor, and can be drawn and clicked there."""
        return self.unit == "m"

    def drawn(self, obs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Where it is in the scene: its place, or the origin where places are none of the floor."""
        return self.place(obs) if self.on_floor else np.array([0.0, 0.0, self.ground])

    def place(self, obs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Where observations [..., obs] say that it is: x, y and z."""
        focus = self.spec.groups.get(self.spec.focus, ())
        entries = focus if len(focus) == 3 else self.spec.groups["position"][:2]
        found = np.full((*obs.shape[:-1], 3), self.ground)
        found[..., 1] = 0.0
        found[..., : len(entries)] = obs[..., list(entries)]
        return found

    def distance(self, obs: NDArray[np.float32], goal: tuple[float, ...]) -> float:
        """From a goal, a place on the plane (or line) or of an object."""
        entries = list(goal_entries(self.spec, len(goal)))
        return float(np.linalg.norm(obs[entries] - np.asarray(goal)))

    def down(self, seen: Seen) -> bool:
        """Whether the body of a batch of one has fallen; of an arm, whether the object was dropped."""
        focus = self.spec.groups.get(self.spec.focus, ())
        if len(focus) == 3:
            return bool(seen.obs[0, focus[2]] < self._first[focus[2]] - DROPPED)
        return bool(seen.ended[0] or seen.fallen[0])

    # --- what a policy should see --------------------------------------------------------------------------------

    @property
    def walks(self) -> bool:
        """Whether it is a body that gets about, to which all places on the floor are alike."""
        gets_about = getattr(self.world, "gets_about", True)
        return self.model is not None and not self.carries_object and gets_about

    def position(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Where observations [..., obs] say that the body is, on the plane or line."""
        return obs[..., list(self.spec.groups["position"])]

    def seen_from(self, obs: NDArray[np.float32], anchor: NDArray[np.float32]) -> NDArray[np.float32]:
        """Observations as if a walking body had started at another place than the origin."""
        if not self.walks:
            return obs
        moved = obs.copy()
        moved[..., list(self.spec.groups["position"])] -= anchor
        return moved

    def seen_on_the_way(
        self, obs: NDArray[np.float32], goal: tuple[float, ...]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """An observation and a goal as if a walking body stood at the origin, as `evaluate --drive` has it."""
        there = np.array(goal, np.float32)
        if not self.walks:
            return obs, there
        here, way = jax.device_get(self._from_body(obs[None], there[None]))
        return here[0], way[0]

    # --- where things are ----------------------------------------------------------------------------------------

    def poses(self, state: WorldState) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Positions and rotations of all bodies of the model in a state of one world."""
        assert self.model is not None and self._data is not None
        set_physics(self.model, self._data, state.physics[0])
        mujoco.mj_kinematics(self.model, self._data)
        return self._data.xpos, self._data.xquat

    def hit(
        self, state: WorldState, origin: NDArray[np.float64], ray: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], bool] | None:
        """Where a ray meets the world first, and whether that is something that moves; None if it meets nothing.

        A ray that meets no shape meets the ground.
        """
        ray = ray / np.linalg.norm(ray)
        if self.model is not None and self._data is not None:
            self.poses(state)
            geom = np.full(1, -1, np.int32)
            shown = np.array([1, 1, 1, 0, 0, 0], np.uint8)
            away = mujoco.mj_ray(self.model, self._data, origin, ray, shown, 1, -1, geom, None)
            found = int(geom[0])
            if found >= 0 and away >= 0:
                still = int(self.model.body_weldid[self.model.geom_bodyid[found]]) == 0
                return origin + away * ray, not still
        if abs(ray[2]) < 1e-6 or (away := (self.ground - origin[2]) / ray[2]) <= 0:
            return None
        return origin + away * ray, False

    # --- what a hand can do --------------------------------------------------------------------------------------

    def pushed(self, state: WorldState, velocity: NDArray[np.float64]) -> WorldState:
        """The body, or the object, with this much more velocity on the plane."""
        if self.model is None or self._root is None:
            return state._replace(physics=state.physics + np.float32(velocity[: state.physics.shape[-1]] / 3))
        physics = np.array(state.physics, np.float32)
        for entry, added in zip(self._root.dofs, velocity, strict=False):
            physics[0, 1 + self.model.nq + entry] += added
        return self._sensed(physics)

    def put_up(self, state: WorldState, seed: int) -> WorldState:
        """The body as it starts, at the place where it is, looking the same way; an object back where it starts."""
        fresh = self.start(seed)
        if self.model is None or self._root is None or self.carries_object:
            return fresh
        before, after = np.asarray(state.physics[0]), np.array(fresh.physics, np.float32)
        if not np.all(np.isfinite(before)):
            return fresh
        at = 1 + np.array(self._root.qpos)
        if self._root.free:
            after[0, at[:2]] = before[at[:2]]
            turn = slice(1 + self._root.turn, 5 + self._root.turn)
            after[0, turn] = _turned_to(after[0, turn], before[turn])
        else:
            after[0, at] = before[at]
        return self._sensed(after)

    def _sensed(self, physics: NDArray[np.float32]) -> WorldState:
        """A state of this physics, its sensors read."""
        assert self.model is not None
        data = mujoco.MjData(self.model)
        set_physics(self.model, data, physics[0])
        mujoco.mj_forward(self.model, data)
        made: Any = (physics, data.sensordata.astype(np.float32)[None])
        return WorldState(*made)

    def _ground(self) -> float:
        if self.model is None:
            return 0.0
        focus = self.spec.groups.get(self.spec.focus, ())
        if len(focus) != 3 or self._root is None:
            return floor_of(self.model) or 0.0
        self.poses(self.start(0))  # what an object lies on
        assert self._data is not None
        body = int(self.model.dof_bodyid[self._root.dofs[0]]) if self._root.dofs else -1
        geom = np.full(1, -1, np.int32)
        at, down = self._first[list(focus)].astype(np.float64), np.array([0.0, 0.0, -1.0])
        away = mujoco.mj_ray(self.model, self._data, at, down, None, 1, body, geom, None)
        return float(at[2] - max(away, 0.0))


def find_root(model: mujoco.MjModel) -> Root | None:
    """The joints by which a model gets about: its first free joint, or the slides of its first body that has some."""
    kinds = mujoco.mjtJoint
    for joint in np.flatnonzero(model.jnt_type == int(kinds.mjJNT_FREE)):
        at, dof = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        return Root(True, (at, at + 1, at + 2), (dof, dof + 1), at + 3)
    slides = np.flatnonzero(model.jnt_type == int(kinds.mjJNT_SLIDE))
    if not len(slides):
        return None
    level = [
        j for j in slides if model.jnt_bodyid[j] == model.jnt_bodyid[slides[0]] and abs(model.jnt_axis[j, 2]) < 0.5
    ]
    qpos, dofs = (tuple(int(a[j]) for j in level) for a in (model.jnt_qposadr, model.jnt_dofadr))
    return Root(False, qpos, dofs, -1)


def require_drawable(world: World) -> None:
    """Refuse what cannot be shown: a world without MuJoCo physics that is no point on the plane."""
    if isinstance(world, MujocoWorld):
        return
    if not isinstance(world, SelfStepping) or len(world.spec.position) != 2:
        raise UserError(f"{world.spec.name} has no MuJoCo model: the explorer has nothing to draw")


def _turned_to(upright: NDArray[np.float32], seen: NDArray[np.float32]) -> NDArray[np.float64]:
    """An upright pose, turned around the vertical until it looks where the other one does."""
    heading = []
    for pose in (upright, seen):
        w, x, y, z = np.asarray(pose, np.float64) / max(float(np.linalg.norm(pose)), 1e-9)
        heading.append(np.arctan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z)))
    half = 0.5 * (heading[1] - heading[0])
    found = np.zeros(4)
    mujoco.mju_mulQuat(found, np.array([np.cos(half), 0.0, 0.0, np.sin(half)]), np.asarray(upright, np.float64))
    return found
