"""What documents and docstrings name is there: files, and the sections that links lead to."""

import dataclasses
import itertools
import re
import shlex
import textwrap
import tomllib
from pathlib import Path

import gymnasium
import pytest

import wanderlust
from trained import copy_of, trained
from wanderlust.cli import _parse
from wanderlust.downstream.tasks import TASKS
from wanderlust.registry import METHODS, WORLDS
from wanderlust.sweeps.plan import read_plan

ROOT = Path(__file__).parents[1]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(ROOT.glob("benchmarks/reports/*.md")),
]
CODE = [
    path
    for folder in ("src", "experiments", "benchmarks", "examples", "website")
    for path in (ROOT / folder).rglob("*.py")
]

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


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    needs: str
    """What keeps it from being run here: <!-- needs hours --> above it."""

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


FENCE = re.compile(r"^(?:<!-- (needs [^>]+) -->\n)?( *)```(\w*)\n(.*?)^\2```$", re.M | re.S)
READERS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    text = written(page)
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[3], textwrap.dedent(found[4]), found[1] or "")
        for found in FENCE.finditer(text)
    ]


BLOCKS = [block for page in READERS for block in blocks(page)]


def test_marks_stand_above_blocks():
    """One that stands elsewhere would exempt nothing, and look as if it did."""
    marks = sum(len(re.findall("^<!-- needs", written(page), re.M)) for page in READERS)
    assert marks == sum(bool(block.needs) for block in BLOCKS) > 10


@pytest.fixture(scope="module")
def lines():
    """Every line of the shell on the pages, as words."""
    found = []
    for block in BLOCKS:
        if block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                while words and re.match(r"[A-Z_]+=", words[0]):
                    words = words[1:]
                found += [(block, words)] if words else []
    assert len(found) > 150
    return found


def test_commands_of_the_shell_are_there(lines):
    """Scripts lie where they are said to, and make has the targets."""
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.M))
    known = {"wanderlust", "pip", "source", "cp", "cat", "cd", "export", "ssh", "apt-get", "uv", ".venv/bin/python"}
    for block, (command, *words) in lines:
        if command == "make":
            assert set(words) <= targets, block
        elif command == "python":
            assert (ROOT / words[0]).exists(), block
        else:
            assert command in known, (block, command)


def test_commands_are_known(lines):
    """The real parser reads them. A line whose flags were all parsed before is not parsed again: it costs 50 ms."""
    parsed = set()
    for block, words in lines:
        if words[0] == "wanderlust" and block.needs != "needs the folder examples":
            shape = {(words[1], word.partition("=")[0]) for word in words if re.match("--[a-z]", word)} | {words[1]}
            if not shape <= parsed:
                assert _parse(words[1:]) is not None, block
                parsed |= shape
    assert len({command for command in parsed if isinstance(command, str)}) > 15


def test_names_in_commands_exist(lines):
    """Methods, tasks, environments and entries of the zoo."""
    given = {"--method": METHODS, "--task": TASKS, "--env": WORLDS}
    entries = {f"zoo:{path.name}" for path in (ROOT / "zoo").iterdir() if path.is_dir()}
    for block, words in lines:
        assert {word for word in words if word.startswith("zoo:") and not PLACEHOLDER.search(word)} <= entries, block
        for flag, name in itertools.pairwise(words):
            if flag in given and ":" not in name and not PLACEHOLDER.search(name):
                assert re.sub("-(xy|o|xyo)$", "", name) in given[flag], (block, name)
        if words[:2] == ["wanderlust", "discover"] and len(words) > 2 and not words[2].startswith("-"):
            named = words[2].partition(":")[0]
            assert words[2] in WORLDS or named in (*WORLDS.names(), "gymnasium", "puck_world", "ENV"), block


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "toml"], ids=str)
def test_grids_are_read(block, tmp_path):
    if block.needs:
        assert tomllib.loads(block.text)["methods"]
    else:
        assert read_plan(tomllib.loads(block.text), tmp_path).items


SMALL = {
    "ant-multi-goals": "point-multi-goals",
    "ant-goal": "point-goal",
    "num_envs=64": "num_envs=2",
    "rollouts=64": "rollouts=2",
    "epoch-00001000": "epoch-00000004",
}
"""What is put in place of what pages say, where it takes long and shows no more."""


@pytest.mark.parametrize(
    "page", [page for page in READERS if any(b.language == "python" for b in blocks(page))], ids=str
)
def test_python_of_pages_runs(page, tmp_path, monkeypatch):
    """A page's blocks after each other, on a small run; of those that need something, imports and names."""
    monkeypatch.chdir(tmp_path)
    load = wanderlust.load
    copy_of(trained(), tmp_path / "runs/first")
    monkeypatch.setattr(wanderlust, "discover", lambda *args, **kwargs: trained())
    monkeypatch.setattr(wanderlust, "load", lambda what, **kwargs: load(trained()))
    seen = {"skills": wanderlust.load("runs/first"), "gymnasium": gymnasium, "wanderlust": wanderlust}
    for block in (block for block in blocks(page) if block.language == "python"):
        text = block.text
        for long, short in SMALL.items():
            text = text.replace(long, short)
        code = compile(text, str(block), "exec")
        if not block.needs:
            exec(code, seen)
        for name in re.findall(r"\bwanderlust\.([a-zA-Z]\w*)\(", text):
            assert hasattr(wanderlust, name), (block, name)
    if page.name == "first-skills.md":
        assert seen["action"].shape == (2,) and seen["place"].shape == (2,)


FORM = ["The objective", "How it is computed here", "What differs from the paper and from released code"]


@pytest.mark.parametrize("page", sorted((ROOT / "docs/methods").glob("*.md")), ids=lambda path: path.stem)
def test_methods_have_one_form(page):
    if page.stem not in ("index", "variants"):
        headings = re.findall(r"^## (.*)$", written(page), re.M)
        order = [headings.index(heading) for heading in (*FORM, "When to use it", "Metrics")]
        assert order == sorted(order)


def test_every_method_and_world_is_on_a_page():
    methods, worlds = written(ROOT / "docs/methods/index.md"), written(ROOT / "docs/reference/worlds.md")
    assert {name for name in METHODS.names() if f"`{name}`" not in methods} == set()
    assert {name for name in WORLDS.names() if f"`{name}`" not in worlds} == set()
    assert {name for name in TASKS if f"`{name}`" not in written(ROOT / "docs/reference/tasks.md")} == set()
