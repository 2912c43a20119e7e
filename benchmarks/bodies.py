"""Put runs of bodies into one JSON and one picture of curves.

python benchmarks/bodies.py OUT.json OUT.png RUN [RUN ...]

A run is a folder that `wanderlust discover` made; runs of the same configuration but for the seed are drawn together,
and their medians taken. Of its metrics.jsonl: training seconds (compilation and the look at
the skills apart) to 1,000, 2,000, 3,000 and 4,500 bins, and the coverage after 1, 2, 5 and 10 minutes, per seed. Of its
evaluation.json: the measures at the end; a run that was cut off before it was evaluated has none.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from wanderlust.config import RunConfig, from_json
from wanderlust.runs.card import without_folders

BINS = (1000, 2000, 3000, 4500)
MINUTES = (1, 2, 5, 10)


def summary(run: Path) -> dict[str, Any]:
    """All that is told of one run."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    start = rows[0]["seconds"] - rows[0]["train_seconds"]  # kernels loaded, programs compiled or fetched
    rows = [row for row in rows if "coverage" in row]  # one in `look_every`
    provenance = json.loads((run / "provenance.json").read_text())
    config = from_json(RunConfig, (run / "config.json").read_text(), f"{run}/config.json")
    evaluation = run / "evaluation" / "evaluation.json"
    seconds = np.array([row["train_seconds"] for row in rows])
    covered = np.array([row["coverage"] for row in rows])  # [rows, seeds]
    first = {str(n): [_first(seconds, c >= n) for c in covered.T] for n in BINS}
    return {
        "run": run.name,
        "kind": config.name,
        "recipe": config.recipe,
        "command": without_folders(provenance["command"]),
        "commit": provenance["commit"],
        "device": provenance["device"],
        "resumed": len(provenance.get("resumed", [])),
        "seeds": list(range(config.seed, config.seed + config.seeds)),
        "seconds_to_bins": first,
        "median_seconds_to_bins": {n: _median(times) for n, times in first.items()},
        "bins_after_minutes": {str(m): _after(seconds, covered, 60 * m) for m in MINUTES},
        "env_steps_per_seed": rows[-1]["env_steps"],
        "updates": rows[-1]["epoch"] * config.schedule.sac_steps,
        "train_seconds": rows[-1]["train_seconds"],
        "wall_seconds": rows[-1]["seconds"],
        "start_seconds": start,
        "curve": {"train_seconds": seconds.tolist(), "coverage": covered.tolist()},
        "evaluation": json.loads(evaluation.read_text()) if evaluation.exists() else None,
    }


def _first(seconds: np.ndarray, reached: np.ndarray) -> float | None:
    return float(seconds[np.argmax(reached)]) if reached.any() else None


def _median(times: list[float | None]) -> float | None:
    """The median seed's time; None if it never got there."""
    middle = float(np.median([np.inf if t is None else t for t in times]))
    return middle if np.isfinite(middle) else None


def _after(seconds: np.ndarray, covered: np.ndarray, limit: float) -> list[int] | None:
    """Coverage at the last look before the limit; None if there was none, or the run was shorter by over a tenth."""
    if seconds[-1] < 0.9 * limit or seconds[0] > limit:
        return None
    return covered[seconds <= limit][-1].tolist()


def together(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each kind of run: the median over all seeds of all its runs, and the seeds' spread at the end."""
    found = []
    for name, members in _kinds(runs).items():
        times = {n: [t for run in members for t in run["seconds_to_bins"][n]] for n in map(str, BINS)}
        after = {m: [c for run in members for c in run["bins_after_minutes"][m] or []] for m in map(str, MINUTES)}
        ends = {
            measure: [
                v for run in members if run["evaluation"] for v in run["evaluation"]["metrics"][measure]["per_seed"]
            ]
            for measure in ("coverage_mode", "coverage_sampled", "travelled", "distance", "survived_median")
        }
        found.append(
            {
                "runs": name,
                "seeds": [seed for run in members for seed in run["seeds"]],
                "seconds_to_bins": times,
                "median_seconds_to_bins": {n: _median(t) for n, t in times.items()},
                "bins_after_minutes": after,
                "end": ends,
            }
        )
    return found


def _kinds(runs: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        changes = re.findall(r"--set (\S+)", run["command"])
        kinds.setdefault(", ".join([run["kind"], run["recipe"], *changes]), []).append(run)
    return kinds


def draw(runs: list[dict[str, Any]]) -> Figure:
    """Coverage over training time, a panel per kind of run, a line per seed."""
    kinds = _kinds(runs)
    figure = Figure(figsize=(4.4 * len(kinds), 3.6), layout="constrained")
    for axes, (name, members) in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds.items(), strict=True):
        for run in members:
            axes.plot(np.array(run["curve"]["train_seconds"]) / 60, run["curve"]["coverage"], linewidth=1.2)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("minutes of training")
        axes.grid(alpha=0.3)
    figure.supylabel("bins covered by 200 random skills, mode actions", fontsize=9)
    return figure


if __name__ == "__main__":
    table, picture, *folders = map(Path, sys.argv[1:])
    found = [summary(folder) for folder in folders]
    table.write_text(json.dumps({"together": together(found), "runs": found}, indent=1) + "\n")
    draw(found).savefig(picture, dpi=140)
