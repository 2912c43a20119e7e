"""What a configuration says of a world that a model file makes."""

import dataclasses
import re
from pathlib import Path
from typing import ClassVar

from wanderlust.config.bounds import CountOrZero, Weight
from wanderlust.envs.models import bundle as bundles
from wanderlust.envs.models import trial
from wanderlust.envs.worlds.body import BodyConfig
from wanderlust.errors import require

PREFIX = "mjcf:"
"""Of the environment's name in a configuration; the file's name follows."""


@dataclasses.dataclass(frozen=True)
class ModelConfig(BodyConfig):
    """What can be chosen of a world that a model file makes; what is left open is decided by rule and written here."""

    short_flags: ClassVar[tuple[str, ...]] = ("assets", "allow_plugins", "terminate_below", "terminate_tilted")

    episode_length: CountOrZero = 0
    """Control steps of an episode; 0 for 5 seconds, but 100 to 500 steps."""
    model: str = ""
    """Hash of the model with all its files; they lie in the run's folder `model`."""
    file: str = ""
    """The model's file there."""
    assets: str = ""
    """The folder that all of a model's files must lie in, by default its own; only used to find them."""
    allow_plugins: bool = False
    """Take a model that asks for plugins other than MuJoCo's own; your program must have loaded them."""
    root: str = ""
    """The body whose free joint, or slides, carry the whole; by default that of the body with most driven joints.
    `none` for one that stays where it is."""
    position: tuple[str, ...] = ()
    """Names of the entries that are drawn and counted, one or two; by default where the root is on the plane, or the
    first two driven joints."""
    sensors: tuple[str, ...] = ()
    """Names of sensors that are observed, too, or `all`; by default none."""
    frame_skip: CountOrZero = 0
    """Physics steps of a control step; 0 for as many as make 0.02 s, at most 100."""
    keyframe: str = ""
    """The keyframe that episodes start from, by name or number; by default the model's own pose."""
    noise: Weight = 0.05
    """Starts differ by up to so much in each velocity and position: radians, metres for bodies of a metre or more, and
    else body lengths."""
    bin: Weight = 0.0
    """Side of the bins in which coverage is counted; 0 for the largest of 1, 2 or 5 times a power of ten within a
    quarter of the body's length."""
    motors: bool = False
    """A motor on every joint that nothing drives; URDFs without actuators have them in any case."""
    free_base: bool = False
    """Let the first body move freely."""
    floor: bool = False
    """Add an endless floor at height 0, unless there is a plane."""
    terminate_below: float | None = None
    """End an episode when the root is lower than this; by default never."""
    terminate_tilted: float | None = None
    """End an episode when the root is tilted by more than so many degrees from its start; by default never."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            bool(re.fullmatch(rf"{PREFIX}[\w.+-]{{1,100}}", self.name)),
            f"env.name is {self.name!r}; that of a model file is {PREFIX}NAME",
        )
        require(bool(re.fullmatch("[0-9a-f]{64}", self.model)), "env.model must be a hash: 64 hexadecimal digits")
        require(len(self.position) <= 2, f"env.position has {len(self.position)} names; it can have two")
        tilted = self.terminate_tilted
        require(tilted is None or 0 < tilted < 180, f"env.terminate_tilted is {tilted}; it must be within 0 and 180")

    def find_files(self, folder: Path) -> None:
        bundles.read_beside(folder, self.file, self.model)
        trial.read_beside(folder / bundles.FOLDER)
