"""What a turn of few worlds costs a process, alone and beside others: choosing actions, and moving the worlds.

python benchmarks/turns.py OUT.json [--ways 1x2 tied:1x2 tied:10x2 ...] [--seconds 1.5]

The published recipe's policy for Ant, engine c on one thread. A way is PROCESSESxWORLDS: so many processes at once,
each with so many worlds of its own; `tied:` keeps each on a core, `spread:` too, on every other core first.
Milliseconds per turn of still worlds (choosing alone) and of moving ones: mean over the processes, and the slowest.
OUT.json grows as it goes.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from split_epoch import Still

from wanderlust import api, devices, runs, train
from wanderlust.envs import make_engine
from wanderlust.files import write_json
from wanderlust.train.turns import Collector, Desk, Draws, Log

WAY = re.compile(r"(tied:|spread:)?(\d+)x(\d+)")


class AskedError(Exception):
    """What a driver asks of its crew."""


class Asked:
    """A crew that only passes on what it is asked."""

    def collect(self, *asked: Any) -> NoReturn:
        raise AskedError(asked)


def asked(parts: train.Parts) -> tuple[Any, int, Desk, Draws]:
    """A collection as the driver orders it."""
    try:
        train.SplitDriver(parts, Asked()).collect(train.init(parts))
    except AskedError as wanted:
        return wanted.args[0]
    raise AssertionError("a driver that collects without its crew")


def one(core: int, worlds: int, seconds: float) -> None:
    """One of the processes: measures when it is told to, and prints milliseconds per turn."""
    if core >= 0:
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[core]})
    devices.prepare(1)
    parts = train.assemble(api.configure("ant", recipe="paper", set=(f"schedule.worlds={worlds}",)))
    actor, steps, desk, draws = asked(parts)

    def turns(collector: Collector) -> float:
        collected, began = 0, time.monotonic()
        while time.monotonic() - began < seconds:
            log: Log = collector(actor, steps, desk, draws)
            collected += len(log.turns)
        return (time.monotonic() - began) / collected * 1e3

    both = [Collector(parts, Still()), Collector(parts, make_engine(parts.world, "c", threads=1))]
    for collector in both:
        collector(actor, steps, desk, draws)  # compiles
    _say("ready")
    for collector in both:
        sys.stdin.readline()
        _say(turns(collector))


def _say(*words: Any) -> None:
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


def together(way: str, seconds: float) -> dict[str, Any]:
    """So many processes at once."""
    ((how, count, worlds),) = WAY.findall(way)
    cores = list(range(devices.cores()))
    cores = cores[::2] + cores[1::2] if how == "spread:" else cores
    on = [cores[n % len(cores)] if how else -1 for n in range(int(count))]
    members = [
        subprocess.Popen(
            [sys.executable, __file__, "--one", str(core), worlds, str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )
        for core in on
    ]
    pipes = [(member.stdin, member.stdout) for member in members if member.stdin and member.stdout]
    found: dict[str, Any] = {}
    if not all(answers.readline() for _, answers in pipes):  # ready
        sys.exit(f"{way}: a process has ended; what it said stands above")
    for what in ("still", "moving"):
        for orders, _ in pipes:
            orders.write("\n")
            orders.flush()
        spent = [float(answers.readline()) for _, answers in pipes]
        found[what] = {"mean_ms": sum(spent) / len(spent), "slowest_ms": max(spent)}
    for member in members:
        member.communicate()
    return found


def known_way(text: str) -> str:
    """For argparse: refuse what is no way."""
    if not WAY.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no way; it must be like 10x2, tied:10x2 or spread:10x2")
    return text


def main() -> None:
    """Measure, and write what is known after every way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ways", nargs="*", type=known_way, default=["1x2", "tied:1x2"])
    parser.add_argument("--seconds", type=float, default=1.5)
    args = parser.parse_args()
    given = [x for x in sys.argv[1:] if Path(x) != args.out]
    found: dict[str, Any] = {"command": " ".join(["python benchmarks/turns.py", "OUT.json", *given])}
    machine = {"kind": runs.processor(), "cpu_cores": devices.cores()}
    found |= {"commit": runs.commit(), "device": machine, "seed": 0, "ways": {}}
    for way in args.ways:
        found["ways"][way] = together(way, args.seconds)
        write_json(args.out, found)
        _say(way, found["ways"][way])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        core, worlds, seconds = sys.argv[2:]
        one(int(core), int(worlds), float(seconds))
    else:
        main()
