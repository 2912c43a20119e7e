"""Names for the entries of an observation: of the model's joints where it observes them, else of the world's groups."""

from typing import Any

import mujoco

from wanderlust.envs.base import World
from wanderlust.envs.spec import EnvSpec
from wanderlust.envs.worlds.body import Body

AXES = ("x", "y", "z")
QUATERNION = ("qw", "qx", "qy", "qz")


def entry_names(world: World) -> tuple[str, ...]:
    """One name for each entry of the observation; a world may say its own as `entry_names`."""
    spec, said = world.spec, getattr(world, "entry_names", None)
    if said is not None and len(said) == spec.obs_dim:
        return tuple(map(str, said))
    if isinstance(world, Body) and type(world).observe is Body.observe:
        found = _joint_names(world.model)
        if len(found) == spec.obs_dim:
            return found
    return _group_names(spec)


def _joint_names(model: Any) -> tuple[str, ...]:
    """Of qpos and then qvel."""
    places: list[str] = []
    speeds: list[str] = []
    free = [j for j in range(model.njnt) if int(model.jnt_type[j]) == int(mujoco.mjtJoint.mjJNT_FREE)]
    for j in range(model.njnt):
        name, kind = model.joint(j).name or f"joint {j}", int(model.jnt_type[j])
        if kind == int(mujoco.mjtJoint.mjJNT_FREE):
            owner = f"{model.body(int(model.jnt_bodyid[j])).name} " if len(free) > 1 else ""
            places += [f"{owner}{entry}" for entry in (*AXES, *QUATERNION)]
            speeds += [f"{owner}{kind} {axis}" for kind in ("velocity", "spin") for axis in AXES]
        elif kind == int(mujoco.mjtJoint.mjJNT_BALL):
            places += [f"{name} {entry}" for entry in QUATERNION]
            speeds += [f"{name} spin {axis}" for axis in AXES]
        else:
            places.append(name)
            speeds.append(f"{name} velocity")
    return (*places, *speeds)


def _group_names(spec: EnvSpec) -> tuple[str, ...]:
    """Of the smallest group that has an entry, `position` last; entries of none are numbered."""
    names = {n: f"s{n + 1}" for n in range(spec.obs_dim)}
    for group, entries in sorted(spec.groups.items(), key=lambda item: (item[0] != "position", -len(item[1]))):
        if group == "position":
            parts: tuple[str, ...] = AXES[: len(entries)] if len(entries) <= 3 else ()
        else:
            parts = QUATERNION if len(entries) == 4 else AXES[: len(entries)] if 1 < len(entries) <= 3 else ()
        words = parts if len(parts) == len(entries) else tuple(str(n + 1) for n in range(len(entries)))
        spoken = "" if group == "position" else group.replace("_", " ")
        for entry, word in zip(entries, words, strict=True):
            names[entry] = f"{spoken} {word}".strip() if len(entries) > 1 or not spoken else spoken
    return tuple(names[n] for n in range(spec.obs_dim))
