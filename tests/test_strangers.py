"""Methods and worlds that are not ours: from a file, from a registration, from an entry point, by CONTRIBUTING."""

import json
import re
import shutil
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import wanderlust
from trained import run_python
from wanderlust import registry
from wanderlust.config import RunConfig, from_json
from wanderlust.errors import UserError
from wanderlust.registry import METHODS, WORLDS, Ours, Registry

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
ENV, METHOD = "puck_world:Puck", "compass_method:Compass"
SMALL = (
    "schedule.epochs=4",
    "schedule.worlds=4",
    "schedule.steps=10",
    "schedule.sac_steps=2",
    "schedule.method_steps=2",
    "schedule.sac_batch=16",
    "schedule.replay_collections=2",
    "env.episode_length=20",
    "sac.hidden=[8]",
    "method.hidden=[8]",
    "log_every=2",
    "checkpoint_every=2",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Both examples trained together, stopped once and resumed; as a user would, from the folder of the examples."""
    folder = tmp_path_factory.mktemp("strangers") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(EXAMPLES)
        changes = (*SMALL, "method.sharpness=2.0")
        wanderlust.discover(ENV, method=METHOD, changes=changes, out=folder, budget_seconds=1e-6, quiet=True)
        assert len((folder / "metrics.jsonl").read_text().splitlines()) == 1
        return wanderlust.discover(resume=folder, quiet=True)


def test_both_examples_train_resume_and_evaluate(run):
    rows = run.metrics()
    assert [row["epoch"] for row in rows] == [2, 4]
    assert run.config.method.sharpness == 2.0 and str(run.config.method) == METHOD
    measured = json.loads((run.evaluation / "evaluation.json").read_text())
    assert measured["epoch"] == 4 and measured["metrics"]["distance"]["mean"] > 0.0
    assert measured["name"] == "puck-compass-2d"


def test_their_skills_load_act_and_choose(run):
    skills = wanderlust.load(run)
    obs = np.zeros(4, np.float32)
    assert skills.act(obs, skills.sample(1)[0]).shape == (2,)
    z = skills.towards(obs, [5.0, 0.0])
    direction = skills.phi([5.0, 0.0, 0.0, 0.0]) - skills.phi(obs)
    np.testing.assert_allclose(z / np.linalg.norm(z), direction / np.linalg.norm(direction), rtol=1e-4)


def test_their_skills_export_and_publish(run, tmp_path):
    from wanderlust.export import export_onnx
    from wanderlust.runs.publish import publish

    files, card = export_onnx(run, out=tmp_path / "export")
    assert [file.name for file in files] == ["policy.onnx", "phi.onnx", "onnx.json"]
    assert card["phi"]["towards_goal"] == "phi(goal) - phi(observation)"
    publish(run, "puck", zoo=tmp_path / "zoo")
    assert (tmp_path / "zoo" / "puck" / "skills.safetensors").exists()


def test_a_file_cannot_have_a_module_imported(run, monkeypatch):
    text = (run.path / "config.json").read_text()
    (fresh := Registry("environment", "none", {}))._found.clear()
    monkeypatch.setitem(sys.modules, "puck_world", None)
    monkeypatch.delitem(sys.modules, "puck_world")
    monkeypatch.delitem(WORLDS._found, ENV)
    with pytest.raises(UserError, match=r"would run the code of puck_world; .* WANDERLUST_IMPORT=puck_world"):
        from_json(RunConfig, text, "a stranger's file")
    assert "puck_world" not in sys.modules
    monkeypatch.setenv(registry.ALLOWED, "puck_world")
    monkeypatch.chdir(EXAMPLES)
    assert from_json(RunConfig, text, "a trusted file").env.name == ENV
    with pytest.raises(UserError, match="cannot import no_such_module"):
        fresh.get("no_such_module:Thing")
    with pytest.raises(UserError, match="os has no Nothing"):
        fresh.get("os:Nothing")
    with pytest.raises(UserError, match="no class with a Config"):
        fresh.get("os:getcwd")


def test_registered_names_and_entry_points(monkeypatch):
    mine = Registry("method", "a.group", {"lsd": Ours("wanderlust.methods.lsd:Lsd", "LSD")})
    mine.register("mine", METHODS.get("diayn"))
    assert mine.names() == ("lsd", "mine") and "mine" in mine and "other" not in mine
    for name in ("lsd", "mine", "Mine", "with space"):
        with pytest.raises(UserError):
            mine.register(name, METHODS.get("metra"))
    points = [EntryPoint("theirs", "wanderlust.methods.csd:Csd", "a.group"), EntryPoint("lsd", "os:getcwd", "a.group")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "a.group" else [])
    found = Registry("method", "a.group", {"lsd": Ours("wanderlust.methods.lsd:Lsd", "LSD")})
    assert found.get("theirs") is METHODS.get("csd") and found.get("lsd") is METHODS.get("lsd")


def test_an_installed_package_offers_a_method_and_a_world(tmp_path):
    """A distribution with entry points, found by a process that knows nothing else of it."""
    for name in ("compass_method", "puck_world"):
        shutil.copy(EXAMPLES / f"{name}.py", tmp_path)
    about = tmp_path / "theirs-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        f"[wanderlust.methods]\ntheir-compass = {METHOD}\n[wanderlust.worlds]\ntheir-puck = {ENV}\n"
    )
    program = """
import wanderlust
from wanderlust.api import configure
config = configure("their-puck", "their-compass")
assert type(config.method).__name__ == "CompassConfig" and str(config.method) == "their-compass", config.method
assert config.env.name == "their-puck", config.env
wanderlust.register_method("mine", wanderlust.registry.METHODS.get("their-compass"))
wanderlust.register_world("my-puck", wanderlust.registry.WORLDS.get("their-puck"))
assert str(configure("my-puck", "mine").method) == "mine"
"""
    assert run_python("-c", program, cwd=tmp_path) == (0, "", "")


def section_of_contributing(title: str) -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return " ".join(text.split(f"\n## {title}\n")[1].split("\n## ")[0].split())


def follow(title: str, checkout: Path, name: str, kind: str, mine: str) -> None:
    """Do to a checkout what the section of CONTRIBUTING says: copy a file, rename its classes, add a line."""
    text = section_of_contributing(title)
    (source, target), (table, registry_file) = (
        re.search(pattern, text).groups()
        for pattern in (r"Copy `(\S+)` to `(\S+)`, and rename its class", r"Add a line to `(\w+)` in `(\S+)`")
    )
    copied = checkout / target.replace("NAME", name)
    copied.write_text((ROOT / source).read_text().replace(kind, mine))
    path = checkout / registry_file
    module = ".".join(copied.relative_to(checkout / "src").with_suffix("").parts)
    line = f'        "{name}": Ours("{module}:{mine}", "a {mine}"),\n'
    added, there = re.subn(rf"({table} = Registry\([^{{]*{{\n)", rf"\g<1>{line}", path.read_text())
    assert there == 1
    path.write_text(added)
    for folder, place in re.findall(r"`((?:docs|src|examples)/)([\w/.]+)`", text):
        assert "NAME" in place or (ROOT / folder / place).exists(), f"CONTRIBUTING names {folder}{place}"


def test_following_contributing_to_the_letter_works(tmp_path):
    """Copy one file and add one line, for a method and for a world, as the text says; both then train by name."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    follow("Adding a method", tmp_path, "needle", "Compass", "Needle")
    follow("Adding an environment", tmp_path, "disc", "Puck", "Disc")
    sets = [word for change in SMALL for word in ("--set", change)]
    train = ["discover", "disc", "--method", "needle-xy", "--method.sharpness", "3", *sets, "--out", "run"]
    program = f"""
from wanderlust.cli import main
from wanderlust.recipes import get_recipe, known_recipes, usual_skills
from wanderlust.report.plots import style
style.png_of = style.svg_of = lambda figure: b""  # drawn elsewhere
for env in ("point", "ant", "humanoid", "disc"):
    for recipe in known_recipes(env):
        assert get_recipe(recipe, env, "needle", usual_skills("needle")).method.name == "needle"
for command in (["list"], {train!r}):
    try:
        main(command)
    except SystemExit as end:
        assert not end.code, end.code
"""
    code, out, err = run_python("-c", program, cwd=tmp_path / "src")
    assert code == 0, err
    assert "a Disc; recipes: laptop" in out and "a Needle" in out
    config = json.loads((tmp_path / "src" / "run" / "config.json").read_text())
    assert config["method"]["sharpness"] == 3.0 and config["method"]["view"] == "xy" and config["env"]["name"] == "disc"
