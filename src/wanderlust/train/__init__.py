"""Training: two drivers, one update.

`fused` compiles collection and learning into one program; `split` moves the worlds on the host between compiled
calls, for engines that cannot be compiled. Seeds are an axis: every array of a `TrainState` leads with it, learners
are mapped over it, and an engine sees seeds x worlds as one batch.
"""

from wanderlust.train.fused import fused_driver, seed_mesh
from wanderlust.train.learning import Advance, each_seed, learn
from wanderlust.train.players import (
    actions,
    decide,
    follow,
    make_player,
    make_probe,
    over_seeds,
    rollout,
    sample_skills,
)
from wanderlust.train.split import SplitDriver
from wanderlust.train.state import (
    Actor,
    Learner,
    Parts,
    TrainState,
    assemble,
    example,
    init,
    init_seed,
    performer,
    restore,
    sampler,
    saved_form,
    to_save,
)

__all__ = [
    "Actor",
    "Advance",
    "Learner",
    "Parts",
    "SplitDriver",
    "TrainState",
    "actions",
    "assemble",
    "decide",
    "each_seed",
    "example",
    "follow",
    "fused_driver",
    "init",
    "init_seed",
    "learn",
    "make_driver",
    "make_player",
    "make_probe",
    "over_seeds",
    "performer",
    "restore",
    "rollout",
    "sample_skills",
    "sampler",
    "saved_form",
    "seed_mesh",
    "to_save",
]


def make_driver(parts: Parts) -> Advance:
    """The driver a configuration asks for, compiled on first use."""
    return fused_driver(parts) if parts.config.driver == "fused" else SplitDriver(parts)
