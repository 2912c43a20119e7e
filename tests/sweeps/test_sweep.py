"""Sweeps: what is finished is skipped, what was killed resumed, what failed tried again."""

import contextlib
import json
import os
import signal
import threading

import pytest
from grids import Scripted, attempts, tiny_grid

from wanderlust.runs.run import Run
from wanderlust.sweeps import local
from wanderlust.sweeps import sweep as sweeps
from wanderlust.sweeps.attempt import FAILED, FINISHED, HELD, INTERRUPTED, LOST, Ending
from wanderlust.sweeps.front import plan_sweep
from wanderlust.sweeps.local import Here, Processes
from wanderlust.sweeps.plan import read_plan
from wanderlust.sweeps.results import write_results
from wanderlust.sweeps.sweep import RUNNING, STOPPED, carry_out
from wanderlust.sweeps.table import summary, table

RUN = "point_lsd_seed0"


def states(entries):
    return {entry.item.name: entry.state for entry in entries}


# --- the rules, with attempts that end as a script says ---


def test_a_run_that_fails_is_tried_again_a_stated_number_of_times(tmp_path):
    plan = read_plan(tiny_grid(seeds=3, retries=2, out=str(tmp_path)))
    twice, often = [(FAILED, "no luck")] * 2, [(FAILED, "no hope")] * 9
    place = Scripted(size=2, point_lsd_seed0=twice, point_lsd_seed1=often)
    news = []
    entries = carry_out(plan, place, lambda _, line: news.append(line))
    assert states(entries) == {RUN: FINISHED, "point_lsd_seed1": FAILED, "point_lsd_seed2": FINISHED}
    assert sorted(place.started) == [RUN] * 3 + ["point_lsd_seed1"] * 3 + ["point_lsd_seed2"]
    assert [entry.why for entry in entries] == ["", "no hope", ""]
    assert f"{RUN}: failed: no luck; attempt 2 of 3 follows" in news
    assert "point_lsd_seed1: failed: no hope" in news
    assert place.closed
    assert attempts(tmp_path).count(("point_lsd_seed1", FAILED)) == 3


def test_a_lost_machine_is_no_failure_of_the_run(tmp_path):
    plan = read_plan(tiny_grid(retries=0, out=str(tmp_path)))
    place = Scripted(point_lsd_seed0=[(LOST, "its machine was lost")] * 3)
    assert states(carry_out(plan, place)) == {RUN: FINISHED}
    assert len(place.started) == 4


def test_what_another_process_holds_is_left_alone_until_it_is_free(tmp_path, monkeypatch):
    monkeypatch.setattr(sweeps, "AGAIN", 0.0)
    plan = read_plan(tiny_grid(retries=0, out=str(tmp_path)))
    place = Scripted(point_lsd_seed0=[(HELD, "held")])
    looks = []

    def watch(entries, _):
        looks.append(entries[0].state)
        if looks.count(sweeps.ELSEWHERE) == 20:
            release.close()

    with contextlib.ExitStack() as release:
        release.enter_context(Run.create(plan.items[0].folder, plan.items[0].config).lock())
        entries = carry_out(plan, place, watch)
    assert states(entries) == {RUN: FINISHED}
    assert len(place.started) == 2
    assert looks.count(sweeps.ELSEWHERE) >= 20


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_stops_all_and_leaves_the_rest(tmp_path, which):
    plan = read_plan(tiny_grid(seeds=3, out=str(tmp_path)))
    place = Scripted(point_lsd_seed0=[(INTERRUPTED,)])
    before = signal.getsignal(which)

    def watch(entries, _):
        if entries[0].state == RUNNING and not place.stops:
            os.kill(os.getpid(), which)

    entries = carry_out(plan, place, watch)
    assert set(states(entries).values()) <= {STOPPED, FINISHED}
    assert states(entries)["point_lsd_seed2"] == STOPPED
    assert place.stops[0] is False
    assert place.closed
    assert signal.getsignal(which) is before


def test_hours_end_a_sweep(tmp_path):
    plan = read_plan(tiny_grid(seeds=2, hours=1e-15, out=str(tmp_path)))
    place = Scripted()
    assert set(states(carry_out(plan, place)).values()) == {STOPPED}
    assert place.started == []


def test_a_press_during_an_attempt_in_this_process_stops_the_others(tmp_path, monkeypatch):
    ends = iter([Ending(INTERRUPTED), Ending(FINISHED)])
    monkeypatch.setattr(local, "attempt", lambda *_: next(ends))
    plan = read_plan(tiny_grid(seeds=2, out=str(tmp_path)))
    assert set(states(carry_out(plan, Here(quiet=True))).values()) == {STOPPED}
    assert next(ends).reason == FINISHED  # the second was not begun


# --- real runs ---


def test_runs_are_trained_measured_and_then_skipped(tmp_path, capsys):
    grid = tiny_grid(seeds=2, out=str(tmp_path / "s"))
    plan = read_plan(grid)
    entries = carry_out(plan, Here(quiet=True))
    assert set(states(entries).values()) == {FINISHED}
    assert all(entry.standing.done and entry.standing.epoch == 4 for entry in entries)
    text, files = write_results(plan, entries)
    result = json.loads(files[0].read_text())
    lsd = result["rows"][0]
    found = [json.loads((tmp_path / "s" / f"point_lsd_seed{k}/evaluation/evaluation.json").read_text()) for k in (0, 1)]
    covered = [one["metrics"]["coverage_mode"]["mean"] for one in found]
    assert (lsd["method"], lsd["seeds"], lsd["env_steps"]) == ("lsd", [0, 1], [80, 80])
    assert lsd["metrics"]["coverage_mode"]["per_seed"] == covered
    assert lsd["metrics"]["coverage_mode"]["mean"] == pytest.approx(sum(covered) / 2)
    assert result["orderings"] == []
    assert "| point | lsd | 2 | 80 |" in text

    # all of it is there: nothing is started, and the plan says so
    again = Scripted()
    assert set(states(carry_out(plan, again)).values()) == {FINISHED}
    assert again.started == []
    assert "2 finished" in summary(plan_sweep(grid).entries, plan, 1)

    # what is known of their pace is an estimate for others
    longer = plan_sweep(tiny_grid(methods=["lsd", "diayn"], seeds=3, out=str(tmp_path / "s")))
    assert "left: about 1 min" in summary(longer.entries, longer.plan, 1)
    assert table(longer.entries, longer.plan).row_count == 6
    assert table(longer.entries, longer.plan, 3).row_count == 3


def test_the_budget_of_a_run_ends_it_and_it_is_not_trained_again(tmp_path):
    plan = read_plan(tiny_grid(epochs=400, hours_per_run=1e-9, out=str(tmp_path)))
    entries = carry_out(plan, Here(quiet=True))
    assert states(entries) == {RUN: sweeps.BUDGET}
    assert 0 < entries[0].standing.epoch < 400
    again = Scripted()
    assert states(carry_out(plan, again)) == {RUN: sweeps.BUDGET}
    assert again.started == []


def test_a_worker_that_is_killed_is_replaced_and_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr("wanderlust.sweeps.sweep.TURN", 0.02)  # so that it is killed long before its last epoch
    plan = read_plan(tiny_grid(epochs=80, out=str(tmp_path)))
    folder = plan.items[0].folder
    killed = []

    def kill_once(entries, _):
        if not killed and any((folder / "checkpoints").glob("epoch-*")):
            killed.append(json.loads((folder / "writer.json").read_text())["pid"])
            os.kill(killed[0], signal.SIGKILL)

    place = Processes(tmp_path / "logs", workers=1)
    entries = carry_out(plan, place, kill_once)
    assert states(entries) == {RUN: FINISHED}, entries[0].why
    assert attempts(tmp_path) == [(RUN, FAILED), (RUN, FINISHED)]
    assert "SIGKILL" in (tmp_path / "attempts.jsonl").read_text()
    run = Run.open(folder)
    assert [row["epoch"] for row in run.metrics()] == list(range(2, 81, 2))
    assert len(run.provenance()["resumed"]) == 1
    assert list(run.checkpoints()) == [80]
    assert not (folder / "writer.json").exists()


def test_two_sweeps_of_one_folder_share_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(sweeps, "AGAIN", 0.2)
    monkeypatch.setattr("wanderlust.report.plots.draw_run", lambda _: None)  # Matplotlib's settings are a process's
    plan = read_plan(tiny_grid(seeds=2, out=str(tmp_path)))
    results = []
    threads = [threading.Thread(target=lambda: results.append(carry_out(plan, Here(quiet=True)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [set(states(entries).values()) for entries in results] == [{FINISHED}, {FINISHED}]
    assert sorted(end for end in attempts(tmp_path) if end[1] == FINISHED) == [
        (f"point_lsd_seed{k}", FINISHED) for k in (0, 1)
    ]
    for item in plan.items:
        assert [row["epoch"] for row in Run.open(item.folder).metrics()] == [2, 4]
