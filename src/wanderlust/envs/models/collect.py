"""Gathering a model's files from disk into a bundle, checked: nothing from outside its folder, nothing too large.

A model may be a stranger's. What is looked at here is text; MuJoCo sees it only after these checks.
"""

import math
import re
import struct
import xml.etree.ElementTree as ET  # document types and entities are refused below
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wanderlust.envs.models.bundle import LARGEST, MOST_FILES, Bundle
from wanderlust.errors import UserError

LARGEST_TEXT = 32 * 2**20
"""Bytes of one XML file."""
MOST_ELEMENTS = 50_000
"""Elements of a model, those that `replicate`, `composite` and `flexcomp` make included."""
MOST_INCLUDES = 1_000
MOST_PIXELS = 2**26
"""Of a texture, or points of a height field."""
MOST_MEMORY = 4 * 2**30
"""Bytes that a model may ask MuJoCo for, for each thread."""
DEEPEST = 100
"""Levels of elements within elements."""

SUFFIXES = (".xml", ".mjcf", ".urdf")
"""Of model files."""


class Collected(NamedTuple):
    """A model's files, and what had to be changed to make them one, in words."""

    bundle: Bundle
    repairs: tuple[str, ...]


class Collector:
    """Gathers the files that one model refers to, under names of their own."""

    def __init__(self, path: Path, assets: Path | None = None, allow_plugins: bool = False) -> None:
        self.path = path
        self.folder = path.parent
        self.base = (assets or path.parent).resolve()
        """No file from outside this folder is read."""
        self.allow_plugins = allow_plugins
        self.files: dict[str, bytes] = {}
        self._names: dict[Path, str] = {}
        self.elements = 0
        """Of all XML files so far, one that is included twice counted twice."""
        self.includes = 0
        self.within = 1
        """Of the largest model within this one."""
        self._size = 0

    def refuse(self, what: str) -> UserError:
        """An error about this model."""
        return UserError(f"{self.path.name}: {what}")

    def parse(self, path: Path) -> ET.Element:
        """The root of an XML file, without comments and without anything that could grow while it is read."""
        text = self.read(path, LARGEST_TEXT)
        if re.search(rb"<!(DOCTYPE|ENTITY)", text, re.IGNORECASE):
            raise self.refuse(f"{path.name} declares a document type or entities; remove them, MuJoCo has neither")
        text = _without_comments(text)  # in which MuJoCo takes what XML does not
        if text.count(b"<") > 4 * MOST_ELEMENTS:
            raise self.refuse(f"{path.name} has more than {MOST_ELEMENTS:,} elements")
        if b"<xacro:" in text:
            raise self.refuse("it is a xacro template; make a URDF of it first: xacro FILE > robot.urdf")
        try:
            return ET.fromstring(text)
        except ET.ParseError as error:
            raise self.refuse(f"not well-formed XML in {path.name}: {error}") from None

    def read(self, path: Path, most: int = LARGEST) -> bytes:
        """The bytes of a file inside the base folder, if they are not too many in all."""
        inside = self.inside(path)
        if not inside.is_file():
            raise self.refuse(f"it needs {path}, and there is no such file")
        size = inside.stat().st_size
        if size > most or self._size + size > LARGEST:
            raise self.refuse(f"{path.name} is too large: a text can have {LARGEST_TEXT >> 20} MB, all {LARGEST >> 20}")
        self._size += size
        return inside.read_bytes()

    def inside(self, path: Path) -> Path:
        """The path itself, links followed; refused if it leads out of the base folder."""
        real = path.resolve()
        if not real.is_relative_to(self.base):
            raise self.refuse(
                f"it refers to {path}, which is outside {self.base}; if you trust that, say --assets FOLDER with a "
                "folder that holds both"
            )
        return real

    def add(self, path: Path) -> str:
        """Take a file into the bundle; the name it has there."""
        real = self.inside(path)
        if real not in self._names:
            data = self.read(path)
            _check_picture(data, path, self)
            if len(self.files) >= MOST_FILES:
                raise self.refuse(f"it needs more than {MOST_FILES:,} files")
            self._names[real] = self.free_name(path.name)
            self.files[self._names[real]] = data
        return self._names[real]

    def free_name(self, wanted: str) -> str:
        """A name like the wanted one that no file has, whatever the case of its letters."""
        clean = re.sub(r"[^\w.+-]", "_", wanted, flags=re.ASCII).lstrip(".") or "file"
        stem, dot, ending = clean.rpartition(".") if "." in clean else (clean, "", "")
        taken, name, n = {name.lower() for name in self.files} | {self.path.name.lower()}, clean, 1
        while name.lower() in taken:
            n += 1
            name = f"{stem}-{n}{dot}{ending}"
        return name

    def finish(self, root: ET.Element) -> Bundle:
        """The bundle of a model whose references are names in it."""
        main = self.path.stem + (".urdf" if root.tag == "robot" else ".xml")
        main = re.sub(r"[^\w.+-]", "_", main, flags=re.ASCII).lstrip(".") or "model.xml"
        self.files = {name: data for name, data in self.files.items() if name != main}
        return Bundle(main, {main: ET.tostring(root), **self.files})


def collect_mjcf(collector: Collector, root: ET.Element) -> Collected:
    """A MJCF model: includes put in, files beside it, sizes and plugins checked."""
    _put_in_includes(collector, root, (collector.path,))
    _check_plugins(collector, root)
    _gather(collector, root)
    check_size(collector, root)
    return Collected(collector.finish(root), ())


def _put_in_includes(collector: Collector, root: ET.Element, trail: tuple[Path, ...]) -> None:
    """Replace every `include` by what its file holds."""
    if len(trail) > DEEPEST:
        raise collector.refuse(f"includes go deeper than {DEEPEST} files")
    for parent in [*root.iter()]:
        while (found := next((n for n, child in enumerate(parent) if child.tag == "include"), None)) is not None:
            named = parent[found].get("file", "")
            path = next(
                (place for folder in (collector.folder, trail[-1].parent) if (place := folder / named).is_file()),
                collector.folder / named,
            )
            if any(path.resolve() == before.resolve() for before in trail):
                raise collector.refuse(f"its includes go in a circle: {named} is included from within itself")
            inner = collector.parse(path)
            collector.includes += 1
            if collector.includes > MOST_INCLUDES:
                raise collector.refuse(f"it includes more than {MOST_INCLUDES:,} files")
            collector.elements += sum(1 for _ in inner.iter())
            if collector.elements > MOST_ELEMENTS:
                raise collector.refuse(f"its includes have more than {MOST_ELEMENTS:,} elements")
            _put_in_includes(collector, inner, (*trail, path))
            parent[found : found + 1] = list(inner)


def _without_comments(text: bytes) -> bytes:
    """Without comments; one that is not closed stays, and is refused by who reads it."""
    pieces, at = [], 0
    while (first := text.find(b"<!--", at)) >= 0 and (last := text.find(b"-->", first + 4)) >= 0:
        pieces.append(text[at:first])
        at = last + 3
    return b"".join([*pieces, text[at:]])


def _compiler(root: ET.Element, name: str) -> str:
    """What the compiler elements say of something; the last one counts."""
    return next((x.get(name, "") for x in reversed([*root.iter("compiler")]) if x.get(name)), "")


def _gather(collector: Collector, root: ET.Element) -> None:
    """Take every file a model refers to into the bundle, and refer to it there."""
    both, strip = _compiler(root, "assetdir"), _compiler(root, "strippath") == "true"
    folders = {"texture": _compiler(root, "texturedir") or both, "model": ""}
    meshes, missing = _compiler(root, "meshdir") or both, []
    for element in root.iter():
        for name in [name for name in element.keys() if name.startswith("file")]:  # noqa: SIM118 - no dictionary
            if not (said := element.get(name, "").replace("\\", "/")):
                continue
            said = said.rpartition("/")[2] if strip else said
            path = collector.folder / folders.get(element.tag, meshes) / said
            if not collector.inside(path).is_file():
                missing.append(path)
                continue
            if name == "file" and element.tag in ("mesh", "texture", "hfield", "model") and not element.get("name"):
                element.set("name", Path(said).stem)
            element.set(name, _submodel(collector, path) if element.tag == "model" else collector.add(path))
    for element in root.iter("compiler"):
        for name in ("meshdir", "texturedir", "assetdir", "strippath"):
            element.attrib.pop(name, None)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise collector.refuse(f"it needs files that are not there: {missing[0]}{more}")


def _submodel(collector: Collector, path: Path) -> str:
    """A model within a model, taken in the same way."""
    inner = Collector(path, collector.base, collector.allow_plugins)
    inner.files = collector.files
    root = inner.parse(path)
    if any(element.tag == "model" and element.get("file") for element in root.iter()):
        raise collector.refuse(f"{path.name} is a model within it that has models within it; put them into one file")
    collect_mjcf(inner, root)
    collector.within = max(collector.within, sum(1 for _ in root.iter()))
    name = collector.free_name(path.name)
    collector.files = {**inner.files, name: ET.tostring(root)}
    return name


def _check_plugins(collector: Collector, root: ET.Element) -> None:
    for element in root.iter("plugin"):
        name = element.get("plugin", "")
        if name and not name.startswith("mujoco.") and not collector.allow_plugins:
            raise collector.refuse(
                f"it asks for the plugin {name}, which is not MuJoCo's own; if you trust it and your program has "
                "loaded it, add --allow-plugins"
            )


# --- sizes -----------------------------------------------------------------------------------------------------------


def check_size(collector: Collector, root: ET.Element) -> None:
    """Refuse a model whose compilation would take the machine's memory or time, before MuJoCo begins with it."""
    elements = 0
    for element, copies, depth in _walk(root, 1, 1):
        if depth > DEEPEST:
            raise collector.refuse(f"its elements are nested deeper than {DEEPEST} levels")
        elements += copies * (collector.within if element.tag == "attach" else _made(element))
        if elements > MOST_ELEMENTS:
            raise collector.refuse(f"it has more than {MOST_ELEMENTS:,} elements, copies included")
        points = _product(element, "width", "height") if element.tag == "texture" else _product(element, "nrow", "ncol")
        if points > MOST_PIXELS:
            raise collector.refuse(f"a {element.tag} of it has {points:,.0f} points; it can have {MOST_PIXELS:,}")
        if element.tag == "size" and _bytes(element) > MOST_MEMORY:
            raise collector.refuse(f"it asks for more than {MOST_MEMORY >> 30} GB of memory (its element `size`)")


def _walk(root: ET.Element, copies: int, depth: int) -> Iterator[tuple[ET.Element, int, int]]:
    """Every element, how often it will be there, and how deep it lies."""
    waiting = [(root, copies, depth)]
    while waiting:
        element, copies, depth = waiting.pop()
        yield element, copies, depth
        inner = copies * int(max(1, _number(element.get("count")))) if element.tag == "replicate" else copies
        if depth <= DEEPEST:
            waiting.extend((child, inner, depth + 1) for child in element)


def _made(element: ET.Element) -> int:
    """How many elements MuJoCo makes of one."""
    if element.tag in ("composite", "flexcomp"):
        counts = [_number(word) for word in element.get("count", "1").split()]
        return int(min(1e12, math.prod(max(1.0, count) for count in counts)))
    return 1


def _product(element: ET.Element, *names: str) -> float:
    return math.prod(_number(element.get(name)) for name in names)


def _bytes(element: ET.Element) -> float:
    said = element.get("memory", "")
    units = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}
    own = _number(said[:-1]) * units[said[-1].upper()] if said and said[-1].upper() in units else _number(said)
    return max(own, 8 * _number(element.get("nstack")), 8 * _number(element.get("nuserdata")))


def _number(text: str | None) -> float:
    try:
        found = abs(float(text or 0))
    except ValueError:  # MuJoCo will say so
        return 0.0
    return found if math.isfinite(found) else 1e18


def _check_picture(data: bytes, path: Path, collector: Collector) -> None:
    """Refuse a PNG that would unpack to more than a texture may be."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        if width * height > MOST_PIXELS:
            raise collector.refuse(f"{path.name} has {width * height:,} pixels; it can have {MOST_PIXELS:,}")
