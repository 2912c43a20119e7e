"""EDL: explore, discover, learn."""

from wanderlust.methods.edl.edl import Edl

__all__ = ["Edl"]
