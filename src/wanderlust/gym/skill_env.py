"""Skills as actions, for any learner.

The action is a skill: an option of some control steps, in which the frozen policy takes its mode actions. What is left
to learn is which skill when, by a high-level policy: the paper's hierarchical setting, and its meta-controller.
"""

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from gymnasium.utils import EzPickle
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from wanderlust.downstream.settings import LARGEST_SKILL
from wanderlust.downstream.tasks import Task, make_task
from wanderlust.downstream.tasks.free import FreeTask
from wanderlust.envs import World
from wanderlust.errors import UserError, require
from wanderlust.gym.base import VectorStep
from wanderlust.gym.tasks import OptionVectorEnv, SingleTaskEnv
from wanderlust.runs.loading import Skills, load
from wanderlust.runs.run import Run


class SkillVectorEnv(OptionVectorEnv):
    """Many worlds of a task whose actions are skills: z in [-2, 2]^d (clipped), or the number of a discrete skill.

    Where skills are directions, as METRA's are, that of z is what counts.
    """

    def __init__(
        self,
        skills: Skills | Run | Path | str,
        task: str | Task[Any] | World,
        num_envs: int = 1,
        *,
        hold: int = 25,
        threads: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        """Begin with `reset`.

        Args:
            skills: what `wanderlust.load` gives, or takes, e.g. ``"zoo:ant"``; of the task's world.
            task: its name, such as ``"ant-multi-goals"``, or a task made with numbers of your own (`make_task`);
                or the world itself, such as `world_from_mjcf` gives it, where nothing is rewarded.
            num_envs: how many worlds.
            hold: control steps that a skill acts before the next action.
            threads: how many threads step the bodies; all cores if not given. Results do not depend on it.
            autoreset_mode: as in `wanderlust.make_vec`.
            render_mode: as in `wanderlust.make_vec`; a picture shows where a skill has led.
        """
        how: Any = {"hold": hold, "threads": threads, "autoreset_mode": autoreset_mode, "render_mode": render_mode}
        EzPickle.__init__(self, skills, task, num_envs, **how)
        skills = _loaded(skills)
        made, world = _task_and_world(skills, task)
        if skills.spec.name != made.env:
            raise UserError(f"{made.name} is a task of {made.env!r}; these skills are of {skills.spec.name!r}")
        self._skills = skills
        self._command: Any = None
        """The current skills with the subgoals that a high-level policy set for them (`Skills.decide`)."""
        action: Space[Any] = Discrete(skills.skill_dim)
        if not skills.discrete:
            action = Box(-LARGEST_SKILL, LARGEST_SKILL, (skills.skill_dim,), np.float32)
        super().__init__(made, world, num_envs, threads, autoreset_mode, action, hold, render_mode)

    def _step_worlds(self, actions: NDArray[Any], waiting: NDArray[np.bool_]) -> VectorStep:
        if self._skills.discrete:
            chosen = np.eye(self._skills.skill_dim, dtype=np.float32)[actions]
        else:
            chosen = self._skills.nearest(np.clip(actions, -LARGEST_SKILL, LARGEST_SKILL))
        return super()._step_worlds(chosen, waiting)

    def _act(self, actions: NDArray[Any], obs: NDArray[np.float32], step: int) -> NDArray[np.float32]:
        if not self._skills.decides_every:
            return self._skills.act(obs, actions)
        if step % self._skills.decides_every == 0:
            self._command = self._skills.decide(obs, actions)
        return self._skills.follow(obs, self._command)


class SkillEnv(SingleTaskEnv):
    """One world of a task whose actions are skills; `SkillVectorEnv` says what they are."""

    def __init__(
        self,
        skills: Skills | Run | Path | str,
        task: str | Task[Any] | World,
        hold: int = 25,
        render_mode: str | None = None,
    ) -> None:
        EzPickle.__init__(self, skills, task, hold, render_mode)
        self.skills, mode = _loaded(skills), AutoresetMode.DISABLED
        worlds = SkillVectorEnv(
            self.skills, task, 1, hold=hold, threads=1, autoreset_mode=mode, render_mode=render_mode
        )
        super().__init__(worlds)


def _loaded(skills: Any) -> Skills:
    if hasattr(skills, "spec"):
        return skills
    if isinstance(skills, Run | Path | str):
        return load(skills)
    raise UserError(f"skills is {skills!r}; it must be what wanderlust.load gives, or a run, or a zoo entry")


def _task_and_world(skills: Skills, task: str | Task[Any] | World) -> tuple[Task[Any], World]:
    """What is done, and where: skills can act in any world that observes the same as theirs."""
    if isinstance(task, str):
        return make_task(task), skills.world
    given: Any = task
    if not hasattr(given, "initial"):
        known = all(hasattr(given, name) for name in ("name", "env", "entries", "horizon"))
        require(known, f"task is {task!r}; it must be the name of a task, what make_task gives, or a world")
        return given, skills.world
    if given.spec.groups != skills.spec.groups:
        raise UserError(f"these skills are of {skills.spec.name}, which observes something else than this world")
    return FreeTask(given.spec.name, given.spec.episode_length), given
