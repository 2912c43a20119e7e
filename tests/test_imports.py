"""Imports point one way, and nothing on disk is ever run."""

import ast
import functools
import re
from pathlib import Path

import pytest

import wanderlust
import wanderlust_experiments
from trained import run_python
from wanderlust.registry import METHODS

SOURCE = Path(wanderlust.__file__).parent
EXPERIMENTS = Path(wanderlust_experiments.__file__).parent

LEVELS = (
    {"core", "outside"},
    {"config"},
    {"envs"},
    {"rl", "runs", "downstream.tasks"},
    {"methods", "report"},
    {"train", "recipes"},
    {"runs.use"},
    {"evaluation", "export", "downstream", "report.moving"},
    {"front"},
)
"""Rooms from the bottom up: a room may import from rooms below it, and from itself."""

PARTS = {
    "errors": "core",
    "registry": "core",
    "catalogue": "core",
    "evaluation.metrics": "core",
    "downstream.tasks": "downstream.tasks",
    "report.explorer": "report.moving",
    "report.video": "report.moving",
    "runs.learned": "runs.use",
    "runs.pace": "runs.use",
    "runs.loading": "runs.use",
    "runs.publish": "runs.use",
    "runs.prune": "runs.use",
    "train.stages": "front",
    "gym": "front",
    "sweeps": "front",
    "api": "front",
    "checks": "front",
    "": "front",
    "cli": "front",
    "__main__": "front",
}
"""Files and packages that stand on another level than their name says; `front` is what users call."""

ONLY = {
    "core": set(),
    "outside": set(),
    "config": {"core"},
    "envs": {"config", "core", "outside"},
    "rl": {"config", "envs"},
    "runs": {"config", "core", "envs"},
    "methods": {"config", "core", "envs", "rl", "runs"},
}
"""Rooms that may import from these and no others."""

UNNAMED = ("config", "envs", "rl", "train", "runs", "evaluation", "export", "sweeps", "report", "downstream", "gym")
"""Rooms that name no method: what they must know of one, it says of itself."""


def room_of(module: str) -> str:
    """The room of a dotted name below `wanderlust`."""
    for name, room in PARTS.items():
        if module == name or (name and module.startswith(name + ".")):
            return room
    return module.split(".")[0]


@functools.cache
def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def imports(path: Path, inside_functions: bool) -> set[str]:
    """Our modules that a file imports, as dotted names below `wanderlust`."""
    body = parsed(path)
    inner = set()
    if not inside_functions:
        functions = [n for n in ast.walk(body) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]
        inner = {id(node) for function in functions for node in ast.walk(function)}
    known, found = modules(), set()
    for node in ast.walk(body):
        if id(node) in inner:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import: the table of this test cannot place it"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                below = full.removeprefix("wanderlust").lstrip(".")
                found.add(full if node.module.startswith("wanderlust") and below in known else node.module)
    return {name.removeprefix("wanderlust").lstrip(".") for name in found if name.split(".")[0] == "wanderlust"}


def level(room: str) -> int:
    return next(i for i, rooms in enumerate(LEVELS) if room in rooms)


def test_every_room_has_a_place_in_the_table():
    rooms = {room_of(name) for name in modules()}
    assert rooms == set().union(*LEVELS)
    assert sum(map(len, LEVELS)) == len(rooms)


@pytest.mark.parametrize("name", modules())
def test_imports_point_down(name):
    room = room_of(name)
    for other in imports(modules()[name], inside_functions=True):
        if room_of(other) != room:
            assert level(room_of(other)) < level(room), f"{name or '__init__'} must not import {other}"


@pytest.mark.parametrize("room", ONLY)
def test_the_lower_rooms_know_only_what_they_are_meant_to(room):
    for name, path in modules().items():
        if room_of(name) == room:
            known = {room_of(other) for other in imports(path, inside_functions=True)} - {room}
            assert known <= ONLY[room], f"{name} imports {known - ONLY[room]}"


@pytest.mark.parametrize("name", [name for name in modules() if name.split(".")[0] in UNNAMED])
def test_rooms_name_no_method(name):
    """Neither as a string, nor by importing its file."""
    tree = parsed(modules()[name])
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    words = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
    }
    named = {word for text in words for word in re.findall(r"[a-z]+", text)} & set(METHODS.names())
    files = {other for other in imports(modules()[name], True) if re.match(r"methods\.(?!base|skills|views)", other)}
    assert not named and not files


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.rglob("*.py")), ids=lambda path: path.stem)
def test_experiments_list_methods_and_do_nothing_special_for_one(path):
    """Rows have names; what is done with a row does not depend on its name, nor on a method's own file."""
    tree = parsed(path)
    compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.match_case)]
    words = {node.value for part in compared for node in ast.walk(part) if isinstance(node, ast.Constant)}
    assert not words & set(METHODS.names())
    files = {other for other in imports(path, True) if re.match(r"methods\.(?!base|skills|views)", other)}
    assert files <= ({"methods.ablation"} if path.stem == "ablation" else set())  # a study of one method's own choices


@pytest.mark.parametrize("name", modules())
def test_files_are_readable_in_one_sitting(name):
    path = modules()[name]
    assert len(path.read_text().splitlines()) <= 350
    functions = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef)]
    assert not [node.name for node in functions if node.end_lineno - node.lineno >= 80]


def test_no_type_name_is_used_for_two_things():
    seen: dict[str, list[str]] = {}
    for name, path in modules().items():
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef):
                seen.setdefault(node.name, []).append(name)
    assert {kind: places for kind, places in seen.items() if len(places) > 1} == {}


def test_there_are_no_cycles_between_modules():
    graph = {name: imports(path, inside_functions=False) - {name} for name, path in modules().items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, f"a cycle: {' -> '.join((*trail, name))}"
        if name not in done:
            for other in graph[name]:
                visit(other, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("name", modules())
def test_nothing_read_from_disk_can_run(name):
    for node in ast.walk(parsed(modules()[name])):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
            assert not names & {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in {"eval", "exec", "compile", "__import__", "np.load", "numpy.load", "jnp.load"}
            assert called not in {"os.system", "yaml.load", "torch.load", "eqx.tree_deserialise_leaves"}
            assert not any(k.arg == "shell" for k in node.keywords)


def test_the_package_imports_into_a_clean_interpreter(tmp_path):
    program = (
        "import sys, wanderlust; "
        "assert 'jax' not in sys.modules and set(wanderlust.__all__) <= set(dir(wanderlust)); "
        "assert callable(wanderlust.load) and callable(wanderlust.discover); "
        "assert all(hasattr(wanderlust, name) for name in wanderlust.__all__) and not hasattr(wanderlust, 'skill'); "
        "import jax; assert not jax._src.xla_bridge._backends, 'importing must not start a device'; "
        "print(wanderlust.__version__)"
    )
    code, out, err = run_python("-W", "error", "-c", program, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert out.strip() == wanderlust.__version__
    assert list(tmp_path.iterdir()) == []


def test_what_needs_no_physics_does_not_wait_for_it(tmp_path):
    """Help, lists and refusals say the same where JAX and MuJoCo cannot even be imported."""
    program = """
import contextlib, io, sys
for name in ("jax", "mujoco", "matplotlib", "equinox", "optax"):
    sys.modules[name] = None
from wanderlust.cli import main
for line in sys.argv[1:]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main(line.split())
        except SystemExit as stop:
            code = stop.code
    print(code, " ".join(said.getvalue().split()))
"""
    begins = {
        "--help": "0 usage: wanderlust",
        "discover --help": "0 usage: wanderlust discover",
        "reproduce coverage --help": "0 usage: wanderlust reproduce coverage",
        "list": "0 environments point a point on the plane",
        "discover antt": "2 wanderlust: unknown environment 'antt' (did you mean ant?)",
        "discover ant --method lsdd": "2 wanderlust: unknown method 'lsdd' (did you mean lsd?)",
        "discover ant --recipe slow": "2 wanderlust: there is no recipe 'slow' for ant",
        "discover --with lsdd": "2 wanderlust: unknown method 'lsdd'",
        "discover ant --colour red": "2 wanderlust: there is no option --colour",
        "discover ant --sac.discount 3": "2 wanderlust: --set sac.discount=3.0: sac.discount is 3.0; it must be",
        "discover ant --set seeds=two": "2 wanderlust: --set seeds=two: seeds is 'two'",
        "discover --seeds 0": "2 wanderlust: --set seeds=0: seeds is 0; it must be at least 1",
        "discover --resume nosuch": "2 wanderlust: there is no run folder nosuch",
        "evaluate nosuch": "2 wanderlust: there is no run folder nosuch",
        "compare nosuch zoo:ant": "2 wanderlust: there is no run folder nosuch",
        "explore zoo:nosuch": "2 wanderlust: the zoo has no entry 'nosuch'",
    }
    code, out, err = run_python("-c", program, *begins, cwd=tmp_path)
    assert (code, err) == (0, "")
    for (asked, words), line in zip(begins.items(), out.splitlines(), strict=True):
        assert line.startswith(words), asked


def test_a_command_stopped_while_it_imports_says_so_in_one_line(tmp_path):
    program = """
import sys

class Stopping:
    def find_spec(self, name, path=None, target=None):
        if name == "jax":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Stopping())
sys.argv = ["wanderlust", "discover"]
from wanderlust_command import main
main()
"""
    assert run_python("-c", program, cwd=tmp_path) == (130, "", "wanderlust: stopped\n")
