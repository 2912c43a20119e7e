"""What documents and docstrings name is there: files, and the sections that links lead to."""

import re
from pathlib import Path

import pytest

import wanderlust
from trained import trained
from wanderlust.cli import _parse

ROOT = Path(__file__).parents[1]
PAGES = [
    page
    for folder in (".", "docs", "docs/methods", "benchmarks/reports")
    for page in sorted((ROOT / folder).glob("*.md"))
]
CODE = [path for folder in ("src", "experiments", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.py")]

PATH = re.compile(r"(?<![\w./<-])(?:src|tests|benchmarks|examples|experiments|docs)/[\w./-]*\w(?![\w<*])")
FILE = re.compile(r"`(?:\w+/)*\w+\.py`")
PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b|test_[A-Z]+")
"""Names to fill in."""
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")


def written(page: Path) -> str:
    return page.read_text()


def named(text: str) -> set[str]:
    return {path for path in PATH.findall(text) if not PLACEHOLDER.search(path)}


@pytest.mark.parametrize("page", [*PAGES, *CODE], ids=lambda path: str(path.relative_to(ROOT)))
def test_paths_that_are_named_exist(page):
    """`src/…`, `tests/…` and so on from the root; other `….py` in backticks are the end of some file's path."""
    text = written(page)
    assert {path for path in named(text) if not (ROOT / path).exists()} == set()
    if page.suffix == ".md":
        files = {f"/{path.relative_to(ROOT)}" for path in [*CODE, *(ROOT / "tests").rglob("*.py")]}
        ends = {match.strip("`") for match in FILE.findall(text)} - {"split_epoch.py"}  # gone, as the changelog says
        assert {
            end for end in ends if not PLACEHOLDER.search(end) and not any(f.endswith(f"/{end}") for f in files)
        } == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target, section in LINK.findall(written(page)):
        place = page.parent / target if target else page
        assert place.exists(), f"{page.name} links to {target}"
        if section and place.suffix == ".md":
            assert section in sections(place), f"{page.name} links to {target}#{section}"


def sections(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", written(page), re.M)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "benchmarks" not in page.parts], ids=lambda path: str(path.relative_to(ROOT))
)
def test_commits_are_named_by_raw_files_and_reports_only(page):
    assert re.findall(r"`[0-9a-f]{7,40}`", written(page)) == []


def test_a_wrong_path_is_noticed():
    assert named("see `src/wanderlust/nowhere.py`, docs/methods/NAME.md, bench_<device>") == {
        "src/wanderlust/nowhere.py"
    }
    assert not (ROOT / "src/wanderlust/nowhere.py").exists()


def snippets(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", written(page), re.M | re.S)


@pytest.mark.parametrize("name", ["README.md", "docs/first-skills.md"])
def test_python_that_pages_begin_with_runs(name, tmp_path, monkeypatch):
    """As it is written, but for the length of the training, which has a test of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wanderlust, "discover", lambda env, out: trained())
    seen = {}
    for snippet in snippets(ROOT / name):
        exec(compile(snippet, name, "exec"), seen)
    assert seen["action"].shape == (2,) and seen["z"].shape == (2,)


def test_commands_that_pages_begin_with_are_known():
    pages = (ROOT / "README.md", ROOT / "docs/first-skills.md")
    lines = [line.partition("#")[0].split() for page in pages for line in written(page).splitlines()]
    called = [words[1:] for words in lines if words[:1] == ["wanderlust"]]
    assert len(called) > 15
    for words in called:
        assert _parse(words) is not None, words
