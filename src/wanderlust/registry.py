"""Where methods and environments are found by name: ours, those of installed packages, and those of a file."""

import importlib
import re
from importlib.metadata import entry_points
from typing import Any

from wanderlust.errors import UserError


class Registry:
    """Things by name. A thing of ours is written as ``package.module:Name`` and imported when it is first asked for.

    A package offers its own through an entry point of `group`, a program through `register`, and a command line by
    writing ``package.module:Name`` instead of a name.
    """

    def __init__(self, kind: str, group: str, ours: dict[str, str]) -> None:
        self.kind, self.group = kind, group
        self._places = dict(ours)
        self._found: dict[str, Any] = {}
        self._searched = False

    def register(self, name: str, thing: Any) -> None:
        """Add something under a name that is not taken."""
        if not re.fullmatch(r"[a-z][a-z0-9_]*(-[a-z0-9_]+)*", name):
            raise UserError(f"a {self.kind}'s name is lower-case letters, digits and hyphens, not {name!r}")
        if self._found.get(name, thing) is not thing or name in self._places:
            raise UserError(f"there is already a {self.kind} {name!r}; choose another name")
        self._found[name] = thing

    def names(self) -> tuple[str, ...]:
        """All names, ours first."""
        self._search()
        return tuple(dict.fromkeys((*self._places, *self._found)))

    def __contains__(self, name: str) -> bool:
        return name.partition(":")[2].isidentifier() or name in self.names()  # module:Ant-v5 is an id of Gymnasium's

    def get(self, name: str) -> Any:
        """What a name stands for; a ``package.module:Name`` is imported and stands for itself."""
        if name in self._found:
            return self._found[name]
        if ":" in name:
            found = self._found[name] = self._import(name)
            return found
        self._search()
        if name not in self._places:
            known = ", ".join(self.names())
            raise UserError(f"unknown {self.kind} {name!r}; known: {known}; or package.module:Name for one of your own")
        found = self._found[name] = self._import(self._places[name])
        return found

    def _search(self) -> None:
        """Look once for what installed packages offer; a name of ours stays ours."""
        if not self._searched:
            self._searched = True
            for point in entry_points(group=self.group):
                self._places.setdefault(point.name, point.value)

    def _import(self, place: str) -> Any:
        module, _, name = place.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except ImportError as problem:
            raise UserError(f"cannot import {module} for the {self.kind} {place!r}: {problem}") from problem
        except AttributeError as problem:
            raise UserError(f"{module} has no {name}, which the {self.kind} {place!r} names") from problem


METHODS = Registry(
    "method",
    "wanderlust.methods",
    {
        "lsd": "wanderlust.methods.lsd:LSD",
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
    },
)
