"""Let skills act: each of four skills is held for one episode, and the point ends somewhere else.

python examples/act.py [RUN]     without a run folder, a small run is trained first
"""

import sys
import tempfile

import numpy as np

import wanderlust

run = sys.argv[1] if len(sys.argv) > 1 else wanderlust.discover(budget_steps=50_000, out=tempfile.mkdtemp() + "/run")
skills = wanderlust.load(run)

z = skills.sample(4, seed=1)  # [4, skill_dim]
obs = np.zeros((4, 2))  # PointEnv: the observation is the position
for _ in range(skills.spec.episode_length):
    obs = obs + skills.act(obs, z)  # the mode action of each skill, in [-1, 1]

for skill, end in zip(z, obs, strict=True):
    print(f"skill {np.round(skill, 2)} leads from (0, 0) to {np.round(end, 2)}")

for seed in (0, 1):
    print(f"its first step, sampled with seed {seed}: {np.round(skills.act([0, 0], z[0], seed=seed), 2)}")
