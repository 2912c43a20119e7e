"""What of a model is observed, and what its entries are: the root that carries the body, joints, objects, sensors.

Orientations are seen so that networks can learn from them: no entry jumps where the body turns on. A quaternion becomes
the first two axes of the body (6 entries), a hinge without limits its cosine and sine.
"""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import mujoco
import numpy as np
from numpy.typing import NDArray

from wanderlust.envs.rotations import matrix_of
from wanderlust.envs.spec import Groups
from wanderlust.errors import UserError

FREE, BALL, SLIDE, HINGE = (
    int(getattr(mujoco.mjtJoint, f"mjJNT_{kind}")) for kind in ("FREE", "BALL", "SLIDE", "HINGE")
)
AXES = ("x", "y", "z")
NO_ROOT = "none"


class ModelRoot(NamedTuple):
    """The joints that carry a body around."""

    body: int
    """0 for a body that stays where it is: it has joints only."""
    joints: tuple[int, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether there are any."""
        return bool(self.joints)


@dataclasses.dataclass(frozen=True, eq=False)
class ModelLayout:
    """Which features of a state are observed, in which order and under which names."""

    names: tuple[str, ...]
    groups: Groups
    offset: NDArray[np.float32]
    """Added to qpos: slides are observed as places in the world."""
    turns: NDArray[np.int64]
    """Entries of qpos of hinges without limits."""
    rotations: NDArray[np.int64]
    """Entries of qpos of quaternions, [n, 4]."""
    select: NDArray[np.int64]
    """Of all features (`observe`), those that are observed."""
    together: tuple[tuple[int, ...], ...]
    """Entries that one rotation makes: cosine and sine of a hinge, the axes of a quaternion."""
    nq: int
    nv: int

    def observe(self, physics: Any, sensors: Any) -> Any:
        """What is observed of one state, or of a batch."""
        qpos, qvel = physics[..., 1 : 1 + self.nq], physics[..., 1 + self.nq : 1 + self.nq + self.nv]
        features = [qpos + self.offset.reshape((1,) * (qpos.ndim - 1) + (-1,)), qvel, sensors]
        if len(self.turns):
            features += [jnp.cos(qpos[..., self.turns]), jnp.sin(qpos[..., self.turns])]
        if len(self.rotations):
            axes = jnp.swapaxes(matrix_of(qpos[..., self.rotations])[..., :2], -1, -2)
            features.append(axes.reshape(*qpos.shape[:-1], 6 * len(self.rotations)))
        return jnp.concatenate(features, axis=-1)[..., self.select]


def find_root(model: mujoco.MjModel, data: Any, asked: str = "") -> ModelRoot:
    """The root of the body that actuators move most joints of: its free joint, or its slides; `data` is at the start.

    A free body without actuators is an object and no root. `asked` names another body, or none.
    """
    if asked == NO_ROOT:
        return ModelRoot(0)
    if asked:
        names = [model.body(n).name for n in range(1, model.nbody)]
        if asked not in names:
            raise UserError(f"env.root is {asked!r}; the model has the bodies {', '.join(filter(None, names))}")
        body = model.body(asked).id
        if not (found := _carrying(model, data, body)):
            raise UserError(
                f"env.root is {asked!r}, which has neither a free joint nor slides; leave it out, or say none"
            )
        return ModelRoot(body, found)
    driven = driven_dofs(model, data)
    trees = model.body_rootid[model.dof_bodyid[driven]]
    if not len(trees):
        return ModelRoot(0)
    body = int(np.argmax(np.bincount(trees)))
    found = _carrying(model, data, body)
    return ModelRoot(body if found else 0, found)


def driven_dofs(model: mujoco.MjModel, data: Any) -> NDArray[np.int64]:
    """The degrees of freedom that actuators act on in the state of `data`."""
    found = set()
    for n in range(model.nu):
        first, count = int(data.moment_rowadr[n]), int(data.moment_rownnz[n])
        moments = data.actuator_moment[first : first + count]
        found |= set(data.moment_colind[first : first + count][np.abs(moments) > 1e-12].tolist())
    return np.array(sorted(found), np.int64)


def _carrying(model: mujoco.MjModel, data: Any, body: int) -> tuple[int, ...]:
    """The free joint of a body, or its slides and the hinges beside them; those of bodies in between count, too."""
    found: list[int] = []
    while True:
        joints = _joints_of(model, body)
        if free := [j for j in joints if int(model.jnt_type[j]) == FREE]:
            return tuple(free)
        found += joints
        below = np.flatnonzero(model.body_parentid == body)
        below = below[below != body]
        if model.body_geomnum[body] or len(below) != 1 or not joints:
            break
        body = int(below[0])
    return tuple(found) if any(int(model.jnt_type[j]) == SLIDE for j in found) else ()


def _joints_of(model: mujoco.MjModel, body: int) -> list[int]:
    return [int(model.body_jntadr[body]) + n for n in range(int(model.body_jntnum[body]))]


def is_upright(axis: NDArray[np.float64]) -> bool:
    """Whether an axis is closer to the vertical than to the horizontal."""
    return bool(abs(axis[2]) > np.sqrt(0.5))


def make_layout(model: mujoco.MjModel, data: Any, root: ModelRoot) -> ModelLayout:
    """The layout of a model whose start is in `data`, after mj_forward."""
    return _Maker(model, data, root).finish()


class _Maker:
    """Goes through a model joint by joint."""

    def __init__(self, model: mujoco.MjModel, data: Any, root: ModelRoot) -> None:
        self.model, self.data, self.root = model, data, root
        self.names: list[str] = []
        self.features: list[tuple[str, int]] = []
        self.groups: dict[str, list[int]] = {}
        self.offset = np.zeros(model.nq, np.float32)
        self.turns: list[int] = []
        self.rotations: list[int] = []
        self.objects = 0

    def add(self, kind: str, index: int, name: str, *groups: str) -> None:
        """One more entry."""
        for group in groups:
            self.groups.setdefault(group, []).append(len(self.names))
        self.names.append(name)
        self.features.append((kind, index))

    def finish(self) -> ModelLayout:
        """All entries: positions of all joints, then velocities, then sensors."""
        model = self.model
        titles = [self.title(joint) for joint in range(model.njnt)]
        for joint in range(model.njnt):
            self.place(joint, *titles[joint])
        for joint in range(model.njnt):
            self.speed(joint, *titles[joint])
        for n in range(model.nsensor):
            name = model.sensor(n).name or f"sensor {n}"
            first, size = int(model.sensor_adr[n]), int(model.sensor_dim[n])
            for k in range(size):
                self.add("sensor", first + k, f"{name} {k + 1}" if size > 1 else name, "sensors", f"sensor:{name}")
        if "position" not in self.groups:
            self.groups["position"] = self.without_root()
        starts, total = {}, 0
        sizes = {"place": model.nq, "speed": model.nv, "sensor": model.nsensordata, "cos": len(self.turns)}
        for kind, size in (*sizes.items(), ("sin", len(self.turns)), ("axis", 6 * len(self.rotations))):
            starts[kind], total = total, total + size
        return ModelLayout(
            names=tuple(self.names),
            groups=Groups({name: tuple(entries) for name, entries in self.groups.items()}),
            offset=self.offset,
            turns=np.array(self.turns, np.int64),
            rotations=np.array([[at + k for k in range(4)] for at in self.rotations], np.int64).reshape(-1, 4),
            together=self.together(),
            select=np.array([starts[kind] + index for kind, index in self.features], np.int64),
            nq=model.nq,
            nv=model.nv,
        )

    def together(self) -> tuple[tuple[int, ...], ...]:
        """The entries of each rotation."""
        found: dict[tuple[str, int], list[int]] = {}
        for entry, (kind, index) in enumerate(self.features):
            if kind in ("cos", "sin", "axis"):
                which = ("axis", index // 6) if kind == "axis" else ("turn", index)
                found.setdefault(which, []).append(entry)
        return tuple(map(tuple, found.values()))

    def title(self, joint: int) -> tuple[str, str]:
        """What a joint's entries are called, and the group they belong to: of the root, of an object, or joints."""
        model = self.model
        body = model.body(int(model.jnt_bodyid[joint])).name
        if joint in self.root.joints:
            return "" if int(model.jnt_type[joint]) == FREE else model.joint(joint).name, "root"
        if int(model.jnt_type[joint]) == FREE:
            self.objects += 1
            group = "object" if self.objects == 1 else f"object_{self.objects}"
            return body or group, group
        return model.joint(joint).name or f"{body or 'joint'} {joint}", "joints"

    def place(self, joint: int, name: str, group: str) -> None:
        """The entries of a joint's position."""
        model, at = self.model, int(self.model.jnt_qposadr[joint])
        kind = int(model.jnt_type[joint])
        if kind == FREE:
            for k, axis in enumerate(AXES):
                spot = group if group != "root" else "position" if k < 2 else "height"
                self.add("place", at + k, f"{name} {axis}".strip(), spot)
            self.rotation(at + 3, name, "orientation" if group == "root" else f"{group}_rotation")
        elif kind == BALL:
            self.rotation(at, name, "joints")
        elif kind == HINGE and not model.jnt_limited[joint]:
            if group == "root":
                group = "heading" if is_upright(self.data.xaxis[joint]) else "orientation"
            self.turns.append(at)
            for part in ("cos", "sin"):
                self.add(part, len(self.turns) - 1, f"{part} {name}", group)
        elif group == "root" and kind == SLIDE:
            axis = self.data.xaxis[joint]
            along = int(np.argmax(np.abs(axis)))
            if axis[along] > 0.999:
                here = self.data.xpos[int(model.jnt_bodyid[joint])][along]
                self.offset[at] = here - self.data.qpos[at]
            self.add("place", at, name, "height" if is_upright(axis) else "position")
        else:
            self.add("place", at, name, "joints")

    def rotation(self, at: int, name: str, group: str) -> None:
        """The six entries of a quaternion."""
        self.rotations.append(at)
        for k in range(6):
            words = f"{name} {'forward' if k < 3 else 'left'} {AXES[k % 3]}".strip()
            self.add("axis", 6 * (len(self.rotations) - 1) + k, words, group)

    def speed(self, joint: int, name: str, group: str) -> None:
        """The entries of a joint's velocity."""
        kind, at = int(self.model.jnt_type[joint]), int(self.model.jnt_dofadr[joint])
        if kind in (FREE, BALL):
            words = ("velocity", "spin") if kind == FREE else ("spin",)
            for n, word in enumerate(words):
                whose = "" if group == "root" else "joint_" if group == "joints" else f"{group}_"
                for k, axis in enumerate(AXES):
                    self.add("speed", at + 3 * n + k, f"{name} {word} {axis}".strip(), f"{whose}{word}")
        else:
            called = {"root": "velocity" if kind == SLIDE else "spin", "joints": "joint_velocity"}[group]
            self.add("speed", at, f"{name} velocity", called)

    def without_root(self) -> list[int]:
        """What takes the place of a position where nothing carries the body: the first two joints that are driven.

        Joints with limits come first; of one without, cosine and sine.
        """
        if "height" in self.groups:
            return list(self.groups["height"])
        model = self.model
        dofs = driven_dofs(model, self.data)
        joints = dict.fromkeys(int(model.dof_jntid[dof]) for dof in dofs)
        limited = [j for j in joints if int(model.jnt_type[j]) in (HINGE, SLIDE) and model.jnt_limited[j]]
        slides = [j for j in joints if int(model.jnt_type[j]) == SLIDE]
        first = list(dict.fromkeys([*limited, *slides]))[:2]
        spots = {feature: entry for entry, feature in enumerate(self.features)}
        if first:
            return [spots["place", int(model.jnt_qposadr[j])] for j in first]
        if self.turns:
            return [spots["cos", 0], spots["sin", 0]]
        return self.groups.get("joints", list(range(len(self.names))))[:2]


def entries_named(layout: ModelLayout, wanted: tuple[str, ...], field: str) -> tuple[int, ...]:
    """The entries of some names."""
    if unknown := [name for name in wanted if name not in layout.names]:
        raise UserError(f"{field}: there is no entry {unknown[0]!r}; there are {', '.join(layout.names)}")
    return tuple(layout.names.index(name) for name in wanted)
