"""What a task is: rewards and observations over a world, not new physics. Written for one world, batched by `vmap`.

A task reads what the world measures (raw, the observation first), never the engine, so that it runs on all of them,
inside compiled programs or outside. Whether the world itself ends an episode (a fall) is not its business:
`downstream/episodes.py` joins both.
"""

from typing import NamedTuple, Protocol, TypeVar

from jaxtyping import Array, Bool, Float, Int, Key

from wanderlust.envs import World

S = TypeVar("S")


class Score(NamedTuple):
    """What a task says of one step."""

    reward: Float[Array, "*batch"]
    terminated: Bool[Array, "*batch"]
    """The task is done, and nothing more can be earned."""
    truncated: Bool[Array, "*batch"]
    """Its time is up."""


class Task(Protocol[S]):
    """One task; `S` is what it remembers during an episode."""

    @property
    def name(self) -> str:
        """As the command line has it: ``ant-multi-goals``."""

    @property
    def env(self) -> str:
        """The name of its world."""

    @property
    def horizon(self) -> int:
        """The most control steps an episode can take."""

    @property
    def most(self) -> float:
        """The most an episode can earn."""

    @property
    def entries(self) -> int:
        """How many numbers `observe` gives."""

    def arrange(self, world: World) -> World:
        """The world as the task wants it: where episodes start, and what lies in the way."""

    def begin(self, obs: Float[Array, " obs"], key: Key[Array, ""]) -> S:
        """What is remembered of an episode that begins here, such as its goal."""

    def step(self, state: S, obs: Float[Array, " obs"], age: Int[Array, ""], key: Key[Array, ""]) -> tuple[S, Score]:
        """Score what control step number `age` led to, from 1 on. The key serves whatever is drawn anew."""

    def observe(self, state: S, obs: Float[Array, " obs"]) -> Float[Array, " entries"]:
        """What a policy sees of the task beside the world's own observation."""
