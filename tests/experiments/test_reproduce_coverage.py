"""The comparison of all methods, made tiny: equal work for all, a floor that is random, going on, and refusals."""

import dataclasses
import itertools
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from trained import tree
from wanderlust.api import configure
from wanderlust.config import SkillConfig, flat
from wanderlust.envs import make_world
from wanderlust.envs.worlds.point import PointConfig
from wanderlust.errors import UserError
from wanderlust.recipes import RECIPES, get_recipe, usual_skills
from wanderlust.runs.files import ArrayFile
from wanderlust.runs.run import Run
from wanderlust.sweeps.tables import amount
from wanderlust.train import loop
from wanderlust_experiments import coverage, trajectories

TINY = ("method.hidden=[8]", "sac.hidden=[8]", "schedule.worlds=4", "schedule.sac_batch=16", "log_every=2")
CHANGES = (*TINY, "schedule.method_batch=16", "checkpoint_every=2")
STEPS = 150  # of 40 an epoch: four epochs
ROWS = ("random", "metra", "lsd")
STEM = "coverage_point_2d"
FILES = [f"{STEM}.{form}" for form in ("json", "md", "png", "svg")]
FILES += [f"{STEM}_{figure}.{form}" for figure in ("trajectories", "travelled") for form in ("png", "svg")]


def study(folder, *only, **options):
    """Three rows of PointEnv, two seeds, four epochs, unless said otherwise."""
    settings = {"env": "point", "seeds": 2, "budget_steps": STEPS, "changes": CHANGES, "quiet": True, **options}
    return coverage.reproduce(folder / "out", folder / "work", only=only or ROWS, **settings)


def fail_if_called(*_, **__):
    pytest.fail("done again")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A comparison, what it returned and where it is; never changed."""
    folder = tmp_path_factory.mktemp("coverage")
    result, text, files = study(folder)
    return folder, result, text, files


@pytest.fixture
def copy(done, tmp_path):
    """A copy of it, which may be changed."""
    for part in ("out", "work"):
        shutil.copytree(done[0] / part, tmp_path / part)
    return tmp_path


def written(folder):
    return json.loads((folder / "out" / f"{STEM}.json").read_text())


def positions(folder, name):
    return ArrayFile(folder / "work/point_2d" / name / "evaluation/rollouts.safetensors").read("position")


def configs(names, env, recipe, space=None, **options):
    space = space or SkillConfig()
    changes, discrete = options.get("set", ()), space.size if space.kind == "discrete" else None
    shared = configure(env, "lsd", None, discrete, None, 2, recipe, set=changes, budget_steps=options.get("steps"))
    return [coverage.row_config(name, shared, recipe, space, changes) for name in names]


def fields(config):
    return flat(dataclasses.asdict(config))


# --- what is compared ------------------------------------------------------------------------------------------------


def test_the_rows_without_only():
    variants = {f"{method}-{view}" for method in ("diayn", "dads") for view in ("xy", "o", "xyo")} | {"ibol-o"}
    methods = {"lsd", "dads", "diayn", "visr", "vic", "smm", "edl", "aps", "ibol", "metra", "csd"}
    assert set(coverage._default(SkillConfig("continuous", 5))) == methods | variants | {"random"}
    discrete = {"lsd", "dads", "diayn", "vic", "edl", "metra", "csd", "random"}
    assert set(coverage._default(SkillConfig("discrete", 8))) == discrete


def test_with_equal_steps_a_method_keeps_its_own_schedule_and_widths():
    shared = configure("ant", "lsd", seeds=1, recipe="paper", budget_steps=200_000)
    for name in ("metra", "csd", "smm"):
        row = coverage.row_config(name, shared, "paper", SkillConfig(), (), "steps")
        own = get_recipe("paper", "ant", name, usual_skills(name))
        assert row.sac == own.sac
        assert dataclasses.replace(row.schedule, epochs=1) == dataclasses.replace(own.schedule, epochs=1)
        assert 0 <= row.schedule.epochs * row.schedule.collection - 200_000 < own.schedule.collection
    other, usual = (
        coverage.coverage_study(Path("x"), Path("y"), "ant", SkillConfig(), e) for e in ("steps", "updates")
    )
    assert other.path(".json") != usual.path(".json")  # the two rules never share a file


def test_a_row_is_its_methods_recipe_with_the_updates_and_widths_of_lsd():
    """`paper` on Ant, where METRA, CSD and SMM have numbers of other papers."""
    names = ("lsd", "metra", "csd", "diayn-xyo", "aps", "vic", "smm", "linearizer-o")
    rows = dict(zip(names, configs(names, "ant", "paper", steps=9_000, set=("schedule.sac_steps=6",)), strict=True))
    published = {name: get_recipe("paper", "ant", name, usual_skills(name)) for name in names}
    schedule = dataclasses.replace(published["lsd"].schedule, epochs=3, sac_steps=6)  # 4,000 steps each
    # METRA and SMM remember a million transitions and learn phi from these, here by batches as large as LSD's
    remembering = dataclasses.replace(schedule, replay_collections=250, method_batch=4_000)
    for name, row in rows.items():
        own = published[name]
        assert (row.env, row.method, row.skills) == (own.env, own.method, own.skills)
        assert row.sac == dataclasses.replace(own.sac, hidden=published["lsd"].sac.hidden)
        assert row.schedule == (remembering if name in ("metra", "smm") else schedule)
    # else this would show nothing
    assert [published[name].schedule.sac_steps for name in ("metra", "csd", "smm")] == [50, 64, 4_000]
    assert published["metra"].schedule.worlds * published["metra"].schedule.replay_collections == 5_000
    assert (rows["csd"].sac.hidden, published["csd"].sac.hidden) == ((1024, 1024), (512, 512))
    assert [rows[name].sac.discount for name in ("lsd", "vic", "linearizer-o")] == [0.99, 0.995, 0.995]
    assert [rows[name].sac.policy_learning_rate for name in ("lsd", "smm", "linearizer-o")] == [1e-4, 1e-3, 3e-4]
    assert [rows[name].sac.target_update for name in ("lsd", "metra", "smm")] == ["epoch", "step", "step"]


def test_what_vic_needs_is_kept_in_every_recipe():
    for recipe, env in RECIPES:
        shared = get_recipe(recipe, env, "lsd", SkillConfig())
        row = coverage.row_config("vic", shared, recipe, SkillConfig(), ())
        assert row.sac.discount == pytest.approx(1 - 1 / row.env.episode_length)
        assert row.sac.time_limit_is_terminal
        assert row.schedule == shared.schedule


def test_with_fast_on_ant_smm_has_the_schedule_of_lsd_to_the_last_field():
    """What it was measured with: both learn from one batch, and what LSD remembers is more than SMM needs."""
    changes = ("engine=c", "schedule.worlds=4096", "schedule.sac_batch=4096")
    lsd, smm, edl = configs(("lsd", "smm", "edl"), "ant", "fast", steps=4_096_000, set=changes)
    assert (lsd.schedule.replay_collections, lsd.schedule.method_batch, lsd.schedule.epochs) == (8, 0, 40)
    assert smm.schedule == lsd.schedule
    assert edl.schedule == edl.method.first.schedule == dataclasses.replace(lsd.schedule, epochs=20)


def test_a_linearizer_keeps_its_blocks_whole_at_the_steps_and_updates_of_lsd():
    changes = ("engine=c", "schedule.worlds=4096")
    rows = configs(("lsd", "linearizer"), "ant", "fast", steps=2_048_000, set=changes)
    lsd, row = (config.schedule for config in rows)
    assert (lsd.steps, row.steps, row.worlds) == (25, 20, 4096)
    assert row.epochs * row.collection == lsd.epochs * lsd.collection == 2_048_000
    assert row.epochs * row.sac_steps == lsd.epochs * lsd.sac_steps
    assert row.replay_collections * row.collection == lsd.replay_collections * lsd.collection


def test_on_point_stages_have_the_start_the_memory_and_the_horizon_of_their_recipe():
    names = ("lsd", "smm", "edl", "ibol", "linearizer")
    rows = dict(zip(names, configs(names, "point", "laptop", steps=40_000), strict=True))
    assert {name: row.env.start_range for name, row in rows.items()} == {"lsd": 10.0, **dict.fromkeys(names[1:], 0.0)}
    edl = rows["edl"]
    assert rows["smm"].schedule.replay_collections == edl.method.first.schedule.replay_collections == 200
    assert edl.schedule.replay_collections == rows["lsd"].schedule.replay_collections == 4
    assert (edl.sac.discount, edl.sac.critic_learning_rate, edl.sac.target_step) == (0.8, 3e-3, 0.05)
    assert (edl.method.first.sac.discount, edl.method.first.sac.critic_learning_rate) == (0.9, 1e-3)


@pytest.mark.parametrize(("name", "discount"), [("ibol", 0.99), ("ibol-o", 0.995)])
def test_ibols_lower_level_has_the_rate_and_the_horizon_of_the_paper(name, discount):
    (row,) = configs((name,), "ant", "paper")
    first = row.method.first.sac
    assert (first.policy_learning_rate, first.critic_learning_rate, first.discount) == (3e-4, 3e-4, discount)


def test_changes_reach_every_row_beside_what_is_its_own():
    lsd, metra, dads = configs(("lsd", "metra", "dads-o"), "point", "laptop", set=("sac.discount=0.5", "seed=7"))
    assert [c.sac.discount for c in (lsd, metra, dads)] == [0.5] * 3
    assert [c.seed for c in (lsd, metra, dads)] == [7] * 3
    assert (lsd.sac.alpha, metra.sac.alpha, dads.sac.learn_alpha) == (0.03, 0.1, True)


def test_changes_reach_every_stage():
    changes = ("sac.discount=0.5", "sac.alpha=0.7", "schedule.replay_collections=3", "schedule.epochs=40")
    names = ("lsd", "smm", "edl", "ibol")
    rows = dict(zip(names, configs(names, "point", "laptop", set=changes), strict=True))
    stages = (rows["lsd"], rows["smm"], rows["edl"], rows["edl"].method.first, rows["ibol"].method.first)
    assert [(stage.sac.discount, stage.sac.alpha) for stage in stages] == [(0.5, 0.7)] * 5
    assert [stage.schedule.replay_collections for stage in stages] == [3] * 5
    assert rows["ibol"].schedule.replay_collections == 1  # learns from what was collected


@pytest.mark.parametrize("name", ["edl", "ibol"])
def test_stages_keep_their_shares_whoever_says_how_many_epochs(name):
    (recipe,) = configs((name,), "point", "laptop")
    (said,) = configs((name,), "point", "laptop", set=("schedule.epochs=100",))

    def share(row):
        first, last = (stage.schedule.epochs * stage.schedule.collection for stage in (row.method.first, row))
        return first / (first + last)

    assert share(said) == pytest.approx(share(recipe), abs=0.02)
    assert said.method.first.schedule.epochs == 50


def test_what_is_changed_of_the_schedule_is_changed_of_ibols_first_stage_which_learns_as_lsd_does():
    (lsd, ibol) = configs(("lsd", "ibol"), "ant", "laptop", steps=100_000, set=("schedule.worlds=16",))
    own = get_recipe("laptop", "ant", "ibol", SkillConfig()).schedule
    assert lsd.schedule.worlds == ibol.method.first.schedule.worlds == 16
    assert ibol.schedule == dataclasses.replace(own, epochs=ibol.schedule.epochs)


def test_discrete_rows():
    metra, vic = configs(("metra", "vic"), "point", "laptop", SkillConfig("discrete", 4))
    assert metra.skills == vic.skills == SkillConfig("discrete", 4)


# --- what is written -------------------------------------------------------------------------------------------------


def test_every_row_that_is_trained_took_the_same_steps_and_updates(done):
    folder, result, text, _ = done
    assert {**written(folder), "failed": {}} == result
    assert list(result["rows"]) == list(ROWS)
    for name in ("metra", "lsd"):
        row, run = result["rows"][name], Run.open(folder / "work/point_2d" / name)
        assert (row["env_steps_per_seed"], row["updates_per_seed"]) == (160, {"sac": 16, "phi": 16})
        assert run.metrics()[-1]["env_steps"] == 160
        assert run.config.schedule.epochs * run.config.schedule.sac_steps == 16
        assert run.config.method.name == name
        seconds = run.metrics()[-1]["train_seconds"]
        assert row["training_seconds_per_1000_updates"] == pytest.approx(seconds / 16 * 1000)
        assert [len(v["per_seed"]) for v in row["metrics"].values()] == [2] * len(row["metrics"])
    assert "160 environment steps, 16 SAC updates and 16 of phi" in text
    metra = result["rows"]["metra"]["differs_from_lsd"]
    assert (metra["sac.alpha"], metra["skills.unit_length"], metra["method.name"]) == (0.1, True, "metra")
    assert not [key for key in metra if key.startswith("schedule")]
    assert result["rows"]["lsd"]["differs_from_lsd"] == {}


def test_the_row_of_random_is_what_uniform_actions_do(done):
    """Its numbers are those of its episodes; the episodes are, in distribution, those of NumPy's uniform steps."""
    folder, result, _, _ = done
    row, position = result["rows"]["random"], positions(folder, "random").astype(np.float64)
    assert position.shape == (2, 11, 200, 2)
    assert (row["env_steps_per_seed"], row["updates_per_seed"]["sac"], row["epochs"]) == (0, 0, 0)
    bins = [len({(int(x // 1), int(y // 1)) for x, y in one.reshape(-1, 2)}) for one in position]
    assert row["metrics"]["coverage_mode"] == row["metrics"]["coverage_sampled"]
    assert row["metrics"]["coverage_mode"]["per_seed"] == bins
    assert row["metrics"]["coverage_mode"]["mean"] == sum(bins) / 2
    apart = np.hypot(*np.moveaxis(position[:, -1] - position[:, 0], -1, 0)).mean(axis=-1)
    assert row["metrics"]["distance"]["per_seed"] == pytest.approx(apart, rel=1e-5)
    std = np.array(make_world(PointConfig(start_range=10.0)).spec.obs_std)
    scaled = np.linalg.norm((position[:, -1] - position[:, 0]) / std, axis=-1).mean(axis=-1)
    assert row["metrics"]["travelled"]["per_seed"] == pytest.approx(scaled, rel=1e-5)
    assert np.all(position[:, 0] == 0.0)  # as an evaluation starts, though training starts anywhere
    assert not np.array_equal(position[0], position[1])

    random = np.random.default_rng(0)
    steps = random.uniform(-1, 1, (50, 10, 200, 2))
    walks = np.concatenate([np.zeros((50, 1, 200, 2)), steps.cumsum(axis=1)], axis=1)
    covered = [len(np.unique(np.floor(walk.reshape(-1, 2)), axis=0)) for walk in walks]
    moved = np.diff(position, axis=1)
    assert np.abs(moved).max() <= 1.0 + 1e-5
    assert np.abs(moved.mean()) < 0.03  # six standard errors
    assert moved.std() == pytest.approx(1 / np.sqrt(3), rel=0.03)
    assert abs(np.mean(bins) - np.mean(covered)) < 5 * np.std(covered) / np.sqrt(2)
    assert apart.mean() == pytest.approx(np.hypot(*np.moveaxis(walks[:, -1], -1, 0)).mean(), rel=0.15)


def test_random_actions_move_bodies_too():
    """With an engine that is not compiled."""
    changes = ("env.episode_length=4", "schedule.steps=4")
    config = configure("half-cheetah", seeds=2, set=changes)
    assert config.engine == "c"
    rollout = coverage.roll_out_randomly(config, 30)
    assert (rollout.obs.shape[:3], rollout.action.shape) == ((2, 5, 30), (2, 4, 30, 6))
    assert np.abs(rollout.action).max() <= 1.0
    assert rollout.action.std(axis=(1, 2, 3)) == pytest.approx([1 / np.sqrt(3)] * 2, rel=0.1)
    assert not np.array_equal(rollout.action[0], rollout.action[1])
    assert np.all(rollout.obs[:, 0] != rollout.obs[:, -1])


def test_the_table_and_the_figures(done):
    folder, result, text, files = done
    assert sorted(tree(folder / "out")) == FILES
    assert sorted(path.name for path in files) == FILES
    assert (folder / "out" / f"{STEM}.md").read_text() == text
    pictures = [(folder / "out" / name).read_bytes() for name in FILES if name.endswith(".png")]
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)
    assert len(set(pictures)) == 3
    places = [text.index(f"| {name} |") for name in ("lsd", "metra", "random")]
    assert places == sorted(places)  # the order of the table, not that of training
    for name, start in (("lsd", "0.03 | 160 | 16"), ("metra", "0.1 | 160 | 16"), ("random", " | 0 | 0")):
        measured = result["rows"][name]["metrics"]
        numbers = [
            f"{measured[key]['mean']:.{digits}f} ± {measured[key]['ci95']:.{digits}f}"
            for key, digits in (("coverage_mode", 0), ("coverage_sampled", 0), ("travelled", 2), ("distance", 2))
        ]
        assert f"| {name} | {start} | {' | '.join(numbers)} |" in text


def test_the_panels_show_the_first_seed_of_every_row(done, monkeypatch):
    folder, result, _, _ = done
    shown = []
    monkeypatch.setattr(
        trajectories, "show_paths", lambda axes, position, colours, places: shown.append((position, colours))
    )
    assert trajectories.trajectories(result, result["rows"], folder / "work/point_2d").png.startswith(b"\x89PNG")
    assert [np.array_equal(got, positions(folder, name)[0]) for (got, _), name in zip(shown, ROWS, strict=True)] == [
        True
    ] * 3
    assert shown[0][1] == "0.55"  # nothing to colour by
    assert shown[1][1].shape == (200, 3)


# --- going on --------------------------------------------------------------------------------------------------------


def test_nothing_is_done_again_even_without_the_runs(copy, monkeypatch):
    before, picture = written(copy), (copy / "out" / f"{STEM}_trajectories.png").read_bytes()
    shutil.rmtree(copy / "work")
    (copy / "out" / f"{STEM}.png").unlink()
    monkeypatch.setattr(loop, "run_training", fail_if_called)
    monkeypatch.setattr(coverage, "roll_out_randomly", fail_if_called)
    study(copy)
    assert written(copy) == before
    assert sorted(tree(copy / "out")) == FILES
    assert (copy / "out" / f"{STEM}_trajectories.png").read_bytes() == picture  # the runs it was drawn from are gone
    assert not (copy / "work").exists()


def test_a_row_that_is_not_in_the_results_is_measured_from_its_finished_run(copy, monkeypatch):
    results = written(copy)
    lost = results["rows"].pop("metra"), results["rows"].pop("random")
    (copy / "out" / f"{STEM}.json").write_text(json.dumps(results))
    monkeypatch.setattr(loop, "run_training", fail_if_called)
    result, _, _ = study(copy)
    assert [result["rows"][name]["metrics"] for name in ("metra", "random")] == [row["metrics"] for row in lost]


def test_a_row_that_fails_is_told_of_and_the_others_stay(copy, monkeypatch):
    def diverges(run, *_, **__):
        raise UserError("training diverged before epoch 2")

    monkeypatch.setattr(loop, "run_training", diverges)
    result, text, _ = study(copy, "csd", "lsd")
    assert result["failed"] == {"csd": "training diverged before epoch 2"}
    assert set(result["rows"]) == set(ROWS)
    assert "`csd` failed: training diverged before epoch 2" in text


def test_a_measure_that_is_not_finite_is_told_of_and_not_taken_for_damage(copy, monkeypatch):
    monkeypatch.setattr(loop, "run_training", fail_if_called)
    results = written(copy)
    measured = results["rows"]["metra"]["metrics"]["travelled"]
    measured.update(mean=None, standard_error=None, ci95=None, per_seed=[None, measured["per_seed"][1]])
    results["note"] = "two of them shared a GPU"
    (copy / "out" / f"{STEM}.json").write_text(json.dumps(results))
    (copy / "out" / f"{STEM}_travelled.png").unlink()
    text = study(copy)[1]
    (row,) = (line for line in text.splitlines() if line.startswith("| metra |"))
    assert row.split(" | ")[6] == "not finite"
    assert text.count("not finite") == 1
    assert text.endswith("\ntwo of them shared a GPU\n")
    assert (copy / "out" / f"{STEM}_travelled.png").read_bytes().startswith(b"\x89PNG")


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": 3}, "was made with seeds 2, not 3; choose another --out"),
        ({"budget_steps": 400}, "was made with schedule.epochs 4, not 10"),
        ({"changes": (*CHANGES, "sac.discount=0.5")}, "was made with sac.discount 0.9, not 0.5"),
    ],
)
def test_results_of_other_settings_are_refused_and_kept(done, options, message):
    folder, before = done[0], tree(done[0])
    with pytest.raises(UserError, match=message) as caught:
        study(folder, **options)
    assert "\n" not in str(caught.value)
    assert tree(folder) == before


def test_a_row_of_an_older_recipe_is_refused_and_kept(copy):
    results = written(copy)
    results["rows"]["metra"]["alpha"] = 0.2
    (copy / "out" / f"{STEM}.json").write_text(json.dumps(results))
    before = tree(copy)
    with pytest.raises(UserError, match=r"has metra with alpha 0\.2, not 0\.1; choose another --out"):
        study(copy)
    assert tree(copy) == before


@pytest.mark.parametrize(
    "damage", [lambda r: r.pop("provenance"), lambda r: r["rows"]["lsd"]["metrics"].update(travelled=None)]
)
def test_results_that_lack_something_are_refused_before_anything_is_trained(copy, monkeypatch, damage):
    results = written(copy)
    damage(results)
    (copy / "out" / f"{STEM}.json").write_text(json.dumps(results))
    monkeypatch.setattr(loop, "run_training", fail_if_called)
    with pytest.raises(UserError, match=rf"{STEM}\.json is damaged: it is no table of `reproduce coverage`"):
        study(copy, "csd")


def test_a_folder_for_results_that_is_none_is_refused_before_anything_is_trained(tmp_path, monkeypatch):
    (tmp_path / "out").write_text("a file")
    monkeypatch.setattr(loop, "run_training", fail_if_called)
    with pytest.raises(UserError, match=r"cannot write .*out: Not a directory"):
        study(tmp_path, "lsd")
    assert not (tmp_path / "work").exists()


def test_a_run_of_other_settings_is_refused_before_other_rows_are_trained(done, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "run_training", fail_if_called)
    monkeypatch.setattr(coverage, "roll_out_randomly", fail_if_called)
    with pytest.raises(UserError, match="metra holds a run with another configuration; choose another --work"):
        coverage.reproduce(
            tmp_path, done[0] / "work", "point", only=("random", "csd", "metra"), budget_steps=400, changes=CHANGES
        )
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_a_row_is_measured_says_how_to_go_on(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(coverage, "roll_out_randomly", interrupted)
    with pytest.raises(KeyboardInterrupt, match="stopped; the same command continues"):
        study(tmp_path, "random")


# --- the command line ------------------------------------------------------------------------------------------------


def test_the_command_shows_the_table_and_says_which_row_it_is_at(command_line, copy, monkeypatch):
    monkeypatch.chdir(copy)
    monkeypatch.setattr(loop, "run_training", fail_if_called)
    results = written(copy)
    del results["rows"]["random"]
    (copy / "out" / f"{STEM}.json").write_text(json.dumps(results))
    words = itertools.chain.from_iterable(("--set", change) for change in CHANGES)
    only = itertools.chain.from_iterable(("--only", name) for name in ("lsd", "random"))
    rest = ("--env", "point", "--seeds", 2, "--budget-steps", STEPS, "--out", "out", "--work", "work")
    code, out, err = command_line("reproduce", "coverage", *rest, *only, *words)
    assert code == 0
    assert f"row 1 of 2, lsd: in out/{STEM}.json already\n" in err
    assert "row 2 of 2, random: 2 seeds of uniform actions\n" in err
    assert (copy / "out" / f"{STEM}.md").read_text() in out
    assert f"out/{STEM}_travelled.svg, out/{STEM}_trajectories.png, out/{STEM}_trajectories.svg\n" in out


def test_discrete_skills_have_files_of_their_own(tmp_path):
    _, text, files = study(tmp_path, "random", discrete=4, seeds=1)
    assert files[0] == tmp_path / "out/coverage_point_n4.json"
    assert files[0].is_file()
    assert "seed 0 with no training" in text


def test_a_table_names_all_commits_and_says_that_there_were_other_commands(copy, monkeypatch):
    monkeypatch.setattr(loop, "run_training", fail_if_called)
    results = written(copy)
    for name, commit in (("lsd", "abc"), ("metra", "def")):
        results["rows"][name]["measured"].update(commit=commit, command=f"wanderlust --only {name}")
    del results["rows"]["random"]
    (copy / "out" / f"{STEM}.json").write_text(json.dumps(results))
    text = study(copy, "lsd", "metra")[1]
    assert re.search(r"` and others like it: recipe", text)
    assert re.search(r"Commit (abc, def|def, abc), ", text)
    results["rows"]["metra"]["measured"] = results["rows"]["lsd"]["measured"]
    (copy / "out" / f"{STEM}.json").write_text(json.dumps(results))
    assert re.search(r"`: recipe .*Commit abc, ", study(copy, "lsd", "metra")[1])


def test_a_table_says_from_where_to_where_the_updates_go():
    def row(steps, sac, phi):
        return {"epochs": 1, "env_steps_per_seed": steps, "updates_per_seed": {"sac": sac, "phi": phi}}

    rows = {"lsd": row(4_000, 40, 40), "edl": row(4_000, 40, 20), "ibol": row(4_100, 2_000, 2)}
    assert amount(rows) == "4,000 to 4,100 environment steps, 40 to 2,000 SAC updates and 2 to 40 of phi"
    assert amount({"random": {"epochs": 0}}) == "no training"
