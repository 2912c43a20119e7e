"""Every example runs."""

import importlib
import json
import runpy
import sys
import tempfile
from pathlib import Path

import pytest

from trained import trained

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(path.name for path in FOLDER.glob("*.py"))

SMALL = {
    "schedule.worlds": 8,
    "schedule.steps": 10,
    "schedule.sac_steps": 1,
    "schedule.method_steps": 1,
    "schedule.sac_batch": 16,
    "sac.hidden": [8, 8],
    "method.hidden": [8, 8],
    "log_every": 1,
    "checkpoint_every": 1,
}
"""Changes to a run that is to be short."""

SAYS = {
    "act.py": "leads from (0, 0) to",
    "phi.py": "||phi(a) - phi(b)|| / ||a - b||",
    "sample.py": "the same seed gives the same skills: True",
    "skill_env.py": "skills towards the goal earn",
    "towards.py": "from the goal",
}


STRANGERS = ("compass_method.py", "puck_world.py")
"""Run by test_strangers.py."""


def test_there_is_an_example_of_everything():
    assert set(EXAMPLES) == {"discover.py", "vector_env.py", "onnx_drive.py", "sb3_sac.py", *STRANGERS, *SAYS}


@pytest.fixture
def example(tmp_path, monkeypatch, capsys):
    """Run an example as a program in an empty folder; what it prints. Warnings are errors here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def run(name, *args):
        monkeypatch.setattr(sys, "argv", [name, *map(str, args)])
        runpy.run_path(str(FOLDER / name), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("name", SAYS)
def test_examples_run_on_a_run(name, tmp_path, example):
    assert SAYS[name] in example(name, trained().path)
    assert list(tmp_path.iterdir()) == []


def test_discover_runs_alone(tmp_path, example):
    out = example("discover.py")
    assert "evaluation/evaluation.json" in out
    assert "bins covered" in out
    assert [path.name for path in tmp_path.glob("*/run")] == ["run"]


def test_the_vector_environment_needs_no_run(tmp_path, example):
    assert "steps per second" in example("vector_env.py")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "parameters", "says"),
    [
        ("first_skills", {"BUDGET_STEPS": "500", "ANT_STEPS": "3"}, "<Skills of point: 2-D continuous, learned by lsd"),
        ("your_own_robot", {"BUDGET_SECONDS": "1e-6", "STEPS": "3", "CHANGES": repr(SMALL)}, "2 actions, 250 steps"),
    ],
)
def test_notebooks_run_and_show_what_they_showed(name, parameters, says, tmp_path, monkeypatch):
    """Their cells, on small budgets; what is stored in them was made by the same code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(FOLDER.parent / "benchmarks"), *sys.path])
    path = FOLDER / f"{name}.ipynb"
    stored, made = json.loads(path.read_text()), importlib.import_module("notebooks").run_notebook(path, parameters)

    def shown(book):
        return [[output["output_type"] for output in cell.get("outputs", ())] for cell in book["cells"]]

    assert shown(made) == shown(stored) and sum(map(len, shown(made))) > 3
    assert says in "".join(
        text for cell in made["cells"] for out in cell.get("outputs", ()) for text in out.get("text", ())
    )
    assert path.stat().st_size < 400_000
