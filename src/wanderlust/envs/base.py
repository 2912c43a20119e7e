"""What a world is: pure functions of its state, written for one world and batched by the caller.

A world draws its start, says what is observed and when an episode is over. It does not step itself: an engine
(`engines/`) does, so that one world can run on several. Worlds whose dynamics are a formula also have `step`.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import mujoco
from jaxtyping import Array, Bool, Float, Key

from wanderlust.envs.spec import EnvSpec


class WorldState(NamedTuple):
    """The state of one world. Only worlds and engines look inside."""

    physics: Float[Array, "*batch physics"]
    """All that an engine needs to go on from here. For MuJoCo: time, positions, velocities, activations, histories and
    plugin state (mjSTATE_FULLPHYSICS), and then the poses of mocap bodies."""
    sensors: Float[Array, "*batch sensors"]
    """What the model's sensors read in this state; empty where it has none."""


LARGEST = 1e10
"""MuJoCo's own limit of positions and velocities; beyond it, or if it is NaN, a state is broken."""


def sane(state: WorldState) -> Any:
    """Which worlds of a batch [..., entries] have finite states; NumPy or JAX."""
    return (abs(state.physics) < LARGEST).all(axis=-1)


class World(Protocol):
    """One world, batch-free."""

    @property
    def spec(self) -> EnvSpec: ...

    def __hash__(self) -> int:
        """Equal worlds step alike: what was computed or compiled for one serves the other."""

    def initial(self, key: Key[Array, ""]) -> WorldState:
        """Draw the state an episode starts from."""

    def observe(self, state: WorldState) -> Float[Array, " obs"]:
        """The raw observation; networks see it normalised (`methods/views.py`)."""

    def measure(self, state: WorldState) -> Float[Array, " obs+more"]:
        """What tasks read: the observation, and behind it what else the world measures."""

    def terminated(self, state: WorldState) -> Bool[Array, ""]:
        """Whether the world itself ends the episode here (the time limit is not the world's business)."""

    def from_origin(self) -> "World":
        """The same world with episodes that start where goal tasks do: at the origin of the plane."""


@runtime_checkable
class SelfStepping(World, Protocol):
    """A world whose dynamics are a formula."""

    def step(self, state: WorldState, action: Float[Array, " action"]) -> WorldState:
        """The state one control step later; `action` is in [-1, 1]."""


@runtime_checkable
class Truncating(World, Protocol):
    """A world that may cut an episode itself, which is not its end: what its engine says, beside the time limit."""

    def truncated(self, state: WorldState) -> Bool[Array, ""]: ...


class Capacity(NamedTuple):
    """Room in MuJoCo Warp's buffers. Beyond it physics is silently wrong, so it is counted and checked."""

    contacts: int
    """Contacts (and pairs close enough to be looked at) per world; the buffer is shared by all worlds of a batch."""
    rows: int
    """Constraint rows of any one world."""


@runtime_checkable
class MujocoWorld(World, Protocol):
    """A world that MuJoCo steps: all that its engines need to know."""

    @property
    def model(self) -> mujoco.MjModel: ...

    @property
    def model_for_c(self) -> mujoco.MjModel:
        """The same model as the engine `c` should have it: the same results, faster."""

    @property
    def frame_skip(self) -> int:
        """Physics steps of one control step."""

    @property
    def capacity(self) -> Capacity | None:
        """Room for contacts on a GPU; None to have it measured."""


@runtime_checkable
class Steered(Protocol):
    """A world whose actions reach MuJoCo by a rule of its own: not one control each, over the control's range.

    Both functions are of batches, in NumPy (engine `c`) or in JAX (`warp`).
    """

    def inputs(self, state: WorldState, action: Any) -> tuple[Any, Any]:
        """Controls [worlds, nu], and mocap poses [worlds, 7 nmocap] (all positions, then all quaternions).

        They hold for the whole control step. Of the state, mocap poses are those of the step before.
        """

    def corrected(self, physics: Any) -> Any:
        """The physics after a control step, as the world wants it to be. It must not change what sensors read."""
