"""What figures read of an evaluation: its measures, and the arrays beside them. Older evaluations have fewer arrays."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wanderlust.report.plots.style import plain
from wanderlust.runs.files import ArrayFile
from wanderlust.runs.measured import open_rollouts, read_evaluation


class Evaluated(NamedTuple):
    """An evaluation of a run, opened for drawing."""

    facts: dict[str, Any]
    arrays: ArrayFile

    @staticmethod
    def open(run: Path) -> "Evaluated":
        """The evaluation in a run's folder, or where that of a zoo entry went."""
        facts = read_evaluation(run / "evaluation")
        return Evaluated(facts, open_rollouts(run / "evaluation", len(facts["seeds"])))

    @property
    def kind(self) -> str:
        """Of skills: continuous, discrete or box."""
        return self.arrays.about.get("skills", "continuous")

    @property
    def name(self) -> str:
        """What titles call it."""
        return plain(self.facts.get("name", "a run"))

    @property
    def unit(self) -> str:
        """What follows x and y on axes."""
        unit = plain(self.facts.get("unit", "m"))
        return f" ({unit})" if unit else ""

    @property
    def below(self) -> str:
        """The line under a title: what was evaluated."""
        steps = f" after {self.facts['env_steps']:,} steps" if isinstance(self.facts.get("env_steps"), int) else ""
        return f"{self.facts['episodes']:,} random skills, mode actions{steps}"

    def read(self, name: str) -> NDArray[np.floating]:
        """An array that every evaluation has."""
        return self.arrays.read(name)

    def find(self, name: str) -> NDArray[np.floating] | None:
        """An array that older evaluations lack."""
        return self.arrays.read(name) if name in self.arrays.shapes() else None

    def measure(self, name: str) -> dict[str, Any] | None:
        """A measure's mean, interval and value per seed."""
        found = self.facts.get("metrics", {}).get(name)
        return found if isinstance(found, dict) else None

    @property
    def random(self) -> dict[str, float]:
        """Measures of random actions in the same world; nothing in older evaluations."""
        found = self.facts.get("random")
        return found if isinstance(found, dict) else {}


def of_seeds(shown: int, count: int) -> str:
    """What a title says where not all seeds are shown."""
    return f" (first {shown} of {count} seeds)" if count > shown else ""
