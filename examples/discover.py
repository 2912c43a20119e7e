"""Discover skills on PointEnv from Python: train, evaluate, and read what the run folder holds.

python examples/discover.py [FOLDER]     where to leave the run; by default a temporary folder
"""

import json
import sys
import tempfile
from pathlib import Path

import wanderlust

out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "run"
run = wanderlust.discover("point", method="lsd", skills=2, seed=0, budget_steps=50_000, out=out)

print(f"\n{run.config.name}, recipe {run.config.recipe}, in {run.path}:")
for file in sorted(p for p in run.path.rglob("*") if p.is_file()):
    print(f"  {file.relative_to(run.path)}")

first, last = run.metrics()[0], run.metrics()[-1]
for row in (first, last):
    print(f"after {row['env_steps']:>6,} steps: reward {row['reward'][0]:.3f}, {row['coverage'][0]} bins covered")

measures = json.loads((run.evaluation / "evaluation.json").read_text())["metrics"]
print(f"skills move along their own direction: mean cosine {measures['alignment']['mean']:.2f}")
