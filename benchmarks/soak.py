"""Kill work at random moments, go on with it, and compare its end with that of work nobody touched, bit by bit.

python benchmarks/soak.py point --kills 60 --seed 0                                   PointEnv, the driver fused
python benchmarks/soak.py ant --kills 50 --out benchmarks/results/soak.json           adds what came of it to a file
python benchmarks/soak.py edl ibol downstream sweep --kills 10                        ten kills of each

`ant` is Ant on the engine c, `edl` and `ibol` learn in stages, `downstream` is a controller over skills, `sweep` two
runs of a sweep. A kill is SIGKILL. Half of them strike at a random time, the others at a random call that writes:
before it, or after half of a file is on the disk. Every piece of work is killed and gone on with until it is at its
end.

Processes are forked from one that has imported all there is and has computed nothing (multiprocessing's forkserver), so
that most of the time goes into training. Prints one JSON object for each kind; exit code 1 if an end was not the same.
"""

import argparse
import contextlib
import dataclasses
import json
import multiprocessing
import os
import platform
import random
import shlex
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from soak_work import KINDS

from wanderlust.runs.files import write_json
from wanderlust.runs.provenance import commit, processor

CONTEXT = multiprocessing.get_context("forkserver")
CALLS = ("fsync", "replace", "unlink", "rename", "truncate")
"""Of `os`, by which files come to be; each is a place to be killed at."""


@dataclasses.dataclass
class Calls:
    """Counts the calls that write in this process, and ends it at one of them."""

    at: int | None
    notes: Path
    """Where it is said what was struck."""
    seen: int = 0

    def watch(self) -> None:
        """From here on."""
        for name in CALLS:
            setattr(os, name, self._watched(name, getattr(os, name)))

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.seen += 1
            if self.seen == self.at:
                self._strike(name, args)
            return real(*args, **options)

        return call

    def _strike(self, name: str, args: tuple[Any, ...]) -> None:
        what = str(args[-1] if name in ("replace", "rename") else args[0])
        if name == "fsync":
            what, size = str(Path(f"/proc/self/fd/{args[0]}").readlink()), os.fstat(args[0]).st_size
            with contextlib.suppress(OSError):  # a folder cannot be cut
                os.ftruncate(
                    args[0], size // 2 if what.endswith(".tmp") else max(0, size - 7)
                )  # of a log its last line
        self.notes.write_text(f"{name} {kind_of(what)}")
        os.kill(os.getpid(), signal.SIGKILL)


def kind_of(path: str) -> str:
    """What a file is for, in a word."""
    name = Path(path).name
    words = ("epoch-", "metrics", "controller", "training", "curve", "evaluation", "rollouts", "config", "provenance")
    found = next((word.strip("-") for word in words if word in name), "")
    return {"epoch": "checkpoint"}.get(found, found) or ("writer" if "writer" in name else "other")


def work(kind: str, folder: str, at: int | None, notes: str) -> None:
    """What the process does that is killed; it writes down how many calls it took if it was not."""
    calls = Calls(at, Path(notes))
    calls.watch()
    KINDS[kind].go_on(Path(folder))
    Path(notes).write_text(f"end {calls.seen}")


def attempt(kind: str, folder: Path, at: int | None = None, seconds: float | None = None) -> str:
    """One process: where its calls ended it, `time` if its time did, or `end` and how many calls there were."""
    notes = folder / "notes"
    notes.unlink(missing_ok=True)
    process = CONTEXT.Process(target=work, args=(kind, str(folder), at, str(notes)))
    process.start()
    process.join(seconds)
    killed = process.is_alive()
    process.kill()
    process.join()
    if notes.exists():
        return notes.read_text()
    if not killed:
        raise SystemExit(f"the process ended by itself with {process.exitcode}; its files are in {folder}")
    torn = [path for path in folder.rglob(".*.tmp") if path.is_file()]
    return f"time, writing {kind_of(torn[0].name)}" if torn else "time"


def soak(kind: str, kills: int, seed: int, folder: Path) -> dict[str, Any]:
    """Kill until there were as many kills as asked for; the work that is at its end is compared each time."""
    rng, began, done = random.Random(seed), time.monotonic(), KINDS[kind]
    whole = folder / "whole"
    whole.mkdir(parents=True)
    done.begin(whole)
    attempt(kind, whole)
    again = folder / "again"  # programs are in the cache now
    again.mkdir()
    done.begin(again)
    since = time.monotonic()
    calls = int(attempt(kind, again).split()[1])
    took = time.monotonic() - since
    expected = done.end(whole)
    different = [] if done.end(again) == expected else ["two that nobody touched"]
    hit: Counter[str] = Counter()
    works = 0
    while sum(hit.values()) < kills:
        place = folder / f"work-{works}"
        place.mkdir()
        done.begin(place)
        while True:
            timed = rng.random() < 0.5
            where = attempt(
                kind, place, None if timed else rng.randint(1, calls), rng.uniform(0.2, took) if timed else None
            )
            if where.startswith("end"):
                break
            hit[where] += 1
        works += 1
        if done.end(place) != expected:
            different.append(place.name)
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{kind}: {works} at their end, {sum(hit.values())} kills, different: {different}\n")
    return {
        "kind": kind,
        "about": done.about,
        "kills": sum(hit.values()),
        "in_a_write": sum(count for where, count in hit.items() if where != "time"),
        "where": dict(sorted(hit.items())),
        "works": works,
        "arrays": len(expected),
        "calls_of_one": calls,
        "different": different,
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "command": shlex.join(["python", *sys.argv]),
        "commit": commit(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cpu": processor(), "cores": os.cpu_count(), "python": platform.python_version()},
    }


def main() -> None:
    """Soak, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="+", choices=tuple(KINDS))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a file of JSON that this is added to")
    asked = parser.parse_args()
    here = str(Path(__file__).resolve().parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))  # of the server
    CONTEXT.set_forkserver_preload(["soak_work"])
    same = True
    for kind in asked.kinds:
        with tempfile.TemporaryDirectory() as folder:
            found = soak(kind, asked.kills, asked.seed, Path(folder))
        same = same and not found["different"]
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
        if asked.out:
            pieces = json.loads(asked.out.read_text())["pieces"] if asked.out.exists() else []
            pieces.append(found)
            sums = {key: sum(one[key] for one in pieces) for key in ("kills", "in_a_write", "works", "seconds")}
            different = sum(len(one["different"]) for one in pieces)
            write_json(asked.out, {"together": {**sums, "different": different}, "pieces": pieces})
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
