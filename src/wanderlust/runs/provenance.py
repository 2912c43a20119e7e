"""Where and with what a run happens: provenance.json."""

import contextlib
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from wanderlust.config import RunConfig
from wanderlust.errors import UserError, notice
from wanderlust.runs.files import read_object

PHYSICS = ("mujoco", "mujoco-mjx", "warp-lang", "gymnasium")
PACKAGES = ("wanderlust", "jax", "jaxlib", "equinox", "optax", "numpy", *PHYSICS)


def provenance(config: RunConfig) -> dict[str, Any]:
    """Where and with what a run happens."""
    device = jax.devices()[0]
    return {
        "command": command(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "device": {
            "platform": device.platform,
            "kind": processor() if device.platform == "cpu" else device.device_kind,
            "count": len(jax.devices()),
            "cpu_cores": os.cpu_count(),
        },
        "precision": {
            "arrays": "float32",
            "matmul": str(getattr(jax.config, "jax_default_matmul_precision", None) or "default"),
        },
        "engine": config.engine,
        "driver": config.driver,
    }


ENTRIES = {
    "command": str,
    "commit": str,
    "time": str,
    "device": dict,
    "versions": dict,
    "resumed": list,
    "rolled_back": list,
    "note": str,
}
"""Of provenance.json, as far as they are read; any may be missing."""
LONGEST_LINE = 100
"""Runs that began with each other, one after the other."""


def read_provenance(path: Path) -> dict[str, Any]:
    """What provenance.json says of how a run was made, checked; nothing if it is not there, or damaged: it says so."""
    if not os.path.lexists(path):
        return {}
    try:
        found = read_object(path, "the run's provenance")
        _check_entries(found, path, LONGEST_LINE)
    except UserError as error:
        notice(f"{error}; how the run was made is not known")
        return {}
    return found


def _check_entries(found: Mapping[str, Any], path: Path, most: int) -> None:
    """Refuse entries that are not of their types, also in the provenance of what the run began with."""
    wrong = [name for name, kind in ENTRIES.items() if not isinstance(found.get(name), kind | None)]
    before = found.get("began_with")
    if before is not None and not (most and isinstance(before, dict) and isinstance(before.get("epoch"), int)):
        wrong.append("began_with")
    if wrong:
        raise UserError(f"{path} is damaged: {wrong[0]} is not what it should be")
    if before is not None:
        _check_entries(before, path, most - 1)


def command() -> str:
    """The command line that is running."""
    program = Path(sys.argv[0]).name
    words = ["python", "-m", "wanderlust"] if program == "__main__.py" else [program]
    return shlex.join([*words, *sys.argv[1:]])


def version(package: str) -> str | None:
    """The installed version of a package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """The commit of the source, with + if it was changed since; None for an installed package.

    WANDERLUST_COMMIT says it where the source travels without its history.
    """
    if said := os.environ.get("WANDERLUST_COMMIT"):
        return said
    try:
        if not _git("ls-files", "--", __file__):
            return None
        return _git("rev-parse", "HEAD") + ("+" if _git("status", "--porcelain", "--", ".") else "") or None
    except (OSError, subprocess.TimeoutExpired):
        return None


def _git(*words: str) -> str:
    """What git says in the folder of the package; nothing if it fails."""
    package = Path(__file__).resolve().parents[1]
    said = subprocess.run(["git", *words], cwd=package, capture_output=True, timeout=10).stdout
    return said.decode(errors="replace").strip()


def processor() -> str:
    """The name of the CPU."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
