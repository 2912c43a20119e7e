"""Change files that a stranger may send, at random, and read them: each ends in a result or in one line (`UserError`).

python benchmarks/fuzz.py --inputs 100000 --seed 0                             prints what came of it
python benchmarks/fuzz.py --inputs 100000 --seed 1 --out benchmarks/results/fuzz.json    adds a piece to a file
python benchmarks/fuzz.py --inputs 2000 --only "sweep grid" --keep wrong       what went wrong, to look at

Starts from good files of a tiny run, a zoo entry, models, a sweep. A change flips, cuts, repeats or inserts bytes, or
replaces values of the JSON, TOML, XML or safetensors header in the file, whose checksums are made to fit again. Files
lie in memory (/dev/shm) where there is such a place. For each reader: inputs, results, refusals, seconds, the slowest
input, and memory at its highest. What is neither a result nor a refusal goes under `wrong`: any other exception, more
than a second, more than 4 GiB, or a message of more than one line. Exit code 1 if there was one.
"""

import argparse
import collections
import contextlib
import faulthandler
import json
import os
import platform
import random
import resource
import shlex
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import jax
from fuzz_readers import Reader, readers, tiny_run

from wanderlust.errors import UserError
from wanderlust.runs.files import write_json
from wanderlust.runs.provenance import commit, processor

SLOW = 1.0
ROUND = 20_000
"""Inputs after which it is every reader's turn again."""
HANGS = 60.0
ROOM = 4 * 2**30
"""Bytes of address space that reading may take on top of what importing took."""


class Tally:
    """What came of the inputs of one reader."""

    def __init__(self) -> None:
        self.inputs = self.results = self.refusals = 0
        self.seconds = self.slowest = 0.0
        self.wrong: collections.Counter[str] = collections.Counter()

    def facts(self) -> dict[str, Any]:
        """As JSON."""
        seconds = {"seconds": round(self.seconds, 3), "slowest_seconds": round(self.slowest, 4)}
        counted = {"inputs": self.inputs, "results": self.results, "refusals": self.refusals}
        return {**counted, **seconds, "wrong": dict(self.wrong)}


def one_input(reader: Reader, rng: random.Random, tally: Tally, keep: Path | None) -> None:
    """Change a file, read it, and note what came of it."""
    data = rng.choice(reader.changes)(rng)
    reader.path.write_bytes(data)
    tally.inputs, wrong, since = tally.inputs + 1, "", time.perf_counter()
    try:
        reader.read()
        tally.results += 1
    except UserError as error:
        tally.refusals += 1
        if len(str(error)) > 2100 or not str(error).isprintable():
            wrong = f"a message that is not one line: {type(error).__name__}"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        wrong = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
    took = time.perf_counter() - since
    tally.seconds, tally.slowest = tally.seconds + took, max(tally.slowest, took)
    if took > SLOW:
        wrong = wrong or f"took more than {SLOW} s"
    if wrong:
        tally.wrong[wrong] += 1
        if keep is not None and tally.wrong[wrong] == 1:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{wrong.replace('/', '-').replace(' ', '_')}-{reader.path.name}").write_bytes(data)


def fuzz(
    inputs: int, seed: int, kinds: dict[str, Reader], keep: Path | None = None, seconds: float = 1e9
) -> dict[str, Tally]:
    """Change and read so often, or until the time is up; each reader gets its share, its good file stays as it is."""
    rng = random.Random(seed)
    tallies = {name: Tally() for name in kinds}
    until, whole = time.monotonic() + seconds, sum(reader.share for reader in kinds.values())
    rounds = max(1, inputs // ROUND)
    for name, reader in [*kinds.items()] * rounds:
        good = reader.path.read_bytes() if reader.path.exists() else None
        for _ in range(max(1, round(inputs * reader.share / whole / rounds))):
            if time.monotonic() > until:
                break
            faulthandler.dump_traceback_later(HANGS, exit=True, file=sys.__stderr__)
            one_input(reader, rng, tallies[name], keep)
        reader.path.unlink(missing_ok=True)
        if good is not None:
            reader.path.write_bytes(good)
    faulthandler.cancel_dump_traceback_later()
    return tallies


def bound_memory() -> None:
    """Have whatever takes much more memory than now end in a `MemoryError`."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, resource.getrlimit(resource.RLIMIT_AS)[1]))


def piece(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One run of the fuzzer, as JSON."""
    kinds = readers(tiny_run(folder))
    chosen = {name: reader for name, reader in kinds.items() if not asked.only or name in asked.only}
    bound_memory()
    before, began = peak(), time.monotonic()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):  # what is said of damaged files
        tallies = fuzz(asked.inputs, asked.seed, chosen, asked.keep, asked.seconds)
    seconds = time.monotonic() - began
    return {
        "command": shlex.join(["python", *sys.argv]),
        "commit": commit(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cpu": processor(), "cores": os.cpu_count(), "python": platform.python_version()},
        "seed": asked.seed,
        "inputs": sum(tally.inputs for tally in tallies.values()),
        "seconds": round(seconds, 1),
        "peak_mib": {"before": before, "after": peak()},
        "readers": {name: tally.facts() for name, tally in tallies.items()},
    }


def peak() -> int:
    """The most memory that this process had so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main() -> None:
    """Fuzz, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="the name of a reader; may be repeated")
    parser.add_argument("--keep", type=Path, help="a folder for inputs that went wrong")
    parser.add_argument("--out", type=Path, help="a file of JSON that this run is added to")
    asked = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        found = piece(asked, Path(folder))
    if asked.out:
        pieces = json.loads(asked.out.read_text())["pieces"] if asked.out.exists() else []
        write_json(asked.out, summed([*pieces, found]))
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    sys.exit(1 if any(reader["wrong"] for reader in found["readers"].values()) else 0)


def summed(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """All runs of the fuzzer, and what they come to together."""
    whole: dict[str, dict[str, Any]] = {}
    for one in pieces:
        for name, facts in one["readers"].items():
            so_far = whole.setdefault(
                name, {"inputs": 0, "results": 0, "refusals": 0, "seconds": 0.0, "slowest_seconds": 0.0, "wrong": 0}
            )
            for key in ("inputs", "results", "refusals"):
                so_far[key] += facts[key]
            so_far["seconds"] = round(so_far["seconds"] + facts["seconds"], 1)
            so_far["slowest_seconds"] = max(so_far["slowest_seconds"], facts["slowest_seconds"])
            so_far["wrong"] += sum(facts["wrong"].values())
    together = {
        "inputs": sum(one["inputs"] for one in pieces),
        "seconds": round(sum(one["seconds"] for one in pieces), 1),
        "peak_mib": max(one["peak_mib"]["after"] for one in pieces),
        "wrong": sum(facts["wrong"] for facts in whole.values()),
    }
    return {"together": together, "readers": whole, "pieces": pieces}


if __name__ == "__main__":
    main()
