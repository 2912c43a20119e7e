"""The bodies as a Gymnasium vector environment: many worlds on the engine `c`, one call of it per step."""

from typing import Any, Literal

import gymnasium
import jax
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Int, Key
from numpy.typing import NDArray

from wanderlust.config import BodyConfig, build
from wanderlust.envs.base import Physical, sane
from wanderlust.envs.locomotion import HABITS, Body
from wanderlust.envs.models import load_model
from wanderlust.envs.physics import CEngine
from wanderlust.errors import UserError

EPISODE_LENGTHS = {"ant": 200, "half-cheetah": 200, "humanoid": 1000}
"""Control steps of an episode, as published."""


def make_vec(
    env: str,
    num_envs: int = 64,
    *,
    threads: int | None = None,
    episode_length: int | None = None,
    solver: Literal["newton", "stock"] = "newton",
    cone: Literal["stock", "elliptic"] = "stock",
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
) -> "BodyVectorEnv":
    """Many worlds of a body as one Gymnasium vector environment, stepped by a pool of threads.

    There is no reward: it is zero at every step, and a learner brings its own. `BodyVectorEnv` says the rest.

    Args:
        env: ``"ant"``, ``"half-cheetah"`` or ``"humanoid"``.
        num_envs: how many worlds.
        threads: how many threads move them; all cores if not given. Results do not depend on it.
        episode_length: control steps until an episode is truncated; 200, and 1,000 for Humanoid, if not given.
        solver: ``"stock"`` keeps the solver the model file asks for (PGS for Humanoid).
        cone: friction cones, the model file's or ``"elliptic"``.
        autoreset_mode: when a world whose episode has ended starts the next one, as Gymnasium defines it: in the next
            step (the default, there and here), in the same step, or when it is reset.

    Returns:
        The vector environment. ``reset`` it before the first ``step``.
    """
    if env not in HABITS:
        raise UserError(f"make_vec moves MuJoCo bodies, not {env!r}; known: {', '.join(HABITS)}")
    for name, value in (("num_envs", num_envs), ("threads", threads)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1):
            raise UserError(f"make_vec: {name} is {value!r}; it must be a whole number of at least 1")
    settings = {
        "name": env,
        "episode_length": EPISODE_LENGTHS[env] if episode_length is None else episode_length,
        "solver": solver,
        "cone": cone,
    }
    config: BodyConfig = build(BodyConfig, settings, "make_vec")
    try:
        mode = AutoresetMode(autoreset_mode)
    except ValueError:
        known = ", ".join(repr(mode.value) for mode in AutoresetMode)
        raise UserError(f"make_vec: autoreset_mode is {autoreset_mode!r}; it must be one of {known}") from None
    return BodyVectorEnv(config, int(num_envs), None if threads is None else int(threads), mode)


class BodyVectorEnv(VectorEnv[NDArray[np.float32], NDArray[np.float32], NDArray[Any]]):
    """Worlds of one body.

    An observation is the whole state, qpos and then qvel, raw; an action is in [-1, 1] and mapped onto the model's
    controls. Rewards are zero. The last observation of an episode is always handed out: by the step that ends it, or,
    with `AutoresetMode.SAME_STEP`, in that step's ``infos["final_obs"]``. Should the physics of a world break down, its
    episode is truncated at the last state that was a number.

    World k of ``reset(seed=s)`` starts its episodes as ``s + k`` says, whatever the number of worlds or threads.
    """

    def __init__(
        self,
        config: BodyConfig,
        num_envs: int,
        threads: int | None = None,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.config, self.num_envs, self.autoreset_mode = config, num_envs, autoreset_mode
        self._world = Body(config)
        self._engine: CEngine | None = CEngine(self._world, threads)
        spec = self._world.spec
        self.metadata = {
            "autoreset_mode": autoreset_mode,
            "render_modes": [],
            "render_fps": round(1 / self._world.control_seconds),
        }
        self.single_observation_space = Box(-np.inf, np.inf, (spec.obs_dim,), np.float32)
        self.single_action_space = Box(-1.0, 1.0, (spec.action_dim,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

        self._seed = np.zeros(num_envs, np.uint64)
        self._episode = np.full(num_envs, -1)
        """Which episode of its seed each world is in; -1 before the first."""
        self._age = np.zeros(num_envs, np.int64)
        self._over = np.zeros(num_envs, bool)
        """Worlds whose episode has ended and whose next one has not begun."""
        self._state: NDArray[np.float32] | None = None
        """[worlds, qpos and qvel], which is also what is observed; never written to, so that it can be handed out."""
        self._nq = load_model(config).nq
        self._never_ends = HABITS[config.name].healthy_height is None
        self._cpu = jax.devices("cpu")[0]
        self._draw = jax.jit(jax.vmap(self._start_of))
        self._terminated = jax.jit(jax.vmap(self._world.terminated))

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
        self._check_open()
        mask = self._mask(options)
        self._seed_worlds(seed, mask)
        return self._begin(mask).copy(), {}

    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Move every world by one control step; a world that waits for its next episode begins it instead."""
        engine = self._check_open()
        if self._state is None:
            raise gymnasium.error.ResetNeeded("call reset() before the first step()")
        moves: Any = np.asarray(actions, np.float32)
        if moves.shape != self.action_space.shape:
            raise UserError(f"step: actions have the shape {moves.shape}; it must be {self.action_space.shape}")

        if self.autoreset_mode is AutoresetMode.DISABLED and self._over.any():
            which = np.flatnonzero(self._over).tolist()
            raise UserError(f"step: the episodes of worlds {which} are over; reset them with options['reset_mask']")

        if not np.isfinite(moves).all():
            raise UserError("step: some actions are not finite; they must be numbers in [-1, 1]")
        moved = engine.step(self._physical(self._state), moves)
        after = np.concatenate(moved, axis=1)
        broken: NDArray[np.bool_] = ~sane(moved)
        if broken.any():
            after = np.where(broken[:, None], self._state, after)
        self._state = after
        self._age += 1
        waited = self._over.copy()
        terminated = self._ended(after) & ~broken & ~waited
        truncated = ((self._age >= self.config.episode_length) | broken) & ~terminated & ~waited
        self._over = done = terminated | truncated
        infos: dict[str, Any] = {}
        if waited.any():
            after = self._begin(waited)
        if self.autoreset_mode is AutoresetMode.SAME_STEP and done.any():
            infos = {"final_obs": _rows(after, done), "_final_obs": done, "final_info": {}, "_final_info": done.copy()}
            after = self._begin(done)
        return after.copy(), np.zeros(self.num_envs), terminated, truncated, infos

    def close_extras(self, **kwargs: Any) -> None:
        """Let go of the threads."""
        self._engine = None

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]  # one per world, as Gymnasium's own have it
        """The seed of every world."""
        return tuple(self._seed.tolist())

    def _check_open(self) -> CEngine:
        if self._engine is None:
            raise gymnasium.error.ClosedEnvironmentError("this vector environment has been closed")
        return self._engine

    # --- starts and ends -------------------------------------------------------------------------------------------

    def _begin(self, mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Put the next start of their own into the worlds that are marked; the state of all of them."""
        self._episode[mask] += 1
        self._age[mask] = 0
        self._over = self._over & ~mask
        low, high = self._seed & np.uint64(0xFFFFFFFF), self._seed >> np.uint64(32)
        with jax.default_device(self._cpu):
            fresh = self._draw(low.astype(np.uint32), high.astype(np.uint32), self._episode.astype(np.uint32))
        state = np.concatenate(fresh, axis=1)
        self._state = state if self._state is None else np.where(mask[:, None], state, self._state)
        return self._state

    def _start_of(self, low: Int[Array, ""], high: Int[Array, ""], episode: Int[Array, ""]) -> Physical:
        """The start of one world's episode: a function of its seed and the episode's number, and of nothing else."""
        key: Key[Array, ""] = jax.random.key(low)
        return self._world.initial(jax.random.fold_in(jax.random.fold_in(key, high), episode))

    def _ended(self, state: NDArray[np.float32]) -> NDArray[np.bool_]:
        if self._never_ends:
            return np.zeros(self.num_envs, bool)
        with jax.default_device(self._cpu):
            return np.array(self._terminated(self._physical(state)))

    def _physical(self, state: NDArray[np.float32]) -> Physical:
        """The state as the engine and the world take it."""
        qpos: Any = state[:, : self._nq]
        qvel: Any = state[:, self._nq :]
        return Physical(qpos, qvel)

    # --- the arguments of reset ------------------------------------------------------------------------------------

    def _mask(self, options: dict[str, Any] | None) -> NDArray[np.bool_]:
        everyone = np.ones(self.num_envs, bool)
        if options is None:
            return everyone
        if unknown := sorted(set(options) - {"reset_mask"}):
            raise UserError(f"reset: unknown option {unknown[0]!r}; known: 'reset_mask'")
        mask = options.get("reset_mask", everyone)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise UserError(f"reset: options['reset_mask'] must be a boolean array of shape ({self.num_envs},)")
        if not mask.any():
            raise UserError("reset: options['reset_mask'] marks no world; mark at least one")
        if self._state is None and not mask.all():
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
        if len(seeds) != self.num_envs:
            raise UserError(
                f"reset: seed has {len(seeds)} entries; it must have one for each of {self.num_envs} worlds"
            )
        if wrong := [s for s in seeds if s is not None and not 0 <= s < 2**64]:
            raise UserError(f"reset: a seed is {wrong[0]}; seeds must lie in [0, 2^64)")
        given = np.array([s is not None for s in seeds]) & mask
        unknown = mask & ~given & (self._episode < 0)
        entropy = np.random.default_rng().integers(2**64, size=self.num_envs, dtype=np.uint64)
        self._seed = np.where(unknown, entropy, self._seed)
        self._seed = np.where(given, np.array([s or 0 for s in seeds], np.uint64), self._seed)
        self._episode[given] = -1


def _rows(array: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[Any]:
    """The rows that are marked, as Gymnasium hands out last observations: an array of arrays, None elsewhere."""
    rows = np.full(len(array), None, dtype=object)
    for k in np.flatnonzero(mask):
        rows[k] = array[k]
    return rows
