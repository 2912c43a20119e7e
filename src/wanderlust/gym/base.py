"""What our vector environments share: spaces, seeds, resets and autoreset."""

import abc
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
from gymnasium.spaces import Box, Space
from gymnasium.utils import EzPickle
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Int, Key
from numpy.typing import NDArray

from wanderlust.config import require
from wanderlust.envs import MujocoWorld, World
from wanderlust.envs.base import LARGEST
from wanderlust.envs.devices import note_process, refuse_fork
from wanderlust.errors import UserError
from wanderlust.gym.rendering import Pictures, Window, check_mode, modes_of
from wanderlust.report.video.canvas import Mark, Picture


class VectorStep(NamedTuple):
    """The result of a step of all worlds. Worlds that only wait to be reset have zeros."""

    obs: NDArray[np.float32]
    reward: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    infos: dict[str, NDArray[Any]]
    """An entry for each world under each name."""


class EpisodicVectorEnv(VectorEnv[NDArray[np.float32], NDArray[Any], NDArray[Any]], EzPickle):
    """Episodes that are functions of a seed and a number, in any of Gymnasium's autoreset modes.

    World k of ``reset(seed=s)`` starts its episodes as ``s + k`` says, whatever the number of worlds or threads. The
    last observation of an episode is always handed out: by the step that ends it, or, with `AutoresetMode.SAME_STEP`,
    in that step's ``infos["final_obs"]``.

    Handed to another process, it is made anew there: reset it first.
    """

    def __init__(
        self,
        who: str,
        world: World,
        num_envs: int,
        threads: int | None,
        autoreset_mode: AutoresetMode | str,
        action: Space[Any] | None = None,
        entries: int = 0,
        render_mode: str | None = None,
    ) -> None:
        """Actions are the world's own by default, and `entries` follow its observation. Messages begin with `who`."""
        require(num_envs is not None, f"{who}: num_envs is None; it must be a whole number of at least 1")
        check_counts(who, num_envs=num_envs, threads=threads)
        note_process()
        mode, spec = autoreset_mode_of(who, autoreset_mode), world.spec
        fps = round(1 / (world.frame_skip * float(world.model.opt.timestep))) if isinstance(world, MujocoWorld) else 1
        self.num_envs, self.autoreset_mode = int(num_envs), mode
        check_mode(who, world, render_mode)
        self.metadata = {"autoreset_mode": mode, "render_modes": modes_of(world), "render_fps": fps}
        self.render_mode = render_mode
        self._pictures: Pictures | None = None
        self._window: Window | None = None
        self._shown = world
        # Gymnasium asks for finite bounds. A world beyond these has broken down, and is not observed.
        self.single_observation_space = Box(-LARGEST, LARGEST, (spec.obs_dim + entries,), np.float32)
        own = Box(-1.0, 1.0, (spec.action_dim,), np.float32)
        self.single_action_space = own if action is None else action
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._cpu = jax.devices("cpu")[0]
        self._engine: Any = None
        """What a subclass steps its worlds with."""
        self._seed = np.zeros(num_envs, np.uint64)
        self._episode = np.full(num_envs, -1)
        """Which episode of its seed each world is in; -1 before the first reset, which is of all worlds."""
        self._over = np.zeros(num_envs, bool)
        """Worlds whose episode has ended and whose next one has not begun."""

    # --- what a subclass says --------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _start(self, mask: NDArray[np.bool_], keys: Key[Array, " worlds"]) -> NDArray[np.float32]:
        """Begin the episodes of these keys in the worlds that are marked, at first in all; what all observe."""

    @abc.abstractmethod
    def _step_worlds(self, actions: NDArray[Any], waiting: NDArray[np.bool_]) -> VectorStep:
        """Step all worlds; what comes of those that are waiting is overwritten."""

    @abc.abstractmethod
    def _physics(self) -> NDArray[np.float32]:
        """The states of all worlds."""

    def _marks(self) -> list[list[Mark]]:
        """What is drawn on the floor of each world; nothing, unless a subclass knows something."""
        return [[] for _ in range(self.num_envs)]

    # --- Gymnasium's interface -------------------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode in every world, or in those that ``options["reset_mask"]`` marks.

        Args:
            seed: world k gets ``seed + k``, or the k-th of a list; without one, worlds go on drawing where they were.
            options: ``reset_mask``, a boolean array with an entry per world.

        Returns:
            The observations of all worlds, and no infos.
        """
        refuse_fork()
        self._check_open()
        mask = self._mask(options)
        self._seed_worlds(seed, mask)
        obs = self._begin(mask)
        self._show()
        return obs.copy(), {}

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Step every world; one that waits for its next episode begins it instead."""
        refuse_fork()
        self._check_open()
        if self._episode[0] < 0:
            raise gymnasium.error.ResetNeeded("call reset() before the first step()")
        checked = self._checked(actions)
        waited = self._over
        some_waited = np.count_nonzero(waited) > 0  # a quarter of the time that `any` takes
        if some_waited and self.autoreset_mode is AutoresetMode.DISABLED:
            which = np.flatnonzero(waited).tolist()
            raise UserError(f"step: the episodes of worlds {which} are over; reset them with options['reset_mask']")
        obs, reward, terminated, truncated, facts = self._step_worlds(checked, waited)
        self._over = done = terminated | truncated
        infos = _marked(facts, ~waited)
        if some_waited:
            obs = self._begin(waited)
        if self.autoreset_mode is AutoresetMode.SAME_STEP and done.any():
            infos = {
                **_marked(facts, ~done),
                "final_obs": _rows(obs, done),
                "_final_obs": done,
                "final_info": _marked(facts, done),
                "_final_info": done.copy(),
            }
            obs = self._begin(done)
        self._show()
        return obs.copy(), reward, terminated, truncated, infos

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]  # one per world, as Gymnasium's own have it
        """The seed of every world."""
        return tuple(self._seed.tolist())

    def render(self) -> tuple[Picture, ...] | None:
        """A picture of every world, if the render mode is ``"rgb_array"``.

        With ``"human"`` a window shows the first world by itself, at real time, after every reset and step.
        """
        self._check_open()
        if self.render_mode is None:
            gymnasium.logger.warn(
                "render() shows nothing: make the environment with render_mode='rgb_array' or 'human'"
            )
            return None
        if self._episode[0] < 0:
            raise gymnasium.error.ResetNeeded("call reset() before the first render()")
        if self.render_mode == "human":
            return None
        if self._pictures is None:
            self._pictures = Pictures(self._shown)
        physics = self._physics()
        return self._pictures.take(physics, physics, self._marks())

    def _show(self) -> None:
        """Show the first world in the window, if there is to be one."""
        if self.render_mode == "human" and isinstance(self._shown, MujocoWorld):
            if self._window is None:
                self._window = Window(self._shown, 1.0 / self.metadata["render_fps"])
            self._window.show(self._physics()[0])

    def close_extras(self, **kwargs: Any) -> None:
        """Let go of the engine's threads, of pictures and of the window."""
        self._engine = None
        for shown in (self._pictures, self._window):
            if shown is not None:
                shown.close()

    # --- the rest --------------------------------------------------------------------------------------------------

    def _begin(self, mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Put the next start of their own into the worlds that are marked; what all of them observe."""
        self._episode[mask] += 1
        self._over = self._over & ~mask
        words = self._seed & np.uint64(0xFFFFFFFF), self._seed >> np.uint64(32), self._episode
        with jax.default_device(self._cpu):
            return self._start(mask, _episode_keys(*(word.astype(np.uint32) for word in words)))

    def _check_open(self) -> None:
        if self.closed:
            raise gymnasium.error.ClosedEnvironmentError("this vector environment has been closed")

    def _checked(self, actions: NDArray[Any]) -> NDArray[Any]:
        array: Any = np.asarray(actions)
        if array.shape != self.action_space.shape:
            raise UserError(f"step: actions have the shape {array.shape}; it must be {self.action_space.shape}")
        if isinstance(self.single_action_space, Box):
            if np.count_nonzero(np.isfinite(array)) < array.size:
                limit = f"[{self.single_action_space.low.flat[0]:g}, {self.single_action_space.high.flat[0]:g}]"
                raise UserError(f"step: some actions are not finite; they must be numbers in {limit}")
            return np.asarray(array, np.float32)
        if not np.issubdtype(array.dtype, np.integer) or not self.action_space.contains(array.astype(np.int64)):
            raise UserError(f"step: an action of {array.tolist()} is not in {self.single_action_space}")
        return np.asarray(array, np.int64)

    def _mask(self, options: dict[str, Any] | None) -> NDArray[np.bool_]:
        options = options or {}
        if unknown := sorted(set(options) - {"reset_mask"}):
            raise UserError(f"reset: unknown option {unknown[0]!r}; known: 'reset_mask'")
        mask = options.get("reset_mask", np.ones(self.num_envs, bool))
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise UserError(f"reset: options['reset_mask'] must be a boolean array of shape ({self.num_envs},)")
        require(bool(mask.any()), "reset: options['reset_mask'] marks no world; mark at least one")
        if self._episode[0] < 0 and not mask.all():
            raise UserError("reset: the first reset must be of all worlds; leave out options['reset_mask']")
        return mask

    def _seed_worlds(self, seed: int | list[int | None] | None, mask: NDArray[np.bool_]) -> None:
        seeds: list[int | None]
        if seed is None:
            seeds = [None] * self.num_envs
        elif isinstance(seed, int | np.integer):
            seeds = [int(seed) + k for k in range(self.num_envs)]
        else:
            seeds = list(seed)
        given_all = f"it must have one for each of {self.num_envs} worlds"
        require(len(seeds) == self.num_envs, f"reset: seed has {len(seeds)} entries; {given_all}")
        if wrong := [s for s in seeds if s is not None and not 0 <= s < 2**64]:
            raise UserError(f"reset: a seed is {wrong[0]}; seeds must lie in [0, 2^64)")
        given = np.array([s is not None for s in seeds]) & mask
        unknown = mask & ~given & (self._episode < 0)
        entropy = np.random.default_rng().integers(2**64, size=self.num_envs, dtype=np.uint64)
        self._seed = np.where(unknown, entropy, self._seed)
        self._seed = np.where(given, np.array([s or 0 for s in seeds], np.uint64), self._seed)
        self._episode[given] = -1


def episode_key(low: Int[Array, ""], high: Int[Array, ""], episode: Int[Array, ""]) -> Key[Array, ""]:
    """All that an episode draws comes from its seed (in two halves) and its number, and from nothing else."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(low), high), episode)


_episode_keys = jax.jit(jax.vmap(episode_key))


def check_counts(who: str, **counts: int | None) -> None:
    """Refuse numbers of worlds, threads or steps that are not whole and positive; None is one that is not given."""
    for name, value in counts.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1):
            raise UserError(f"{who}: {name} is {value!r}; it must be a whole number of at least 1")


def warn_of(news: list[str]) -> None:
    """Have Gymnasium's logger say what an engine wants a user to hear, such as that an environment was restarted."""
    for text in news:
        gymnasium.logger.warn(text)


def autoreset_mode_of(who: str, mode: AutoresetMode | str) -> AutoresetMode:
    """Gymnasium's mode by its own name for it."""
    try:
        return AutoresetMode(mode)
    except ValueError:
        known = ", ".join(repr(mode.value) for mode in AutoresetMode)
        raise UserError(f"{who}: autoreset_mode is {mode!r}; it must be one of {known}") from None


def _marked(facts: dict[str, NDArray[Any]], mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Infos as Gymnasium has them: an array per name, and which worlds it speaks of; nothing if of none."""
    if not facts or not mask.any():
        return {}
    shown = {name: np.where(mask, values, np.zeros_like(values)) for name, values in facts.items()}
    return shown | {f"_{name}": mask.copy() for name in facts}


def _rows(array: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[Any]:
    """The rows that are marked, as Gymnasium hands out last observations: an array of arrays, None elsewhere."""
    rows = np.full(len(array), None, dtype=object)
    for k in np.flatnonzero(mask):
        rows[k] = array[k]
    return rows
