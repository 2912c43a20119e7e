"""Methods by name."""

from wanderlust.catalogue import VIEWS, parse_method
from wanderlust.config import MethodConfig
from wanderlust.methods.base import Method
from wanderlust.methods.skills import SkillSpace
from wanderlust.methods.views import View
from wanderlust.registry import METHODS

__all__ = ["VIEWS", "Method", "View", "bonuses", "make_method", "parse_method"]


def bonuses() -> tuple[str, ...]:
    """Names of the methods whose reward can be added to that of another."""
    return tuple(name for name in METHODS.names() if METHODS.get(name).adds)


def make_method(config: MethodConfig, skills: SkillSpace) -> Method:
    """The method a configuration names."""
    made: Method = METHODS.get(config.name)(config, skills)
    return made
