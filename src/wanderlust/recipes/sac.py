"""What recipes say of SAC."""

from typing import Any

from wanderlust.registry import METHODS


def entropy_weight(name: str, lsd: float, **others: float) -> dict[str, Any]:
    """SAC's entropy coefficient for a method: learned if the method says so, else its own multiple of LSD's.

    `others` are tuned numbers of a recipe for methods by name.
    """
    multiple: float | None = METHODS.get(name).entropy
    if multiple is None:
        return {"alpha": 0.01, "learn_alpha": True}
    return {"alpha": others.get(name, multiple * lsd), "learn_alpha": False}


def learning_rates(rate: float) -> dict[str, Any]:
    """The same for policy, critics and alpha."""
    return {f"{part}_learning_rate": rate for part in ("policy", "critic", "alpha")}
