"""Flags made from the configuration's dataclasses: what they change, and how help and completion know them."""

import dataclasses
import re
import types

import pytest
from rich.console import Console

import wanderlust
from helpers import tiny_config
from wanderlust import api, cli
from wanderlust.cli import _parse
from wanderlust.cli.numbers import whole_number
from wanderlust.config import EnvConfig, flat, to_json
from wanderlust.errors import UserError
from wanderlust.registry import WORLDS


@pytest.fixture
def configured(command_line, monkeypatch, tmp_path):
    """The configuration, by dotted names, that `discover` would start a run with."""
    monkeypatch.chdir(tmp_path)
    made = []
    monkeypatch.setattr(api, "start_run", lambda config, *_: made.append(config))
    monkeypatch.setattr(cli.skills, "train_and_report", lambda *_: 0)

    def call(*words):
        assert command_line("discover", *words)[0] == 0
        return flat(dataclasses.asdict(made.pop()))

    return call


@pytest.mark.parametrize(
    ("words", "flag", "value"),
    [
        ((), "--sac.discount 0.5", 0.5),
        ((), "--sac.hidden 8 9", (8, 9)),
        ((), "--sac.learn-alpha", True),
        ((), "--schedule.order joint", "joint"),
        ((), "--schedule.replay_collections=7", 7),
        ((), "--skills.unit_length", True),
        ((), "--precision bfloat16", "bfloat16"),
        ((), "--seed 3", 3),
        ((), "--env.start-range 2", 2.0),
        (("--method", "dads-xy"), "--method.alternatives 50", 50),
        (("--method", "edl"), "--method.first.sac.discount 0.5", 0.5),
        (("ant", "--method", "ablation"), "--env.cone elliptic", "elliptic"),
        (("--method=ablation",), "--method.no-spectral", False),
    ],
)
def test_a_flag_changes_the_field_it_names_and_no_other(configured, words, flag, value):
    before, after = configured(*words), configured(*words, *flag.split())
    name = flag.split()[0].split("=")[0].lstrip("-").replace("-", "_").replace(".no_", ".")
    says = {} if name == "seed" else {"recipe": f"{before['recipe']}, changed: {name}"}
    assert {key: after[key] for key in after if after[key] != before[key]} == {name: value, **says}


def test_flags_and_set_say_the_same(configured):
    by_flags = configured("--method", "dads", "--method.alternatives", 50, "--sac.discount", 0.5, "--engine", "jax")
    words = [
        word for change in ("method.alternatives=50", "sac.discount=0.5", "engine=jax") for word in ("--set", change)
    ]
    assert configured("--method", "dads", *words) == by_flags


def test_the_environment_is_found_wherever_it_stands(configured):
    for words in (("ant", "--env.cone", "elliptic"), ("--env.cone", "elliptic", "--seed", 1, "ant")):
        assert configured(*words)["env.cone"] == "elliptic"


def test_the_flags_of_a_configuration_are_those_of_its_method(configured, command_line, tmp_path):
    (tmp_path / "dads.json").write_text(to_json(tiny_config("dads")))
    (tmp_path / "lsd.json").write_text(to_json(tiny_config("lsd")))
    assert configured("--config", "dads.json", "--method.alternatives", 7)["method.alternatives"] == 7
    code, _, err = command_line("discover", "--config", "lsd.json", "--method.alternatives", 7)
    assert code == 2 and err.count("\n") == 1


def test_a_run_that_is_resumed_takes_no_fields(command_line):
    code, _, err = command_line("discover", "--resume", "run", "--sac.discount", 0.5)
    assert code == 2 and "leave out --sac.discount" in err and err.count("\n") == 1


def test_help_lists_the_fields_of_the_named_method_and_environment(command_line):
    code, out, _ = command_line("discover", "--help")
    assert code == 0 and "--sac.discount" in out and "--method.hidden" in out and "the recipe's" in out
    assert "--method.alternatives INT" not in out and "--env.cone" not in out
    code, out, _ = command_line("discover", "ant", "--method", "dads", "--help")
    assert code == 0 and "--method.alternatives INT" in out and "--env.cone" in out


def test_the_environment_of_another_package_has_flags_of_its_own(command_line, monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class MeadowConfig(EnvConfig):
        grass: float = 1.0
        """How high the grass is."""

    monkeypatch.setitem(WORLDS._found, "meadow", types.SimpleNamespace(Config=MeadowConfig, summary="a meadow"))
    code, out, _ = command_line("discover", "meadow", "--help")
    assert code == 0 and "--env.grass" in out and "How high the grass is" in out


def test_completion_knows_every_field_of_every_method_and_environment(command_line, tmp_path):
    path = tmp_path / "completion"
    code, out, err = command_line("--tyro-write-completion", "bash", path)
    assert (code or 0, out, err) == (0, "", "")
    script = path.read_text()
    for flag in (
        "sac.discount",
        "method.alternatives",
        "method.multiplier",
        "env.cone",
        "env.start-range",
        "budget-steps",
    ):
        assert flag in script


def test_no_completion_for_a_shell_that_is_not_known(command_line):
    code, out, err = command_line("--tyro-print-completion", "nosuch")
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("text", "number"), [("7", 7), ("1e6", 1_000_000), ("2.5e3", 2500), ("200_000", 200_000), ("-3", -3)]
)
def test_whole_numbers_may_be_written_as_people_write_them(text, number):
    assert whole_number(text) == number and type(whole_number(text)) is int


@pytest.mark.parametrize("text", ["1.5", "1e-3", "nan", "inf", "1e300", "six", ""])
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises((ValueError, OverflowError)):
        whole_number(text)


def test_budgets_may_be_written_with_an_exponent():
    assert _parse(["discover", "--budget-steps", "1e6"]).budget_steps == 1_000_000
    with pytest.raises(UserError, match=r"--budget-steps.*1\.5 is no whole number"):
        _parse(["discover", "--budget-steps", "1.5"])


def test_an_unknown_word_is_answered_with_the_nearest_known_one():
    for argv, near in (
        (["discver"], "discover"),
        (["reproduce", "covrage"], "coverage"),
        (["discover", "--sede", "3"], "--seed"),
    ):
        with pytest.raises(UserError, match=re.escape(f"(did you mean {near}?)")):
            _parse(argv)
    for command, near in (("antt", "ant"), ("ant --recipe labtop", "laptop"), ("--method lds", "lsd")):
        with pytest.raises(UserError, match=re.escape(f"(did you mean {near}?)")):
            _parse(["discover", *command.split()]).run(Console())


def test_the_version_is_printed(command_line):
    code, out, _ = command_line("--version")
    assert (code, out.split()) == (0, ["wanderlust", wanderlust.__version__])
