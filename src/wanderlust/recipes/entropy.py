"""What rewards are weighed against in each method: SAC's alpha."""

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
