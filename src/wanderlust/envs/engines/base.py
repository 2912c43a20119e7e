"""What an engine is. One signature, a batch of worlds per call.

`jax`   worlds whose dynamics are a formula, inside or outside a compiled program
`c`     MuJoCo's own engine on CPU cores, a pool of threads; outside compiled programs only
`warp`  MuJoCo Warp, the GPU implementation of MJX, inside compiled programs
`gymnasium`  environments that step themselves, in processes of their own

A control step is a function of (state, action) alone: the solver starts every one of them from nothing, so that
no hidden state travels between steps and all engines can go on from a state that another one left. The one exception
is `gymnasium`, which is `stateful`.
"""

import abc

from jaxtyping import Array, Bool, Float

from wanderlust.config import EngineName
from wanderlust.envs.base import WorldState
from wanderlust.errors import UserError


class Engine(abc.ABC):
    """Steps a batch of worlds by one control step."""

    name: EngineName
    compiles: bool
    """Whether `step` may be called inside jit; if not, only the `split` driver can use the engine."""
    stateful: bool = False
    """Whether its environments keep their state to themselves: it steps one batch, from fresh starts or from the states
    it gave out last, and whoever plays whole episodes beside that needs an engine `for_episodes`."""
    at_once: int | None = None
    """How many whole episodes are played side by side; None for any number."""

    @abc.abstractmethod
    def step(self, state: WorldState, action: Float[Array, "worlds action"]) -> WorldState:
        """The states one control step later."""

    def step_running(
        self, state: WorldState, action: Float[Array, "worlds action"], running: Bool[Array, " worlds"]
    ) -> WorldState:
        """The same where only some worlds are running; the caller keeps the old states of the others."""
        return self.step(state, action)

    def for_callers(self, count: int) -> "Engine":
        """The engine that so many threads should use which call it at once."""
        return self

    def for_episodes(self) -> "Engine":
        """The engine that should play whole episodes from their starts while this one is in the middle of others."""
        return self

    @property
    def restarts(self) -> int:
        """Environments that had to be restarted, because they raised or hung."""
        return 0

    def news(self) -> list[str]:
        """What a user should hear of since this was asked last."""
        return []

    def overflow(self) -> str:
        """What is wrong if a buffer has overflowed since the engine was made: physics was wrong from there on."""
        return ""

    def check(self) -> None:
        """Raise if a buffer has overflowed."""
        if overflow := self.overflow():
            raise UserError(overflow)
