"""Files that a stranger may send, and numbers that a program may hand over: a result, or one line; no way out."""

import contextlib
import json
import os
import time
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import wanderlust
from helpers import tiny_config
from trained import copy_of, trained, tree
from wanderlust import api
from wanderlust.config import SacConfig, with_changes
from wanderlust.downstream.solve import solve
from wanderlust.envs import devices
from wanderlust.envs.models import opening
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import _keep_another, evaluate
from wanderlust.runs.files import ArrayFile, write_json
from wanderlust.runs.loading import load
from wanderlust.runs.measured import open_rollouts, read_evaluation
from wanderlust.runs.publish import publish
from wanderlust.runs.run import Run
from wanderlust.sweeps.plan import read_plan


@pytest.fixture
def run(tmp_path) -> Run:
    return copy_of(trained(), tmp_path / "run")


def refusal(call, *args, **options) -> str:
    with pytest.raises(UserError) as caught:
        call(*args, **options)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 2100
    return str(caught.value)


# --- what is no file ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["config.json", "provenance.json", "metrics.jsonl", "evaluation/evaluation.json"])
def test_a_pipe_in_place_of_a_file_does_not_hang(run, name):
    (run.path / name).unlink()
    os.mkfifo(run.path / name)
    read = {
        "config.json": lambda: Run.open(run.path),
        "metrics.jsonl": run.metrics,
        "evaluation/evaluation.json": lambda: publish(run, "one"),
    }
    if name == "provenance.json":
        assert run.provenance() == {}
    else:
        refusal(read[name])


def test_a_device_and_a_file_of_holes_are_not_read(run):
    config = run.path / "config.json"
    config.unlink()
    config.symlink_to("/dev/zero")
    assert "is a link to /dev/zero" in refusal(Run.open, run.path)
    config.unlink()
    with config.open("wb") as file:
        file.truncate(2**40)
    assert "has 1,099,511,627,776 bytes; it can have 1,048,576" in refusal(Run.open, run.path)


@pytest.mark.parametrize("name", ["checkpoints", "evaluation", "metrics.jsonl", "evaluation/trajectories.png"])
def test_no_link_leads_out_of_a_run(run, tmp_path, name):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "epoch-00000001.safetensors").write_text("precious")
    before, place = tree(mine), run.path / name
    if place.is_dir():
        place.rename(tmp_path / "away")
    else:
        place.unlink(missing_ok=True)
    place.symlink_to(mine if "." not in name else mine / "new")
    assert "will not be followed" in refusal(Run.open, run.path)
    assert "will not be followed" in refusal(api.open_to_resume, run.path)
    assert tree(mine) == before
    place.unlink()
    (tmp_path / "linked").symlink_to(run.path)
    if not (tmp_path / "away").exists():
        assert Run.open(tmp_path / "linked").config == run.config


def test_names_that_no_file_system_takes(tmp_path):
    for name in ("x" * 5000, "a\udcff\x1b[31m", "zoo:" + "y" * 5000):
        assert "there is no run folder" in refusal(Run.open, name)
        refusal(load, name)


# --- what is in a file --------------------------------------------------------------------------------------------


def header_of(data: bytes) -> tuple[dict, bytes]:
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def with_header(header: dict, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


@pytest.mark.parametrize("sums", ["[1]", "5", '"a"', "null", "[" * 100_000, '[["a", 1]]'])
def test_checksums_of_any_kind(run, sums):
    path = run.checkpoints()[4]
    header, body = header_of(path.read_bytes())
    header["__metadata__"]["crc32"] = sums
    path.write_bytes(with_header(header, body))
    assert "is not a whole wanderlust file" in refusal(ArrayFile, path)


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "BF16", "F4"])
def test_types_that_numpy_does_not_have(run, dtype):
    path = run.evaluation / "rollouts.safetensors"
    header, body = header_of(path.read_bytes())
    name = "position"
    first, last = header[name]["data_offsets"]
    width = {"BF16": 2}.get(dtype, 1)
    header[name] |= {"dtype": dtype, "shape": [(last - first) // width]}
    header["__metadata__"]["crc32"] = json.dumps({name: zlib.crc32(body[first:last])})
    path.write_bytes(with_header(header, body))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(UserError):
            ArrayFile(path).read(name)
    refusal(open_rollouts, run.evaluation, 1)


def test_checkpoints_with_odd_names_are_none(run):
    folder = run.path / "checkpoints"
    for name in ("epoch-².safetensors", "epoch-٣.safetensors", "epoch--1.safetensors", "epoch-5.safetensors"):
        (folder / name).write_bytes(b"")
    assert list(run.checkpoints()) == [2, 4]


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("seeds", []),
        ("seeds", {"a": 1}),
        ("episodes", "many"),
        ("episodes", 0),
        ("env_steps", -1),
        ("env_steps", 1e400),
        ("metrics", []),
        ("metrics", {"coverage_mode": 3}),
        ("metrics", {"coverage_mode": {"per_seed": ["a"]}}),
        ("metrics", {"coverage_mode": {"per_seed": [1, 2]}}),
        ("random", {"coverage": []}),
        ("entries", [1]),
        ("name", ["a"]),
        ("kinds", {"per_seed": 1}),
    ],
)
def test_evaluations_of_any_kind_are_refused_before_they_are_drawn(run, entry, value):
    path = run.evaluation / "evaluation.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), entry: value}))
    assert f"is damaged: {entry} is not what it should be" in refusal(read_evaluation, run.evaluation)


def test_messages_are_printable_and_short():
    text = str(UserError("a\x1b[31m\n\r\x00" + "b" * 10**6 + " the end"))
    assert text.isprintable() and len(text) < 2100 and text.endswith(" the end")


# --- memory -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"env_episode_length": 2_000_000_000}, "env.episode_length of the run is too large"),
        ({"discrete": 3_000_000}, "skills.size of the run is too large"),
    ],
)
def test_a_small_file_cannot_ask_for_any_memory(tmp_path, changes, words):
    run = Run.create(tmp_path / "run", tiny_config(**changes))
    assert words in refusal(load, run)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"<mujoco>" + b"<!--" * 150_000, "not well-formed XML"),
        (b"<mujoco>" + b"<a/>" * 2**20 + b"</mujoco>", "has more than 50,000 elements"),
        (
            b"<mujoco>" + b"<b/>" * 20_000 + b'<include file="one.xml"/>' * 20_000 + b"</mujoco>",
            "more than 1,000 files",
        ),
    ],
    ids=["comments", "elements", "includes"],
)
def test_a_model_file_cannot_ask_for_any_time(tmp_path, text, words):
    (tmp_path / "one.xml").write_bytes(b"<mujoco/>")
    (tmp_path / "model.xml").write_bytes(text)
    since = time.process_time()
    assert words in refusal(opening.collect, tmp_path / "model.xml")
    assert time.process_time() - since < 5.0  # of minutes and hours


def test_configurations_and_grids_are_small(run, tmp_path):
    (run.path / "config.json").write_bytes(b" " * (2**20 + 1))
    assert "has 1,048,577 bytes; it can have 1,048,576" in refusal(Run.open, run.path)
    grid = tmp_path / "grid.toml"
    grid.write_bytes(b"#" * (2**20 + 1))
    assert "it can have 1,048,576" in refusal(read_plan, grid)
    grid.write_text("methods = " + "[" * 5000)
    assert "is no valid TOML" in refusal(read_plan, grid)


def test_layers_without_end_are_refused():
    with pytest.raises(UserError, match="one to 64 layer widths"):
        SacConfig(hidden=(1,) * 80_000)


# --- Python -------------------------------------------------------------------------------------------------------


def test_what_python_hands_over_is_checked_and_the_entry_named():
    skills = load(trained())
    obs = np.zeros((3, skills.spec.obs_dim))
    for bad in (np.nan, np.inf, 1e300):
        obs[2, 1] = bad
        assert refusal(skills.act, obs, [0, 1]) == f"obs[2, 1] is {bad}; it must be a finite number"
    good = np.zeros(skills.spec.obs_dim)
    assert "z[1] is nan" in refusal(skills.act, good, [0, np.nan])
    assert "goal[0] is inf" in refusal(skills.towards, good, [np.inf, 0])
    for odd in ("ab", None, [[1], [1, 2]], object(), {}, 1j):
        assert "obs" in refusal(skills.act, odd, [0, 1])
    for many in (10**12, 0, -1, 1.5, "1", None, True):
        assert "cannot sample" in refusal(skills.sample, many)
    for seed in (-1, 2**31, 1.5, "a"):
        assert "seed is" in refusal(skills.sample, 1, seed)
        refusal(load, trained(), seed)
    refusal(load, 5)


ODD = (
    None,
    "a\0b",
    -1,
    1.5,
    float("nan"),
    True,
    [],
    [[1], [1, 2]],
    {},
    object(),
    b"x",
    1j,
    np.array(["a"]),
    "x" * 5000,
)


def asked_of_skills(skills) -> dict[str, Callable[[Any], Any]]:
    good = np.zeros(skills.spec.obs_dim)
    return {
        "spread": skills.spread,
        "spread seed": lambda x: skills.spread(1, x),
        "nearest": skills.nearest,
        "act z": lambda x: skills.act(good, x),
        "act seed": lambda x: x is None or skills.act(good, [0, 1], x),
        "follow": lambda x: skills.follow(good, x),
        "towards": lambda x: skills.towards(good, x),
        "SkillEnv task": lambda x: wanderlust.SkillEnv(skills, x),
        "SkillVectorEnv": lambda x: x is True or wanderlust.SkillVectorEnv(skills, "point-goal", x),
    }


def asked_of_runs(run) -> dict[str, Callable[[Any], Any]]:
    def task(**changes):
        return solve(run, **{"task": "point-goal", "controller": "random", "quiet": True, **changes})

    names = ("seed", "seeds", "epochs", "worlds", "hold", "episodes")
    return {
        "episodes": lambda x: evaluate(run, x),
        "seed": lambda x: evaluate(run, 1, x),
        "publish": lambda x: publish(run, x),
        "task": lambda x: task(task=x),
        "controller": lambda x: task(controller=x),
        **{f"solve {name}": lambda x, name=name: (x is None and name != "seed") or task(**{name: x}) for name in names},
        "sweep": wanderlust.sweep,
        "model": wanderlust.world_from_mjcf,
        "normalise": lambda x: wanderlust.normalise("point", rollouts=2, steps=1, seed=x),
        "focus": lambda x: x is None or wanderlust.discover("point", focus=x, out="/proc/no", quiet=True),
        "out": lambda x: (
            x is None or wanderlust.discover("point", out=x if x != "x" * 5000 else "/proc/no", quiet=True)
        ),
    }


@pytest.mark.parametrize("asked", [asked_of_skills, asked_of_runs])
def test_whatever_a_program_hands_over_ends_in_a_result_or_one_line(asked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given, wrong = trained() if asked is asked_of_runs else load(trained()), []
    for name, call in asked(given).items():
        for odd in ODD:
            try:
                call(odd)
            except UserError as error:
                assert str(error).isprintable()
            except Exception as error:
                wrong.append(f"{name} of {odd!r:.40}: {error!r:.80}")
    assert wrong == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "given", [{"env": 5}, {"method": None}, {"seed": "a"}, {"seeds": 1.5}, {"engine": 3}, {"set": "sac.discount=1"}]
)
def test_a_configuration_of_the_wrong_types_is_one_line(given):
    refusal(api.configure, **given)


# --- changes ------------------------------------------------------------------------------------------------------


def test_an_object_changes_the_fields_that_it_names():
    config = with_changes(tiny_config(), ('sac={"discount": 0.5}', 'schedule={"steps": 4}'))
    assert config == tiny_config(sac_discount=0.5, schedule_steps=4)
    assert "use --method diayn instead" in refusal(with_changes, tiny_config(), ("method.name=diayn",))
    assert "use --with music instead" in refusal(with_changes, tiny_config(), ('bonus={"name": "music"}',))


def test_a_recipe_whose_numbers_were_changed_says_so():
    changed = api.configure("point", set=("sac.discount=0.5", "seed=3", "log_every=10", "checkpoint_every=10"))
    assert changed.recipe == "laptop, changed: sac.discount"
    assert api.configure("point", seed=3).recipe == "laptop"


def test_another_evaluation_is_kept(run):
    before = (run.evaluation / "evaluation.json").read_bytes()
    _keep_another(run, {"epoch": 4, "episodes": 20})
    assert (run.evaluation / "evaluation.json").read_bytes() == before
    _keep_another(run, {"epoch": 4, "episodes": 3})
    kept = run.evaluation / "epoch-00000004-20-episodes"
    assert (kept / "evaluation.json").read_bytes() == before
    assert not (run.evaluation / "evaluation.json").exists()
    write_json(run.evaluation / "evaluation.json", {})


# --- the cache ----------------------------------------------------------------------------------------------------


def test_the_cache_heals(tmp_path):
    whole = zlib.compress(b"a program" * 100)
    for name, data in {"a": whole, "b": b"", "c": whole[:-9], "d": whole}.items():
        (tmp_path / f"{name}-cache").write_bytes(data)
    devices.healed_cache(tmp_path)
    left = sorted(path.name for path in tmp_path.glob("*-cache"))
    assert left == ["a-cache", "d-cache"]
    (tmp_path / "a-cache").write_bytes(whole[:5])
    os.utime(tmp_path / "a-cache", (1, 1))  # as if it had been looked at: entries are not read at every start
    devices.healed_cache(tmp_path)
    assert (tmp_path / "a-cache").exists()


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WANDERLUST_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(devices, "_cache_refused", [])
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        devices.prepare()
        devices.prepare()
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "every command compiles anew" in err
