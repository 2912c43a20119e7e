"""The bodies as a Gymnasium vector environment: many worlds on the engine `c`, one call of it per step."""

from typing import Any, Literal

import jax
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from jaxtyping import Array, Int
from numpy.typing import NDArray

from wanderlust.config import build
from wanderlust.envs.base import LARGEST, WorldState, sane
from wanderlust.envs.engines.mujoco_c import CEngine
from wanderlust.envs.worlds.body import Body, BodyConfig
from wanderlust.errors import UserError
from wanderlust.gym.base import EpisodicVectorEnv, Moved, autoreset_mode_of, check_counts, episode_key
from wanderlust.registry import WORLDS


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
    world = WORLDS.get(env) if isinstance(env, str) and env in WORLDS else None
    if not (isinstance(world, type) and issubclass(world, Body)):
        raise UserError(f"make_vec steps MuJoCo bodies, not {env!r}; known: {', '.join(_bodies())}")
    check_counts("make_vec", num_envs=num_envs, threads=threads)
    settings = {
        "name": env,
        "episode_length": world.episode_length if episode_length is None else episode_length,
        "solver": solver,
        "cone": cone,
    }
    config: BodyConfig = build(world.Config, settings, "make_vec")
    mode = autoreset_mode_of("make_vec", autoreset_mode)
    return BodyVectorEnv(config, int(num_envs), None if threads is None else int(threads), mode)


def _bodies() -> list[str]:
    return [
        name for name in WORLDS.names() if isinstance(WORLDS.get(name), type) and issubclass(WORLDS.get(name), Body)
    ]


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
        self._world: Body = WORLDS.get(config.name)(config)
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
        self._state = _on_host(jax.vmap(self._world.initial)(jax.random.split(jax.random.key(0), num_envs)))
        """Never written to, so that what is observed of it can be handed out."""
        own = type(self._world)
        self._never_ends, self._observes_state = own.terminated is Body.terminated, own.observe is Body.observe
        self._look = jax.jit(jax.vmap(self._world.observe))
        self._cpu = jax.devices("cpu")[0]
        self._draw = jax.jit(jax.vmap(self._start_of))

    def close_extras(self, **kwargs: Any) -> None:
        """Let go of the threads."""
        self._engine = None

    def _move(self, actions: NDArray[np.float32], waiting: NDArray[np.bool_]) -> Moved:
        assert self._engine is not None, "a closed environment is refused before"
        after, all_sane = self._engine.step_checked(self._state, actions)
        self._age += 1
        stopped = self._age >= self.config.episode_length
        held = waiting
        if not all_sane:
            broken: NDArray[np.bool_] = ~sane(after)
            after = _pick(broken, self._state, after)
            stopped |= broken
            held = waiting | broken
        self._state = after
        terminated = self._ended() & ~held
        truncated = stopped & ~(terminated | waiting)
        return Moved(self._observed(), np.zeros(self.num_envs), terminated, truncated, {})

    def _start(
        self, mask: NDArray[np.bool_], low: NDArray[np.uint32], high: NDArray[np.uint32], episode: NDArray[np.uint32]
    ) -> NDArray[np.float32]:
        self._age[mask] = 0
        with jax.default_device(self._cpu):
            fresh = self._draw(low, high, episode)
        self._state = _pick(mask, _on_host(fresh), self._state)
        return self._observed()

    def _start_of(self, low: Int[Array, ""], high: Int[Array, ""], episode: Int[Array, ""]) -> WorldState:
        return self._world.initial(episode_key(low, high, episode))

    def _ended(self) -> NDArray[np.bool_]:
        if self._never_ends:
            return np.zeros(self.num_envs, bool)
        return np.asarray(self._world.terminated(self._state))

    def _observed(self) -> NDArray[np.float32]:
        """A view of the state where that is what is observed."""
        return np.asarray((self._world.observe if self._observes_state else self._look)(self._state))


def _on_host(state: WorldState) -> WorldState:
    host: WorldState = jax.device_get(state)
    return host


def _pick(mask: NDArray[np.bool_], yes: WorldState, no: WorldState) -> WorldState:
    """Whole worlds from one of two batches."""
    picked: Any = [np.where(mask[:, None], y, n) for y, n in zip(yes, no, strict=True)]
    return WorldState(*picked)
