"""The disc of 2-D skills: a coloured ring on the floor, and a knob inside it where the skill is."""

import numpy as np
import viser
from numpy.typing import NDArray

from wanderlust.report.explorer.geometry import annulus
from wanderlust.report.explorer.pictures import LONGEST_SKILL, ring_colours

SECTORS, HOLLOW = 72, 0.8
"""Of the ring: parts, and its inner radius against the outer one."""


class Disc:
    """Skills up to a length of 2, turned so that each lies where it leads; places are those of the scene."""

    def __init__(self, api: viser.SceneApi, radius: float, turn: NDArray[np.float64]) -> None:
        self._radius, self._turn = radius, turn
        half, still = np.pi * np.arange(SECTORS) / SECTORS, np.zeros(SECTORS)
        self.ring = api.add_batched_meshes_simple(
            "/disc",
            *annulus(radius, HOLLOW, SECTORS, parts=1),
            batched_wxyzs=np.stack([np.cos(half), still, still, np.sin(half)], axis=1),
            batched_positions=np.zeros((SECTORS, 3)),
            batched_colors=ring_colours(turn, SECTORS),
            lod="off",
            side="double",
            material="toon5",
            cast_shadow=False,
        )
        self.knob = api.add_icosphere("/knob", radius=0.07 * radius, color=(36, 41, 47), cast_shadow=False)

    def remove(self) -> None:
        """Take it out of the scene."""
        self.ring.remove()
        self.knob.remove()

    def show(self, visible: bool) -> None:
        """Hide it, or show it again."""
        self.ring.visible = self.knob.visible = visible

    def move(self, at: NDArray[np.float64], skill: NDArray[np.floating]) -> None:
        """Put the disc somewhere, and the knob to a skill; a longer one than it has room for is at the rim."""
        self.ring.position = at
        inside = self._turn @ skill / max(LONGEST_SKILL, float(np.linalg.norm(skill)))
        self.knob.position = at + self._radius * np.array([*inside, 0.03])

    def skill_under(
        self, origin: NDArray[np.float64], ray: NDArray[np.float64], anywhere: bool = False
    ) -> NDArray[np.float64] | None:
        """The skill at which a ray points; None outside the disc, or the rim's if that is `anywhere`."""
        middle = np.asarray(self.ring.position)
        if not self.ring.visible or ray[2] * (origin[2] - middle[2]) >= 0:
            return None
        inside = ((origin + ray * (middle[2] - origin[2]) / ray[2]) - middle)[:2] / self._radius
        length = float(np.linalg.norm(inside))
        if length > 1.0 and not anywhere:
            return None
        found: NDArray[np.float64] = LONGEST_SKILL * self._turn.T @ (inside / max(length, 1.0))
        return found
