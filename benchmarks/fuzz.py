"""Change files that a stranger may send, at random, and read them: each ends in a result or in one line (`UserError`).

python benchmarks/fuzz.py --seconds 60 --seed 0

Starts from good files of a tiny run: configuration, provenance, metrics, checkpoint, evaluation, controller, card. A
mutation flips, cuts, repeats or inserts bytes, or replaces a value of the JSON in it, also of that in the header of a
safetensors file, where the checksums of arrays are made to fit again. Prints one JSON object: inputs and seconds, how
many were read and how many refused by each reader, and what was neither: any other exception, more than a second, or a
message of more than one line. Exit code 1 if there was one.
"""

import argparse
import collections
import json
import random
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors.numpy

from wanderlust import train
from wanderlust.config import RunConfig, from_json
from wanderlust.downstream import saved
from wanderlust.downstream.controllers.options import set_up_task
from wanderlust.downstream.solve import solve
from wanderlust.downstream.tasks import make_task
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.runs.checkpoints import check_checkpoint, read_tree
from wanderlust.runs.files import ArrayFile, read_object
from wanderlust.runs.measured import open_rollouts, read_evaluation
from wanderlust.runs.metrics import Counts, read_metrics
from wanderlust.runs.provenance import read_provenance
from wanderlust.runs.run import Run

ODD = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 1e308, -0.0, 0.5, float("nan"), float("inf"), "", "x", "²",
    "\x1b[31m", "a" * 10_000, [], [[]], {}, {"a": 1}, [1, "2"], "NaN", "epoch", "../..", "\x00",
]  # fmt: skip
SLOW = 1.0


def change_value(data: Any, rng: random.Random) -> Any:
    """JSON data with one value, somewhere in it, replaced, dropped, doubled or nested deeply."""
    if isinstance(data, dict) and data and rng.random() < 0.85:
        key = rng.choice(list(data))
        how = rng.random()
        if how < 0.1:
            return {name: value for name, value in data.items() if name != key}
        if how < 0.15:
            return {**data, str(rng.choice(ODD)): rng.choice(ODD)}
        return {**data, key: change_value(data[key], rng)}
    if isinstance(data, list) and data and rng.random() < 0.7:
        at = rng.randrange(len(data))
        return [*data[:at], change_value(data[at], rng), *data[at + 1 :]]
    if rng.random() < 0.02:
        deep: Any = data
        for _ in range(500):
            deep = [deep]
        return deep
    return rng.choice(ODD)


def change_bytes(data: bytes, rng: random.Random) -> bytes:
    """A few bytes flipped, cut, repeated or inserted."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(5)
        if how == 0 and at < len(data):
            data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        elif how == 1:
            data = data[:at]
        elif how == 2:
            data = data[:at] + data[at : at + rng.randrange(40)] * rng.randint(2, 50) + data[at:]
        elif how == 3:
            data = data[:at] + rng.randbytes(rng.randint(1, 8)) + data[at:]
        else:
            data = data[:at] + rng.choice([b"[", b"{", b"9", b"-", b"e", b'"', b"NaN", b"[" * 10_000]) + data[at:]
    return data


def change_text(data: bytes, rng: random.Random) -> bytes:
    """A JSON file, or one of several lines of it, changed as bytes or as a value."""
    if rng.random() < 0.4:
        return change_bytes(data, rng)
    lines = data.split(b"\n") if data.count(b"\n{") else [data]
    at = rng.randrange(len(lines))
    try:
        lines[at] = json.dumps(change_value(json.loads(lines[at]), rng)).encode()
    except ValueError:
        return change_bytes(data, rng)
    return b"\n".join(lines)


def change_arrays(data: bytes, rng: random.Random) -> bytes:
    """A safetensors file, changed as bytes, in its header, in what its metadata say, or in the type of an array."""
    how = rng.random()
    if how < 0.25:
        return change_bytes(data, rng)
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    if how < 0.5:
        text = json.dumps(change_value(header, rng)).encode()
        return len(text).to_bytes(8, "little") + text + body
    about = header.pop("__metadata__", {})
    if how < 0.85:
        name = rng.choice(list(about))
        try:
            about[name] = json.dumps(change_value(json.loads(about[name]), rng))
        except ValueError:
            about[name] = str(rng.choice(ODD))
        text = json.dumps({"__metadata__": about, **header}).encode()
        return len(text).to_bytes(8, "little") + text + body
    arrays = dict(safetensors.numpy.load(data))
    name = rng.choice(list(arrays))
    array = arrays[name]
    odd: list[Callable[[], Any]] = [
        lambda: array.astype(rng.choice([np.float64, np.float16, np.int64, np.uint8, np.bool_])),
        lambda: np.full_like(array, np.nan) if array.dtype.kind == "f" else array[:0],
        lambda: array.reshape(-1),
        lambda: array[:0],
        lambda: np.concatenate([array, array]) if array.ndim else array,
    ]
    with np.errstate(all="ignore"):
        arrays[name] = np.ascontiguousarray(rng.choice(odd)())
    about["crc32"] = json.dumps({key: zlib.crc32(value.tobytes()) for key, value in arrays.items()})
    return bytes(safetensors.numpy.save(arrays, about))


def readers(folder: Path) -> dict[str, tuple[bytes, Callable[[bytes, random.Random], bytes], Callable[[Path], Any]]]:
    """What is read, by name: a good file, what changes it, and what reads it."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from helpers import tiny_config
    from wanderlust.train import loop, stages

    run = stages.start(tiny_config(), folder / "run")
    loop.run_training(run, quiet=True)
    evaluate(run, episodes=5)
    solve(run, "point-goal", "sac", seeds=1, epochs=1, worlds=2, episodes=2, quiet=True)
    parts = train.assemble(run.config)
    setup, form = set_up_task(parts, make_task("point-goal")), train.saved_form(parts)

    def checkpoint(path: Path) -> Any:
        file = ArrayFile(path)
        check_checkpoint(file, 4)
        Counts.of_text(file.about.get("counts", ""))
        return read_tree(file, form.learner, "learner")

    def controller(path: Path) -> Any:
        return saved.load(path, saved.FORMAT, parts, setup)

    def rollouts(path: Path) -> Any:
        file = open_rollouts(path.parent, 1)
        return [file.read(name) for name in file.shapes()]

    def configuration(path: Path) -> Any:
        return from_json(RunConfig, path.read_bytes().decode(errors="replace"), "config")

    results = run.path / "downstream" / "point-goal-sac"
    good = {
        "config.json": (
            run.path / "config.json",
            change_text,
            configuration,
        ),
        "run/config.json": (run.path / "config.json", change_text, lambda path: Run.open(path.parent)),
        "provenance.json": (run.path / "provenance.json", change_text, read_provenance),
        "metrics.jsonl": (run.path / "metrics.jsonl", change_text, read_metrics),
        "evaluation.json": (run.evaluation / "evaluation.json", change_text, lambda path: read_evaluation(path.parent)),
        "rollouts.safetensors": (run.evaluation / "rollouts.safetensors", change_arrays, rollouts),
        "checkpoint.safetensors": (run.checkpoints()[4], change_arrays, checkpoint),
        "controller.safetensors": (results / "controller.safetensors", change_arrays, controller),
        "result.json": (results / "result.json", change_text, lambda path: read_object(path, "the result")),
    }
    return {name: (path.read_bytes(), change, read) for name, (path, change, read) in good.items()}


def fuzz(seconds: float, seed: int, folder: Path) -> dict[str, Any]:
    """Change and read until the time is up."""
    rng, kinds = random.Random(seed), readers(folder)
    counts: dict[str, collections.Counter[str]] = {name: collections.Counter() for name in kinds}
    wrong: collections.Counter[str] = collections.Counter()
    began, inputs = time.monotonic(), 0
    sys.stderr = open("/dev/null", "w")  # noqa: SIM115 - what is only said of damaged files
    while time.monotonic() - began < seconds:
        name = rng.choice(list(kinds))
        data, change, read = kinds[name]
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(change(data, rng))
        inputs, since = inputs + 1, time.monotonic()
        try:
            read(path)
            counts[name]["read"] += 1
        except UserError as error:
            counts[name]["refused"] += 1
            if len(str(error)) > 2100 or not str(error).isprintable():
                wrong[f"{name}: a message that is not one line: {type(error).__name__}"] += 1
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            wrong[f"{name}: {type(error).__name__} at {Path(last.filename).name}:{last.lineno}"] += 1
        if time.monotonic() - since > SLOW:
            wrong[f"{name}: took more than {SLOW} s"] += 1
    sys.stderr = sys.__stderr__
    return {
        "inputs": inputs,
        "seconds": round(time.monotonic() - began, 1),
        "seed": seed,
        "by_reader": {name: dict(count) for name, count in counts.items()},
        "wrong": dict(wrong),
    }


def main() -> None:
    """Fuzz, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    with tempfile.TemporaryDirectory() as folder:
        result = fuzz(asked.seconds, asked.seed, Path(folder))
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    sys.exit(1 if result["wrong"] else 0)


if __name__ == "__main__":
    main()
