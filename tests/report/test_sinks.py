"""Rows of metrics on their way to trackers, each for real and without a network."""

import importlib
import json
import sqlite3
import struct
import time

import pytest

import wanderlust
from helpers import tiny_config
from trained import copy_of, trained
from wanderlust.errors import UserError
from wanderlust.report.sinks import Listeners, scalars
from wanderlust.train import loop, stages

ROWS = [
    {"epoch": 2, "env_steps": 40, "reward": [1.0, 3.0], "seconds": 0.5},
    {"epoch": 4, "env_steps": 80, "reward": [2.0, 4.0], "seconds": 0.9, "coverage": [7, 9]},
]


def told(name, tmp_path):
    run = copy_of(trained(), tmp_path / "run")
    with Listeners((name,)).opened(run) as tell:
        for row in ROWS:
            tell(row)
    return run.path


def test_every_seed_has_its_number_and_all_have_a_mean():
    assert scalars(ROWS[0]) == {
        "epoch": 2.0, "env_steps": 40.0, "reward": 2.0, "reward/seed 0": 1.0, "reward/seed 1": 3.0, "seconds": 0.5,
    }  # fmt: skip
    assert scalars({"env_steps": 1, "reward": [2.0]}) == {"env_steps": 1.0, "reward": 2.0}


def test_tensorboard_reads_what_was_logged(tmp_path, capsys):
    events = importlib.import_module("tensorboardX.proto.event_pb2")
    (file,) = (told("tensorboard", tmp_path) / "tensorboard").iterdir()
    data, at, found = file.read_bytes(), 0, {}
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        event = events.Event.FromString(data[at + 12 : at + 12 + size])
        found |= {(value.tag, event.step): value.simple_value for value in event.summary.value}
        at += size + 16
    assert found["reward", 40] == 2.0 and found["reward", 80] == 3.0 and found["coverage", 80] == 8.0
    assert capsys.readouterr().err == ""


def test_weights_and_biases_offline(tmp_path, monkeypatch, capsys):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    folder = told("wandb", tmp_path)
    (file,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    until = time.monotonic() + 30  # a process of its own writes the file
    while b"coverage" not in file.read_bytes():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_trackio_on_this_machine(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio")
    told("trackio", tmp_path)
    (file,) = (tmp_path / "trackio").glob("*.db")
    with sqlite3.connect(file) as base:
        rows = [json.loads(row[0]) for row in base.execute("select metrics from metrics order by step")]
    assert [row["reward"] for row in rows] == [2.0, 3.0]
    assert capsys.readouterr().err == ""


def test_a_run_tells_what_it_logs_and_outlives_who_listens(tmp_path, capsys):
    heard = []

    def callback(row):
        heard.append(row)
        if len(heard) == 2:
            raise ValueError("full\nup")

    run = stages.start(tiny_config(epochs=8), tmp_path / "run")
    stages.train_run(run, quiet=True, listeners=Listeners((), callback))
    assert heard == run.metrics()[:2] and len(run.metrics()) == 4
    said = capsys.readouterr().err
    assert said == "wanderlust: on_metrics failed and is left out from here on, training goes on: full up\n"


def test_who_cannot_listen_is_refused_before_anything_is_made(tmp_path, monkeypatch, command_line):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert command_line("discover", "--log", "wandb") == (
        2, "", "wanderlust: --log wandb needs wandb: pip install 'wanderlust[wandb]'\n",
    )  # fmt: skip
    for given, words in (({"log": "paper"}, "--log is 'paper'"), ({"on_metrics": 3}, "on_metrics is 3")):
        with pytest.raises(UserError, match=words):
            wanderlust.discover("point", **given)
    assert list(tmp_path.iterdir()) == []
    assert Listeners() == loop.NOBODY
