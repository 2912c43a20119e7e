"""IBOL's second stage begins here: an upper level that has learned nothing, over the linearizer of the first."""

from collections.abc import Callable

import jax

from wanderlust import train
from wanderlust.rl.sac import frozen
from wanderlust.runs.run import Run


def begin(
    first: Run, run: Run, parts: train.Setup, pressed: Callable[[], bool], quiet: bool
) -> train.TrainState | None:
    """The state the upper level starts from: each seed's linearizer is that of the same seed of the first stage."""
    skeleton = jax.eval_shape(lambda: train.init(train.assemble(first.config))).learner.sac.policy
    _, policy = first.load(skeleton, part="learner/sac/policy")
    state = train.init(parts)
    return state._replace(learner=state.learner._replace(sac=frozen(policy)))
