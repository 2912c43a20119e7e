"""What a grid may say, and which runs it stands for."""

import pytest
from grids import tiny_grid

from wanderlust.errors import UserError
from wanderlust.runs.run import Run
from wanderlust.sweeps.plan import read_plan


@pytest.fixture
def mistakes(capsys):
    """What is wrong with a grid: a line for each, the last one as the error."""

    def found(grid):
        with pytest.raises(UserError) as caught:
            read_plan(grid)
        said = capsys.readouterr().err.splitlines()
        return [*(line.removeprefix("wanderlust: ") for line in said), str(caught.value)]

    return found


def test_all_combinations_are_runs_the_first_seed_of_all_first(tmp_path):
    settings = {"near": {"set": {"sac": {"discount": 0.8}}}, "sixteen": {"discrete": 16}}
    plan = read_plan(tiny_grid(methods=["lsd", "diayn-xyo"], seeds=[3, 5], settings=settings, out=str(tmp_path)))
    assert [item.name for item in plan.items] == [
        f"point_{method}_{setting}_seed{seed}"
        for seed in (3, 5)
        for method in ("lsd", "diayn-xyo")
        for setting in ("near", "sixteen")
    ]
    near, sixteen, *_ = (item.config for item in plan.items)
    assert (near.seed, near.seeds, near.sac.discount, str(near.skills)) == (3, 1, 0.8, "2d")
    assert (sixteen.sac.hidden, str(sixteen.skills)) == ((16, 16), "n16")
    assert sixteen.sac.discount == 0.9


def test_a_setting_goes_before_what_all_have(tmp_path):
    settings = {"own": {"set": {"sac": {"hidden": [8, 8]}}}}
    (item,) = read_plan(tiny_grid(settings=settings, out=str(tmp_path))).items
    assert item.config.sac.hidden == (8, 8)
    assert item.config.method.hidden == (16, 16)


def test_toml_is_read_and_its_name_is_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = 'methods = ["lsd"]\nworlds = ["point"]\nhours_per_run = 0.5\nbudget_steps = 4e4\n'
    text += "[set]\nsac.discount = 0.9\nlog_every = 1\n"
    (tmp_path / "two.toml").write_text(text)
    plan = read_plan("two.toml")
    assert (str(plan.out), plan.seconds_per_run, plan.retries) == ("runs/two", 1800.0, 1)
    schedule = plan.items[0].config.schedule
    assert schedule.epochs * schedule.collection == 40_000
    assert (plan.items[0].config.sac.discount, plan.items[0].config.log_every) == (0.9, 1)


def test_every_mistake_is_a_line_of_its_own(mistakes):
    words = {"method": ["lsd"], "worlds": ["point"], "seeds": 0, "hours": "12", "retries": True, "out": "runs/x"}
    words["settings"] = {"a": {"gamma": 1}, "b/c": {}}
    assert mistakes(words) == [
        "the sweep: there is no key method (did you mean methods?)",
        "the sweep: hours is '12'; it must be hours for all of it, e.g. 12",
        "the sweep: retries is True; it must be how often a run that failed is tried again, e.g. 2",
        "the sweep: methods is missing: a list of methods, by the names that `wanderlust list` shows",
        "the sweep: seeds is 0; it must be at least 1",
        "the sweep: there is no key settings.a.gamma; known: recipe, with, skills, discrete, engine, budget_steps, set",
        "the sweep: settings.b/c: a name is letters, digits, hyphens and dots, since folders are called by it",
    ]


def test_what_the_configuration_refuses_is_said_once(mistakes):
    lines = mistakes(tiny_grid(methods=["lsd", "dyain"], seeds=3, settings={"a": {}, "b": {}}, out="runs/x"))
    assert len(lines) == 1
    assert "point dyain a: unknown method 'dyain'" in lines[0]
    (line,) = mistakes({**tiny_grid(out="runs/x"), "set": {"sac": {"discout": 0.9}}})
    assert "there is no field sac.discout" in line


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"methods": ["lsd", "lsd"]}, "methods is ['lsd', 'lsd']; it must name each one once"),
        ({"seeds": [0, "1"]}, "seeds is [0, '1']; it must be a list of whole numbers"),
        ({"hours": -1}, "hours is -1; it must be positive"),
        ({"methods": ["lsd", "wanderlust.methods.lsd:Lsd"]}, "two runs would be called point_lsd_seed0"),
    ],
)
def test_values_that_cannot_be(words, complaint, mistakes):
    found = mistakes(tiny_grid(out="runs/x") | words)
    assert any(complaint in line for line in found), found


def test_broken_toml_is_one_line(tmp_path, mistakes):
    (tmp_path / "a.toml").write_text("methods = [")
    (line,) = mistakes(tmp_path / "a.toml")
    assert "is no valid TOML" in line


def test_a_folder_with_another_run_is_refused_before_anything_is_trained(tmp_path, mistakes):
    (item,) = read_plan(tiny_grid(out=str(tmp_path))).items
    Run.create(item.folder, item.config)
    read_plan(tiny_grid(out=str(tmp_path)))
    (line,) = mistakes(tiny_grid(epochs=6, out=str(tmp_path)))
    assert "point_lsd_seed0 holds a run with another configuration" in line
