import contextlib
import dataclasses
import json
import sys

import jax
import numpy as np
import pytest

from trained import run_python
from wanderlust import cli
from wanderlust.config import SkillConfig
from wanderlust.recipes import get_recipe
from wanderlust_experiments.bench import measure, physics, speed, updates
from wanderlust_experiments.bench.measure import Rates, interleaved, ratio

SUMMARY = {"median", "lowest", "highest"}


@pytest.fixture
def clock(monkeypatch):
    """A clock that only work moves."""

    class Clock:
        now = 0.0

        def perf_counter(self):
            return self.now

    ticking = Clock()
    monkeypatch.setattr(measure.time, "perf_counter", ticking.perf_counter)
    return ticking


@dataclasses.dataclass
class Worker:
    """Takes a known time per call."""

    name: str
    clock: object
    seconds: float
    log: list
    per_call: int = 10
    closed: bool = False

    @property
    def about(self):
        return {"engine": self.name, "worlds": 1, "threads": 1, "compile_seconds": None}

    def advance(self):
        self.clock.now += self.seconds
        self.log.append(self.name)

    def close(self):
        self.closed = True


# --- measuring ----------------------------------------------------------------------------------------------------


def test_workloads_are_interleaved_and_the_warm_up_does_not_count(clock):
    log = []
    slow, quick = Worker("slow", clock, 1.0, log), Worker("quick", clock, 0.25, log)
    rates = interleaved([slow, quick], seconds=3.0, rounds=3)
    assert log == (["slow"] + ["quick"] * 4) * 4
    assert [each.rounds for each in rates] == [[10.0] * 3, [40.0] * 3]


def test_a_rate_counts_the_time_of_a_last_call_that_runs_over(clock):
    (rate,) = interleaved([Worker("one", clock, 0.75, [])], seconds=1.0, rounds=1)
    assert rate.rounds == [pytest.approx(20 / 1.5)]


def test_a_ratio_is_the_median_of_the_rounds_own_ratios():
    ours, theirs = Rates([2.0, 60.0, 3.0]), Rates([1.0, 20.0, 3.0])
    assert ratio(ours, theirs) == {"median": 2.0, "lowest": 1.0, "highest": 3.0}


def test_ratios_pair_threads_with_threads_and_processes_with_all_threads():
    abouts = [
        {"group": 1, "engine": engine, "worlds": 8, "threads": threads}
        for engine, threads in (("c", 1), ("c", 4), ("envpool", 1), ("envpool", 4), ("async", 8), ("sync", 1))
    ]
    rates = [Rates([x]) for x in (10.0, 30.0, 5.0, 20.0, 6.0, 4.0)]
    found = [
        (r["ours"]["threads"], r["theirs"]["engine"], r["ratio"]["median"]) for r in physics._ratios(abouts, rates)
    ]
    assert found == [(1, "envpool", 2.0), (4, "envpool", 1.5), (4, "async", 5.0), (1, "sync", 2.5)]


def test_whatever_was_started_is_closed_if_a_measurement_fails(clock):
    one = Worker("one", clock, 1.0, [])

    def fail():
        raise RuntimeError("no such thing")

    with pytest.raises(RuntimeError, match="no such thing"), speed.progress(2, "measurement", quiet=True) as line:
        list(physics.measure_physics([[lambda: one, fail]], 1.0, line))
    assert one.closed


def test_what_has_been_measured_is_kept_when_something_later_fails(clock, monkeypatch):
    def fail():
        raise RuntimeError("no such thing")

    one = Worker("one", clock, 1.0, [])
    monkeypatch.setattr(speed, "physics_groups", lambda *_: iter([[lambda: one], [fail]]))
    kept = []
    with pytest.raises(RuntimeError, match="no such thing"):
        speed.bench(only="physics", seconds=1.0, quiet=True, keep=lambda result: kept.append(json.dumps(result)))
    (only,) = map(json.loads, kept)
    assert [row["engine"] for row in only["physics"]] == ["one"]
    assert not only["complete"]


# --- the command --------------------------------------------------------------------------------------------------


def run_cli(*words):
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", *words])
    return stop.value.code


def test_the_command_measures_physics_beside_its_peers(tmp_path, capsys):
    out = tmp_path / "deep" / "bench.json"
    flags = ("--worlds", "2", "--threads", "1", "2", "--seconds", "0.05", "--only", "physics")
    assert run_cli("--env", "half-cheetah", *flags, "--out", str(out)) == 0
    result = json.loads(out.read_text())

    present = {"envpool", "async"} - set(result["missing"])
    kinds = [(row["engine"], row["threads"]) for row in result["physics"]]
    expected = [("c", 1), ("c", 2)]
    expected += [("envpool", 1), ("envpool", 2)] if "envpool" in present else []
    expected += [("async", 2)] if "async" in present else []
    assert kinds == expected
    assert [entry["theirs"]["engine"] for entry in result["ratios"]] == [engine for engine, _ in expected[2:]]
    for row in result["physics"]:
        assert set(row) == {"group", "engine", "worlds", "threads", "compile_seconds", "steps_per_second"}
        rate = row["steps_per_second"]
        assert len(rate["rounds"]) == result["rounds"] == measure.ROUNDS
        assert 0 < rate["lowest"] <= rate["median"] == np.median(rate["rounds"]) <= rate["highest"]
    for entry in result["ratios"]:
        ours, theirs = (
            next(row for row in result["physics"] if all(row[k] == v for k, v in entry[side].items()))
            for side in ("ours", "theirs")
        )
        each = np.divide(ours["steps_per_second"]["rounds"], theirs["steps_per_second"]["rounds"])
        assert entry["ratio"]["median"] == pytest.approx(np.median(each))

    assert result["updates"] == [] and result["env"] == "half-cheetah"
    about = result["provenance"]
    assert set(about) == {"command", "time", "commit", "versions", "device"}
    assert about["versions"]["mujoco"] and about["device"]["cpu_cores"] >= 1
    shown = capsys.readouterr()
    assert "c steps" in shown.out and f"written: {out}" in shown.out.replace("\n", "")
    assert "measurement" in shown.err


def test_an_earlier_file_stays_until_all_is_measured(tmp_path, monkeypatch):
    out = tmp_path / "b.json"
    out.write_text("earlier")
    partly = {"complete": False, "physics": [1]}

    def cut_off(*args, keep):
        keep(partly)
        raise KeyboardInterrupt

    monkeypatch.setattr(speed, "bench", cut_off)
    with contextlib.suppress(SystemExit, KeyboardInterrupt):
        cli.main(["bench", "--out", str(out), "--replace"])
    assert out.read_text() == "earlier"
    assert json.loads((tmp_path / "b.partial.json").read_text()) == partly
    monkeypatch.setattr(speed, "table", lambda result: "")
    whole = {"complete": True, "missing": {}}
    monkeypatch.setattr(speed, "bench", lambda *args, keep: (keep(whole), whole)[1])
    assert run_cli("--out", str(out), "--replace") == 0
    assert json.loads(out.read_text()) == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.json"]


def test_peers_that_are_not_installed_are_said_to_be_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(speed, "NEEDS", {k: (("no_such_module",), why) for k, (_, why) in speed.NEEDS.items()})
    out = tmp_path / "bench.json"
    flags = ("--worlds", "2", "--threads", "1", "--seconds", "0.02", "--only", "physics", "--engines", "c")
    assert run_cli(*flags, "--out", str(out)) == 0
    result = json.loads(out.read_text())
    assert [row["engine"] for row in result["physics"]] == ["c"] and result["ratios"] == []
    assert set(result["missing"]) == {"envpool", "async"}
    assert all(why.startswith("not installed") for why in result["missing"].values())
    assert capsys.readouterr().out.count("not installed") == 2


@pytest.mark.parametrize("kind", ["ImportError", "FileNotFoundError", "AttributeError"])
def test_a_peer_that_is_installed_and_cannot_be_loaded_is_missing_too(tmp_path, monkeypatch, kind):
    monkeypatch.delitem(sys.modules, "links_against_more", raising=False)
    (tmp_path / "links_against_more.py").write_text(f"raise {kind}('libMore.so.1:\\n cannot open shared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        speed, "NEEDS", {"envpool": (("links_against_more",), "not installed"), "async": (("json",), "")}
    )
    why = "installed, but cannot be loaded: libMore.so.1: cannot open shared object file"
    assert speed._peers("ant") == ({"async"}, {"envpool": why})


def small_recipe(recipe, env, method, skills):
    config = get_recipe(recipe, env, method, skills)
    return dataclasses.replace(
        config,
        method=dataclasses.replace(config.method, hidden=(8,)),
        sac=dataclasses.replace(config.sac, hidden=(8,)),
        schedule=dataclasses.replace(config.schedule, worlds=2, steps=4, replay_collections=2, sac_batch=16),
    )


def test_updates_are_measured_at_the_recipes_batch_and_below():
    configs = list(updates.update_configs("ant"))
    assert {config.recipe for config in configs} == {"laptop"}
    recipe = get_recipe("laptop", "ant", "lsd", SkillConfig())
    batch = recipe.schedule.sac_batch
    assert [(config.schedule.sac_batch, config.seeds) for config in configs] == [
        (batch // 4, 1),
        (batch, 1),
        (batch // 4, 4),
        (batch, 4),
    ]
    unchanged = dataclasses.replace(configs[1].schedule, sac_batch=batch)
    assert dataclasses.replace(configs[1], schedule=unchanged) == recipe


def test_updates_are_those_of_training(monkeypatch):
    monkeypatch.setattr(updates, "get_recipe", small_recipe)
    monkeypatch.setattr(updates, "SEEDS", (2,))
    monkeypatch.setattr(updates, "SMALLER", (4,))
    (config,) = updates.update_configs("ant")
    one = updates.UpdateWorkload(config, steps=4)
    assert one.per_call == 8
    about = one.about
    assert about.pop("compile_seconds") > 0
    assert about == {"recipe": "laptop", "batch": 4, "seeds": 2, "precision": "float32"}
    before = jax.device_get(one._learner)
    one.advance()
    after = jax.device_get(one._learner)
    for part in (lambda learner: learner.sac.policy, lambda learner: learner.method):
        pairs = zip(jax.tree.leaves(part(before)), jax.tree.leaves(part(after)), strict=True)
        assert any(not np.array_equal(a, b) for a, b in pairs)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(after))

    result = speed.bench("ant", seconds=0.02, only="updates", quiet=True)
    assert result["physics"] == result["ratios"] == []
    (row,) = result["updates"]
    assert row["batch"] == 4 and set(row["updates_per_second"]) == {*SUMMARY, "rounds"}
    assert row["updates_per_second"]["lowest"] > 0


def test_results_go_to_a_file_named_after_the_device():
    def path(**device):
        return speed.default_path({"provenance": {"device": device}}).as_posix()

    assert path(platform="cpu", kind="Some CPU @ 2.00GHz", cpu_cores=2) == (
        "runs/results/bench_some-cpu-2-00ghz-2-cores.json"
    )
    assert path(platform="gpu", kind="NVIDIA H200", cpu_cores=16) == "runs/results/bench_nvidia-h200.json"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--env", "point"), "--env is point; it must be one of ant, half-cheetah, humanoid, fetch-push"),
        (("--worlds", "16", "0"), "--worlds is 16 0; it must be whole numbers from 1 on"),
        (("--threads", "-1"), "--threads is -1"),
        (("--seconds", "0"), "--seconds is 0.0; it must be positive"),
        (("--seconds", "nan"), "--seconds is nan"),
        (("--engines", "gpu"), "gpu"),
        (("--only", "speed"), "speed"),
        (("--out", "."), "--out is ., a folder; name a file"),
    ],
)
def test_bad_flags_are_one_line_and_code_2(flags, complaint, capsys):
    assert run_cli(*flags) == 2
    said = capsys.readouterr().err
    assert said.startswith("wanderlust: ") and said.count("\n") == 1 and complaint in said


def test_peers_are_imported_only_when_they_are_measured(tmp_path):
    program = (
        "import sys, wanderlust.cli, wanderlust_experiments.bench.speed; "
        "print('envpool' in sys.modules, 'imageio' in sys.modules)"
    )
    assert run_python("-c", program, cwd=tmp_path) == (0, "False False\n", "")
