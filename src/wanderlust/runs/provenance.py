"""Where and with what a run happens: provenance.json."""

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
from wanderlust.errors import UserError
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


ENTRIES = {"command": str, "commit": str, "time": str, "device": dict, "versions": dict, "resumed": list}
"""Of provenance.json, as far as they are read; any may be missing."""
LONGEST_LINE = 100
"""Runs that began with each other, one after the other."""


def read_provenance(path: Path) -> dict[str, Any]:
    """What provenance.json says of how a run was made, checked; nothing if there is no such file."""
    try:
        found = read_object(path, "the run's provenance") if path.exists() else {}
        if wrong := _wrong_entry(found):
            raise UserError(f"{path} is damaged: {wrong} is not what it should be")
    except UserError as error:
        raise UserError(f"{error}; delete it to go on without it") from None
    return found


def _wrong_entry(found: Mapping[str, Any]) -> str | None:
    """The first entry of a provenance, or of one it began with, that is not of its type."""
    for _ in range(LONGEST_LINE):
        for name, kind in ENTRIES.items():
            if not isinstance(found.get(name), kind | None):
                return name
        before = found.get("began_with")
        if before is None:
            return None
        if not isinstance(before, dict) or not isinstance(before.get("epoch"), int):
            return "began_with"
        found = before
    return "began_with"


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
    here = Path(__file__).resolve().parent
    try:
        ours = subprocess.run(
            ["git", "ls-files", "--error-unmatch", __file__], cwd=here, capture_output=True, timeout=10
        )
        if ours.returncode:
            return None
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=10)
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--", here], cwd=here, capture_output=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return head.stdout.strip() + ("+" if changed.stdout else "") or None


def processor() -> str:
    """The name of the CPU."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
