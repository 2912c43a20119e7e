"""Where methods and environments are found by name: ours, those of installed packages, and those of a file."""

import importlib
import os
import re
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from wanderlust.errors import UserError, did_you_mean

ALLOWED = "WANDERLUST_IMPORT"
"""Environment variable: modules that a configuration file may have imported, separated by commas."""


class Registry:
    """Things by name. A thing of ours is written as ``package.module:Name`` and imported when it is first asked for.

    A package offers its own through an entry point of `group`, a program through `register`, and a command line by
    writing ``package.module:Name`` instead of a name.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        ours: dict[str, str],
        families: dict[str, str] | None = None,
        files: dict[str, str] | None = None,
    ) -> None:
        """`families` are things of which a name says more: ``mjcf:hopper``; `files`: endings of paths that are one."""
        self.kind, self.group = kind, group
        self._places = dict(ours)
        self._families, self._files = families or {}, files or {}
        self._found: dict[str, Any] = {}
        self._named: set[str] = set()
        """What a program or a command line has asked for."""
        self._searched = False

    def register(self, name: str, thing: Any) -> None:
        """Add something under a name that is not taken."""
        if not re.fullmatch(r"[a-z][a-z0-9_]*(-[a-z0-9_]+)*", name):
            raise UserError(f"a {self.kind}'s name is lower-case letters, digits and hyphens, not {name!r}")
        if self._found.get(name, thing) is not thing or name in self._places:
            raise UserError(f"there is already a {self.kind} {name!r}; choose another name")
        _check(thing, f"{self.kind} {name!r}")
        self._found[name] = thing

    def names(self) -> tuple[str, ...]:
        """All names, ours first."""
        self._search()
        return tuple(name for name in dict.fromkeys((*self._places, *self._found)) if ":" not in name)

    def is_family(self, name: str) -> bool:
        """Whether a name is one of many of a family, or the path of a file that makes such a thing."""
        return self._family(name) is not None

    def is_file(self, name: str) -> bool:
        """Whether a name is the path of a file that makes such a thing."""
        return Path(name).suffix.lower() in self._files

    def _family(self, name: str) -> str | None:
        """Where that thing is."""
        family = self._files[Path(name).suffix.lower()] if self.is_file(name) else name.partition(":")[0]
        return self._families.get(family) if ":" in name or self.is_file(name) else None

    def __contains__(self, name: str) -> bool:
        return (
            self.is_family(name) or name.partition(":")[2].isidentifier() or name in self.names()
        )  # module:Ant-v5 is an id of Gymnasium's

    def get(self, name: str) -> Any:
        """What a name stands for; a ``package.module:Name`` is imported and stands for itself."""
        if name not in self._found:
            self._search()
            place = self._family(name) or (name if ":" in name else self._places.get(name))
            if place is None:
                files = [f"the path of a {' or '.join(self._files)} file"] if self._files else []
                known = ", ".join((*self.names(), *files))
                near = did_you_mean(name, self.names())
                raise UserError(
                    f"unknown {self.kind} {name!r}{near}; known: {known}; or package.module:Name for your own"
                )
            found = self._import(place)
            if self.is_file(name):  # a path is no name
                return found
            self._found[name] = found
        self._named.add(name)
        return self._found[name]

    def get_for_file(self, name: str) -> Any:
        """The same for a name that a file holds: the file may be a stranger's, so it cannot have any module imported.

        A module counts as yours once your program has imported it, or asked for the same name, or `WANDERLUST_IMPORT`
        names it.
        """
        module, _, rest = name.partition(":")
        if self.is_family(name):  # gymnasium:module:Id
            module = "" if name in self._named else rest.rpartition(":")[0]
        trusted = not module or module in sys.modules or module in os.environ.get(ALLOWED, "").split(",")
        if ":" in name and not trusted:
            raise UserError(f"{name!r} would run the code of {module}; if you trust it, set {ALLOWED}={module}")
        return self.get(name)

    def _search(self) -> None:
        """Look once for what installed packages offer; a name of ours stays ours."""
        if not self._searched:
            self._searched = True
            for point in entry_points(group=self.group):
                self._places.setdefault(point.name, point.value)

    def _import(self, place: str) -> Any:
        module, _, name = place.partition(":")
        try:
            found = getattr(_import_module(module), name)
        except ImportError as problem:
            raise UserError(f"cannot import {module} for the {self.kind} {place!r}: {problem}") from problem
        except AttributeError as problem:
            raise UserError(f"{module} has no {name}, which the {self.kind} {place!r} names") from problem
        _check(found, f"{self.kind} {place!r}")
        return found


def _import_module(name: str) -> Any:
    """A module that is installed, or a file of the working folder."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name != name.partition(".")[0]:
            raise
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def _check(thing: Any, what: str) -> None:
    if not isinstance(thing, type) or not hasattr(thing, "Config"):
        raise UserError(f"the {what} is no class with a Config; subclass wanderlust's Method or Body")


METHODS = Registry(
    "method",
    "wanderlust.methods",
    {
        "lsd": "wanderlust.methods.lsd:Lsd",
        "diayn": "wanderlust.methods.diayn:Diayn",
        "dads": "wanderlust.methods.dads:Dads",
        "visr": "wanderlust.methods.visr:Visr",
        "aps": "wanderlust.methods.aps:Aps",
        "vic": "wanderlust.methods.vic:Vic",
        "metra": "wanderlust.methods.metra:Metra",
        "csd": "wanderlust.methods.csd:Csd",
        "smm": "wanderlust.methods.smm:Smm",
        "edl": "wanderlust.methods.edl:Edl",
        "linearizer": "wanderlust.methods.ibol:Linearizer",
        "ibol": "wanderlust.methods.ibol:Ibol",
        "ablation": "wanderlust.methods.ablation:Ablation",
        "music": "wanderlust.methods.music:Music",
    },
)

WORLDS = Registry(
    "environment",
    "wanderlust.worlds",
    {
        "point": "wanderlust.envs.worlds.point:Point",
        "ant": "wanderlust.envs.worlds.ant:Ant",
        "half-cheetah": "wanderlust.envs.worlds.half_cheetah:HalfCheetah",
        "humanoid": "wanderlust.envs.worlds.humanoid:Humanoid",
        "fetch-push": "wanderlust.envs.worlds.fetch:FetchPush",
        "fetch-slide": "wanderlust.envs.worlds.fetch:FetchSlide",
        "fetch-pick-and-place": "wanderlust.envs.worlds.fetch:FetchPickAndPlace",
    },
    families={
        "mjcf": "wanderlust.envs.worlds.mjcf_file:ModelFile",
        "gymnasium": "wanderlust.envs.worlds.gymnasium:GymnasiumWorld",
    },
    files={".xml": "mjcf", ".mjcf": "mjcf", ".urdf": "mjcf"},
)
