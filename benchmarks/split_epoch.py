"""Where an epoch of the published recipe goes when the worlds are moved by MuJoCo on the host.

python benchmarks/split_epoch.py OUT.json [--ways driver 2x8 15p ...] [--desk gpu] [--desk-cores 4] [--epochs 20]

Ant, 20 worlds, seed 0. A way is GROUPSxTHREADS: how many groups the worlds go in, each with a thread of its own, and
how many threads move each; PROCESSESp: so many processes; `driver`: the driver's own; `still`: threads again with
worlds that stay where they are, which is what is left without physics. Actions are chosen at the desk, on the CPU or
on the GPU (`driver`: where the driver has it); it may have cores of its own, which physics then leaves alone.
Each way's first steps are compared with those of one thread that has the same desk: how far they are apart is in
OUT.json, which grows as it goes.
"""

import argparse
import dataclasses
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from wanderlust import api, devices, runs, train
from wanderlust.config import Engine as EngineName
from wanderlust.envs.base import Physical
from wanderlust.envs.physics import CEngine
from wanderlust.files import write_json
from wanderlust.train.crews import Crew, Threads
from wanderlust.train.processes import Processes
from wanderlust.train.turns import Log


@dataclasses.dataclass(frozen=True)
class Still:
    """An engine that moves nothing."""

    name: EngineName = "c"
    compiles: bool = False

    def step(self, state: Physical, action: Any) -> Physical:
        return state

    def for_callers(self, count: int) -> "Still":
        return self

    def check(self) -> None:
        pass


FIRST = 5
"""Steps in which two ways to choose actions can be compared: what they round otherwise has not grown yet."""


def first_steps(parts: train.Parts, desk_on_host: bool) -> Log:
    """A collection's beginning, as one thread has it that asks the same device for actions.

    Another device would not do: a GPU multiplies with ten bits of each factor, and Ant's legs make of a thousandth of
    an action some tenths of a radian per second within five steps.
    """
    here = Threads(parts, 1, jax.devices("cpu")[0] if desk_on_host else None)
    return train.SplitDriver(parts, here).collect(train.init(parts), FIRST)[1]


def apart(log: Log, other: Log) -> float:
    """The largest difference of any number."""
    return max(float(np.abs(ours - theirs).max()) for ours, theirs in zip(log, other, strict=True))


def epochs(parts: train.Parts, crew: Crew | None, count: int, first: Log | None) -> dict[str, Any]:
    """Seconds per epoch, in four turns, and what of one is collecting; the first two epochs are not yet warm."""
    state, advance = train.init(parts), train.SplitDriver(parts, crew)
    began = time.monotonic()
    state, _ = jax.block_until_ready(advance(state, 0))
    compiled = time.monotonic() - began
    differ_by = None if first is None else apart(advance.collect(state, FIRST)[1], first)
    state, _ = jax.block_until_ready(advance(state, 2))
    spent = []
    for _ in range(4):
        began = time.monotonic()
        state, _ = jax.block_until_ready(advance(state, count // 4))
        spent.append((time.monotonic() - began) / (count // 4))
    collecting, learning = [], []
    for _ in range(4):
        began = time.monotonic()
        keys, log = advance.collect(state)
        collected = time.monotonic()
        state, _ = jax.block_until_ready(advance.learn(state, keys, log))
        collecting.append(collected - began)
        learning.append(time.monotonic() - collected)
    return {
        "compile_seconds": compiled,
        "first_steps_differ_by": differ_by,
        "epochs": 4 * (count // 4),
        "seconds_per_epoch": spent,
        "seconds_of_collecting": collecting,
        "seconds_of_learning": learning,
    }


def physics(parts: train.Parts, worlds: int) -> float:
    """Milliseconds of one control step of so many worlds."""
    state = jax.device_get(jax.tree.map(lambda x: x[0, :worlds], train.init(parts).worlds.state))
    action = np.zeros((worlds, parts.world.spec.action_dim), np.float32)
    parts.engine.step(state, action)
    began = time.monotonic()
    for _ in range(200):
        parts.engine.step(state, action)
    return (time.monotonic() - began) / 200 * 1e3


WAY = re.compile(r"([1-9]\d*)(?:p|x([1-9]\d*))")


def known_way(text: str) -> str:
    """For argparse: refuse what is no way."""
    if text not in ("driver", "still") and not WAY.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no way; it must be driver, still, 2x8 (threads) or 15p (processes)"
        )
    return text


def make(parts: train.Parts, way: str, desk_on_host: bool) -> Crew:
    """The crew of a way."""
    desk = jax.devices("cpu")[0] if desk_on_host else None
    if way == "still":
        return Threads(dataclasses.replace(parts, engine=Still()), 2, desk)
    ((count, each),) = WAY.findall(way)
    if not each:
        return Processes(parts, int(count), desk)
    engine = CEngine(parts.world, int(count) * int(each))
    return Threads(dataclasses.replace(parts, engine=engine), int(count), desk)


def keep_apart(desk_cores: int) -> None:
    """Let JAX start with so many cores, and everything after it with the others: threads stay where they begin."""
    mine = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, mine[:desk_cores])
    jax.devices()
    os.sched_setaffinity(0, mine[desk_cores:])


def main() -> None:
    """Measure, and write what is known after every step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="where results go, OUT.json")
    parser.add_argument("changes", nargs="*", help="changes of the recipe, e.g. schedule.worlds=10")
    parser.add_argument("--ways", nargs="*", type=known_way, default=["driver", "still"], help="who moves worlds")
    parser.add_argument("--desk", choices=("cpu", "gpu"), default="cpu", help="where actions are chosen")
    parser.add_argument("--desk-cores", type=int, default=0, help="cores that physics leaves to the desk")
    parser.add_argument("--epochs", type=int, default=20, help="to be timed, in four turns: at least four")
    args = parser.parse_intermixed_args()
    if args.epochs < 4:
        parser.error(f"--epochs is {args.epochs}; it must be at least 4")

    devices.prepare(1)
    if args.desk_cores:
        keep_apart(args.desk_cores)
    parts = train.assemble(api.configure("ant", recipe="paper", set=tuple(args.changes)))
    given = [x for x in sys.argv[1:] if Path(x) != args.out]
    found: dict[str, Any] = {"command": " ".join(["python benchmarks/split_epoch.py", "OUT.json", *given])}
    found |= {"xla_flags": os.environ.get("XLA_FLAGS", "")}
    found |= {"commit": runs.commit(), "device": devices.describe(), "cpu_cores": devices.cores(), "seed": 0}
    found["physics_ms_per_step"] = {
        f"{worlds} worlds, {threads} threads": physics(
            dataclasses.replace(parts, engine=CEngine(parts.world, threads)), worlds
        )
        for worlds, threads in ((5, 5), (10, 5), (10, 8), (10, 10), (20, 10), (20, 16))
        if threads <= devices.cores()
    }
    found["ways"], first = {}, first_steps(parts, args.desk == "cpu")
    for way in args.ways:
        crew = None if way == "driver" else make(parts, way, args.desk == "cpu")
        found["ways"][way] = epochs(parts, crew, args.epochs, None if way == "still" else first)
        write_json(args.out, found)


if __name__ == "__main__":
    main()
