"""Tasks as Gymnasium environments: one world of a task, or many on the engine `c`, stepped by their own actions."""

import functools
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.spaces import Space
from gymnasium.utils import EzPickle
from gymnasium.vector import AutoresetMode
from jaxtyping import Array, Bool, Float, Key
from numpy.typing import NDArray

from wanderlust.downstream import episodes
from wanderlust.downstream.episodes import Episode, OptionState
from wanderlust.downstream.tasks import GoalTask, Task, make_task
from wanderlust.envs import MujocoWorld, World, WorldState, make_engine, make_world
from wanderlust.errors import UserError
from wanderlust.gym.base import EpisodicVectorEnv, VectorStep, check_counts, warn_of
from wanderlust.gym.rendering import MODES
from wanderlust.registry import WORLDS
from wanderlust.report.plots.colours import REACHED, rgb_of
from wanderlust.report.video.canvas import Mark
from wanderlust.train.autoreset import where_worlds

GOAL_COLOUR = rgb_of(REACHED)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _begin(
    world: World, task: Task[Any], old: Episode | None, mask: Bool[Array, " n"], keys: Key[Array, " n"]
) -> tuple[Episode, Float[Array, "n obs"]]:
    """Begin episodes in the worlds that are marked, at first in all; and what all of them observe."""
    fresh = jax.vmap(lambda key: episodes.begin(world, task, key))(keys)
    episode = fresh if old is None else where_worlds(mask, fresh, old)
    return episode, _observe(world, task, episode)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _step(
    world: World, task: Task[Any], so_far: OptionState, after: WorldState
) -> tuple[OptionState, Float[Array, "n obs"]]:
    """Count a control step; and what is observed after it."""
    now = episodes.step_option(world, task, so_far, after)
    return now, _observe(world, task, now.episode)


def _observe(world: World, task: Task[Any], episode: Episode) -> Float[Array, "n obs"]:
    return jax.vmap(lambda e: episodes.observe(world, task, e))(episode)


_begin_option = jax.jit(episodes.begin_option)


class OptionVectorEnv(EpisodicVectorEnv):
    """Worlds with a task; a subclass says what an action is, and for how many control steps it acts.

    An observation is the world's own and then the task's entries, raw. Rewards of the control steps are summed; an
    episode that ends in between stops there. Infos say how many control steps a step took (``steps``), whether the
    body fell (``fell``) and whether its physics broke down (``broken``), which truncates the episode at the last state
    that was a number. A fall and a finished task terminate an episode, time that is up truncates it.
    """

    def __init__(
        self,
        task: Task[Any],
        world: World,
        num_envs: int,
        threads: int | None,
        autoreset_mode: AutoresetMode | str,
        action: Space[Any] | None = None,
        hold: int = 1,
        render_mode: str | None = None,
    ) -> None:
        who = type(self).__name__
        check_counts(who, num_envs=num_envs, hold=hold)
        self.task, self.hold = task, hold
        self._world = world = task.arrange(world)
        super().__init__(who, world, num_envs, threads, autoreset_mode, action, task.entries, render_mode)
        self._obs: Any = None
        """What was last observed; never written to, so that it can be handed out."""
        self._episodes: Any = None
        """None before the first."""
        engine = make_engine(world, "c" if isinstance(world, MujocoWorld) else "auto", threads)
        self._engine = jax.jit(engine.step_running) if engine.compiles else engine.step_running
        self._news = engine.news

    def _physics(self) -> NDArray[np.float32]:
        return np.asarray(self._episodes.body.physics)

    def _marks(self) -> list[list[Mark]]:
        if not isinstance(self.task, GoalTask):
            return super()._marks()
        goals = self._obs[:, self._world.spec.obs_dim :]
        places = np.concatenate([goals, np.zeros((len(goals), max(0, 3 - goals.shape[1])))], axis=1)
        return [[Mark(place, float(self.task.radius), GOAL_COLOUR)] for place in places[:, :3]]

    def _act(self, actions: NDArray[Any], obs: NDArray[np.float32], step: int) -> NDArray[np.float32]:
        """The actions of the worlds in step number `step` of an option, from the world's own observation."""
        return actions

    def _start(self, mask: NDArray[np.bool_], keys: Key[Array, " worlds"]) -> NDArray[np.float32]:
        self._episodes, obs = _begin(self._world, self.task, self._episodes, mask, keys)
        self._obs = np.asarray(obs)
        return self._obs

    def _step_worlds(self, actions: NDArray[Any], waiting: NDArray[np.bool_]) -> VectorStep:
        own = self._world.spec.obs_dim
        with jax.default_device(self._cpu):
            now = _begin_option(self._episodes, ~waiting)
        for step in range(self.hold):
            action: Any = self._act(actions, self._obs[:, :own], step)  # on whatever device a policy is
            with jax.default_device(self._cpu):
                body, running = jax.device_get((now.episode.body, now.running))
                after = self._engine(body, action, running)
                now, obs = _step(self._world, self.task, now, after)
            self._obs = np.asarray(obs)
            if not np.any(now.running):
                break
        warn_of(self._news())
        self._episodes = now.episode
        result, steps = jax.device_get((now.result, now.steps))
        facts = {"steps": steps, "fell": result.fell, "broken": result.broken}
        return VectorStep(self._obs, result.reward.astype(np.float64), result.terminated, result.truncated, facts)


class TaskVectorEnv(OptionVectorEnv):
    """Many worlds of a task; an action is the body's own, in [-1, 1]."""

    def __init__(
        self,
        task: str,
        num_envs: int = 1,
        *,
        threads: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **changes: float,
    ) -> None:
        """Begin with `reset`.

        Args:
            task: its name, such as ``"ant-multi-goals"``.
            num_envs: how many worlds.
            threads: how many threads step them; all cores if not given. Results do not depend on it.
            autoreset_mode: as in `wanderlust.make_vec`.
            render_mode: ``"rgb_array"`` for a picture of every world, ``"human"`` for a window on the first one.
            changes: numbers of the task that shall differ from the paper's, such as ``radius=1.0``.
        """
        how: Any = {"threads": threads, "autoreset_mode": autoreset_mode, "render_mode": render_mode}
        EzPickle.__init__(self, task, num_envs, **how, **changes)
        made = make_task(task, **changes)
        world = make_world(WORLDS.get(made.env).configure(made.env))
        super().__init__(made, world, num_envs, threads, autoreset_mode, render_mode=render_mode)


class SingleTaskEnv(gymnasium.Env[NDArray[np.float32], Any], EzPickle):
    """One world, as Gymnasium's other interface has it. ``reset(seed=s)`` begins as world 0 of the vector form does."""

    metadata: dict[str, Any] = {"render_modes": list(MODES), "render_fps": 20}  # noqa: RUF012 - Gymnasium's own name

    def __init__(self, worlds: OptionVectorEnv) -> None:
        self.metadata = {name: worlds.metadata[name] for name in ("render_modes", "render_fps")}
        self.render_mode = worlds.render_mode
        self.observation_space, self.action_space = worlds.single_observation_space, worlds.single_action_space
        self.task = worlds.task
        self._worlds = worlds
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode: the first of a seed, or the next one. There are no options."""
        super().reset(seed=seed)
        if options:
            raise UserError(f"reset: unknown option {min(options)!r}; there are none")
        obs, _ = self._worlds.reset(seed=None if seed is None else [seed])
        self._over = False
        return obs[0], {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Make one step of an episode that is not over."""
        if self._over:
            raise gymnasium.error.ResetNeeded("call reset() before the first step() of an episode")
        obs, reward, terminated, truncated, infos = self._worlds.step(np.asarray(action)[None])
        self._over = bool(terminated[0] | truncated[0])
        info = {name: values[0].item() for name, values in infos.items() if not name.startswith("_")}
        return obs[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> Any:
        """A picture, if the render mode is ``"rgb_array"``."""
        shown = self._worlds.render()
        return None if shown is None else shown[0]

    def close(self) -> None:
        self._worlds.close()


class TaskEnv(SingleTaskEnv):
    """One world of a task; an action is the body's own. ``gymnasium.make("wanderlust/AntGoal-v0")`` makes one."""

    def __init__(self, task: str, *, render_mode: str | None = None, **changes: float) -> None:
        EzPickle.__init__(self, task, render_mode=render_mode, **changes)
        mode = AutoresetMode.DISABLED
        super().__init__(TaskVectorEnv(task, 1, threads=1, autoreset_mode=mode, render_mode=render_mode, **changes))
