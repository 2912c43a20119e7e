"""What the verdict says of runs that are known: the table of `docs/how-to/did-it-learn.md`.

python benchmarks/verdicts.py OUT.json RUN_OR_ZOO_ENTRY ...

What is said of each is written, of its evaluation with 200 episodes: measures, level, words. Those that have none are
evaluated.
"""

import sys
from pathlib import Path
from typing import Any

from wanderlust.evaluation.evaluate import evaluate
from wanderlust.evaluation.verdict import words
from wanderlust.runs.files import read_object, write_json
from wanderlust.runs.provenance import provenance
from wanderlust.runs.run import Run
from wanderlust.runs.zoo import open_run

EPISODES = 200


def judged(where: str) -> dict[str, Any]:
    """One run, or entry of the zoo."""
    run: Run = open_run(where)
    config, facts = run.config, run.provenance()
    path = run.evaluation / "evaluation.json"
    there = read_object(path, "the evaluation") if path.exists() else {}
    found = there if there.get("episodes") == EPISODES and "verdict" in there else evaluate(run, EPISODES)
    return {
        "run": run.entry or run.path.name,
        "env": config.env.name,
        "method": str(config.method),
        "skills": str(config.skills),
        "recipe": config.recipe,
        "seed": config.seed,
        "epoch": found["epoch"],
        "env_steps": found["env_steps"],
        "policy_learning_rate": config.sac.policy_learning_rate,
        "alpha": None if config.sac.learn_alpha else config.sac.alpha,
        "trained_by": {name: facts.get(name) for name in ("command", "commit")},
        "verdict": found["verdict"],
        "words": words(found["verdict"]),
    }


def main() -> None:
    """Judge runs and write what was said of them."""
    out, *places = sys.argv[1:]
    runs = [judged(place) for place in places]
    here = provenance(open_run(places[0]).config)
    about = {name: here.get(name) for name in ("commit", "versions", "device")}
    write_json(Path(out), {"command": "python benchmarks/verdicts.py OUT.json RUN ...", **about, "runs": runs})


if __name__ == "__main__":
    main()
