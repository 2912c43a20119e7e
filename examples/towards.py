"""Walk to a goal with no further training: at every step, ask for the skill that leads there and act by it.

python examples/towards.py [RUN]     without a run folder, a small run is trained first
"""

import sys
import tempfile

import numpy as np

import wanderlust

run = sys.argv[1] if len(sys.argv) > 1 else wanderlust.discover(budget_steps=50_000, out=tempfile.mkdtemp() + "/run")
skills = wanderlust.load(run)

position, goal = np.zeros(2), np.array([12.0, 4.0])
for step in range(30):
    away = np.linalg.norm(goal - position)
    print(f"step {step:2d}: at {np.round(position, 1)}, {away:.1f} from the goal")
    if away <= 1.0:
        break
    z = skills.towards(position, goal)
    position = position + skills.act(position, z)  # PointEnv: s' = s + a
print("reached" if np.linalg.norm(goal - position) <= 1.0 else "not reached")
