"""Where methods and environments are found by name: ours, those of installed packages, and those of a file."""

import importlib
import os
import re
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

from wanderlust.errors import UserError, did_you_mean

ALLOWED = "WANDERLUST_IMPORT"
"""Environment variable: modules that a configuration file may have imported, separated by commas."""


class Ours(NamedTuple):
    """A thing of ours: nothing is imported to say what it is."""

    place: str
    """``package.module:Name``."""
    summary: str
    """One line for `wanderlust list`."""


class Registry:
    """Things by name. A thing of ours is imported when it is first asked for.

    A package offers its own through an entry point of `group`, a program through `register`, and a command line by
    writing ``package.module:Name`` instead of a name.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        ours: dict[str, Ours],
        families: dict[str, Ours] | None = None,
        files: dict[str, str] | None = None,
    ) -> None:
        """`families` are things of which a name says more: ``mjcf:hopper``; `files`: endings of paths that are one."""
        self.kind, self.group = kind, group
        self._families, self._files = families or {}, files or {}
        self._summaries = {name: own.summary for name, own in (ours | self._families).items()}
        self._places = {name: own.place for name, own in ours.items()}
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
        found = self._families.get(family) if ":" in name or self.is_file(name) else None
        return found.place if found else None

    def __contains__(self, name: str) -> bool:
        return (
            self.is_family(name) or name.partition(":")[2].isidentifier() or name in self.names()
        )  # module:Ant-v5 is an id of Gymnasium's

    def check(self, name: str) -> None:
        """Refuse a name that stands for nothing. Nothing is imported, so what a module does not have is found later."""
        if name not in self:
            raise self._unknown(name)

    def summary(self, name: str) -> str:
        """One line about what a name, or that of a family, stands for; a class that is not ours says it itself."""
        text: str = self._summaries[name] if name in self._summaries else getattr(self.get(name), "summary", "")
        return text

    def _unknown(self, name: str) -> UserError:
        files = [f"the path of a {' or '.join(self._files)} file"] if self._files else []
        known = ", ".join((*self.names(), *files))
        near = did_you_mean(name, self.names())
        return UserError(f"unknown {self.kind} {name!r}{near}; known: {known}; or package.module:Name for your own")

    def get(self, name: str) -> Any:
        """What a name stands for; a ``package.module:Name`` is imported and stands for itself."""
        if name not in self._found:
            self._search()
            place = self._family(name) or (name if ":" in name else self._places.get(name))
            if place is None:
                raise self._unknown(name)
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
        "lsd": Ours(
            "wanderlust.methods.lsd:Lsd",
            "Lipschitz-constrained Skill Discovery: skills that travel far, each along its own direction",
        ),
        "diayn": Ours(
            "wanderlust.methods.diayn:Diayn",
            "Diversity Is All You Need: skills that a discriminator can tell apart",
        ),
        "dads": Ours(
            "wanderlust.methods.dads:Dads",
            "Dynamics-Aware Discovery of Skills: skills whose next step can be predicted, and told from others",
        ),
        "visr": Ours(
            "wanderlust.methods.visr:Visr",
            "Variational Intrinsic Successor featuRes: skills that a discriminator of directions can tell apart",
        ),
        "aps": Ours(
            "wanderlust.methods.aps:Aps",
            "Active Pretraining with Successor features: VISR's reward, and one for being far from states seen before",
        ),
        "vic": Ours(
            "wanderlust.methods.vic:Vic",
            "Variational Intrinsic Control: skills that can be told from where an episode began and ended",
        ),
        "metra": Ours(
            "wanderlust.methods.metra:Metra",
            "Metric-Aware Abstraction: skills that cross what takes many steps, each along its own direction",
        ),
        "csd": Ours(
            "wanderlust.methods.csd:Csd",
            "Controllability-aware Skill Discovery: skills that move what is hard to move, each in its own direction",
        ),
        "smm": Ours(
            "wanderlust.methods.smm:Smm",
            "State Marginal Matching: a few skills that together visit everything; EDL explores with it",
        ),
        "edl": Ours(
            "wanderlust.methods.edl:Edl",
            "Explore, Discover and Learn: SMM explores, a VQ-VAE picks goals among its states, skills reach them",
        ),
        "linearizer": Ours(
            "wanderlust.methods.ibol:Linearizer",
            "the lower level of IBOL: moves the state along goals, one number for each of its entries",
        ),
        "ibol": Ours(
            "wanderlust.methods.ibol:Ibol",
            "Information Bottleneck Option Learning: skills that set a linearizer's goals, learned from trajectories",
        ),
        "ablation": Ours(
            "wanderlust.methods.ablation:Ablation",
            "one cell of the LSD paper's ablation grid, picked by method.form, method.states and method.spectral",
        ),
        "music": Ours(
            "wanderlust.methods.music:Music",
            "Mutual Information-based State Control (MUSIC-u): moves the object; adds to any method (--with music)",
        ),
    },
)

WORLDS = Registry(
    "environment",
    "wanderlust.worlds",
    {
        "point": Ours(
            "wanderlust.envs.worlds.point:Point",
            "a point on the plane, moved by its action (2-D state, 2-D action, 10 steps)",
        ),
        "ant": Ours(
            "wanderlust.envs.worlds.ant:Ant",
            "a four-legged body on the plane (29-D state, 8-D action, 200 steps of 0.05 s)",
        ),
        "half-cheetah": Ours(
            "wanderlust.envs.worlds.half_cheetah:HalfCheetah",
            "a two-legged runner in a vertical plane (18-D state, 6-D action, 200 steps of 0.05 s)",
        ),
        "humanoid": Ours(
            "wanderlust.envs.worlds.humanoid:Humanoid",
            "a walking body that must not fall (47-D state, 17-D action, 1,000 steps of 0.015 s)",
        ),
        "fetch-push": Ours(
            "wanderlust.envs.worlds.fetch:FetchPush",
            "an arm that pushes a box over a table (25-D observation, 4-D action, 50 steps of 0.04 s)",
        ),
        "fetch-slide": Ours(
            "wanderlust.envs.worlds.fetch:FetchSlide",
            "an arm that hits a puck on a slippery table (25-D observation, 4-D action, 50 steps of 0.04 s)",
        ),
        "fetch-pick-and-place": Ours(
            "wanderlust.envs.worlds.fetch:FetchPickAndPlace",
            "an arm that can grasp and lift a box (25-D observation, 4-D action, 50 steps of 0.04 s)",
        ),
    },
    families={
        "mjcf": Ours(
            "wanderlust.envs.worlds.mjcf_file:ModelFile",
            "a body from your own model file, MJCF or URDF",
        ),
        "gymnasium": Ours(
            "wanderlust.envs.worlds.gymnasium:GymnasiumWorld",
            "any Gymnasium environment with Box actions, e.g. gymnasium:Walker2d-v5",
        ),
    },
    files={".xml": "mjcf", ".mjcf": "mjcf", ".urdf": "mjcf"},
)
