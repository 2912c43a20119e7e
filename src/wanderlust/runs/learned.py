"""What learning leaves behind for use: a policy and the method's state, without critics, replay and worlds."""

from typing import Any, NamedTuple

import jax

from wanderlust import train
from wanderlust.runs.run import Run


class Learned(NamedTuple):
    """All that acting, evaluating and choosing skills need; one seed's, or every array with a leading seed axis."""

    policy: Any
    """What acts: a `Policy`, or, under an upper level, what leads it as well (`train.performer`)."""
    method: Any
    """The method's state, which only the method understands."""


def from_run(run: Run, parts: train.Setup) -> tuple[int, Learned]:
    """The newest checkpoint's epoch, and what all seeds have learned by then, with their seed axis."""
    skeleton = jax.eval_shape(lambda: train.init(parts)).learner
    epoch, learner = run.load(skeleton, part="learner")
    return epoch, Learned(train.skill_policy(parts, learner), learner.method)


def of_seed(learned: Learned, seed: int) -> Learned:
    """What one seed has learned, without the seed axis."""
    one: Learned = jax.tree.map(lambda x: x[seed], learned)
    return one
