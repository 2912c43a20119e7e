"""A word to those who watch: a run whose skills cover less than random actions do."""

from collections.abc import Sequence

import numpy as np

from wanderlust.evaluation.metrics import coverage
from wanderlust.train.probe import random_episodes
from wanderlust.train.state import Setup

LATE = 0.25
"""Share of the budget after which skills should reach farther than random actions."""


class DeadRunWatch:
    """Compares each look at the skills with as many episodes of random actions, from `LATE` on. It warns once."""

    def __init__(self, parts: Setup, episodes: int) -> None:
        self._parts, self._episodes = parts, episodes
        self._warned = False
        self._floor: int | None = None

    def warning(self, covered: Sequence[int], share: float) -> str | None:
        """What to say after this share of the budget, when random skills of each seed cover so many bins."""
        if self._warned or share < LATE or share >= 1.0:  # at the end the verdict says it
            return None
        best, floor = int(np.max(covered)), self.floor
        if best > floor:
            return None
        self._warned = True
        position = self._parts.world.spec.position
        focus = "--focus position, " if position and self._parts.view.method_entries != position else ""
        return (
            f"this run looks dead: after {share:.0%} of its budget {self._episodes} skills cover {best} bins, and "
            f"random actions {floor}. Some worlds take longer; else try other seeds (--seeds 4), "
            f"{focus}another --method, or a larger --sac.alpha (docs/how-to/did-it-learn.md)"
        )

    @property
    def floor(self) -> int:
        """Bins that random actions cover; played when it is first asked for."""
        if self._floor is None:
            world, spec = self._parts.world, self._parts.world.spec
            obs = random_episodes(world, self._parts.engine, self._episodes, [self._parts.config.seed]).obs[0]
            self._floor = coverage(spec.place(np.asarray(obs)), spec.bin)
        return self._floor
