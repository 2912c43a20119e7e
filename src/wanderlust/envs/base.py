"""What a world is: pure functions of its physical state, written for one world and batched by the caller.

A world draws its start, says what is observed and when an episode is over. It does not step itself: an engine
(`physics.py`) does, so that one world can run on several. Worlds whose dynamics are a formula also have `step`.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Array, Bool, Float, Key

from wanderlust.types import EnvSpec


class Physical(NamedTuple):
    """The physical state of one world: all that an engine needs to go on from here."""

    qpos: Float[Array, "*batch qpos"]
    qvel: Float[Array, "*batch qvel"]


LARGEST = 1e10
"""MuJoCo's own limit of positions and velocities; beyond it, or if it is no number, a state is broken."""


def sane(state: Physical) -> Any:
    """Which worlds of a batch [..., entries] are where numbers mean something; NumPy or JAX."""
    qpos, qvel = ((abs(x) < LARGEST).all(axis=-1) for x in state)
    return qpos & qvel


class World(Protocol):
    """One world, batch-free."""

    @property
    def spec(self) -> EnvSpec: ...

    def initial(self, key: Key[Array, ""]) -> Physical:
        """Draw the state an episode starts from."""
        ...

    def observe(self, state: Physical) -> Float[Array, " obs"]:
        """The raw observation; networks see it normalised (`methods/views.py`)."""
        ...

    def terminated(self, state: Physical) -> Bool[Array, ""]:
        """Whether the world itself ends the episode here (the time limit is not the world's business)."""
        ...

    def from_origin(self) -> "World":
        """The same world with episodes that start where goal tasks do: at the origin of the plane."""
        ...


@runtime_checkable
class SelfStepping(World, Protocol):
    """A world whose dynamics are a formula."""

    def step(self, state: Physical, action: Float[Array, " action"]) -> Physical:
        """The state one control step later; `action` is in [-1, 1]."""
        ...
