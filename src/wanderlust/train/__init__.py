"""Training: two drivers, one update.

`fused` compiles collection and learning into one program; `split` steps the environments on the host between compiled
calls, for engines that cannot be compiled. Seeds are an axis: every array of a `TrainState` leads with it, learners
are mapped over it, and an engine sees seeds x worlds as one batch.
"""

from wanderlust.train.drivers import Driver, make_driver, seed_mesh
from wanderlust.train.probe import actions, make_probe, make_skill_rollout, sample_skills
from wanderlust.train.rollout import command_actions, set_subgoals
from wanderlust.train.state import (
    Learner,
    Setup,
    TrainState,
    assemble,
    init,
    init_seed,
    saved_form,
    skill_policy,
    to_save,
)
