"""What reads files that a stranger may send, each with the good files that fuzzing begins from."""

import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from fuzz_inputs import MARKUP, TOML, XML, Change, as_arrays, of_arrays, of_json, of_text

from wanderlust import train
from wanderlust.config import RunConfig, from_json, to_json
from wanderlust.downstream import saved
from wanderlust.downstream.controllers import hierarchy
from wanderlust.downstream.controllers.learners import make_learner
from wanderlust.downstream.controllers.options import set_up_task
from wanderlust.downstream.settings import get_setting
from wanderlust.downstream.tasks import make_task
from wanderlust.envs.models import bundle, opening
from wanderlust.envs.models.trial import Trial
from wanderlust.envs.worlds.mjcf_file import ModelFile
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.methods.edl import codes
from wanderlust.recipes import get_recipe, usual_skills
from wanderlust.report import document
from wanderlust.report.comparison import differences, markdown, read_record
from wanderlust.runs import entries, pace, zoo
from wanderlust.runs.broken import Broken, Origin
from wanderlust.runs.checkpoints import check_checkpoint, read_tree
from wanderlust.runs.files import ArrayFile, write_json
from wanderlust.runs.learned import needed
from wanderlust.runs.measured import open_rollouts, read_evaluation
from wanderlust.runs.metrics import Counts, read_metrics
from wanderlust.runs.publish import publish
from wanderlust.runs.run import Run
from wanderlust.sweeps.plan import read_plan
from wanderlust.sweeps.standing import standing
from wanderlust.train import loop, stages

GRID = b"""
methods = ["lsd", "diayn"]
worlds = ["point"]
seeds = [0, 1]
out = "runs/sweep"
retries = 2
hours = 1.5
episodes = 20
set = { schedule.epochs = 4, sac.discount = 0.99 }
[settings.near]
skills = 2
[settings.far]
set = { env.episode_length = 50 }
discrete = 8
"""
MJCF = b"""<mujoco model="x"><compiler angle="radian" meshdir="."/><option timestep="0.01" iterations="10"/>
<size memory="1M"/><default><geom density="900"/></default>
<asset><texture name="t" type="2d" builtin="flat" width="8" height="8"/><mesh name="m" file="m.stl"/></asset>
<worldbody><geom type="plane" size="5 5 1"/><body name="b" pos="0 0 1"><freejoint/><geom type="sphere" size="0.1"/>
<replicate count="3" offset="0.1 0 0"><geom type="sphere" size="0.01"/></replicate>
<body name="c" pos="0.2 0 0"><joint name="j" type="hinge" axis="0 1 0"/><geom type="capsule" size="0.05 0.1"/>
<site name="s"/></body></body></worldbody>
<actuator><motor joint="j" ctrlrange="-1 1"/></actuator><sensor><jointpos joint="j"/></sensor>
<keyframe><key name="k" qpos="0 0 1 1 0 0 0 0.1"/></keyframe></mujoco>"""
URDF = b"""<robot name="r"><material name="a"><color rgba="1 0 0 1"/></material>
<link name="base"><inertial><mass value="1"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>
<visual><geometry><mesh filename="package://r/m.stl"/></geometry></visual>
<collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision></link>
<link name="arm"><collision><geometry><cylinder radius="0.1" length="1"/></geometry></collision></link>
<joint name="j" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="10" velocity="2"/><dynamics damping="0.1"/></joint></robot>"""


class LeakedError(Exception):
    """What came from a file stands in a page as it was."""


@dataclasses.dataclass(frozen=True)
class Reader:
    """A file of some kind, and what reads it."""

    path: Path
    """Where the changed file is put; the files beside it stay as they are."""
    changes: Sequence[Change]
    read: Callable[[], Any]
    share: float = 1.0
    """How often it gets an input, beside the others."""
    tidy: Callable[[], Any] = lambda: None
    """What is done after each input."""


def configurations() -> Iterator[RunConfig]:
    """Of methods with one stage and with two, of worlds of every kind."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from helpers import tiny_config

    yield tiny_config()
    yield tiny_config("diayn", discrete=4)
    for world, method in (("point", "edl"), ("ant", "ibol"), ("ant", "dads"), ("fetch-push", "lsd")):
        yield get_recipe("laptop", world, method, usual_skills(method))


def tiny_run(folder: Path) -> Run:
    """A run to begin from."""
    run = stages.start(next(configurations()), folder / "run")
    loop.run_training(run, quiet=True)
    evaluate(run, episodes=5)
    return run


def readers(run: Run) -> dict[str, Reader]:
    """All of them, by name, for a tiny run of one seed and four epochs; files are put beside it."""
    folder = run.path.parent
    return {**of_a_run(run), **of_the_zoo(run, folder), **of_a_report(run, folder), **of_other_files(run, folder)}


def of_a_run(run: Run) -> dict[str, Reader]:
    """What training and use read of a run's folder."""
    parts = train.assemble(run.config)
    setup, form = set_up_task(parts, make_task("point-goal")), train.saved_form(parts)
    solved = run.path / "downstream" / "point-goal-sac"
    write_controller(solved, parts, setup)
    text = [of_json(to_json(config).encode()) for config in configurations()]

    def json_at(path: Path, read: Callable[[], Any], share: float = 1.0) -> Reader:
        return Reader(path, [of_json(path.read_bytes())], read, share)

    def arrays_at(path: Path, read: Callable[[], Any], share: float) -> Reader:
        return Reader(path, [of_arrays(path.read_bytes())], read, share)

    def checkpoint() -> Any:
        file = ArrayFile(run.path / "checkpoints" / "epoch-00000004.safetensors")
        check_checkpoint(file, 4)
        Counts.of_text(file.about.get("counts", ""))
        return read_tree(file, form.learner, "learner")

    def rollouts() -> Any:
        file = open_rollouts(run.evaluation, 1)
        return [file.read(name) for name in file.shapes()]

    alone = run.path.parent / "alone" / "config.json"
    alone.parent.mkdir()
    return {
        "configuration": Reader(
            alone,
            text,
            lambda: from_json(RunConfig, alone.read_bytes().decode(errors="replace"), "config"),
            4.0,
        ),
        "run folder": json_at(run.path / "config.json", lambda: Run.open(run.path), 4.0),
        "provenance": json_at(run.path / "provenance.json", run.provenance, 4.0),
        "metrics": json_at(run.path / "metrics.jsonl", lambda: read_metrics(run.path / "metrics.jsonl"), 4.0),
        "standing in a sweep": json_at(run.path / "metrics.jsonl", lambda: standing(run, 1.0), 2.0),
        "evaluation": json_at(run.evaluation / "evaluation.json", lambda: read_evaluation(run.evaluation), 4.0),
        "pace": json_at(run.evaluation / "evaluation.json", lambda: pace._known(run, 0), 2.0),
        "rollouts": arrays_at(run.evaluation / "rollouts.safetensors", rollouts, 2.0),
        "checkpoint": arrays_at(run.checkpoints()[4], checkpoint, 1.0),
        "checkpoint before": arrays_at(run.checkpoints()[4], lambda: run.load(form.learner, "learner"), 0.3),
        "controller": arrays_at(
            solved / "controller.safetensors",
            lambda: saved.load(solved / "controller.safetensors", saved.FORMAT, parts, setup),
            0.1,
        ),
    }


def write_controller(folder: Path, parts: train.Setup, setup: Any) -> None:
    """What learning a task leaves, before its first epoch."""
    setting = dataclasses.replace(get_setting("laptop", "sac", "point"), epochs=1, episodes=2)
    learner = make_learner(parts, setup, setting, 2)
    controllers = hierarchy.controllers(learner, hierarchy.start_training(learner, jnp.arange(1)))
    made = saved.SavedController(learner, (0,), "laptop", 1, 10, 0.5, controllers=controllers)
    saved.write(folder / "controller.safetensors", saved.FORMAT, made)
    earned = {"mean": 1.5, "ci95": 0.0, "per_seed": [1.5]}
    result = {"task": "point-goal", "controller": "sac", "seeds": [0], "return": earned, "random": earned}
    write_json(folder / "result.json", result)


def of_the_zoo(run: Run, folder: Path) -> dict[str, Reader]:
    """What is read of an entry, wherever it came from."""
    home = folder / "zoo"
    publish(run, "one", zoo=home)
    os.environ["WANDERLUST_ZOO"] = str(home)
    entry = home / "one"
    good = zoo.open_run("zoo:one")
    parts = train.assemble(good.config)
    form = zoo_form(parts)
    return {
        "zoo card": Reader(entry / "card.json", [of_json((entry / "card.json").read_bytes())], entries.summaries, 2.0),
        "zoo configuration": Reader(
            entry / "config.json",
            [of_json((entry / "config.json").read_bytes())],
            lambda: zoo.open_run("zoo:one"),
            2.0,
        ),
        "zoo skills": Reader(
            entry / "skills.safetensors",
            [of_arrays((entry / "skills.safetensors").read_bytes())],
            lambda: zoo.read_skills(good, form),
            1.0,
        ),
    }


def zoo_form(parts: train.Setup) -> Any:
    """Names and shapes of what an entry stores."""
    one = jax.eval_shape(lambda: train.init_seed(parts, jax.random.key(0))).learner
    return needed(parts, one)


def of_a_report(run: Run, folder: Path) -> dict[str, Reader]:
    """The page and the table about a run, without its pictures, of any of the files that they read."""
    document.draw_all = lambda record, place: {}
    other = folder / "reported"
    shutil.copytree(run.path, other)
    reported = Run.open(other)
    entry = zoo.open_run("zoo:one")

    def page(of: Callable[[], Run]) -> str:
        record = read_record(of(), "one")
        text = document.report([document.Reported(record, document.reproduction(record), [])], "0")
        if MARKUP in text or "<script" in text or "\x1b" in text:
            raise LeakedError
        table = markdown([record, record])
        if any(not (c.isprintable() or c == "\n") for c in table):
            raise LeakedError
        differences([record.fields, {}])
        return text

    def of_file(path: Path, share: float, of: Callable[[], Run] = lambda: reported) -> Reader:
        return Reader(path, [of_json(path.read_bytes())], lambda: page(of), share)

    return {
        "report of an evaluation": of_file(other / "evaluation" / "evaluation.json", 0.5),
        "report of a provenance": of_file(other / "provenance.json", 0.5),
        "report of metrics": of_file(other / "metrics.jsonl", 0.5),
        "report of a task": of_file(other / "downstream" / "point-goal-sac" / "result.json", 0.5),
        "report of a card": of_file(entry.path / "card.json", 0.5, lambda: zoo.open_run("zoo:one")),
        "report of a configuration": of_file(other / "config.json", 0.5, lambda: Run.open(other)),
    }


def of_other_files(run: Run, folder: Path) -> dict[str, Reader]:
    """Grids of sweeps, models, states that broke, codes, trials."""
    place = folder / "other"
    place.mkdir()
    (place / "m.stl").write_bytes(bytes(80) + (1).to_bytes(4, "little") + bytes(50))
    grid, mjcf, urdf = place / "grid.toml", place / "model.xml", place / "model.urdf"
    broken = place / "broken" / "epoch-00000004.safetensors"
    one = np.zeros((1, 2), np.float32)
    Broken(Origin(run.config.env, "jax", 4), np.zeros(1, np.int32), one, one).write(broken)
    codes_at = place / "codes.safetensors"
    arrays = {"goal": np.zeros((1, 3, 2)), "share": np.zeros((1, 3)), "spread": np.zeros(1)}
    found = place / "trial.json"
    write_json(found, {"key": "k", "mean": [0.0, 1.0], "std": [1.0, 2.0], "moved": 0.1, "steps": 3, "broken": 0})
    beside = place / "bundled"
    mjcf.write_bytes(MJCF)
    collected = opening.collect(mjcf).bundle
    for name, data in collected.files.items():
        (beside / "model").mkdir(parents=True, exist_ok=True)
        (beside / "model" / name).write_bytes(data)
    plain = {"model": collected.digest(), "file": collected.main}
    env = {**json.loads(to_json(ModelFile.Config(name="mjcf:x", **plain))), "episode_length": 100}
    whole = {**json.loads(to_json(run.config)), "env": env}

    def bundled() -> Any:
        bundle._known.clear()
        config = from_json(RunConfig, (beside / "config.json").read_bytes().decode(errors="replace"), "config")
        config.env.find_files(beside)

    return {
        "sweep grid": Reader(grid, [of_text(GRID, *TOML)], lambda: read_plan(grid), 0.5),
        "MJCF model": Reader(mjcf, [of_text(MJCF, *XML)], lambda: opening.collect(mjcf), 3.0),
        "URDF model": Reader(urdf, [of_text(URDF, *XML)], lambda: opening.collect(urdf), 3.0),
        "model beside a run": Reader(beside / "config.json", [of_json(json.dumps(whole).encode())], bundled, 2.0),
        "trial": Reader(found, [of_json(found.read_bytes())], lambda: Trial.from_json(found.read_bytes()), 3.0),
        "broken state": Reader(broken, [of_arrays(broken.read_bytes())], lambda: Broken.read(broken), 0.5),
        "codes": Reader(
            codes_at,
            [of_arrays(as_arrays(arrays, {"format": codes.FORMAT}))],
            lambda: codes._load(codes_at, (1, 3, 2)),
            1.0,
        ),
    }
