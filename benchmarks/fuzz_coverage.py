"""The readers of `fuzz.py` that are Python alone, fuzzed by coverage: inputs that reach new lines are changed further.

pip install atheris; python benchmarks/fuzz_coverage.py --seconds 150 --out benchmarks/results/fuzz_coverage.json

atheris counts the branches of Wanderlust's own modules that an input reaches, libFuzzer changes inputs by that. The
first byte of an input says which reader it is for. Prints and writes one JSON object: inputs, seconds, the statistics
of libFuzzer, and what was neither a result nor a `UserError`; exit code 1 if there was any.
"""

import argparse
import contextlib
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

MODULES = ("config", "runs", "envs.models", "sweeps.plan", "sweeps.standing", "report.comparison", "report.document")
PURE = (
    "configuration", "run folder", "provenance", "metrics", "standing in a sweep", "evaluation", "pace", "rollouts",
    "zoo card", "zoo configuration", "sweep grid", "MJCF model", "URDF model", "model beside a run", "trial", "codes",
    "report of an evaluation", "report of a task", "report of a card",
)  # fmt: skip
ROOM = 4 * 2**30


def inside(folder: Path, seconds: float, seed: int) -> None:
    """The process that libFuzzer runs in and ends."""
    import atheris

    with atheris.instrument_imports(include=[f"wanderlust.{name}" for name in MODULES], enable_loader_override=False):
        import fuzz_readers
    import random

    from wanderlust.errors import UserError

    kinds = fuzz_readers.readers(fuzz_readers.tiny_run(folder / "files"))
    chosen = [kinds[name] for name in PURE]
    corpus, draw = folder / "corpus", random.Random(seed)
    corpus.mkdir()
    good = [reader.path.read_bytes() if reader.path.exists() else None for reader in chosen]
    for n, reader in enumerate(chosen):
        whole = good[n]
        for k, data in enumerate([*([whole] if whole else []), *(reader.changes[0](draw) for _ in range(20))]):
            (corpus / f"{n}-{k}").write_bytes(bytes([n]) + data)
    wrong: Counter[str] = Counter()

    def one(data: bytes) -> None:
        n = data[0] % len(chosen) if data else 0
        reader = chosen[n]
        reader.path.write_bytes(data[1:])
        try:
            reader.read()
        except UserError:
            pass
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            wrong[f"{PURE[n]}: {type(error).__name__} at {Path(last.filename).name}:{last.lineno}"] += 1
            (folder / "wrong.json").write_text(json.dumps(wrong))
        finally:
            if (whole := good[n]) is not None:
                reader.path.write_bytes(whole)

    now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, resource.getrlimit(resource.RLIMIT_AS)[1]))
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - what is only said of damaged files
    limits = [f"-max_total_time={seconds:.0f}", "-timeout=10", "-rss_limit_mb=0", "-max_len=65536", f"-seed={seed}"]
    atheris.Setup([sys.argv[0], *limits, "-print_final_stats=1", str(corpus)], one)
    atheris.Fuzz()


def main() -> None:
    """Fuzz in a process of its own, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        inside(asked.inside, asked.seconds, asked.seed)
    from wanderlust.runs.files import write_json
    from wanderlust.runs.provenance import commit, processor

    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        numbers = [f"--seconds={asked.seconds}", f"--seed={asked.seed}", f"--inside={folder}"]
        Path(folder, "files").mkdir()
        env = {**os.environ, "JAX_PLATFORMS": "cpu"}
        done = subprocess.run([sys.executable, __file__, *numbers], capture_output=True, env=env)
        said = done.stderr.decode(errors="replace")
        wrong = {}
        with contextlib.suppress(OSError):
            wrong = json.loads(Path(folder, "wrong.json").read_text())
    stats = {name: int(value) for name, value in re.findall(r"stat::(\w+):\s+(\d+)", said)}
    reached = re.findall(r"#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+)", said)
    if not stats:
        sys.exit(f"libFuzzer ended early ({done.returncode}): {said[-2000:]}")
    found = {
        "command": shlex.join(["python", *sys.argv]),
        "commit": commit(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cpu": processor(), "cores": os.cpu_count()},
        "seed": asked.seed,
        "inputs": stats.get("number_of_executed_units"),
        "seconds": asked.seconds,
        "coverage": {"first": list(map(int, reached[0])), "last": list(map(int, reached[-1]))} if reached else None,
        "libfuzzer": stats,
        "wrong": wrong,
    }
    if asked.out:
        write_json(asked.out, found)
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    sys.exit(1 if wrong or done.returncode else 0)


if __name__ == "__main__":
    main()
