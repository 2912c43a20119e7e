"""The few records that travel between rooms."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float


class Groups(dict[str, tuple[int, ...]]):
    """Entries of an observation by name. Hashable; do not mutate."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """What every other room may know about a world."""

    name: str
    obs_dim: int
    action_dim: int
    episode_length: int
    groups: Groups
    """Which entries of the observation are what. `position`, if there is one: the plane (or line) that is drawn and
    counted in bins; `orientation`, if there is one: a quaternion (w first), where the body's own x and y axes point
    (6 entries), one angle in the vertical plane, or its cosine and sine."""
    obs_mean: tuple[float, ...]
    obs_std: tuple[float, ...]
    """Fixed statistics by which every network sees the observation: (obs - mean) / std."""
    bin: float = 1.0
    """Side of the bins of the plane (or line) that coverage counts."""
    focus: str = ""
    """Name of the group that a method's network sees by default; nothing for the whole observation."""
    raw_focus: bool = False
    """Whether it sees that group as it is observed, in metres, not normalised."""
    directions: tuple[tuple[float, ...], ...] = ()
    """What is drawn and counted in bins of a world that has no place in space: directions of the normalised
    observation, the first two principal ones under random actions or those of the entries in focus."""

    @property
    def position(self) -> tuple[int, ...]:
        """The entries that are the position; nothing where none are known."""
        return self.groups.get("position", ())

    def place(self, obs: Any) -> Any:
        """Where observations [..., entries] lie on the plane (or line) that is drawn and counted in bins."""
        if not self.directions:
            return obs[..., list(self.position)]
        return ((obs - np.array(self.obs_mean)) / np.array(self.obs_std)) @ np.array(self.directions).T


class Transition(NamedTuple):
    """One step of one world, or a batch of them with leading axes.

    `next_obs` is what the step produced, also on the last step of an episode: a transition never crosses a
    reset. The skill is a field of its own; only networks join it to the observation. There is no reward:
    rewards are functions of the method's current state and are computed when a batch is used.
    """

    obs: Float[Array, "*batch obs"]
    action: Float[Array, "*batch action"]
    next_obs: Float[Array, "*batch obs"]
    skill: Float[Array, "*batch skill"]
    terminated: Bool[Array, "*batch"]
    """The world ended the episode: there is no value beyond this step."""
    truncated: Bool[Array, "*batch"]
    """The time limit ended the episode: the world would have gone on."""
    start: Float[Array, "*batch obs"] | tuple[()] = ()
    """What was observed when the episode began; kept for methods that ask for it, and nothing otherwise."""
    drift: Float[Array, "*batch obs"] | tuple[()] = ()
    """By how much the observation changed per step over the block of steps this one is of; kept as `start` is."""


class Rollout(NamedTuple):
    """Whole episodes, one skill each, time first."""

    obs: Float[Array, "time+1 worlds obs"]
    action: Float[Array, "time worlds action"]
    skill: Float[Array, "worlds skill"]
    alive: Bool[Array, "time+1 worlds"]
    """False once the world has terminated; the observation then stays where it was."""
