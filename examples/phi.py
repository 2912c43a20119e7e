"""Look at the learned map phi: where positions lie on it, and that LSD's map never stretches a distance.

python examples/phi.py [RUN]     without a run folder, a small run is trained first
"""

import sys
import tempfile

import numpy as np

import wanderlust

run = sys.argv[1] if len(sys.argv) > 1 else wanderlust.discover(budget_steps=50_000, out=tempfile.mkdtemp() + "/run")
skills = wanderlust.load(run)

for position in ([0, 0], [5, 0], [0, 5], [5, 5]):
    print(f"phi({position}) = {np.round(skills.phi(position), 2)}")

rng = np.random.default_rng(0)
a, b = rng.uniform(-10, 10, (2, 1000, 2))
apart = np.linalg.norm((a - b) / np.array(skills.spec.obs_std), axis=1)  # as the networks see it
stretch = np.linalg.norm(skills.phi(a) - skills.phi(b), axis=1) / apart
print(f"||phi(a) - phi(b)|| / ||a - b|| over 1,000 pairs: mean {stretch.mean():.2f}, largest {stretch.max():.2f}")
