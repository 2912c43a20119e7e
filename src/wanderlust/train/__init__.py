"""Training: two drivers, one update.

`fused` compiles collection and learning into one program; `split` steps the environments on the host between compiled
calls, for engines that cannot be compiled. Seeds are an axis: every array of a `TrainState` leads with it, learners
are mapped over it, and an engine sees seeds x worlds as one batch.
"""

from wanderlust.train.fused import FusedDriver, seed_mesh
from wanderlust.train.host import SplitDriver
from wanderlust.train.probe import (
    actions,
    decide,
    follow,
    make_player,
    make_probe,
    over_seeds,
    rollout,
    sample_skills,
)
from wanderlust.train.state import (
    Actor,
    Learner,
    Setup,
    TrainState,
    assemble,
    behaviour_policy,
    example,
    init,
    init_seed,
    restore,
    saved_form,
    skill_policy,
    to_save,
)
from wanderlust.train.update import Driver, each_seed, learn

__all__ = [
    "Actor",
    "Driver",
    "FusedDriver",
    "Learner",
    "Setup",
    "SplitDriver",
    "TrainState",
    "actions",
    "assemble",
    "behaviour_policy",
    "decide",
    "each_seed",
    "example",
    "follow",
    "init",
    "init_seed",
    "learn",
    "make_driver",
    "make_player",
    "make_probe",
    "over_seeds",
    "restore",
    "rollout",
    "sample_skills",
    "saved_form",
    "seed_mesh",
    "skill_policy",
    "to_save",
]


def make_driver(parts: Setup) -> Driver:
    """The driver a configuration asks for, compiled on first use."""
    return FusedDriver(parts) if parts.config.driver == "fused" else SplitDriver(parts)
