"""The names of the tasks, registered with Gymnasium. Light: `import wanderlust` does this at once."""

import gymnasium

from wanderlust.catalogue import TASKS


def gym_id(name: str) -> str:
    """What Gymnasium calls a task: ``wanderlust/AntMultiGoals-v0`` is ``ant-multi-goals``."""
    return f"wanderlust/{''.join(part.capitalize() for part in name.split('-'))}-v0"


def register() -> None:
    """Tell Gymnasium the names of the tasks; nothing is imported or made before one is asked for."""
    for name in TASKS:
        if gym_id(name) not in gymnasium.registry:
            gymnasium.register(
                gym_id(name),
                entry_point="wanderlust.gym.tasks:TaskEnv",
                vector_entry_point="wanderlust.gym.tasks:TaskVectorEnv",
                kwargs={"task": name},
            )
