"""Small runs that several test files share: trained once, never changed. A test that changes one takes a copy."""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from helpers import tiny_config
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.runs.run import Run
from wanderlust.train import loop, stages

_folder = tempfile.TemporaryDirectory(prefix="wanderlust-runs-")


def trained(method: str = "lsd", discrete: int | None = None, seeds: int = 1) -> Run:
    """A finished and evaluated tiny run of four epochs, with checkpoints of epochs 2 and 4."""
    return _trained(method, discrete, seeds)  # one run, however its arguments are written


@functools.cache
def _trained(method: str, discrete: int | None, seeds: int) -> Run:
    config = tiny_config(method, discrete, seeds)
    run = stages.start(config, Path(_folder.name) / f"{config.name}-{seeds}")
    loop.run_training(run, quiet=True)
    evaluate(run, episodes=20)
    return run


def copy_of(run: Run, path: Path) -> Run:
    """A copy of a run that may be changed."""
    shutil.copytree(run.path, path)
    return Run(path, run.config)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, and what is in it; folders end in a slash."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found.update({name: path.read_bytes()} if path.is_file() else {f"{name}/": b""})
    return found


def start_python(*args: str | Path, cwd: Path) -> "subprocess.Popen[str]":
    """A Python process of its own, with the suite's cache of compiled programs."""
    return subprocess.Popen(
        [sys.executable, *map(str, args)],
        cwd=cwd,
        env={**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "PYTHONWARNINGS": "default"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_python(*args: str | Path, cwd: Path, timeout: float = 120) -> tuple[int, str, str]:
    """Run a Python process to its end: exit code, output, errors."""
    process = start_python(*args, cwd=cwd)
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return process.returncode, out, err
