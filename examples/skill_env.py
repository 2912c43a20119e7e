"""Skills as the actions of a Gymnasium vector environment, for a learner of your own. Here two that learn nothing.

python examples/skill_env.py [RUN]     without a run folder of PointEnv, a small run is trained first
"""

import sys
import tempfile
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import wanderlust

run = sys.argv[1] if len(sys.argv) > 1 else wanderlust.discover(budget_steps=50_000, out=tempfile.mkdtemp() + "/run")
skills = wanderlust.load(run)
envs = wanderlust.SkillVectorEnv(skills, "point-multi-goals", num_envs=32, hold=5)


def mean_return(choose: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> float:
    """Of one episode in every world, with a skill chosen every 5 control steps."""
    obs, _ = envs.reset(seed=0)
    returns, running = np.zeros(envs.num_envs), np.ones(envs.num_envs, bool)
    while running.any():
        obs, reward, terminated, truncated, _ = envs.step(choose(obs))
        returns += np.where(running, reward, 0.0)
        running &= ~(terminated | truncated)
    return float(returns.mean())


envs.action_space.seed(0)
print(f"{envs.single_action_space} for {envs.task.name}, which pays at most {envs.task.goals * envs.task.reward:g}")
print(f"random skills earn {mean_return(lambda obs: envs.action_space.sample()):.2f} on average")
print(f"skills towards the goal earn {mean_return(lambda obs: skills.towards(obs[:, :2], obs[:, 2:])):.2f}")
envs.close()
