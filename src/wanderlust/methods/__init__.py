"""Methods by name."""

from typing import cast

from wanderlust.config import MethodConfig, Variant
from wanderlust.errors import UserError, did_you_mean
from wanderlust.methods.base import Method
from wanderlust.methods.skills import SkillSpace
from wanderlust.methods.views import VIEWS, View
from wanderlust.registry import METHODS

__all__ = ["VIEWS", "Method", "View", "bonuses", "make_method", "parse_method"]


def bonuses() -> tuple[str, ...]:
    """Names of the methods whose reward can be added to that of another."""
    return tuple(name for name in METHODS.names() if METHODS.get(name).adds)


def make_method(config: MethodConfig, skills: SkillSpace) -> Method:
    """The method a configuration names."""
    made: Method = METHODS.get(config.name)(config, skills)
    return made


def parse_method(text: str) -> tuple[str, Variant]:
    """Split a method's name as a user writes it, e.g. ``diayn-xyo`` or ``package.module:Name``, into name and view."""
    text = text if ":" in text else text.lower()
    name, _, view = text.rpartition("-")
    if name and view in VIEWS and name in METHODS:
        return name, cast(Variant, view)
    if text in METHODS:
        return text, ""
    suffixes = ", ".join(f"-{v}" for v in VIEWS)
    if name and name in METHODS:
        raise UserError(f"unknown variant -{view} of {name}; known: {suffixes}")
    known = ", ".join(METHODS.names())
    near = did_you_mean(text, METHODS.names())
    raise UserError(f"unknown method {text!r}{near}; known: {known}, each also with {suffixes}; or package.module:Name")
