"""`wanderlust report`: a page that holds all it shows, fetches nothing, and says what files say as text."""

import base64
import dataclasses
import json
import re
from html.parser import HTMLParser

import pytest

from trained import copy_of, trained, tree
from wanderlust import cli
from wanderlust.evaluation.verdict import words
from wanderlust.report import document, html
from wanderlust.report.comparison import read_record
from wanderlust.report.document import Reported, draw_all, duration, report, verdict_of
from wanderlust.runs.files import write_json
from wanderlust.runs.run import Run

EVIL = '<script>alert("1")</script><img src=x onerror=alert(1)>'
ALONE = {"meta", "img", "br", "link", "input"}


class Page(HTMLParser):
    """Every element with its attributes, and the text; that elements are closed in order is checked on the way."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ALONE:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data if self.open[-1:] != ["style"] else ""

    def tags(self):
        return {tag for tag, _ in self.elements}

    def attributes(self, name):
        return [attrs[name] for _, attrs in self.elements if name in attrs]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return copy_of(trained(seeds=2), tmp_path / "run")


def command(*words):
    with pytest.raises(SystemExit) as stop:
        cli.main([str(word) for word in words])
    return stop.value.code


def page_of(*runs, **changes):
    records = [dataclasses.replace(read_record(run, run.path.name), **changes) for run in runs]
    return report([Reported(one, [("again", "run it")], [("on", "go on")]) for one in records], "1.2.3")


def assert_self_contained(text):
    page = Page(text)
    assert not re.search(r"https?:|//[a-z]|@import|url\(", text)
    assert page.attributes("src")
    assert all(source.startswith("data:") for source in page.attributes("src"))
    assert not page.tags() & {"script", "link", "iframe", "object", "embed", "base", "form"}
    assert not [name for _, attrs in page.elements for name in attrs if name.startswith("on")]
    assert any("default-src 'none'" in content for content in page.attributes("content"))
    return page


def test_a_page_of_one_run(run, capsys):
    assert command("report", "run", "--episodes", 20) == 0
    assert "report: run/report.html" in capsys.readouterr().out
    page = assert_self_contained((run.path / "report.html").read_text())
    facts = json.loads((run.evaluation / "evaluation.json").read_text())
    covered = facts["metrics"]["coverage_mode"]
    said = " ".join(page.text.replace("\xa0", " ").split())
    assert f"{covered['mean']:,.2f} ± {covered['ci95']:,.2f}" in said
    assert f"random actions: {facts['random']['coverage']:,.0f}" in said
    for word in ("What was run", "Do it again", "Go on", "wanderlust evaluate run --episodes 1000", "schedule.epochs"):
        assert word in said
    drawn = [source for source in page.attributes("src") if source.startswith("data:image/svg+xml;base64,")]
    assert len(drawn) == 5
    figures = [base64.b64decode(source.partition(",")[2]).decode() for source in drawn]
    assert all("prefers-color-scheme: dark" in figure and "<script" not in figure for figure in figures)
    assert [alt for alt in page.attributes("alt") if not alt] == []


def test_the_page_is_the_same_when_it_is_written_again(run):
    pages = []
    for _ in range(2):
        assert command("report", "run", "--quick") == 0
        pages.append((run.path / "report.html").read_bytes())
    assert pages[0] == pages[1]


def test_what_files_say_is_shown_as_text(run, monkeypatch):
    """In the configuration, the provenance, the evaluation, the results of a task, and the run's own name."""
    config = json.loads((run.path / "config.json").read_text())
    write_json(run.path / "config.json", {**config, "recipe": EVIL})
    where = json.loads((run.path / "provenance.json").read_text())
    where |= {"command": EVIL, "commit": EVIL, "time": EVIL, "device": {"kind": EVIL}, "versions": {"jax": EVIL}}
    write_json(run.path / "provenance.json", where)
    facts = json.loads((run.evaluation / "evaluation.json").read_text())
    write_json(run.evaluation / "evaluation.json", {**facts, "name": EVIL, "entries": [EVIL, EVIL]})
    solved = {"task": EVIL, "controller": EVIL, "return": {"per_seed": [1.0]}}
    write_json(run.path / "downstream" / "x" / "result.json", solved)
    other = run.path.rename(run.path.with_name("<b>run&amp"))
    for runs in ([other], [other, copy_of(trained(seeds=2), other.parent / "two").path]):
        text = page_of(*map(Run.open, runs))
        page = assert_self_contained(text)
        assert "<script" not in text.lower()
        assert "<b>run" not in text
        assert page.text.count(EVIL) >= 6
        assert page.text.count("<b>run&amp") >= 1
        monkeypatch.setattr(document, "draw_all", lambda *_: {})  # they are drawn once


def test_the_verdict_of_the_evaluation_is_on_the_page(run, capsys):
    facts = read_record(run, "run").evaluation
    floor = facts["verdict"]["random_coverage"]["mean"]
    older = {**facts, "random": {**facts["random"], "coverage": floor + 70_000}}  # of one draw, as it once was
    write_json(run.evaluation / "evaluation.json", older)
    assert read_record(run, "run").random["coverage"] == pytest.approx(floor)
    said = words(facts["verdict"])
    assert command("report", "run", "--quick") == 0 and len(said) > 3
    page = assert_self_contained((run.path / "report.html").read_text())
    assert all(line in page.text for line in said)
    assert f"random actions: {floor:,.0f}" in page.text and f"{floor + 70_000:,.0f}" not in page.text
    write_json(run.evaluation / "evaluation.json", {**facts, "verdict": {"level": "learned"}})
    capsys.readouterr()
    assert command("report", "run", "--quick") == 2
    assert "the verdict of its evaluation is damaged" in capsys.readouterr().err


def test_an_evaluation_without_a_verdict_is_put_into_words(run):
    record = read_record(run, "run")

    def said(evaluation):
        return verdict_of(Reported(dataclasses.replace(record, evaluation=evaluation), [], []))[0]

    metrics = {"coverage_mode": {"per_seed": [300.0, 500.0]}, "distance": {"per_seed": [5.0, 7.0]}}
    plain = {**record.evaluation, "metrics": metrics, "random": {"coverage": 80}}
    assert said(plain).startswith(
        "20 random skills cover 400 ± 1,271 bins, 5.0 times as many as random actions (80), and end 6.0 ± 12.7 m"
    )
    assert "no more than random actions (410)" in said({**plain, "random": {"coverage": 410}})
    assert "have not been evaluated yet" in said(None)


def test_films_go_into_the_page_but_large_ones(run, monkeypatch):
    monkeypatch.setattr(document, "draw_all", lambda *_: {})
    (run.path / "video").mkdir()
    (run.path / "video" / "skills.gif").write_bytes(b"GIF89a")
    assert base64.b64encode(b"GIF89a").decode() in page_of(run)
    (run.path / "video" / "skills.mp4").write_bytes(b"0000ftyp")
    sources = assert_self_contained(page_of(run)).attributes("src")
    assert [s for s in sources if s.startswith("data:video")] == ["data:video/mp4;base64,MDAwMGZ0eXA="]
    monkeypatch.setattr(html, "LARGEST", 4)
    text = page_of(run)
    assert "video/mp4" not in text
    assert "skills.mp4" in text


def test_a_report_makes_the_film_it_lacks(run):
    assert command("report", "run", "--quick", "--video") == 0
    made = (run.path / "video" / "skills.mp4").read_bytes()
    assert base64.b64encode(made).decode() in (run.path / "report.html").read_text()


def test_several_runs_are_side_by_side(run, tmp_path, capsys):
    copy_of(trained(seeds=2), tmp_path / "other")
    before = [tree(tmp_path / name) for name in ("run", "other")]
    assert command("report", "run", "other", "--episodes", 20) == 0
    text = (tmp_path / "comparisons" / "run-and-other.html").read_text()
    page = assert_self_contained(text)
    assert "Nothing: the configurations are the same." in page.text
    assert len([source for source in page.attributes("src") if source.startswith("data:image")]) == 11
    assert [tree(tmp_path / name) for name in ("run", "other")] == before
    assert command("report", "run", "other", "--quick") == 2
    assert "already exists; choose another --out, or --replace it" in capsys.readouterr().err


def test_a_page_of_ones_own_is_not_replaced_unasked(run, capsys):
    (run.path / "mine.html").write_text("mine")
    assert command("report", "run", "--out", "run/mine.html", "--quick") == 2
    assert (run.path / "mine.html").read_text() == "mine"
    assert command("report", "run", "--out", "run") == 2
    assert "a folder; name a file" in capsys.readouterr().err


def test_a_run_that_was_not_evaluated_is_evaluated_beside_it(run):
    for path in run.evaluation.iterdir():
        path.unlink()
    before = tree(run.path)
    assert command("report", "run", "--episodes", 10, "--out", "page.html") == 0
    assert "Verdict: " in Page((run.path.parent / "page.html").read_text()).text
    assert tree(run.path) == before


def test_damaged_files_are_a_line(run):
    facts = json.loads((run.evaluation / "evaluation.json").read_text())
    write_json(run.evaluation / "evaluation.json", {**facts, "seeds": "none"})
    with pytest.raises(html.UserError, match=r"evaluation\.json is damaged: seeds"):
        read_record(run, "run")
    write_json(run.evaluation / "evaluation.json", facts)
    record = read_record(run, "run")
    (run.evaluation / "rollouts.safetensors").write_bytes(b"no")
    with pytest.raises(html.UserError, match=rf"^{re.escape(str(run.evaluation))}.* not a whole wanderlust file"):
        draw_all(record, run.path / "drawn")


def test_text_that_is_no_text():
    assert html.esc("a\ud800\x00<&\"'") == "a? &lt;&amp;&quot;&#x27;"
    assert (duration(59.0), duration(600.0), duration(7200 * 3)) == ("59.0 s", "10.0 minutes", "6.0 hours")


def test_numbers_of_a_card_that_cannot_be_are_left_out(run):
    """A whole number too large for a float was an OverflowError."""
    origin = {"env_steps": float("inf"), "train_seconds": 10**400, "metrics": {"distance": 10**400, "coverage": 3}}
    record = dataclasses.replace(read_record(run, "run"), rows=[], evaluation=None, origin=origin)
    assert (record.env_steps, record.train_seconds) == (None, None)
    assert (record.measure("distance"), record.measure("coverage")) == ([], [3.0])
