"""URDF files: what they leave out or get wrong is put right, and said.

They come from other simulators: meshes by the names of ROS packages, shapes for looking at in formats that MuJoCo does
not read, links without inertia, and never a motor, a floor or a base that moves.
"""

import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import mujoco
import numpy as np

from wanderlust.envs.models.collect import Collected, Collector, check_size

READ = (".stl", ".obj", ".msh")
"""Meshes that MuJoCo reads."""
LEAST_MASS, LEAST_INERTIA = 1e-3, 1e-6
"""Of a link, in kg and kg m²."""


def collect_urdf(collector: Collector, root: ET.Element) -> Collected:
    """A URDF with its meshes, repaired as far as its text goes."""
    check_size(collector, root)
    said = [*_shapes(collector, root), *_inertias(root), *_damping(root)]
    for tag in ("gazebo", "transmission"):  # other programs' business, plugins among it
        for element in root.findall(tag):
            root.remove(element)
    own = root.find("mujoco")
    own = ET.SubElement(root, "mujoco") if own is None else own
    for other in own.findall("extension") + own.findall("include"):
        own.remove(other)
    compiler = own.find("compiler")
    compiler = ET.SubElement(own, "compiler") if compiler is None else compiler
    for name in ("meshdir", "texturedir", "assetdir", "strippath"):
        compiler.attrib.pop(name, None)
    compiler.set("discardvisual", "false")
    compiler.set("balanceinertia", "true")
    compiler.set("boundmass", str(LEAST_MASS))
    compiler.set("boundinertia", str(LEAST_INERTIA))
    return Collected(collector.finish(root), tuple(said))


def _shapes(collector: Collector, root: ET.Element) -> list[str]:
    """Meshes into the bundle; shapes that are only looked at, and those that cannot be had, are left out."""
    folder = next((x.get("meshdir", "") for x in root.iter("compiler") if x.get("meshdir")), "")
    looked_at, lost, resolved = 0, [], 0
    for link in root.iter("link"):
        solid = link.findall("collision")
        for kind in ("visual", "collision"):
            for shape in link.findall(kind):
                mesh = shape.find("geometry/mesh")
                if kind == "visual" and solid:
                    link.remove(shape)
                    looked_at += 1
                elif mesh is not None:
                    said = mesh.get("filename", "")
                    path = _found(collector, said, folder)
                    if path is None:
                        link.remove(shape)
                        lost.append(f"{kind} {said} of {link.get('name')}")
                    else:
                        mesh.set("filename", _binary(collector, collector.add(path)))
                        resolved += said.startswith(("package:", "model:", "file:"))
            for material in [m for shape in link.findall(kind) for m in shape.findall("material")]:
                for texture in material.findall("texture"):
                    material.remove(texture)
    for material in root.findall("material"):
        for texture in material.findall("texture"):
            material.remove(texture)
    words = []
    if resolved:
        words.append(f"{resolved} mesh paths of packages resolved")
    if looked_at:
        words.append(f"{looked_at} shapes that are only looked at left out")
    if lost:
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        words.append(f"left out, not found or no format that MuJoCo reads ({', '.join(READ)}): {lost[0]}{more}")
    return words


def _binary(collector: Collector, name: str) -> str:
    """The same mesh in a form that MuJoCo reads: it has no reader for STL that is text."""
    data = collector.files[name]
    if name.lower().endswith(".stl") and data[:5] == b"solid" and b"facet" in data[:1000]:
        corners = np.array(re.findall(rb"vertex\s+(\S+)\s+(\S+)\s+(\S+)", data), dtype="S32")
        try:
            triangles = corners.astype(np.float32).reshape(-1, 9)
        except ValueError:  # MuJoCo will say so
            return name
        record = np.zeros(len(triangles), np.dtype([("normal", "<f4", 3), ("corners", "<f4", 9), ("extra", "<u2")]))
        record["corners"] = triangles
        collector.files[name] = bytes(80) + len(triangles).to_bytes(4, "little") + record.tobytes()
    return name


def _found(collector: Collector, said: str, folder: str) -> Path | None:
    """The file of a mesh, or one of the same name in a format that MuJoCo reads; None if there is none."""
    scheme, mark, rest = said.replace("\\", "/").partition("://")
    if not mark:
        place = collector.folder / folder / said
    elif scheme == "file":
        place = Path("/") / rest
    else:
        package, _, below = rest.partition("/")
        home = _package(collector, package)
        if home is None:
            return None
        place = home / below
    _widen(collector)
    for ending in dict.fromkeys((place.suffix, *READ)):
        other = place.with_suffix(ending)
        if ending.lower() in READ and other.is_file() and collector.inside(other):
            return other
    return None


def _package(collector: Collector, name: str) -> Path | None:
    """The folder of a ROS package: one above the file, or one that lies beside such a folder and is a package."""
    for folder in collector.path.resolve().parents:
        if folder.name == name or (name and _names_itself(folder, name)):
            _widen(collector, folder)
            return folder
        if name and (folder / name / "package.xml").is_file() and collector.base.is_relative_to(folder):
            return folder / name
    return None


def _names_itself(folder: Path, name: str) -> bool:
    about = folder / "package.xml"
    try:
        return about.is_file() and ET.parse(about).findtext("name", "").strip() == name
    except ET.ParseError:
        return False


def _widen(collector: Collector, package: Path | None = None) -> None:
    """A package's own folder is as good as the file's: the file is a part of it."""
    above = [package] if package else [p for p in collector.path.resolve().parents if (p / "package.xml").is_file()]
    for folder in above[:1]:
        if collector.base.is_relative_to(folder):
            collector.base = folder


def _inertias(root: ET.Element) -> list[str]:
    """Give links the least that MuJoCo's compiler takes; it balances those that no body can have itself."""
    light, unbalanced = 0, 0
    for link in root.findall("link"):
        every = link.findall("inertial")
        for extra in every:
            if extra is not every[0] or extra.find("mass") is None:  # its shapes have a mass, then
                link.remove(extra)
        inertial = link.find("inertial")
        own = None if inertial is None else inertial.find("inertia")
        if inertial is None or own is None:
            continue
        xx, yy, zz, xy, xz, yz = (_number(own, name) for name in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz"))
        values, axes = np.linalg.eigh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
        if values[0] < LEAST_INERTIA:
            light += 1
            whole = axes @ np.diag(np.maximum(values, LEAST_INERTIA)) @ axes.T
            for name, (row, column) in zip(
                ("ixx", "iyy", "izz", "ixy", "ixz", "iyz"),
                ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)),
                strict=True,
            ):
                own.set(name, repr(float(whole[row, column])))
        unbalanced += values[0] + values[1] < values[2] * (1 - 1e-6)
    words = []
    if light:
        words.append(f"{light} links of no or hardly any inertia given {LEAST_INERTIA:g} kg m²")
    if unbalanced:
        words.append(f"{unbalanced} inertias that no body can have balanced")
    return words


def _damping(root: ET.Element) -> list[str]:
    """Joints without damping get as much as lets their full effort reach their limit of velocity, and no more."""
    damped = 0
    for joint in root.findall("joint"):
        limit, dynamics = joint.find("limit"), joint.find("dynamics")
        if limit is None or (dynamics is not None and _number(dynamics, "damping") > 0):
            continue
        effort, velocity = _number(limit, "effort"), _number(limit, "velocity")
        if effort > 0 and 0 < velocity < 1e3:
            dynamics = ET.SubElement(joint, "dynamics") if dynamics is None else dynamics
            dynamics.set("damping", repr(effort / velocity))
            damped += 1
    return [f"{damped} joints damped: effort / velocity of their limits"] if damped else []


def _number(element: ET.Element, name: str) -> float:
    try:
        found = float(element.get(name, "0"))
    except ValueError:  # MuJoCo will say so
        return 0.0
    return found if math.isfinite(found) else 0.0


# --- what a specification lacks --------------------------------------------------------------------------------------


def add_motors(spec: mujoco.MjSpec) -> list[str]:
    """A motor for every joint that nothing drives, as strong as the joint's limit of effort; what was added, in words.

    A joint without such a limit gets twice what holds it against gravity, and 1 N m or N at least.
    """
    driven = {actuator.target for actuator in spec.actuators}
    follow = {eq.name1 for eq in spec.equalities if int(eq.type) == int(mujoco.mjtEq.mjEQ_JOINT)}
    kinds = {int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)}
    joints = [j for j in spec.joints if int(j.type) in kinds and j.name not in driven | follow]
    if not joints:
        return []
    for n, joint in enumerate(joints):
        joint.name = joint.name or f"joint {n}"
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    limited = 0
    for joint in joints:
        strength = float(np.max(np.abs(joint.actfrcrange)))
        limited += strength > 0
        if not strength > 0:
            strength = max(1.0, 2.0 * float(np.abs(data.qfrc_bias[model.joint(joint.name).dofadr[0]])))
        made = spec.add_actuator(name=f"{joint.name} motor", target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        made.gear = [strength, 0, 0, 0, 0, 0]
        made.ctrllimited, made.ctrlrange = True, [-1.0, 1.0]
    rest = len(joints) - limited
    return [
        f"{len(joints)} motors added, one for each joint"
        + (f"; {rest} without a limit of effort are as strong as twice gravity, at least 1" if rest else "")
    ]


def add_free_base(spec: mujoco.MjSpec) -> list[str]:
    """Let the first body of the world move freely."""
    first = next((body for body in spec.worldbody.bodies), None)
    if first is None or first.joints:
        return []
    first.add_freejoint(name="free base")
    for key in list(spec.keys):  # of positions without the base
        spec.delete(key)
    return [f"{first.name or 'the first body'} moves freely"]


def add_floor(spec: mujoco.MjSpec) -> list[str]:
    """An endless floor at height zero, unless there is a plane."""
    if any(int(geom.type) == int(mujoco.mjtGeom.mjGEOM_PLANE) for geom in spec.worldbody.geoms):
        return []
    spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    return ["a floor at height 0"]
