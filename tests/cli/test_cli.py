"""The command line: bad input is one line and exit code 2 with nothing left on disk; good input leaves what it says."""

import json
import math
import re
from pathlib import Path

import pytest

from helpers import only_times, tiny_config
from trained import copy_of, run_python, trained, tree
from wanderlust import cli
from wanderlust.config import to_json
from wanderlust.runs.files import ArrayFile
from wanderlust.runs.run import Run


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty working folder with a configuration in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.json").write_text(to_json(tiny_config()))
    return tmp_path


@pytest.fixture
def run(here) -> Path:
    """A finished run in the working folder."""
    return copy_of(trained(), here / "run").path


@pytest.fixture
def refused(command_line, here):
    """Call the command line with something wrong: the one line it answers with."""

    def call(*args: object) -> str:
        before = tree(here)
        code, out, err = command_line(*args)
        assert code == 2, out + err
        lines = [line for line in err.splitlines() if line.strip()]
        assert len(lines) == 1, err
        assert "Traceback" not in out + err
        assert tree(here) == before
        assert lines[0].startswith("wanderlust: ")
        return lines[0]

    return call


@pytest.fixture
def untrained(monkeypatch):
    """Whatever is wrong must be found before training begins."""
    monkeypatch.setattr("wanderlust.api.train", lambda *_, **__: pytest.fail("training began"))


# --- bad input --------------------------------------------------------------------------------------------------

BAD = {
    "unknown env": ("nosuch", "unknown environment 'nosuch'"),
    "unknown method": ("--method nosuch", "unknown method 'nosuch'"),
    "unknown variant": ("--method lsd-nosuch", "unknown variant -nosuch of lsd"),
    "unknown recipe": ("--recipe nosuch", "no recipe 'nosuch'"),
    "no dimensions": ("--skills 0", "skills.size is 0; continuous skills need at least 1 dimension"),
    "negative dimensions": ("--skills -3", " is -3; continuous skills need at least 1 dimension"),
    "one skill": ("--discrete 1", "size is 1"),
    "no skills": ("--discrete 0", "size is 0"),
    "negative skills": ("--discrete -4", "size is -4"),
    "both kinds": ("--skills 2 --discrete 4", "--skills and --discrete exclude each other"),
    "no seeds": ("--seeds 0", "seeds is 0"),
    "negative seeds": ("--seeds -2", "seeds is -2"),
    "negative seed": ("--seed -1", "seed is -1"),
    "large seed": ("--seed 2147483648", "seed is 2147483648"),
    "last seed too large": ("--seed 2147483647 --seeds 2", "seed"),
    "no steps": ("--budget-steps 0", "--budget-steps is 0"),
    "negative steps": ("--budget-steps -5", "--budget-steps is -5"),
    "no time": ("--budget-seconds 0", "--budget-seconds is 0"),
    "negative time": ("--budget-seconds -1", "--budget-seconds is -1"),
    "no number of seconds": ("--budget-seconds nan", "--budget-seconds is nan"),
    "set without value": ("--set sac.discount", "--set sac.discount has no value"),
    "set nothing": ("--set =", "there is no field"),
    "set unknown field": ("--set sac.gamma=1", "there is no field sac.gamma"),
    "set bad type": ("--set sac.discount=high", "sac.discount is 'high'"),
    "set impossible": ("--set sac.discount=1", "sac.discount is 1.0"),
    "set unknown method": ("--set method.name=nosuch", "'nosuch'"),
    "set a number that is none": ("--set sac.target_entropy_per_action=NaN", "sac.target_entropy_per_action"),
    "set a huge size": (
        "--set schedule.replay_collections=1000000000000",
        "schedule.replay_collections is 1000000000000; it",
    ),
    "set huge sizes": ("--set schedule.worlds=200000000", "it must be below 2^31"),
    "set a huge number": (f"--set sac.alpha={'9' * 400}", "sac.alpha is out of range"),
    "set a huge box": ("--set env.start_range=1e200", "env.start_range is 1e+200"),
    "more than the machine has": ("--set method.hidden=[1000000,1000000]", "GiB for networks and replay"),
    "config missing": ("--config nosuch.json", "nosuch.json"),
    "config is a folder": ("--config .", "configuration cannot be read"),
    "resume missing": ("--resume nosuch", "there is no run folder nosuch"),
    "resume no run": ("--resume .", "config.json"),
    "out is there": ("--out tiny.json", "tiny.json already exists"),
    "out under a file": ("--out tiny.json/run", "cannot write to tiny.json/run"),
    "out with a long name": (f"--out {'x' * 300}", "x" * 300),
    # what the parser finds
    "unknown flag": ("--colour red", "--colour"),
    "mistyped flag": ("--skils 3", "did you mean --skills"),
    "bad type": ("--seeds two", "two"),
    "bad choice": ("--driver both", "--driver"),
    "bad engine": ("--engine gpu", "--engine"),
    "bad type of a field": ("--sac.discount high", "--sac.discount"),
    "impossible value of a field": ("--sac.discount 1", "sac.discount is 1.0"),
    "unknown field": ("--sac.gamma 1", "--sac.discount"),
    "field of another method": ("--method lsd --method.alternatives 5", "--method.hidden"),
    "field of another environment": ("ant --env.physics old", "--env.cone"),
    "field of an unknown method": ("--method nosuch --method.hidden 5", "unknown method 'nosuch'"),
    "set without anything": ("--set", "--set"),
    "too many words": ("point point", "point"),
}


@pytest.mark.parametrize("case", BAD)
def test_discover_refuses(case, refused, untrained):
    args, message = BAD[case]
    assert message in refused("discover", *args.split())


def test_unknown_commands_are_refused(refused):
    assert "nosuch" in refused("nosuch")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"seed"', '"sead"'), "there is no field sead"),
        (lambda text: text.replace('"discount"', '"gamma"'), "there is no field sac.gamma"),
        (lambda text: text[:40], "not valid JSON"),
        (lambda text: "", "not valid JSON"),
        (lambda text: "[]", "must be an object"),
        (lambda text: text.replace('"lsd"', '"nosuch"'), "'nosuch'"),
        (lambda text: text.replace('"epochs": 4', '"epochs": 0'), "schedule.epochs is 0"),
    ],
)
def test_a_bad_configuration_is_refused(refused, untrained, here, change, message):
    (here / "bad.json").write_text(change((here / "tiny.json").read_text()))
    line = refused("discover", "--config", "bad.json")
    assert message in line


@pytest.mark.parametrize("args", ["--method diayn", "--skills 3", "--discrete 4", "--recipe paper"])
def test_a_configuration_and_what_it_already_says_exclude_each_other(refused, untrained, args):
    """Not ignored: whoever writes both would get a run of something else."""
    assert args.split()[0] in refused("discover", "--config", "tiny.json", *args.split())


def test_an_existing_run_is_not_overwritten(refused, run):
    assert "run already exists" in refused("discover", "--out", "run")
    assert "--resume run" in refused("discover", "--config", "tiny.json", "--out", "run")


@pytest.mark.parametrize("args", ["--seeds 2", "--method diayn", "--budget-steps 5", "--out other", "--driver split"])
def test_resume_takes_no_other_settings(refused, run, args):
    assert f"leave out {args.split()[0]}" in refused("discover", "--resume", "run", *args.split())


def test_resume_refuses_what_is_broken(refused, run):
    newest, before = (run / "checkpoints" / f"epoch-0000000{epoch}.safetensors" for epoch in (4, 2))
    good, earlier = newest.read_bytes(), before.read_bytes()
    before.unlink()
    newest.write_bytes(good[:1000])
    assert str(newest.relative_to(run.parent)) in refused("discover", "--resume", "run")
    newest.write_bytes(good[:-4] + b"\x00\x01\x02\x03")
    assert str(newest.relative_to(run.parent)) in refused("discover", "--resume", "run")
    before.write_bytes(earlier)
    newest.write_bytes(good)
    assert "--budget-seconds is -1" in refused("discover", "--resume", "run", "--budget-seconds", -1)
    (run / "config.json").write_text("{")
    assert "run/config.json is not valid JSON" in refused("discover", "--resume", "run")


@pytest.mark.parametrize("command", [("evaluate",), ("reach", "--goal", 1, 1)])
def test_commands_on_runs_refuse_what_is_no_run(refused, run, command):
    name, *options = command
    assert "there is no run folder nosuch" in refused(name, "nosuch", *options)
    assert "config.json" in refused(name, ".", *options)
    for path in (run / "checkpoints").iterdir():
        path.unlink()
    assert "run has no checkpoint yet" in refused(name, "run", *options)
    (run / "checkpoints" / "epoch-00000004.safetensors").write_bytes(b"")
    assert "epoch-00000004.safetensors" in refused(name, "run", *options)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("", "no goal given"),
        ("--goal 1", "--goal"),
        ("--goal 1 north", "north"),
        ("--goal nan 1", "goal nan 1.0 is not 2 finite numbers"),
        ("--goal 1 inf", "is not 2 finite numbers"),
        ("--goal 1 1 --radius 0", "--radius is 0"),
        ("--goal 1 1 --radius -1", "--radius is -1"),
        ("--goal 1 1 --steps-per-goal 0", "--steps-per-goal is 0"),
        ("--goal 1 1 --steps-per-goal 5 --until-reached", "--until-reached and --steps-per-goal exclude each other"),
        ("--goal 1 1 --seed 1", "no seed 1"),
        ("--goal 1 1 --seed -1", "no seed -1"),
    ],
)
def test_reach_refuses(refused, run, args, message):
    assert message in refused("reach", "run", *args.split())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("--episodes 0", "--episodes is 0"),
        ("--episodes -1", "--episodes is -1"),
        ("--seed 99999999999999999999999999", "--seed"),
        ("--drive", "--drive is for bodies that walk or run; point is none"),
        ("--drive --bodies 1", "--bodies is 1; it must be at least 2"),
        ("--drive --skill-every 0", "--skill-every is 0"),
        ("--bodies 8", "without --drive nothing is driven; leave out --bodies"),
    ],
)
def test_evaluate_refuses(refused, run, args, message):
    assert message in refused("evaluate", "run", *args.split())


def test_evaluate_and_reach_need_a_run(refused):
    assert "RUN" in refused("evaluate")
    assert "RUN" in refused("reach")


@pytest.mark.parametrize(
    "args",
    ["evaluate run --engine gpu", "replay file --engine gpu", "bench --only sums", "export run --to clay", "--nosuch"],
)
def test_what_the_parser_refuses_is_one_line(refused, args):
    refused(*args.split())


def test_reproduce_refuses(refused):
    assert "nosuch" in refused("reproduce", "nosuch")
    assert "--seeds is 0" in refused("reproduce", "point-goals", "--seeds", 0)
    assert "sac.gamma" in refused("reproduce", "point-goals", "--set", "sac.gamma=1")


@pytest.mark.parametrize("item", ["point-goals", "ablation", "coverage"])
def test_a_wrong_option_leads_to_the_help_of_its_own_command(refused, item):
    assert refused("reproduce", item, "--nosuch").endswith(f"; see wanderlust reproduce {item} --help")
    assert refused("reproduce", "--nosuch").endswith("; see wanderlust reproduce --help")
    assert refused("evaluate", "coverage", "--nosuch").endswith("; see wanderlust evaluate --help")


# --- help -------------------------------------------------------------------------------------------------------


def test_help_names_every_command(command_line):
    for args in ((), ("--help",)):
        code, out, _ = command_line(*args)
        assert code == 0
        assert all(command in out for command in cli.COMMANDS)


def test_list_shows_what_there_is(command_line):
    code, out, err = command_line("list")
    assert (code, err) == (0, "")
    for word in ("point", "lsd", "diayn", "-xy", "-o", "-xyo", "laptop", "paper", "point-goals"):
        assert re.search(rf"(?m)^\s*{word}\s", out), word


# --- good input -------------------------------------------------------------------------------------------------

FIGURES = ("trajectories.png", "phi.png", "correlations.png", "bars.png", "learning_curve.png")


def assert_pictures(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        data = (folder / name).read_bytes()
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        assert data.endswith(b"IEND\xaeB`\x82")
        width, height = (int.from_bytes(data[i : i + 4], "big") for i in (16, 20))
        assert width > 300
        assert height > 200
        assert len(data) > 10_000


def evaluation(run: Path) -> dict:
    return json.loads((run / "evaluation" / "evaluation.json").read_text(), parse_constant=pytest.fail)


def test_discover_evaluate_reach_and_their_pictures(command_line, here):
    code, out, _ = command_line("discover", "--config", "tiny.json", "--out", "run")
    assert code == 0
    run = Run.open(here / "run")
    assert run.config == tiny_config()
    assert max(run.checkpoints()) == 4
    assert_pictures(run.evaluation, FIGURES)
    for name in ("evaluation.json", *FIGURES):
        assert f"run/evaluation/{name}" in out
    assert "after 80 steps per seed\n" in re.sub(r" +\n", "\n", out)
    first = evaluation(run.path)
    assert (first["episodes"], first["epoch"], first["env_steps"], first["seeds"]) == (200, 4, 80, [0])
    assert first["metrics"]["coverage_mode"]["ci95"] is None  # one seed has no interval, and JSON no infinity
    assert "try next:" in out

    code, out, _ = command_line("evaluate", "run", "--episodes", 7, "--seed", 3)
    assert code == 0
    second = evaluation(run.path)
    assert second["episodes"] == 7
    assert second["metrics"] != first["metrics"]
    assert f"{second['metrics']['coverage_mode']['mean']:.2f}" in out

    code, out, _ = command_line("reach", "run", "--goal", 0.5, 0, "--goal", -500, -9, "--steps-per-goal", 3)
    assert code == 0
    assert "goal 1 (0.5, 0): reached in 0 steps" in out
    assert "goal 2 (-500, -9): missed by " in out
    assert_pictures(run.path / "reach", ("path.png",))
    assert len(json.loads((run.path / "reach" / "reach.json").read_text())["path"]) == 4


def test_evaluating_again_gives_the_same(command_line, run):
    files, arrays = [], []
    for _ in range(2):
        assert command_line("evaluate", "run", "--episodes", 20)[0] == 0
        files.append(tree(run / "evaluation"))
        files[-1].pop("rollouts.safetensors")  # its metadata comes in any order
        rollouts = ArrayFile(run / "evaluation" / "rollouts.safetensors")
        arrays.append({name: rollouts.read(name).tobytes() for name in rollouts.shapes()})
    assert files[0] == files[1]
    assert arrays[0] == arrays[1]
    assert set(arrays[0]) == {"position", "skill", "last", "random", "phi_first", "phi_last", "phi_random"}


def test_half_a_line_of_metrics_does_not_stop_an_evaluation(command_line, run):
    """A process killed in the middle of a line leaves a run that can still be looked at."""
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 6, "env_st')
    code, _, err = command_line("evaluate", "run", "--episodes", 5)
    assert code == 0 and only_times(err)


def test_a_folder_with_brackets_in_its_name_is_printed_as_it_is(command_line, here):
    copy_of(trained(), here / "a [b] [" / "d]")
    code, out, err = command_line("evaluate", "a [b] [/d]", "--episodes", 5)
    assert code == 0 and only_times(err)
    assert "a [b] [/d]/evaluation/evaluation.json" in out


def test_flags_make_the_run_they_say(here, monkeypatch):
    """Without training: what the flags put into config.json."""
    monkeypatch.setattr(cli.skills, "train_and_report", lambda *_: 0)

    def made(*args: str) -> Run:
        with pytest.raises(SystemExit) as stop:
            cli.main(["discover", *args, "--out", f"run{len(list(here.iterdir()))}"])
        assert stop.value.code == 0
        return Run.open(max(here.glob("run*"), key=lambda path: path.stat().st_ctime_ns))

    config = made().config
    assert (config.name, config.recipe, config.seed, config.seeds) == ("point-lsd-2d", "laptop", 0, 1)
    assert made("point", "--method", "diayn-xyo", "--recipe", "paper").config.name == "point-diayn-xyo-2d"
    assert made("--discrete", "16").config.name == "point-lsd-n16"
    assert made("--skills", "5").config.name == "point-lsd-5d"
    config = made("--seed", "3", "--seeds", "4", "--driver", "split").config
    assert (config.seed, config.seeds, config.driver) == (3, 4, "split")
    assert made("--budget-steps", "1").config.schedule.epochs == 1
    assert made("--budget-steps", "500").config.schedule.epochs == 1
    assert made("--budget-steps", "501").config.schedule.epochs == 2
    config = made("--set", "sac.discount=0.5", "--set", "sac.hidden=[8]").config
    assert (config.sac.discount, config.sac.hidden) == (0.5, (8,))
    (here / "three.json").write_text(to_json(tiny_config(seeds=3, seed=5, driver="split")))
    assert made("--config", "three.json").config == tiny_config(seeds=3, seed=5, driver="split")
    config = made("--config", "three.json", "--seed", "7", "--set", "sac.discount=0.5").config
    assert config == tiny_config(seeds=3, seed=7, driver="split", sac_discount=0.5)


def test_changes_that_only_fit_together_can_be_made_together(here, monkeypatch):
    monkeypatch.setattr(cli.skills, "train_and_report", lambda *_: 0)
    changes = ("log_every=7", "checkpoint_every=14", "schedule.sac_steps=3", "schedule.method_steps=3")
    with pytest.raises(SystemExit) as stop:
        cli.main(["discover", "--out", "run", *(word for change in changes for word in ("--set", change))])
    assert stop.value.code == 0
    config = Run.open(here / "run").config
    assert (config.log_every, config.checkpoint_every) == (7, 14)
    assert (config.schedule.sac_steps, config.schedule.method_steps) == (3, 3)


def test_the_default_folder_is_under_runs(here, monkeypatch):
    monkeypatch.setattr(cli.skills, "train_and_report", lambda *_: 0)
    for _ in range(3):
        with pytest.raises(SystemExit):
            cli.main(["discover"])
    names = [path.name for path in (here / "runs").iterdir()]
    assert len(names) == 3
    assert all(re.fullmatch(r"\d{8}-\d{6}-point-lsd-2d(-\d)?", name) for name in names)


def test_several_discrete_seeds_and_their_pictures(command_line, here):
    (here / "discrete.json").write_text(to_json(tiny_config(discrete=4, seeds=3, seed=5)))
    code, out, _ = command_line("discover", "--config", "discrete.json", "--seed", 5, "--seeds", 3, "--out", "run")
    assert code == 0
    facts = evaluation(here / "run")
    assert facts["seeds"] == [5, 6, 7]
    for value in facts["metrics"].values():
        assert len(value["per_seed"]) == value["seeds"] == 3
        assert math.isfinite(value["ci95"])
        assert value["mean"] == pytest.approx(sum(value["per_seed"]) / 3)
    assert "±" in out
    assert_pictures(here / "run" / "evaluation", FIGURES)


def test_the_split_driver_gives_what_the_fused_one_does(command_line, here):
    code, _, _ = command_line("discover", "--config", "tiny.json", "--driver", "split", "--out", "split")
    assert code == 0
    run = Run.open(here / "split")
    assert run.config == tiny_config(driver="split")
    for ours, fused in zip(run.metrics(), trained().metrics(), strict=True):
        assert ours["epoch"] == fused["epoch"]
        assert ours["reward"] == pytest.approx(fused["reward"], rel=1e-4, abs=1e-6)
        assert ours["critic_loss"] == pytest.approx(fused["critic_loss"], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--config", "tiny.json", "--begin-with", "nowhere"), "there is no run folder nowhere"),
        (("--config", "tiny.json", "--begin-with", "zoo:ant"), "it has environment ant and not point"),
        (("--config", "tiny.json", "--begin-with", "zoo:nosuch"), "the zoo has no entry 'nosuch'"),
        (("--resume", "run", "--begin-with", "other"), "leave out --begin-with"),
        (("point", "--method", "edl", "--begin-with", "tiny"), "edl begins with a stage of its own"),
    ],
)
def test_what_a_run_cannot_begin_with(command_line, here, flags, words):
    copy_of(trained(), here / "tiny")
    before = sorted(here.iterdir())
    code, _, err = command_line("discover", *flags)
    assert code == 2 and words in err and err.count("\n") == 1
    assert sorted(here.iterdir()) == before


def test_a_spent_budget_ends_with_checkpoint_and_evaluation(command_line, here):
    code, out, _ = command_line("discover", "--config", "tiny.json", "--budget-seconds", 1e-6, "--out", "run")
    assert code == 0
    assert "budget spent at epoch 2; continue with: " in out
    assert "wanderlust discover --resume run\n" in out
    assert evaluation(here / "run")["epoch"] == 2
    assert all((here / "run" / "evaluation" / name).exists() for name in FIGURES)
    code, out, _ = command_line("discover", "--resume", "run")
    assert code == 0
    assert evaluation(here / "run")["epoch"] == 4
    assert [row["epoch"] for row in Run.open("run").metrics()] == [2, 4]
    assert len(json.loads((here / "run" / "provenance.json").read_text())["resumed"]) == 1


def test_as_a_module(tmp_path):
    code, out, err = run_python("-m", "wanderlust", "discover", "nosuch", cwd=tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith("wanderlust: unknown environment 'nosuch'") and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
