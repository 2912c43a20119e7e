"""The bodies as a Gymnasium vector environment: many worlds on the engine `c`, one call of it per step."""

from typing import Any, Literal

import jax
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from jaxtyping import Array, Int
from numpy.typing import NDArray

from wanderlust.config import BodyConfig, build
from wanderlust.envs.base import LARGEST, Physical, sane
from wanderlust.envs.gym_base import EpisodicVectorEnv, Moved, autoreset_mode_of, check_counts, episode_key
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
    check_counts("make_vec", num_envs=num_envs, threads=threads)
    settings = {
        "name": env,
        "episode_length": EPISODE_LENGTHS[env] if episode_length is None else episode_length,
        "solver": solver,
        "cone": cone,
    }
    config: BodyConfig = build(BodyConfig, settings, "make_vec")
    mode = autoreset_mode_of("make_vec", autoreset_mode)
    return BodyVectorEnv(config, int(num_envs), None if threads is None else int(threads), mode)


class BodyVectorEnv(EpisodicVectorEnv):
    """Worlds of one body.

    An observation is the whole state, qpos and then qvel, raw; an action is in [-1, 1] and mapped onto the model's
    controls. Rewards are zero. Should the physics of a world break down, its episode is truncated at the last state
    that was a number. `EpisodicVectorEnv` says how episodes begin.
    """

    def __init__(
        self,
        config: BodyConfig,
        num_envs: int,
        threads: int | None = None,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.config = config
        self._world = Body(config)
        spec = self._world.spec
        super().__init__(
            num_envs,
            Box(-LARGEST, LARGEST, (spec.obs_dim,), np.float32),
            Box(-1.0, 1.0, (spec.action_dim,), np.float32),
            autoreset_mode,
            fps=round(1 / self._world.control_seconds),
        )
        self._engine: CEngine | None = CEngine(self._world, threads)
        self._age = np.zeros(num_envs, np.int64)
        self._state: NDArray[np.float32] = np.zeros((num_envs, spec.obs_dim), np.float32)
        """[worlds, qpos and qvel], which is also what is observed; never written to, so that it can be handed out."""
        self._nq = load_model(config).nq
        self._never_ends = HABITS[config.name].healthy_height is None
        self._cpu = jax.devices("cpu")[0]
        self._draw = jax.jit(jax.vmap(self._start_of))

    def close_extras(self, **kwargs: Any) -> None:
        """Let go of the threads."""
        self._engine = None

    def _move(self, actions: NDArray[np.float32], waiting: NDArray[np.bool_]) -> Moved:
        assert self._engine is not None, "a closed environment is refused before"
        after, all_sane = self._engine.step_rows(self._state, actions)
        self._age += 1
        stopped = self._age >= self.config.episode_length
        held = waiting
        if not all_sane:
            broken: NDArray[np.bool_] = ~sane(self._physical(after))
            after = np.where(broken[:, None], self._state, after)
            stopped |= broken
            held = waiting | broken
        self._state = after
        terminated = self._ended(after) & ~held
        truncated = stopped & ~(terminated | waiting)
        return Moved(after, np.zeros(self.num_envs), terminated, truncated, {})

    def _start(
        self, mask: NDArray[np.bool_], low: NDArray[np.uint32], high: NDArray[np.uint32], episode: NDArray[np.uint32]
    ) -> NDArray[np.float32]:
        self._age[mask] = 0
        with jax.default_device(self._cpu):
            fresh = self._draw(low, high, episode)
        self._state = np.where(mask[:, None], np.concatenate(fresh, axis=1), self._state)
        return self._state

    def _start_of(self, low: Int[Array, ""], high: Int[Array, ""], episode: Int[Array, ""]) -> Physical:
        return self._world.initial(episode_key(low, high, episode))

    def _ended(self, state: NDArray[np.float32]) -> NDArray[np.bool_]:
        if self._never_ends:
            return np.zeros(self.num_envs, bool)
        ended: Any = self._world.terminated(self._physical(state))
        return np.asarray(ended)

    def _physical(self, state: NDArray[np.float32]) -> Physical:
        """The state as the world takes it."""
        qpos: Any = state[:, : self._nq]
        qvel: Any = state[:, self._nq :]
        return Physical(qpos, qvel)
