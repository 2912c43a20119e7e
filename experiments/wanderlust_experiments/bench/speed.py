"""Measure physics and updates; the results as JSON and as a table."""

import importlib
import importlib.util
import itertools
import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
from rich.table import Table

from wanderlust.envs.devices import cores
from wanderlust.envs.engines.warp import import_mujoco_warp
from wanderlust.errors import UserError
from wanderlust.registry import WORLDS
from wanderlust.report.progress import progress
from wanderlust.runs.provenance import PACKAGES, command, commit, processor, version
from wanderlust.sweeps.tables import count
from wanderlust_experiments.bench.measure import ROUNDS
from wanderlust_experiments.bench.physics import BenchEngine, identity, measure_physics, physics_groups, workers
from wanderlust_experiments.bench.robotics import IDS
from wanderlust_experiments.bench.updates import measure_updates, update_configs

Part = Literal["physics", "updates"]


def bench(
    env: str = "ant",
    engines: Sequence[BenchEngine] | None = None,
    worlds: Sequence[int] | None = None,
    threads: Sequence[int] | None = None,
    seconds: float = 2.0,
    only: Part | None = None,
    quiet: bool = False,
    keep: Callable[[dict[str, Any]], None] = lambda result: None,
) -> dict[str, Any]:
    """Measure physics and updates; the results, ready for JSON. `keep` gets what there is whenever there is more."""
    _check(env, worlds, threads, seconds)
    threads = tuple(dict.fromkeys(threads or (1, cores())))
    engines = tuple(dict.fromkeys(engines or _engines_here()))
    if "warp" in engines:
        import_mujoco_warp()
    peers, missing = _peers(env) if only != "updates" else (set(), {})
    groups = list(physics_groups(env, engines, worlds, threads, peers)) if only != "updates" else []
    configs = list(update_configs(env)) if only != "physics" else []
    result: dict[str, Any] = {
        "provenance": _provenance(),
        "env": env,
        "seconds_per_measurement": seconds,
        "rounds": ROUNDS,
        "missing": missing,
        "physics": [],
        "ratios": [],
        "updates": [],
        "complete": False,
    }
    began = time.monotonic()
    with progress(sum(map(len, groups)) + len(configs), "measurement", quiet=quiet) as line:
        for more in itertools.chain(measure_physics(groups, seconds, line), measure_updates(configs, seconds, line)):
            for kind, rows in more.items():
                result[kind] += rows
            keep(result | {"took_seconds": time.monotonic() - began})
    result |= {"complete": True, "took_seconds": time.monotonic() - began}
    keep(result)
    return result


def _check(env: str, worlds: Sequence[int] | None, threads: Sequence[int] | None, seconds: float) -> None:
    comparable = [name for name in WORLDS.names() if getattr(WORLDS.get(name), "gymnasium", None) or name in IDS]
    if env not in comparable:
        raise UserError(f"--env is {env}; it must be one of {', '.join(comparable)}")
    for flag, values in (("--worlds", worlds), ("--threads", threads)):
        if values is not None and (not values or min(values) < 1):
            raise UserError(f"{flag} is {' '.join(map(str, values)) or 'empty'}; it must be whole numbers from 1 on")
    if not 0 < seconds <= 3600:
        raise UserError(f"--seconds is {seconds}; it must be positive, and an hour at most")


def _engines_here() -> tuple[BenchEngine, ...]:
    """`c` everywhere, `warp` where there is a GPU and it is installed."""
    if jax.default_backend() == "cpu":
        return ("c",)
    try:
        import_mujoco_warp()
    except UserError:
        return ("c",)
    return ("c", "warp")


NEEDS = {
    "envpool": (("envpool",), "not installed: the package envpool has it"),
    "async": (("imageio", "glfw"), "not installed: Gymnasium's own bodies need the extra gymnasium[mujoco]"),
    "sync": (("gymnasium_robotics",), "not installed: the extra wanderlust[fetch] has it"),
}
"""The modules without which a peer cannot run, and what to say then."""


def _peers(env: str) -> tuple[set[str], dict[str, str]]:
    """What else there is to compare with, and why the rest is missing."""
    rivals = {"sync"} if env in IDS else {"envpool", "async"}
    reasons = {name: _why_missing(*needs) for name, needs in NEEDS.items() if name in rivals}
    missing = {name: why for name, why in reasons.items() if why is not None}
    return rivals - set(missing), missing


def _why_missing(modules: tuple[str, ...], if_not_installed: str) -> str | None:
    if any(importlib.util.find_spec(module) is None for module in modules):
        return if_not_installed
    try:
        for module in modules:
            importlib.import_module(module)
    except Exception as error:  # whatever it is, a missing library of the system's, say: not ours, and no reason to end
        return f"installed, but cannot be loaded: {' '.join(str(error).split()) or type(error).__name__}"
    return None


def _provenance() -> dict[str, Any]:
    device = jax.devices()[0]
    return {
        "command": command(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in (*PACKAGES, "envpool")}},
        "device": {
            "platform": device.platform,
            "kind": processor() if device.platform == "cpu" else device.device_kind,
            "cpu": processor(),
            "cpu_cores": os.cpu_count(),
        },
    }


def default_path(result: dict[str, Any]) -> Path:
    """Where results go unless said otherwise: runs/results/bench_<device>.json."""
    device = result["provenance"]["device"]
    name = device["kind"] + (f" {device['cpu_cores']} cores" if device["platform"] == "cpu" else "")
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return Path("runs/results") / f"bench_{slug}.json"


def table(result: dict[str, Any]) -> Table:
    """The results as a person reads them."""
    against = {tuple(entry["theirs"].values()): entry["ratio"] for entry in result["ratios"]}
    title = f"{result['env']}, {result['provenance']['device']['kind']}"
    made = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("", "size", "on"):
        made.add_column(column, no_wrap=True)
    for column in ("per s", "range", "compile", "c / this"):
        made.add_column(column, no_wrap=True, justify="right")
    for row in result["physics"]:
        ours = against.get(tuple(identity(row).values()))
        times = f"{ours['median']:.2f}" if ours else ""
        size = count(row["worlds"], "world")
        made.add_row(f"{row['engine']} steps", size, workers(row), *_cells(row["steps_per_second"], row), times)
    for row in result["updates"]:
        size, seeds = f"batch {row['batch']}", count(row["seeds"], "seed")
        made.add_row(f"{row['recipe']} updates", size, seeds, *_cells(row["updates_per_second"], row), "")
    return made


def _cells(rate: dict[str, Any], row: dict[str, Any]) -> tuple[str, str, str]:
    digits = 0 if rate["median"] >= 100 else 1
    seconds = "" if row["compile_seconds"] is None else f"{row['compile_seconds']:.1f} s"
    return f"{rate['median']:,.{digits}f}", f"{rate['lowest']:,.{digits}f}-{rate['highest']:,.{digits}f}", seconds
