"""Worlds as a Gymnasium vector environment: many of them on the engine `c`, or in Gymnasium's own processes."""

import dataclasses
from typing import Any, Literal

import jax
import numpy as np
from gymnasium.utils import EzPickle
from gymnasium.vector import AutoresetMode
from jaxtyping import Array, Key
from numpy.typing import NDArray

from wanderlust.config import EnvConfig, build
from wanderlust.envs import MujocoWorld, World, WorldState, make_engine, make_world
from wanderlust.envs.base import Truncating, sane
from wanderlust.envs.engines.gymnasium import Outside
from wanderlust.envs.worlds.body import Body
from wanderlust.errors import UserError
from wanderlust.gym.base import EpisodicVectorEnv, VectorStep, warn_of
from wanderlust.registry import WORLDS


class WorldVectorEnv(EpisodicVectorEnv):
    """Many worlds as one Gymnasium vector environment: MuJoCo's stepped by a pool of threads, Gymnasium's by processes.

    An observation is the world's own, raw: of our bodies the whole state, qpos and then qvel. An action is in [-1, 1]
    and mapped onto the model's controls. There is no reward: it is zero at every step, and a learner brings its own.
    Should the physics of a world break down, its episode is truncated at the last state that was a number. So is the
    episode of a Gymnasium environment that must be restarted, with a warning.
    `EpisodicVectorEnv` says how episodes begin.
    """

    def __init__(
        self,
        env: str | World,
        num_envs: int = 64,
        *,
        threads: int | None = None,
        episode_length: int | None = None,
        solver: Literal["newton", "stock"] | None = None,
        cone: Literal["stock", "elliptic"] | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        """Begin with `reset`.

        Args:
            env: ``"ant"``, ``"half-cheetah"``, ``"humanoid"``, or any other registered world that MuJoCo steps;
                the path of a model file; ``"gymnasium:Walker2d-v5"``; or such a world itself (`world_from_mjcf`,
                `world_from_gymnasium`).
            num_envs: how many worlds.
            threads: how many threads step them; all cores if not given. Results do not depend on it. Gymnasium
                environments have one process for each core.
            episode_length: control steps until an episode is truncated; the world's own if not given, for ours 200,
                and 1,000 for Humanoid.
            solver: ``"stock"`` keeps the solver the model file asks for (PGS for Humanoid); ``"newton"`` if not given.
            cone: friction cones, the model file's (``"stock"``, if not given) or ``"elliptic"``.
            autoreset_mode: when a world whose episode has ended starts the next one, as Gymnasium defines it: in the
                next step (the default, there and here), in the same step, or when it is reset.
            render_mode: ``"rgb_array"`` for a picture of every world, ``"human"`` for a window on the first one.
        """
        if isinstance(env, str) and env not in WORLDS:
            raise _not_mujoco(env)
        own = WORLDS.get(env).configure(env) if isinstance(env, str) else getattr(env, "config", None)
        if not isinstance(own, EnvConfig):
            raise _not_mujoco(env)
        EzPickle.__init__(
            self,
            env,
            num_envs,
            threads=threads,
            episode_length=episode_length,
            solver=solver,
            cone=cone,
            autoreset_mode=autoreset_mode,
            render_mode=render_mode,
        )
        asked = {"episode_length": episode_length, "solver": solver, "cone": cone}
        given = {name: value for name, value in asked.items() if value is not None}
        self.config = build(type(own), {**dataclasses.asdict(own), **given}, "make_vec")
        world = make_world(self.config)
        if not isinstance(world, MujocoWorld | Outside):
            raise _not_mujoco(env)
        if threads is not None and isinstance(world, Outside):
            raise UserError("make_vec: Gymnasium environments are stepped by processes; leave out threads")
        super().__init__("make_vec", world, num_envs, threads, autoreset_mode, render_mode=render_mode)
        self._engine = make_engine(world, "auto" if isinstance(world, Outside) else "c", threads)
        self._age = np.zeros(num_envs, np.int64)
        self._state: Any = None
        """None before the first episode. Never written to, so that what is observed of it can be handed out."""
        self._world: Any = world
        kind = type(world)
        self._never_ends = getattr(kind, "terminated", None) is Body.terminated
        self._observes_state = getattr(kind, "observe", None) is Body.observe
        self._cut = jax.vmap(world.truncated) if isinstance(world, Truncating) else None
        """Which episodes the worlds themselves cut; None where nothing but breaking down does."""
        self._look, self._ended = jax.jit(jax.vmap(world.observe)), jax.jit(jax.vmap(world.terminated))
        self._draw = jax.jit(jax.vmap(world.initial))

    def _step_worlds(self, actions: NDArray[np.float32], waiting: NDArray[np.bool_]) -> VectorStep:
        cut, held = np.zeros(self.num_envs, bool), waiting
        if self._cut is None:
            after, all_sane = self._engine.step_checked(self._state, actions)
            if not all_sane:
                cut = ~sane(after)
                after = _pick(cut, self._state, after)
                held = waiting | cut
        else:
            after = self._engine.step_running(self._state, actions, ~waiting)
            warn_of(self._engine.news())
            cut = np.asarray(self._cut(after))
        self._age += 1
        stopped = cut | (self._age >= self.config.episode_length)
        self._state = after
        terminated = np.zeros(self.num_envs, bool)
        if not self._never_ends:
            with jax.default_device(self._cpu):
                terminated = np.asarray(self._ended(after)) & ~held
        truncated = stopped & ~(terminated | waiting)
        return VectorStep(self._observed(), np.zeros(self.num_envs), terminated, truncated, {})

    def _physics(self) -> NDArray[np.float32]:
        return np.asarray(self._state.physics)

    def _start(self, mask: NDArray[np.bool_], keys: Key[Array, " worlds"]) -> NDArray[np.float32]:
        self._age[mask] = 0
        fresh: WorldState = jax.device_get(self._draw(keys))
        self._state = fresh if self._state is None else _pick(mask, fresh, self._state)
        return self._observed()

    def _observed(self) -> NDArray[np.float32]:
        """A view of the state where that is what is observed."""
        if self._observes_state:
            return np.asarray(self._world.observe(self._state))
        with jax.default_device(self._cpu):
            return np.asarray(self._look(self._state))


make_vec = WorldVectorEnv


def _not_mujoco(env: Any) -> UserError:
    known = ", ".join(name for name in WORLDS.names() if hasattr(WORLDS.get(name), "model"))
    return UserError(
        f"make_vec steps MuJoCo bodies, not {env!r}; known: {known}, the path of a model file, and gymnasium:ID"
    )


def _pick(mask: NDArray[np.bool_], yes: WorldState, no: WorldState) -> WorldState:
    """Whole worlds from one of two batches."""
    picked: Any = [np.where(mask[:, None], y, n) for y, n in zip(yes, no, strict=True)]
    return WorldState(*picked)
