"""What is said of the paper follows from results: nothing agrees that the seeds do not order."""

import json
import shlex
from pathlib import Path

import pytest

from wanderlust import cli
from wanderlust_experiments import paper, paper_all
from wanderlust_experiments.verdicts import AGREES, DISAGREES, MISSING, UNDECIDED, leads, one_training, point_table

RESULTS = Path(__file__).parents[2] / "benchmarks/results"


def written(folder, name="rows.json", **seeds):
    """A file of results with these rows."""
    rows = {
        row.replace("_", "-"): {"metrics": {"coverage_mode": {"per_seed": list(values)}}, "env_steps_per_seed": 100}
        for row, values in seeds.items()
    }
    about = {"rows": rows, "provenance": {"device": {"kind": "a machine"}}, "seeds": [0]}
    (folder / name).write_text(json.dumps(about))
    return leads("coverage_mode", name)


def test_only_what_the_seeds_order_agrees_or_does_not(tmp_path):
    high, low = [101, 102, 103, 104], [1, 2, 3, 4]
    ahead = written(tmp_path, lsd=high, dads=low, metra=[900, 901, 902, 903])(tmp_path)
    assert (ahead.verdict, ahead.seeds) == (AGREES, 4)  # METRA is newer than the paper
    behind = written(tmp_path, lsd=low, dads=high, diayn=[0, 0, 0, 0])(tmp_path)
    assert (behind.verdict, behind.why) == (DISAGREES, "behind dads")
    few = written(tmp_path, lsd=high[:3], dads=low[:3], diayn_xyo=[200, 201, 202])(tmp_path)
    assert few.verdict == UNDECIDED
    assert "do not order lsd and dads, diayn-xyo; higher in the mean: diayn-xyo" in few.why
    assert leads("coverage_mode", "nowhere.json")(tmp_path).verdict == MISSING


def test_another_file_may_have_lsd(tmp_path):
    written(tmp_path, "all.json", lsd=[101, 102, 103, 104])
    written(tmp_path, "cells.json", free=[1, 2, 3, 4])
    judge = leads("coverage_mode", "cells.json", first="inner", also=("all.json",))
    assert judge(tmp_path).verdict == AGREES
    written(tmp_path, "cells.json", free=[1, 2, 3, 4], inner=[0, 0, 0, 0])  # its own goes first
    assert judge(tmp_path).verdict == DISAGREES


def test_controllers_over_one_training_decide_nothing(tmp_path):
    (tmp_path / "downstream").mkdir()
    result = {"return": {"mean": 3.0, "per_seed": [3.0] * 8}, "provenance": {"device": {"kind": "a machine"}}}
    (tmp_path / "downstream/a.json").write_text(json.dumps(result))
    state = one_training(("LSD", "a.json"), ("DIAYN", "b.json"))(tmp_path)
    assert (state.verdict, state.seeds) == (UNDECIDED, 1)
    assert "LSD 3.00" in state.why
    assert "DIAYN" not in state.why


def test_the_tables_on_pointenv_are_compared_where_the_paper_orders(tmp_path):
    results = json.loads((RESULTS / "point_goals.json").read_text())
    state = point_table("PointGoal")(RESULTS)
    assert state.seeds == 8
    assert state.why.startswith("of 7 orderings of the paper, ")  # LSD and DIAYN-XYO are equal within 10
    for row in results["rows"]:  # as if DIAYN were perfect, and LSD never arrived
        at = {"LSD": 0.0, "DIAYN": 1.0, "DIAYN-XYO": 0.5}[row["label"]]
        for goal in row["by_radius"]["3"]["PointGoal"].values():
            goal["per_seed"] = [at + k / 1000 for k in range(8)]
    (tmp_path / "point_goals.json").write_text(json.dumps(results))
    wrong = point_table("PointGoal")(tmp_path)
    assert wrong.verdict == DISAGREES
    assert wrong.why.startswith("of 7 orderings of the paper, 0 hold here")


@pytest.mark.parametrize("words", sorted({one.words for one in paper.PAPER if one.words}))
def test_every_command_is_one(words):
    assert cli._parse(["reproduce", *shlex.split(words)])


def test_the_list_is_computed_from_the_results_there_are(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["reproduce", "list", "--results", str(RESULTS), "--json"])
    assert stop.value.code == 0
    rows = {row["place"]: row for row in json.loads(capsys.readouterr().out)}
    assert len(rows) == len(paper.PAPER)
    assert rows["Figure 3, Ant"]["verdict"] == UNDECIDED  # three seeds
    assert rows["Table, PointGoal"]["command"] == "wanderlust reproduce point-goals"
    assert 0.2 < rows["Table, PointGoal"]["hours"] < 0.5
    assert rows["Figure 3, Humanoid"]["hours"] is None
    nothing = paper.listed(tmp_path)
    assert {line.state.verdict for line in nothing} == {MISSING}
    assert {line.hours for line in nothing} == {None}
    assert "not measured" in paper.as_text(nothing)


def test_where_no_results_are_the_list_says_where_it_looked(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        cli.main(["reproduce", "list"])
    assert end.value.code == 0
    assert "there is no folder benchmarks/results here" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit) as end:
        cli.main(["reproduce", "list", "--results", "nowhere"])
    assert end.value.code == 2
    assert "there is no folder of results nowhere" in capsys.readouterr().err


def test_what_fits_is_carried_out_shortest_first(monkeypatch):
    codes = {"point-goals": 0}
    tried = []

    def run(words, results, until):
        tried.append(words)
        return codes.get(words, 2)

    monkeypatch.setattr(paper_all, "_run", run)
    said = []
    done = paper_all.carry_out(3.0, RESULTS, said.append)
    assert tried[0] == "point-goals"
    assert done.finished == ["point-goals"]
    assert done.failed == tried[1:]
    hours = {one.words: one.hours for one in paper_all.commands(RESULTS)}
    assert all(hours[words] <= 3.0 for words in tried)
    assert all(hours[words] is None or hours[words] > 2.99 for words in done.left)
    assert any(line.startswith("left out (of unknown length") for line in said)
