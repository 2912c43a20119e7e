"""The zoo: entries act as the run they came from, appear whole or not at all, and are read with suspicion."""

import json
import re
import shutil
import tomllib
from pathlib import Path

import jax
import numpy as np
import pytest

import wanderlust
from helpers import only_times
from trained import copy_of, run_python, trained, tree
from wanderlust import train
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.evaluation.metrics import coverage
from wanderlust.rl.nets import normalise
from wanderlust.runs import entries, folders, zoo
from wanderlust.runs import publish as publishing
from wanderlust.runs.card import without_folders
from wanderlust.runs.entries import summaries, zoo_folder
from wanderlust.runs.files import ArrayFile, write_arrays
from wanderlust.runs.learned import load_learner
from wanderlust.runs.publish import Deviation, publish
from wanderlust.runs.run import Run
from wanderlust.runs.zoo import open_run

ROOT = Path(__file__).parents[2]

OBS = np.array([[0.0, 0.0], [3.0, -2.0], [-7.5, 20.0]])
Z = np.array([[1.0, 0.5], [-0.3, 2.0], [0.0, -1.0]])
FILES = {"card.json", "card.md", "config.json", "skills.safetensors", "trajectories.png"}


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty working folder, with a zoo in it that is yet to be made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDERLUST_ZOO", str(tmp_path / "zoo"))
    return tmp_path


@pytest.fixture(scope="module")
def shelf(tmp_path_factory) -> Path:
    """A zoo with one entry, made once and never changed."""
    folder = tmp_path_factory.mktemp("shelf")
    publish(trained(), "ant", zoo=folder)
    return folder


@pytest.fixture
def ant(here, shelf) -> Path:
    """The folder of zoo:ant, which may be changed."""
    shutil.copytree(shelf / "ant", here / "zoo" / "ant")
    return here / "zoo" / "ant"


def one_line(f, *args, **options) -> str:
    with pytest.raises(wanderlust.UserError) as caught:
        f(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    file = ArrayFile(path)
    return {name: file.read(name) for name in file.shapes()}


# --- what an entry is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "run_of", [trained, lambda: trained(discrete=4), lambda: trained("diayn")], ids=["lsd", "discrete", "diayn"]
)
def test_an_entry_does_what_the_run_does(here, run_of):
    run = run_of()
    publish(run, "one")
    ours, theirs = wanderlust.load("zoo:one"), wanderlust.load(run)
    z = Z if run.config.skills.kind == "continuous" else 2
    most = publishing.TOLERATED
    assert ours.spec == theirs.spec
    np.testing.assert_array_equal(ours.sample(7, seed=3), theirs.sample(7, seed=3))
    np.testing.assert_allclose(ours.act(OBS, z), theirs.act(OBS, z), rtol=0, atol=most.action)
    np.testing.assert_allclose(ours.act(OBS, z, seed=1), theirs.act(OBS, z, seed=1), rtol=0, atol=most.action)
    steps = [np.diff(skills.phi(OBS), axis=0) for skills in (ours, theirs)]
    length = np.linalg.norm(np.diff(OBS / np.array(ours.spec.obs_std), axis=0), axis=1)
    assert np.all(np.linalg.norm(steps[0] - steps[1], axis=1) <= most.step * length)
    np.testing.assert_allclose(ours.towards(OBS, [9, 9]), theirs.towards(OBS, [9, 9]), atol=0.01)


def test_it_holds_the_weights_in_half_precision_and_nothing_else(ant):
    stored = arrays_of(ant / "skills.safetensors")
    kept = arrays_of(trained().checkpoints()[4])
    names = {"policy/mlp": "learner/sac/policy/mlp", "encoder": "learner/method/encoder"}
    assert set(stored) == {f"{n}/layers/{i}/{x}" for n in names for i in range(3) for x in ("weight", "bias")}
    for name, array in stored.items():
        ours = next(n for n in names if name.startswith(n))
        assert array.dtype == np.float16
        np.testing.assert_array_equal(array, kept[name.replace(ours, names[ours])][0].astype(np.float16))
    assert {path.name for path in ant.iterdir()} == FILES


def test_phi_is_lipschitz_with_the_weights_that_were_read(ant):
    """Norms belong to weights: those of the run do not bound its weights rounded."""
    entry = open_run("zoo:ant")
    epoch, learned = load_learner(entry, train.assemble(entry.config))
    assert epoch == 4
    state = jax.tree.map(lambda x: x[0], learned.method)
    for layer in normalise(state.encoder, state.spectral).layers:
        assert 0.98 < np.linalg.norm(np.asarray(layer.weight, np.float64), 2) <= 1.0
    skills = wanderlust.load("zoo:ant")
    std = np.array(skills.spec.obs_std)
    a, b = np.random.default_rng(0).normal(scale=10, size=(2, 500, 2))
    ratio = np.linalg.norm(skills.phi(a) - skills.phi(b), axis=1) / np.linalg.norm((a - b) / std, axis=1)
    assert 0.1 < ratio.max() <= 1.0 + 1e-5  # float32 outputs of size 10 carry errors of 1e-6


def test_half_precision_is_used_only_where_it_costs_nothing(here, monkeypatch):
    """A network with numbers beyond half precision stays as it is, the other does not."""
    run = copy_of(trained(), here / "run")
    path = run.checkpoints()[4]
    about, arrays = ArrayFile(path).about, arrays_of(path)
    arrays["learner/method/encoder/layers/0/weight"] *= 1e7  # which normalisation undoes
    for i in range(3):
        arrays[f"learner/method/spectral/norm/{i}"] *= 1e7 if i == 0 else 1
    write_arrays(path, arrays, about)
    _, facts = publish(run, "large")
    assert facts["stored"] == {"policy": "float16", "encoder": "float32"}
    assert facts["deviation"]["step"] == 0.0 < facts["deviation"]["action"] < publishing.TOLERATED.action
    np.testing.assert_allclose(wanderlust.load("zoo:large").phi(OBS), wanderlust.load(trained()).phi(OBS), atol=1e-4)
    monkeypatch.setattr(publishing, "TOLERATED", Deviation(0.0, 0.0))
    assert publish(trained(), "exact")[1]["stored"] == {"policy": "float32", "encoder": "float32"}
    np.testing.assert_array_equal(wanderlust.load("zoo:exact").act(OBS, Z), wanderlust.load(trained()).act(OBS, Z))


# --- using one -------------------------------------------------------------------------------------------------------


def test_evaluating_an_entry_is_evaluating_the_run(here, monkeypatch):
    monkeypatch.setattr(publishing, "TOLERATED", Deviation(0.0, 0.0))  # no rounding: no number may differ
    publish(trained(), "exact")
    evaluate(open_run("zoo:exact"), episodes=20)
    ours, theirs = (
        json.loads((x / "evaluation.json").read_text())
        for x in (here / "runs/zoo-exact/evaluation", trained().evaluation)
    )
    # phi's norms are measured anew, by another program than the one that trained: float32 rounding
    cosines = [x["metrics"].pop("alignment")["mean"] for x in (ours, theirs)]
    assert cosines[0] == pytest.approx(cosines[1], abs=1e-5)
    assert ours == theirs


def test_the_commands_take_a_zoo_that_cannot_be_written_to(command_line, ant, here):
    before = tree(here / "zoo")
    for path in (*ant.iterdir(), ant, ant.parent):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        code, out, err = command_line("evaluate", "zoo:ant", "--episodes", 20)
        assert code == 0 and only_times(err)
        facts = json.loads((here / "runs/zoo-ant/evaluation/evaluation.json").read_text())
        assert (facts["epoch"], facts["seeds"], facts["episodes"]) == (4, [0], 20)
        rollouts = arrays_of(here / "runs/zoo-ant/evaluation/rollouts.safetensors")
        assert facts["metrics"]["coverage_mode"]["per_seed"] == [coverage(rollouts["position"][0])]
        for name in ("evaluation.json", "trajectories.png", "phi.png"):
            assert f"runs/zoo-ant/evaluation/{name}" in out
        code, out, err = command_line("reach", "zoo:ant", "--goal", 0.5, 0, "--out", "elsewhere")
        assert (code, err) == (0, "")
        assert "reached in 0 steps" in out
        assert (here / "elsewhere/reach/path.png").is_file()
        assert tree(here / "zoo") == before
    finally:
        ant.parent.chmod(0o755)
        ant.chmod(0o755)


def test_an_entry_has_one_seed_and_a_run_its_own_folder(ant, command_line):
    assert one_line(wanderlust.load, "zoo:ant", seed=1) == "zoo:ant has no seed 1; it has 1, counted from 0"
    code, _, err = command_line("evaluate", trained().path, "--out", "elsewhere")
    assert code == 2
    assert "--out is for zoo entries" in err


NAMES = ("../x", "..", ".", "", "/", "/etc", "a/b", "ant/", "../zoo/ant", "ANT", ".ant", "ant\n", "nosuch", "x" * 300)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_name_and_not_a_path(ant, here, name):
    shutil.copytree(ant, here / "x")  # a good entry, but out of the zoo
    shutil.copytree(ant, here / "zoo" / ".ant")
    message = one_line(wanderlust.load, f"zoo:{name}")
    assert message == f"the zoo has no entry {name!r}; it has ant"
    shutil.rmtree(here / "zoo")
    assert "it is empty" in one_line(open_run, "zoo:ant")


def replaced(change):
    """Damage that changes the arrays of a file and writes it again with good checksums."""

    def damage(path: Path) -> None:
        arrays = arrays_of(path)
        change(arrays)
        write_arrays(path, arrays, ArrayFile(path).about)

    return damage


def edited(key: str, value: str, after: str = ""):
    """Damage that changes a value in the configuration: every one of that key, or those behind a word."""

    def damage(path: Path) -> None:
        where = path.with_name("config.json")
        head, middle, tail = where.read_text().rpartition(after) if after else ("", "", where.read_text())
        text, count = re.subn(rf'"{key}": (\[[^\]]*\]|[^,\n]+)', f'"{key}": {value}', tail)
        assert count
        where.write_text(head + middle + text)

    return damage


def oversized(path: Path) -> None:
    with open(path, "ab") as file:
        file.truncate(zoo.LARGEST_SKILLS + 1)  # a hole: it takes no space


LAYER = "policy/mlp/layers/0/weight"
DAMAGE = {
    "missing": (Path.unlink, "there is no file"),
    "empty": (lambda path: path.write_bytes(b""), "is not a whole wanderlust file"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-9]), "is not a whole wanderlust file"),
    "a flipped bit": (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\xff"), "checksum"),
    "too large": (oversized, "bytes; it can have 67,108,864 at most"),
    "an array too many": (replaced(lambda a: a.update(more=np.zeros(2))), "it also holds more"),
    "an array too few": (replaced(lambda a: a.pop(LAYER)), f"at {LAYER}: nothing instead of (4, 16)"),
    "another shape": (replaced(lambda a: a.update({LAYER: np.zeros((4, 17))})), "(4, 17) instead of (4, 16)"),
    "another type": (replaced(lambda a: a.update({LAYER: np.zeros((4, 16))})), f"at {LAYER}: float64"),
    "no number": (replaced(lambda a: a[LAYER].fill(np.nan)), f"{LAYER} holds numbers that are not finite"),
    "another format": (
        lambda path: write_arrays(path, {}, {"format": "other", "epoch": "4"}),
        "is not a wanderlust-zoo",
    ),
    "another epoch": (
        lambda path: write_arrays(path, arrays_of(path), {"format": zoo.FORMAT, "epoch": "four"}),
        "is not a wanderlust-zoo",
    ),
    "a network of another size": (edited("hidden", "[16, 17]"), "(16, 16) instead of (16, 17)"),
    "a network beyond all memory": (edited("hidden", "[2000000000, 2000000000]"), "instead of (2, 2000000000)"),
    "other skills": (edited("size", "3"), "instead of (16, 3)"),
    "an unknown method": (
        edited("name", '"nosuch"', after='"method"'),
        "method.name: unknown method 'nosuch'",
    ),
    "several seeds": (edited("seeds", "2"), "is not of one seed"),
    "a large configuration": (
        lambda path: path.with_name("config.json").write_text(" " * (entries.LARGEST_TEXT + 1)),
        "bytes; it can have 262,144 at most",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_or_foreign_entry_is_refused(ant, case):
    damage, message = DAMAGE[case]
    damage(ant / "skills.safetensors")
    assert message in one_line(wanderlust.load, "zoo:ant")


def test_list_shows_the_zoo_and_survives_what_is_wrong_in_it(command_line, ant, here):
    cards = {
        "broken": "{",
        "strange": json.dumps({"summary": "a\nb\x1b[31m " + "c" * 500}),
        "silent": "[]",
        "wordless": json.dumps({"summary": 3}),
    }
    for name, text in cards.items():
        (here / "zoo" / name).mkdir()
        (here / "zoo" / name / "card.json").write_text(text)
    (here / "zoo" / "bare").mkdir()
    (here / "zoo" / "README.md").write_text("not an entry")
    found = summaries()
    assert set(found) == {"ant", "bare", *cards}
    assert re.fullmatch(r"2-D skills of point by lsd, recipe custom: \d+ bins", found["ant"])
    assert found["strange"].startswith("a b [31m ccc")
    assert len(found["strange"]) == 160
    for name in ("broken", "silent", "bare"):
        assert found[name].startswith("damaged: ")
    code, out, err = command_line("list")
    assert (code, err) == (0, "")
    for name in found:
        assert f"zoo:{name} " in out


def test_an_empty_zoo_is_not_mentioned(command_line, here):
    code, out, _ = command_line("list")
    assert code == 0
    assert "point-goals" in out
    assert "zoo" not in out


# --- publishing ------------------------------------------------------------------------------------------------------


def with_coverage(run: wanderlust.Run, values: list[float]) -> wanderlust.Run:
    path = run.evaluation / "evaluation.json"
    record = json.loads(path.read_text())
    record["metrics"]["coverage_mode"]["per_seed"] = values
    path.write_text(json.dumps(record))
    return run


def test_the_seed_that_covers_most_is_taken_unless_another_is_asked_for(command_line, here, monkeypatch):
    run = with_coverage(copy_of(trained(seeds=3), here / "run"), [3, 1009, 5])
    code, out, err = command_line("publish", "run", "--name", "best")
    assert (code, err) == (0, "")
    assert "zoo:best: 2-D skills of point by lsd, recipe custom: 1,009 bins" in out
    assert f"card: {here / 'zoo/best/card.md'}" in out
    assert command_line("publish", "run", "--name", "last", "--seed", 2, "--zoo", "other")[0] == 0
    entries = {1: open_run("zoo:best")}
    monkeypatch.setenv("WANDERLUST_ZOO", str(here / "other"))
    entries[2] = open_run("zoo:last")
    for seed, entry in entries.items():
        assert (entry.config.seed, entry.config.seeds) == (seed, 1)
        kept = arrays_of(run.checkpoints()[4])["learner/sac/policy/mlp/layers/1/weight"][seed]
        stored = arrays_of(entry.path / "skills.safetensors")["policy/mlp/layers/1/weight"]
        np.testing.assert_array_equal(stored, kept.astype(np.float16))
    card = (here / "zoo/best/card.md").read_text()
    assert "| seed | 1, the best of 3 by bins covered |" in card
    assert "| bins of 1 x 1 covered, mode actions | 1,009 | 339 |" in card
    assert "| seed | 2, one of 3 |" in (here / "other/last/card.md").read_text()


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("device", []),
        ("versions", "jax"),
        ("resumed", 3),
        ("time", 1.5),
        ("commit", {}),
        ("command", ["wanderlust"]),
        ("note", ["by hand"]),
        ("began_with", {}),
        ("began_with", {"epoch": 1, "began_with": {"commit": "a"}}),
    ],
)
def test_a_provenance_that_nobody_here_has_written_says_nothing_and_stops_nothing(here, entry, value, capsys):
    run = copy_of(trained(), here / "run")
    record = json.loads((run.path / "provenance.json").read_text())
    text = json.dumps({**record, entry: value})
    (run.path / "provenance.json").write_text(text)
    assert run.provenance() == {}
    assert f"provenance.json is damaged: {entry} is not what it should be" in capsys.readouterr().err
    if entry == "device":
        _, facts = publish(run, "one")
        assert facts["commit"] is None
    run.resumed()
    assert (run.path / "provenance.json.damaged").read_text() == text


@pytest.mark.parametrize("depth", [101, 3_000, 200_000])
def test_a_line_of_runs_without_an_end_is_refused(here, depth, capsys):
    run = copy_of(trained(), here / "run")
    line = '{"epoch": 1, "began_with": ' * depth + "null" + "}" * depth
    (run.path / "provenance.json").write_text(f'{{"began_with": {line}}}')
    assert run.provenance() == {}
    assert "provenance.json is damaged" in capsys.readouterr().err


def test_the_summary_says_that_skills_changed_within_episodes(here):
    run = copy_of(trained(), here / "run")
    config = json.loads((run.path / "config.json").read_text())
    config["schedule"]["hold"] = 3
    (run.path / "config.json").write_text(json.dumps(config))
    _, facts = publish(Run.open(run.path), "one")
    summary = r"2-D skills of point by lsd, another every 3 steps in training, recipe custom: \d+ bins"
    assert re.fullmatch(summary, facts["summary"])


def test_a_card_and_the_list_say_what_a_run_was_taught_beside_its_method(here, command_line):
    run = copy_of(trained(), here / "run")
    record = json.loads((run.path / "provenance.json").read_text())
    note = "It was shown how to\nget up by hand."
    (run.path / "provenance.json").write_text(json.dumps({**record, "note": note}))
    folder, facts = publish(run, "one")
    card = (folder / "card.md").read_text()
    assert "(recipe `custom`).\n\nIt was shown how to get up by hand.\n\n![Where" in card
    assert ", recipe custom, then taught more (its card): " in facts["summary"]


def test_a_card_says_how_it_was_made_and_not_where(here):
    run = copy_of(trained(), here / "run")
    record = json.loads((run.path / "provenance.json").read_text())
    record.update(command=f"wanderlust discover --config {here}/my.json --out={here}/run", commit="abc123+")
    record["device"].update(kind="Some | Device", cpu_cores=96)
    first = {"command": f"wanderlust discover --out {here}/first", "commit": "def", "epoch": 9, "env_steps": 1234}
    second = {"command": f"wanderlust discover --out {here}/second", "commit": "fed", "epoch": 7, "env_steps": 99}
    record["began_with"] = {**second, "began_with": first}
    (run.path / "provenance.json").write_text(json.dumps(record))
    folder, facts = publish(run, "one")
    card = (folder / "card.md").read_text()
    for part in (
        "| command | `wanderlust discover --config my.json --out=run` |",
        "| commit | `abc123+` |",
        "| began with | the networks of `wanderlust discover --out second` at epoch 7, 99 environment steps, which "
        "began with the networks of `wanderlust discover --out first` at epoch 9, 1,234 environment steps |",
        "| machine | Some \\| Device, 96 CPU cores |",
        "| environment steps | 80 (epoch 4) |",
        f"| training | {run.metrics()[-1]['train_seconds']:,.0f} s |",
        f"| with compilation and coverage | {run.metrics()[-1]['seconds']:,.0f} s |",
        "| physics, precision | `jax`, float32 |",
        f"| bins of 1 x 1 covered, sampled actions | {facts['metrics']['coverage_sampled']}",
        "| steps survived, mode actions | 5.00 |",
        'wanderlust.load("zoo:one")',
        "wanderlust evaluate zoo:one",
        "![Where 20 random skills go](trajectories.png)",
        f"differ by at most {facts['deviation']['action']:.1e}",
    ):
        assert part in card
    assert str(here) not in card + (folder / "card.json").read_text()
    assert json.loads((folder / "card.json").read_text()) == facts
    assert (folder / "trajectories.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("wanderlust discover ant --seeds 4", "wanderlust discover ant --seeds 4"),
        ("wanderlust discover --out /home/me/runs/ant", "wanderlust discover --out ant"),
        (
            "wanderlust discover --out=/a=b/c --set sac.discount=0.9",
            "wanderlust discover --out=c --set sac.discount=0.9",
        ),
        ("wanderlust discover --out '/a b/c d'", "wanderlust discover --out 'c d'"),
        ("python /a=b/train.py ~/x/", "python train.py x"),
        ("--out '/a/b", "--out b"),
        ("", ""),
    ],
)
def test_commands_lose_their_folders(given, left):
    assert without_folders(given) == left


def test_an_entry_appears_whole_or_not_at_all(here, ant, monkeypatch):
    before = tree(here / "zoo")
    assert f"{ant} already exists" in one_line(publish, trained(discrete=4), "ant")
    monkeypatch.setattr("wanderlust.report.plots.draw_trajectories", lambda *_: 1 / 0)
    for name, replace in (("other", False), ("ant", True)):
        with pytest.raises(ZeroDivisionError):
            publish(trained(discrete=4), name, replace=replace)
        assert tree(here / "zoo") == before
    monkeypatch.undo()
    monkeypatch.setenv("WANDERLUST_ZOO", str(here / "zoo"))
    real = Path.rename

    def fails(self, target):
        if Path(target).name == "ant" and not self.name.endswith(".old"):
            raise OSError(5, "broken")
        return real(self, target)

    def cannot(*_):
        raise OSError(38, "not here")

    monkeypatch.setattr(Path, "rename", fails)
    with monkeypatch.context() as patch:  # where two names cannot change places in one step
        patch.setattr(folders, "_exchange", cannot)
        assert "broken" in one_line(publish, trained(discrete=4), "ant", zoo=here / "zoo", replace=True)
        assert tree(here / "zoo") == before
    publish(trained(discrete=4), "ant", zoo=here / "zoo", replace=True)
    assert open_run("zoo:ant").config == trained(discrete=4).config
    assert [path.name for path in (here / "zoo").iterdir()] == ["ant"]
    assert {path.name for path in ant.iterdir()} == FILES


def test_publish_refuses(command_line, here):
    run = copy_of(trained(), here / "run")

    def refused(*args: object) -> str:
        code, _, err = command_line("publish", *args)
        assert code == 2
        assert err.count("\n") == 1
        assert not (here / "zoo").exists()
        return err

    assert "there is no run folder nosuch" in refused("nosuch", "--name", "a")
    assert "--name" in refused("run")
    for name in ("../a", "A", "a b", ""):
        assert "it must be lower-case letters, digits and hyphens" in refused("run", "--name", name)
    assert "run has no seed 1" in refused("run", "--name", "a", "--seed", 1)
    with_coverage(run, [])
    assert "evaluation.json is damaged: metrics is not what it should be" in refused("run", "--name", "a")
    found = json.loads((run.evaluation / "evaluation.json").read_text())
    del found["metrics"]["coverage_mode"]
    (run.evaluation / "evaluation.json").write_text(json.dumps(found))
    assert "does not say coverage_mode of every seed" in refused("run", "--name", "a")
    (run.path / "checkpoints/epoch-00000004.safetensors").unlink()
    assert "is of epoch 4, the newest checkpoint of 2" in refused("run", "--name", "a")
    (run.evaluation / "evaluation.json").unlink()
    assert "run has not been evaluated; run `wanderlust evaluate run` first" in refused("run", "--name", "a")


def test_publish_has_help_with_an_example(command_line):
    code, out, _ = command_line("publish", "--help")
    assert code == 0
    assert re.search(r"example:\s+wanderlust publish", out)


# --- where it is -----------------------------------------------------------------------------------------------------


def test_an_installed_package_finds_its_zoo(tmp_path, shelf, monkeypatch):
    """As pyproject.toml lays a wheel out, since building one needs a network."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"]["zoo"] == f"wanderlust/{entries.DATA}"
    for source in wheel["packages"]:
        shutil.copytree(ROOT / source, tmp_path / "site" / Path(source).name)
    shutil.copytree(shelf, tmp_path / "site" / wheel["force-include"]["zoo"])
    monkeypatch.delenv("WANDERLUST_ZOO", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    program = "import wanderlust; print(wanderlust.__file__, wanderlust.load('zoo:ant').act([3, -2], [1, 0.5]))"
    code, out, err = run_python("-c", program, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert out.startswith(str(tmp_path / "site"))
    monkeypatch.setenv("WANDERLUST_ZOO", str(shelf))
    expected = wanderlust.load("zoo:ant").act([3, -2], [1, 0.5])
    np.testing.assert_allclose(np.fromstring(out.split("[")[1].rstrip("]\n"), sep=" "), expected, atol=1e-6)


def test_the_entries_of_the_checkout_are_whole(monkeypatch):
    monkeypatch.delenv("WANDERLUST_ZOO", raising=False)
    assert zoo_folder() == ROOT / "zoo"
    for name in entries.names():
        skills = wanderlust.load(f"zoo:{name}")
        assert np.all(np.abs(skills.act(np.zeros(skills.spec.obs_dim), skills.sample(1)[0])) <= 1)
        folder = open_run(f"zoo:{name}").path
        assert {path.name for path in folder.iterdir()} - {"film.gif"} == FILES
        assert (folder / "skills.safetensors").stat().st_size < 10e6
        assert not re.search(r"[\s`=](/|~)\w", (folder / "card.md").read_text())
        assert not summaries()[name].startswith("damaged")
