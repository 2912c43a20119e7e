"""A body as a Gymnasium vector environment, for a learner of your own: 64 ants on all cores, random actions.

python examples/vector_env.py
"""

import time

import numpy as np

import wanderlust

envs = wanderlust.make_vec("ant", num_envs=64)
obs, _ = envs.reset(seed=0)
start, steps = obs[:, :2], 50
began = time.perf_counter()
for _ in range(steps):
    obs, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
seconds = time.perf_counter() - began
distance = np.linalg.norm(obs[:, :2] - start, axis=1)
print(f"{steps * envs.num_envs / seconds:,.0f} steps per second")
print(f"random actions moved them {distance.mean():.2f} m on average, {distance.max():.2f} m at most")
envs.close()
