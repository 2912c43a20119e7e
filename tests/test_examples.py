"""Every example runs."""

from pathlib import Path

import pytest

from trained import run_python, trained

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(path.name for path in FOLDER.glob("*.py"))

SAYS = {
    "act.py": "leads from (0, 0) to",
    "phi.py": "||phi(a) - phi(b)|| / ||a - b||",
    "sample.py": "the same seed gives the same skills: True",
    "skill_env.py": "skills towards the goal earn",
    "towards.py": "from the goal",
}


def test_there_is_an_example_of_everything():
    assert set(EXAMPLES) == {"discover.py", "vector_env.py", "onnx_drive.py", "sb3_sac.py", *SAYS}


@pytest.mark.parametrize("name", SAYS)
def test_examples_run_on_a_run(name, tmp_path):
    code, out, err = run_python("-W", "error", FOLDER / name, trained().path, cwd=tmp_path)
    assert code == 0, err
    assert SAYS[name] in out
    assert list(tmp_path.iterdir()) == []


def test_discover_runs_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    code, out, err = run_python(FOLDER / "discover.py", cwd=tmp_path)
    assert code == 0, err
    assert "evaluation/evaluation.json" in out
    assert "bins covered" in out
    assert [path.name for path in tmp_path.glob("*/run")] == ["run"]


def test_the_vector_environment_needs_no_run(tmp_path):
    code, out, err = run_python("-W", "error", FOLDER / "vector_env.py", cwd=tmp_path)
    assert code == 0, err
    assert "steps per second" in out
    assert list(tmp_path.iterdir()) == []
