"""Names for the entries of an observation: of the model's joints where it observes them, else of the world's groups."""

import re
from collections.abc import Mapping
from typing import Any

import mujoco

from wanderlust.envs.base import World
from wanderlust.envs.spec import EnvSpec
from wanderlust.envs.worlds.body import Body
from wanderlust.errors import UserError, require

AXES = ("x", "y", "z")
ALL = "all"
"""The focus that sees every entry."""
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


def focus_entries(world: World, focus: str) -> tuple[int, ...] | None:
    """The entries that a configuration's focus names; None if it names none."""
    if not focus:
        return None
    coordinates = getattr(world, "coordinates", {})
    if isinstance(world, Body) and type(world).observe is Body.observe:
        nq, nv = int(world.model.nq), int(world.model.nv)
        coordinates = {"qpos": tuple(range(nq)), "qvel": tuple(range(nq, nq + nv))}
    spec = world.spec
    return named_entries(focus, spec.name, addresses(spec.groups, coordinates, entry_names(world)), spec.obs_dim)


Addresses = Mapping[str, tuple[int, ...]]
"""Entries of an observation by name; -1 for what has a name and is not observed."""


def addresses(groups: Addresses, coordinates: Addresses, names: tuple[str, ...]) -> Addresses:
    """All that entries may be called by: groups, MuJoCo's coordinates, and single entries."""
    several = {**groups, **coordinates}
    return {**several, **{name: (n,) for n, name in enumerate(names) if name not in several}}


def named_entries(focus: str, world: str, known: Addresses, obs_dim: int) -> tuple[int, ...]:
    """The entries that a focus names: groups, ``qpos[0:2]``, single entries by name, numbers; commas between them."""
    found: list[int] = []
    for part in (part.strip() for part in focus.split(",")):
        name, index = part, ""
        if part not in known and (match := re.fullmatch(r"(.+?)\[([\d:]+)\]", part)):
            name, index = match.groups()
        elif re.fullmatch(r"\d+(:\d*)?", part):
            name, index = "", part
        everything = (not name and index) or (name == ALL and name not in known)
        entries = tuple(range(obs_dim)) if everything else known.get(name)
        if entries is None:
            raise UserError(
                f"--focus {focus}: {world} observes no {part!r}; it has {', '.join(known)}, all, parts of them such as "
                f"{next(iter(known))}[0:2], and numbers from 0 to {obs_dim - 1}"
            )
        picked = _picked(entries, index)
        require(len(picked) > 0, f"--focus {focus}: {part} is beyond the {len(entries)} entries that there are")
        require(min(picked) >= 0, f"--focus {focus}: {world} does not observe all of {part}")
        found.extend(picked)
    return tuple(dict.fromkeys(found))


def _picked(entries: tuple[int, ...], index: str) -> tuple[int, ...]:
    """All entries, the n-th, or those from one to before another; nothing where that is beyond them."""
    if not index:
        return entries
    first, colon, last = index.partition(":")
    if not colon:
        return entries[int(first) : int(first) + 1]
    until = int(last) if last.isdigit() else len(entries) + (last != "")
    return entries[int(first or 0) : until] if until <= len(entries) else ()


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
