"""Methods by name."""

from collections.abc import Callable
from typing import Any, cast

from wanderlust.config import MethodConfig, Variant
from wanderlust.errors import UserError
from wanderlust.methods.ablation import Ablation
from wanderlust.methods.aps import Aps
from wanderlust.methods.base import Method
from wanderlust.methods.csd import Csd
from wanderlust.methods.dads import Dads
from wanderlust.methods.diayn import Diayn
from wanderlust.methods.edl.edl import Edl
from wanderlust.methods.ibol.ibol import Ibol
from wanderlust.methods.ibol.linearizer import Linearizer
from wanderlust.methods.lsd import Lsd
from wanderlust.methods.metra import Metra
from wanderlust.methods.skills import SkillSpace
from wanderlust.methods.smm import Smm
from wanderlust.methods.vic import Vic
from wanderlust.methods.views import View
from wanderlust.methods.visr import Visr

__all__ = [
    "DESCRIPTIONS",
    "FROM_THE_START",
    "METHODS",
    "VIEWS",
    "Method",
    "View",
    "make_method",
    "parse_method",
]

METHODS: dict[str, Callable[[Any, SkillSpace], Any]] = {
    "lsd": Lsd,
    "diayn": Diayn,
    "dads": Dads,
    "visr": Visr,
    "vic": Vic,
    "aps": Aps,
    "metra": Metra,
    "csd": Csd,
    "smm": Smm,
    "edl": Edl,
    "linearizer": Linearizer,
    "ibol": Ibol,
    "ablation": Ablation,
}
"""Each takes the configuration of its own name (`config.py`) and is a `Method`; Ibol, instead of rewarding steps,
learns from trajectories."""

FROM_THE_START = ("vic",)
"""Methods that look at what an episode began with (`Transition.start`)."""

DESCRIPTIONS = {
    "lsd": "Lipschitz-constrained Skill Discovery: skills that travel far, each along its own direction",
    "diayn": "Diversity Is All You Need: skills that a discriminator can tell apart",
    "dads": "Dynamics-Aware Discovery of Skills: skills whose next step can be foreseen, and told from that of others",
    "visr": "Variational Intrinsic Successor featuRes: skills that a discriminator of directions can tell apart",
    "aps": "Active Pretraining with Successor features: VISR's reward, and one for being far from states seen before",
    "vic": "Variational Intrinsic Control: skills that can be told from where an episode began and ended",
    "metra": "Metric-Aware Abstraction: skills that cross what takes many steps, each along its own direction",
    "csd": "Controllability-aware Skill Discovery: skills that move what is hard to move, each in its own direction",
    "smm": "State Marginal Matching: a few skills that together visit everything; EDL explores with it",
    "edl": "Explore, Discover and Learn: SMM explores, a VQ-VAE picks goals among what it found, a skill reaches each",
    "linearizer": "the lower level of IBOL: moves the state along goals, one number for each of its entries",
    "ibol": "Information Bottleneck Option Learning: skills that set a linearizer's goals, learned from trajectories",
    "ablation": "one cell of the LSD paper's ablation grid, picked by method.form, method.states and method.spectral",
}

VIEWS = {
    "xy": "the method's network sees the position only",
    "o": "policy and critics do not see the position",
    "xyo": "both",
}


def make_method(config: MethodConfig, skills: SkillSpace) -> Method:
    """The method a configuration names."""
    if config.name not in METHODS:
        raise UserError(f"unknown method {config.name!r}; known: {', '.join(METHODS)}")
    return METHODS[config.name](config, skills)


def parse_method(text: str) -> tuple[str, Variant]:
    """Split a method's name as a user writes it, e.g. ``diayn-xyo``, into name and view."""
    name, _, view = text.lower().partition("-")
    if name not in METHODS:
        raise UserError(f"unknown method {text!r}; known: {', '.join(METHODS)}, each also with {_suffixes()}")
    if view and view not in VIEWS:
        raise UserError(f"unknown variant -{view} of {name}; known: {_suffixes()}")
    return name, cast(Variant, view)


def _suffixes() -> str:
    return ", ".join(f"-{v}" for v in VIEWS)
