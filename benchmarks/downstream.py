"""Keep what controllers learned over skills of several methods, and draw their curves side by side.

python benchmarks/downstream.py keep OUT.json FOLDER [--note TEXT]      a folder RUN/downstream/TASK-CONTROLLER
python benchmarks/downstream.py draw OUT.png RESULT.json [RESULT.json ...]

A kept result is result.json with the learning curve in it, and without folders in its command. A picture has one panel
per task and one curve per set of skills: the mean over seeds, and its 95% interval.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from wanderlust.report.plots import show_mean
from wanderlust.runs.card import without_folders
from wanderlust.runs.files import read_rows, write_atomic


def keep(out: Path, folder: Path, note: str = "") -> None:
    """One JSON of all that is known of a controller."""
    result = json.loads((folder / "result.json").read_text())
    provenance = result["provenance"]
    provenance["command"] = without_folders(provenance["command"])
    curve = folder / "curve.jsonl"
    result |= {"curve": read_rows(curve)} if curve.exists() else {}
    write_atomic(out, json.dumps({"note": note, **result} if note else result, indent=1) + "\n")


def draw(out: Path, results: list[Mapping[str, Any]]) -> None:
    """A panel per task."""
    tasks = list(dict.fromkeys(r["task"] for r in results))
    figure = Figure(figsize=(4.6 * len(tasks), 3.8), layout="constrained")
    for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        for result in (r for r in results if r["task"] == task):
            rows, label = result["curve"], "{name}, epoch {epoch}".format(**result["skills"])
            returns = [row["return"] for row in rows]
            show_mean(axes, [row["env_steps"] for row in rows], returns, f"C{len(axes.lines)}", label)
        axes.set_title(task, fontsize=10)
        axes.set_xlabel("environment steps per seed")
        axes.set_ylabel("return")
        axes.grid(alpha=0.3)
        axes.legend(loc="best", fontsize=8)
    figure.savefig(out, dpi=110)


def main() -> None:
    """Keep, or draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    keeping = what.add_parser("keep")
    keeping.add_argument("out", type=Path)
    keeping.add_argument("folder", type=Path)
    keeping.add_argument("--note", default="")
    drawing = what.add_parser("draw")
    drawing.add_argument("out", type=Path)
    drawing.add_argument("results", type=Path, nargs="+")
    args = parser.parse_args()
    if args.what == "keep":
        keep(args.out, args.folder, args.note)
    else:
        draw(args.out, [json.loads(path.read_text()) for path in args.results])


if __name__ == "__main__":
    main()
