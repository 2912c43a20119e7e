"""Any Gymnasium environment as a world: `gymnasium:Walker2d-v5`, `gymnasium:module:Id`.

It steps itself in processes of its own (`engines/gymnasium.py`). What a world must know is found by trying it: the
starts of the first seeds, statistics of a random policy, and, where there is a MuJoCo model, which entries are what.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from wanderlust.config import Count, CountOrZero, EnvConfig, Positive, build
from wanderlust.envs.base import WorldState
from wanderlust.envs.engines.gymnasium import CUT, OVER, EnvRequest, examined
from wanderlust.envs.names import addresses, named_entries
from wanderlust.envs.spec import EnvSpec, Groups
from wanderlust.envs.statistics import Statistics
from wanderlust.errors import UserError, require
from wanderlust.registry import WORLDS

PREFIX = "gymnasium:"
USUAL_LENGTH = 200
"""Control steps of an episode, unless the registration has fewer, or the environment says how long a step is."""
EPISODE_SECONDS = 5.0
SHORTEST_EPISODE, LONGEST_EPISODE = 100, 500
"""Control steps, where it says so."""
ROLLOUTS, STEPS = 100, 50
"""Of a random policy, for the statistics."""
STATES_BIN = 0.5
"""Side of the bins of worlds without a position: deviations of a random policy."""


@dataclasses.dataclass(frozen=True)
class GymnasiumConfig(EnvConfig):
    """A Gymnasium environment. Its own time limit is lifted; `episode_length` is the run's."""

    kwargs: str = "{}"
    """What the environment is made with, as JSON: '{"healthy_z_range": [0.5, 2.0]}'."""
    starts: Count = 256
    """How many starts there are: those of reset(seed=0), reset(seed=1), ..."""
    patience: Positive = 60.0
    """Seconds after which a step hangs; its process is then begun anew."""
    restarts: CountOrZero = 20
    """How many environments may be restarted, because they raise or hang, before the run stops."""
    mean: tuple[float, ...] = ()
    """Mean of what is observed under a random policy; measured when the run is made."""
    std: tuple[float, ...] = ()
    """... and its deviation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.mean) == len(self.std), "env.mean and env.std must have the same number of entries")
        require(all(x > 0 for x in self.std), "env.std has an entry that is not positive")
        require(isinstance(_parsed(self.kwargs), dict), f"env.kwargs is {self.kwargs!r}; it must be a JSON object")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


@dataclasses.dataclass(frozen=True)
class GymnasiumWorld:
    """A Gymnasium environment with Box actions, and observations that are vectors or a Dict of them."""

    config: GymnasiumConfig

    Config: ClassVar[type[GymnasiumConfig]] = GymnasiumConfig
    option_length: ClassVar[int] = 25
    recipe_overrides: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @classmethod
    def configure(cls, name: str, given: Mapping[str, Any] | None = None) -> GymnasiumConfig:
        """The configuration of an environment by its name, with the prefix: what is `given`, and what is measured.

        The statistics are part of it, so that a run is normalised the same wherever it is read.
        """
        registered = _registered_length(name)
        said = {"name": name, "episode_length": USUAL_LENGTH, **(given or {})}
        if isinstance(said.get("kwargs"), dict):
            said["kwargs"] = json.dumps(said["kwargs"])
        config: GymnasiumConfig = build(GymnasiumConfig, said, name)
        mean, std = cls(config)._statistics
        length = config.episode_length
        if "episode_length" not in (given or {}):
            length = min(registered or LONGEST_EPISODE, cls(config)._usual_length)
        return dataclasses.replace(config, mean=mean, std=std, episode_length=length)

    @property
    def _usual_length(self) -> int:
        """Control steps of an episode."""
        seconds = self._facts["control_seconds"]
        if not seconds:
            return USUAL_LENGTH
        return int(np.clip(round(EPISODE_SECONDS / seconds), SHORTEST_EPISODE, LONGEST_EPISODE))

    @property
    def moved(self) -> float:
        """By how many deviations random actions move the position in a control step; 0 where none is known."""
        return float(self._facts["moved"])

    @property
    def spec(self) -> EnvSpec:
        facts, (mean, std) = self._facts, self._statistics
        return EnvSpec(
            name=self.config.name,
            obs_dim=len(mean),
            action_dim=facts["action_dim"],
            episode_length=self.config.episode_length,
            groups=self._with_position[0],
            obs_mean=mean,
            obs_std=std,
            bin=STATES_BIN if self._with_position[1] else 1.0,
            directions=self._with_position[1],
        )

    @property
    def _with_position(self) -> tuple[Groups, tuple[tuple[float, ...], ...]]:
        """Groups, and the directions that coverage counts where no entry says where a body is.

        A focus of up to three entries is then the position.
        """
        if "position" in self._groups:
            return self._groups, ()
        size = len(self._facts["mean"])
        known = addresses(self._groups, self.coordinates, self.entry_names)
        entries = named_entries(self.config.focus, self.config.name, known, size) if self.config.focus else ()
        if 0 < len(entries) <= 3:
            return Groups({**self._groups, "position": entries}), tuple(
                tuple(float(n == entry) for n in range(size)) for entry in entries
            )
        return self._groups, tuple(map(tuple, self._facts["directions"].tolist()))

    @property
    def _statistics(self) -> Statistics:
        if self.config.mean:
            found = len(self._facts["mean"])
            require(
                len(self.config.mean) == found,
                f"{self.config.name} observes {found} entries; the configuration is of {len(self.config.mean)}",
            )
            return self.config.mean, self.config.std
        return tuple(self._facts["mean"].tolist()), tuple(self._facts["std"].tolist())

    @property
    def _groups(self) -> Groups:
        return Groups({name: tuple(entries) for name, entries in self._facts["groups"].items()})

    @property
    def entry_names(self) -> tuple[str, ...]:
        """One name for each entry of the observation, where a MuJoCo model has some."""
        return tuple(self._facts["names"])

    @property
    def coordinates(self) -> dict[str, tuple[int, ...]]:
        """Where MuJoCo's qpos and qvel are in the observation; -1 for what it leaves out."""
        return {name: tuple(self._facts[name]) for name in ("qpos", "qvel") if self._facts[name]}

    @property
    def unit(self) -> str:
        """Of what figures show."""
        groups, directions = self._with_position
        if directions:
            return "deviations" if "position" in groups else "deviations along principal directions"
        return "m"

    @property
    def asked(self) -> EnvRequest:
        """What the engine must know."""
        config = self.config
        name, kwargs = config.name.removeprefix(PREFIX), json.loads(config.kwargs)
        return EnvRequest(name, kwargs, self._facts["added"], self._facts["here"], config.patience, config.restarts)

    @property
    def notes(self) -> list[str]:
        """What was decided about the environment, in words."""
        facts, said = self._facts, []
        if facts["added"]:
            said.append("its observation leaves out where the root body is: read from MuJoCo's qpos and put in front")
        groups, directions = self._with_position
        if directions:
            what = "the entries in focus" if "position" in groups else "the first two principal directions"
            said.append(f"no entries are known as a place: coverage is of {what}, in bins of {STATES_BIN} deviations")
        if facts["unbounded"]:
            said.append("its actions have no bounds: taken as -1 to 1")
        if facts["here"]:
            said.append(
                "only this program knows its id: stepped in this process, where nothing can stop one that hangs"
            )
        return said

    @property
    def _facts(self) -> dict[str, Any]:
        return _facts(self.config.name, self.config.kwargs, self.config.starts)

    def initial(self, key: Key[Array, ""]) -> WorldState:
        starts = self._facts["starts"]
        seed = jax.random.randint(key, (), 0, len(starts))
        physics = jnp.concatenate([jnp.asarray(starts)[seed], jnp.zeros(3), seed[None].astype(jnp.float32)])
        return WorldState(physics, jnp.zeros(0))

    def observe(self, state: WorldState) -> Float[Array, " obs"]:
        return state.physics[..., :OVER]

    def measure(self, state: WorldState) -> Float[Array, " obs"]:
        return self.observe(state)

    def terminated(self, state: WorldState) -> Bool[Array, ""]:
        return state.physics[..., OVER] > 0

    def truncated(self, state: WorldState) -> Bool[Array, ""]:
        """Whether the environment itself cut the episode, or had to be restarted."""
        return state.physics[..., CUT] > 0

    def from_origin(self) -> "GymnasiumWorld":
        """Episodes start where the environment has them start."""
        return self


def world_from_gymnasium(
    name: str, *, episode_length: int | None = None, focus: str = "", **kwargs: Any
) -> GymnasiumWorld:
    """A Gymnasium environment as a world, for `discover`, `make_vec` and `SkillEnv`.

    On the command line it is ``gymnasium:NAME``.

    Args:
        name: its id, e.g. ``"Walker2d-v5"``, or ``"module:Id-v0"``. An id that only your program has registered works,
            too, but a step of it that hangs cannot be stopped.
        episode_length: control steps of an episode; if not given, 5 seconds (100 to 500 steps) where the environment
            says how long a step is, else 200, and never more than the limit of its registration.
        focus: which entries of the observation the method's network sees; see `discover`.
        kwargs: what the environment is made with: numbers, texts, and lists of them.

    Returns:
        The world; ``world.config`` has what was measured.
    """
    given: dict[str, Any] = {"focus": focus} | ({} if episode_length is None else {"episode_length": episode_length})
    try:
        given["kwargs"] = json.dumps(kwargs)
    except (TypeError, ValueError) as error:
        raise UserError(f"world_from_gymnasium: {name} cannot be made again from its run: {error}") from None
    return GymnasiumWorld(WORLDS.get(f"{PREFIX}{name}").configure(f"{PREFIX}{name}", given))


@functools.cache
def _facts(name: str, kwargs: str, starts: int) -> dict[str, Any]:
    """Of one environment, looked at once in a process."""
    with jax.ensure_compile_time_eval():
        found, here = examined(
            name.removeprefix(PREFIX), json.loads(kwargs), starts=starts, rollouts=ROLLOUTS, steps=STEPS
        )
    return {**found, "here": here, "starts": np.asarray(found["starts"], np.float32)}


def _registered_length(name: str) -> int | None:
    """The time limit of a registration."""
    import gymnasium

    asked = name.removeprefix(PREFIX)
    if ":" in asked:  # whose module is imported in the environment's own process, and not here
        return None
    try:
        return gymnasium.spec(asked).max_episode_steps
    except gymnasium.error.Error as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{name}: Gymnasium has no such environment: {reason}") from None
