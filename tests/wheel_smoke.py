"""Try an installed wheel: `make wheel` runs this in an environment without the checkout."""

import importlib.util
import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import wanderlust


def call(*args: object) -> str:
    command = [sys.executable, "-m", "wanderlust", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def explored() -> None:
    """The explorer opens with the zoo that is in the wheel, and answers on this machine alone."""
    if importlib.util.find_spec("viser") is None:
        sys.exit("explore needs the extra explorer, which the environment of the tests has")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "wanderlust", "explore", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line + (process.communicate()[1] if process.poll() is not None else "")
        with urllib.request.urlopen(found.group(), timeout=60) as page:
            assert page.status == 200
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0, process.returncode


def main() -> None:
    home = Path(wanderlust.__file__)
    assert home.is_relative_to(sys.prefix), f"the checkout is imported instead of the wheel: {home}"
    assert "zoo" in call("list")
    assert "point-goals" in call("reproduce", "--help")
    skills = wanderlust.load("zoo:ant")
    assert skills.act([0.0] * skills.spec.obs_dim, [1.0] + [0.0] * (skills.skill_dim - 1)).shape == (8,)
    with tempfile.TemporaryDirectory() as folder:
        call("discover", "point", "--budget-steps", 1_000, "--out", f"{folder}/run")
        found = json.loads(Path(f"{folder}/run/evaluation/evaluation.json").read_text())
        assert found, "an evaluation without content"
    explored()
    print("the wheel works: list, reproduce, zoo, discover, explore")


main()
