"""What rewards are weighed against in each method: SAC's alpha."""

from typing import Any

AUTO_ALPHA = ("diayn", "dads", "visr", "aps", "vic", "linearizer")
"""The paper adjusts these methods' alpha by itself; LSD's is fixed, and so is that of the grid it is taken apart in."""


def entropy_weight(name: str, lsd: float, metra: float, csd: float) -> dict[str, Any]:
    """SAC's entropy coefficient for a method: fixed, or where it starts if it is learned."""
    if name in AUTO_ALPHA:
        return {"alpha": 0.01, "learn_alpha": True}
    return {"alpha": {"metra": metra, "csd": csd}.get(name, lsd), "learn_alpha": False}
