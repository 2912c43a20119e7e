"""IBOL: a linearizer, and skills on top of it."""

from wanderlust.methods.ibol.ibol import Ibol
from wanderlust.methods.ibol.linearizer import Linearizer

__all__ = ["Ibol", "Linearizer"]
