"""Downstream tasks by name."""

import dataclasses
import math
from typing import Any

from wanderlust.downstream.tasks.base import Score, Task
from wanderlust.downstream.tasks.fetch_goals import FETCH_TASKS
from wanderlust.downstream.tasks.goals import GOAL_TASKS, POINT_TASKS, GoalState, GoalTask
from wanderlust.downstream.tasks.hurdles import HurdleTask
from wanderlust.downstream.tasks.turns import QuaternionTask, RotationTask
from wanderlust.errors import UserError, did_you_mean

__all__ = ["TASKS", "AnyTask", "GoalState", "GoalTask", "Score", "Task", "make_task"]

AnyTask = GoalTask | HurdleTask | RotationTask | QuaternionTask

TASKS: dict[str, AnyTask] = {
    task.name: task
    for task in (*GOAL_TASKS, HurdleTask(), RotationTask(), QuaternionTask(), *FETCH_TASKS, *POINT_TASKS)
}
"""The paper's tasks."""

_FIXED = ("name", "env", "entries", "position_dims", "quaternion_dims")
"""What a task cannot be given otherwise: it would be another task."""


def make_task(name: str, **changes: float) -> AnyTask:
    """A task by its name, with numbers of your own in place of some of the paper's: ``radius=1.0``."""
    if name not in TASKS:
        raise UserError(f"there is no task {name!r}{did_you_mean(name, TASKS)}; known: {', '.join(TASKS)}")
    task = TASKS[name]
    known = {f.name: getattr(task, f.name) for f in dataclasses.fields(task) if f.init and f.name not in _FIXED}
    for key, value in changes.items():
        if key not in known:
            raise UserError(f"{name} has no {key!r} to change; it has {', '.join(known)}")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        whole = isinstance(known[key], int)
        if not number or not 0 < value < math.inf or (whole and value != int(value)):
            kind = "whole number" if whole else "finite number"
            raise UserError(f"{name}: {key} is {value!r}; it must be a positive {kind}")
    fields: dict[str, Any] = {key: type(known[key])(value) for key, value in changes.items()}
    return dataclasses.replace(task, **fields)
