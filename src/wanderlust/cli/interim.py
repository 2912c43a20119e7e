"""What method classes will say of themselves, until `wanderlust.registry.METHODS` has it."""

import dataclasses
import types
import typing
from typing import Any

from wanderlust.config import AnyMethodConfig, MethodConfig


class _Methods:
    def names(self) -> tuple[str, ...]:
        from wanderlust.methods import METHODS

        return tuple(METHODS)

    def get(self, name: str) -> Any:
        from wanderlust.methods import DESCRIPTIONS, WITHOUT_GOALS

        kinds = {n: k for k in typing.get_args(AnyMethodConfig) for n in typing.get_args(k.__annotations__["name"])}
        return types.SimpleNamespace(
            Config=kinds[name],
            summary=DESCRIPTIONS[name],
            goal_rule=None if name in WITHOUT_GOALS else "towards",
            plans=name == "dads",
        )


METHODS: Any = _Methods()


def section_of(hint: Any) -> Any:
    """The configuration class of a field that is a section, else None."""
    if hint == AnyMethodConfig:
        return MethodConfig
    return hint if dataclasses.is_dataclass(hint) else None
