"""Draw skills from the prior they were trained under, reproducibly.

python examples/sample.py [RUN]     without a run folder, a small run is trained first
"""

import sys
import tempfile

import numpy as np

import wanderlust

run = sys.argv[1] if len(sys.argv) > 1 else wanderlust.discover(budget_steps=50_000, out=tempfile.mkdtemp() + "/run")
skills = wanderlust.load(run)

print(f"three of the run's skills, each a vector of {skills.skill_dim}:")
print(skills.sample(3))
print("the same seed gives the same skills:", np.array_equal(skills.sample(3, seed=7), skills.sample(3, seed=7)))

many = skills.sample(10_000, seed=1)
print(f"over 10,000 skills: mean {np.round(many.mean(axis=0), 2)}, spread {np.round(many.std(axis=0), 2)}")
