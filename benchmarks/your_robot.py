"""What runs on model files have reached, beside random actions: `docs/tutorials/your-robot.md` has the table.

python benchmarks/your_robot.py OUT.json RUN=WHERE_THE_FILE_COMES_FROM ...

Each run is one of `wanderlust discover FILE --budget-steps N`, evaluated. Coverage is counted again in the bins of
today's rule, of the same episodes: skills with mode actions, and random actions.
"""

import dataclasses
import sys
from pathlib import Path
from typing import Any

from wanderlust.envs.models.facts import decided
from wanderlust.evaluation.metrics import coverage
from wanderlust.runs.files import ArrayFile, read_object, write_json
from wanderlust.runs.run import Run

ENOUGH = 2.0
"""Times the coverage of random actions."""


def judged(folder: Path, source: str) -> dict[str, Any]:
    """One run."""
    run = Run.open(folder)
    env: Any = run.config.env
    side = decided(dataclasses.replace(env, bin=0.0)).bin
    found = read_object(run.evaluation / "evaluation.json", "the run's evaluation")
    arrays = ArrayFile(run.evaluation / "rollouts.safetensors")
    skills, random = coverage(arrays.read("position")[0], side), coverage(arrays.read("random"), side)
    facts = run.provenance()
    steps = run.config.schedule.epochs * run.config.schedule.collection
    return {
        "command": f"wanderlust discover {env.file} --method {run.config.method} --budget-steps {steps}",
        "model": env.file,
        "from": source,
        "method": str(run.config.method),
        "skills": str(run.config.skills),
        "seed": run.config.seed,
        "env_steps": found["env_steps"],
        "gradient_steps": found["epoch"] * run.config.schedule.sac_steps,
        "bin": side,
        "unit": found["unit"],
        "coverage": skills,
        "coverage_random": random,
        "times_random": round(skills / random, 2),
        "beats_random_by_two": skills >= ENOUGH * random,
        "distance": found["metrics"]["distance"]["mean"],
        "distance_random": found["random"]["distance"],
        "alignment": found["metrics"]["alignment"]["mean"],
        "episodes": found["episodes"],
        "env": dataclasses.asdict(env),
        "sac": {name: getattr(run.config.sac, name) for name in ("discount", "alpha", "position_scale")},
        "commit": facts.get("commit"),
        "versions": facts.get("versions"),
        "device": facts.get("device"),
    }


def main() -> None:
    """Judge runs and write what came of it."""
    out, *named = sys.argv[1:]
    pairs = [text.partition("=") for text in named]
    runs = [judged(Path(folder), source) for folder, _, source in pairs]
    write_json(Path(out), {"command": "python benchmarks/your_robot.py OUT.json RUN=SOURCE ...", "runs": runs})


if __name__ == "__main__":
    main()
