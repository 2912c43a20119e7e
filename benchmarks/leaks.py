"""What is left behind: memory, threads, open files, processes, shared memory and temporary files, in numbers.

python benchmarks/leaks.py ant --seconds 150 --work runs/leaks --out benchmarks/results/leaks.json    may be repeated
python benchmarks/leaks.py vector --times 50 --worlds 1024 --out benchmarks/results/leaks.json
python benchmarks/leaks.py kill --out benchmarks/results/leaks.json

`ant` trains Ant on the engine c, with short epochs, checkpoints and looks at the skills, and looks at itself after
every chunk of epochs; called again it goes on with the same run. The slope is that of a straight line through the
memory of the second half, in KiB per 1,000 epochs. `vector` opens, steps and closes vector environments. `kill`
starts commands in sessions of their own, one of them with processes of Gymnasium environments, kills them, and looks
what is left.
"""

import argparse
import dataclasses
import gc
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wanderlust.runs.files import write_json
from wanderlust.runs.provenance import commit, processor


def names(folder: str) -> list[str]:
    """What is in a folder."""
    return [path.name for path in Path(folder).iterdir()]


def look() -> dict[str, int]:
    """What this process has, and what it could leave behind."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "kib": pages * os.sysconf("SC_PAGE_SIZE") // 1024,
        "threads": threading.active_count(),
        "all_threads": len(names("/proc/self/task")),
        "files": len(names("/proc/self/fd")),
        "children": len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()),
        **left_behind(),
    }


def left_behind() -> dict[str, int]:
    """Shared memory, and temporary files and folders of ours."""
    temporary = [name for name in names(tempfile.gettempdir()) if name.startswith(("wanderlust", "pymp-"))]
    return {"shared": len(names("/dev/shm")), "temporary": len(temporary)}


def slope(x: list[float], y: list[float]) -> float:
    """Of a straight line through the second half of some points."""
    half = len(x) // 2
    return float(np.polyfit(x[half:], y[half:], 1)[0]) if len(x) - half > 1 else float("nan")


def ant(asked: argparse.Namespace) -> dict[str, Any]:
    """Train, and look after every chunk."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from helpers import tiny_config
    from wanderlust.envs import devices
    from wanderlust.envs.worlds.body import BodyConfig
    from wanderlust.runs.run import Run
    from wanderlust.train import loop
    from wanderlust.train.journal import Journal

    config = tiny_config(
        epochs=10**6, engine="c", driver="split", schedule_worlds=16, log_every=10, checkpoint_every=100, look_every=50
    )
    config = dataclasses.replace(config, env=BodyConfig("ant", episode_length=50))
    devices.prepare()
    run = Run.open(asked.work) if (asked.work / "config.json").exists() else Run.create(asked.work, config)
    seen: list[tuple[int, dict[str, int]]] = []
    keep: Callable[..., None] = Journal.keep

    def kept(self: Journal, row: dict[str, Any], *rest: Any, **options: Any) -> None:
        keep(self, row, *rest, **options)
        seen.append((row["epoch"], look()))

    setattr(Journal, "keep", kept)  # noqa: B010 - to a type checker it is no attribute to set
    outcome = loop.run_training(run, budget_seconds=asked.seconds, quiet=True)
    epochs, looks = [float(epoch) for epoch, _ in seen], [facts for _, facts in seen]
    gc.collect()
    return {
        "about": "Ant, engine c, 16 worlds, checkpoint every 100 epochs, look at 200 skills every 500",
        "epochs": [int(epochs[0]), outcome.epoch],
        "seconds": asked.seconds,
        "kib_per_1000_epochs": round(1000 * slope(epochs, [facts["kib"] for facts in looks]), 1),
        "at_a_tenth": looks[len(looks) // 10],
        "at_the_end": looks[-1],
    }


def vector(asked: argparse.Namespace) -> dict[str, Any]:
    """Open, step and close environments, again and again."""
    import wanderlust

    looks = []
    for _ in range(asked.times):
        env = wanderlust.make_vec("ant", asked.worlds, threads=1)
        env.reset(seed=0)
        for _ in range(2):
            env.step(np.zeros(env.action_space.shape, np.float32))
        env.close()
        del env
        looks.append(look())
    times = list(map(float, range(asked.times)))
    return {
        "about": f"vector environments of {asked.worlds} Ants, opened, stepped twice and closed",
        "times": asked.times,
        "kib_per_environment": round(slope(times, [facts["kib"] for facts in looks]), 1),
        "after_the_fifth": looks[min(4, len(looks) - 1)],
        "at_the_end": looks[-1],
    }


def kill(asked: argparse.Namespace) -> dict[str, Any]:
    """Kill commands in the middle of their work; what they left is gone, or cleared by the next command."""
    found = {}
    for name, words in {
        "a run of Ant": ["discover", "ant", "--set", "sac.hidden=[16,16]", "--set", "method.hidden=[16,16]"],
        "a run of a Gymnasium environment": ["discover", "gymnasium:Pendulum-v1", "--set", "sac.hidden=[16,16]"],
    }.items():
        with tempfile.TemporaryDirectory() as folder:
            before = left_behind()
            command = [sys.executable, "-m", "wanderlust", *words, "--out", f"{folder}/run", "--set", "log_every=1"]
            process = subprocess.Popen(
                [*command, "--set", "checkpoint_every=1"],
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            until = time.monotonic() + 120
            while not list(Path(folder).glob("run/checkpoints/epoch-*")) and time.monotonic() < until:
                time.sleep(0.1)
            working = of_session(process.pid)
            process.send_signal(signal.SIGKILL)
            process.wait()
            time.sleep(asked.seconds_after)
            after = left_behind()
            found[name] = {
                "processes_while_working": len(working),
                "processes_left": len(of_session(process.pid)),
                **{f"{what}_left": after[what] - before[what] for what in after},
                "files_half_written": len(list(Path(folder).rglob("*.tmp"))),
                "checkpoints": len(list(Path(folder).glob("run/checkpoints/epoch-*"))),
            }
    return {"about": f"{asked.seconds_after:g} s after SIGKILL", "commands": found}


def of_session(leader: int) -> list[int]:
    """The processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[3]) == leader and words[0] != "Z":
                found.append(int(entry.name))
    return found


def main() -> None:
    """Look, and say what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ant", "vector", "kill"))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seconds-after", type=float, default=5.0)
    parser.add_argument("--work", type=Path, default=Path("runs/leaks"))
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--worlds", type=int, default=1024)
    parser.add_argument("--out", type=Path, help="a file of JSON that this is added to")
    asked = parser.parse_args()
    found = {
        "what": asked.what,
        **{"ant": ant, "vector": vector, "kill": kill}[asked.what](asked),
        "command": shlex.join(["python", *sys.argv]),
        "commit": commit(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cpu": processor(), "cores": os.cpu_count(), "python": platform.python_version()},
    }
    if asked.out:
        pieces = json.loads(asked.out.read_text())["pieces"] if asked.out.exists() else []
        write_json(asked.out, {"pieces": [*pieces, found]})
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
