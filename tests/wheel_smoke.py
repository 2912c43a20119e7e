"""Try an installed wheel: `make wheel` runs this in an environment without the checkout."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import wanderlust


def call(*args: object) -> str:
    command = [sys.executable, "-m", "wanderlust", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


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
    print("the wheel works: list, reproduce, zoo, discover")


main()
