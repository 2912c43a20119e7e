"""Settings of the whole suite: CPU, two devices, strict shapes, a cache of compiled programs of its own."""

import contextlib
import ctypes
import dataclasses
import functools
import gc
import importlib.metadata
import os
import threading
from pathlib import Path

# Tests marked gpu: WANDERLUST_TEST_PLATFORMS=cuda,cpu python -m pytest -m gpu
os.environ["JAX_PLATFORMS"] = os.environ.get("WANDERLUST_TEST_PLATFORMS", "cpu")
# One cache of compiled programs for all processes and all runs of the suite.
_home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
_place = os.environ.setdefault("WANDERLUST_TEST_CACHE", str(_home / "wanderlust-tests"))
Path(_place).mkdir(parents=True, exist_ok=True)
os.environ["WANDERLUST_CACHE"] = os.environ["JAX_COMPILATION_CACHE_DIR"] = _place
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"

# Most of the suite's time is compilation of small programs: the compiler need not try hard. The flags are of these
# versions' CPU, and one that XLA does not know stops it without a word: that of a GPU has been seen not to know them.
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
if os.environ["JAX_PLATFORMS"] == "cpu" and importlib.metadata.version("jaxlib").startswith(("0.10.", "0.11.")):
    _flags = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    _given = os.environ.get("XLA_FLAGS", "")
    if _flags not in _given:  # a worker has them from its parent; said twice they make other keys in the cache
        os.environ["XLA_FLAGS"] = f"{_given} {_flags}".strip()

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_num_cpu_devices", 2)  # so that seeds are spread over devices
jax.config.update("jax_numpy_rank_promotion", "raise")  # Optax needs standard dtype promotion: that stays as it is


# To lower a program JAX loads all dialects into a fresh context, which takes longer than most programs here do: some
# hundred programs share one. What they leave in it goes with it.

from jax._src.interpreters import mlir  # noqa: E402

_make_context, _of_thread = getattr(mlir, "make_ir_context", None), threading.local()


def _shared_context():
    with contextlib.suppress(ValueError):  # "no current Context"
        if mlir.ir.Context.current is not None:  # within the lowering of another program: not in the midst of that
            return _make_context()
    if not getattr(_of_thread, "left", 0):
        _of_thread.context, _of_thread.left = _make_context(), 200
    _of_thread.left -= 1
    return _of_thread.context


if _make_context is not None:
    mlir.make_ir_context = _shared_context


# Most tests that train do so with the same few configurations: their programs are traced once in a process. What is
# cached has no state of its own, and what it depends on is its key.

from wanderlust import train  # noqa: E402
from wanderlust.config import StagedConfig  # noqa: E402
from wanderlust.train import probe, state  # noqa: E402


def _reused(make):
    """Make the same of two setups that differ in nothing a program could depend on."""
    cached = functools.lru_cache(maxsize=64)(make)

    @functools.wraps(make)
    def call(*args, **options):
        try:
            return cached(*map(_alike, args), **options)
        except TypeError:  # a test's own part that has no hash
            return make(*args, **options)

    return call


def _alike(given):
    """Of a run's parts, the ones of all runs with the same programs."""
    if not isinstance(given, state.Setup):
        return given
    config, method = given.config, given.method
    own = config.method
    if isinstance(own, StagedConfig) and method.config == own:
        first = dataclasses.replace(own.first, schedule=dataclasses.replace(own.first.schedule, epochs=1))
        own = dataclasses.replace(own, first=first)
        method = dataclasses.replace(method, config=own)
    schedule = dataclasses.replace(config.schedule, epochs=1)
    alike = dataclasses.replace(config, method=own, seed=0, log_every=1, checkpoint_every=1, schedule=schedule)
    return dataclasses.replace(given, config=alike, method=method)


@_reused
def _init(parts):
    return jax.jit(jax.vmap(lambda seed: state.init_seed(parts, jax.random.key(seed))))


def _init_all(parts):
    return _init(parts)(jax.numpy.arange(parts.config.seed, parts.config.seed + parts.config.seeds))


train.init = state.init = _init_all
train.make_driver = _reused(train.make_driver)
train.make_skill_rollout = probe.make_skill_rollout = _reused(probe.make_skill_rollout)

# these import what is above
from wanderlust.downstream import solve  # noqa: E402
from wanderlust.downstream.controllers import hierarchy  # noqa: E402
from wanderlust.evaluation import evaluate, robustness  # noqa: E402
from wanderlust.runs import learned, loading, publish  # noqa: E402

for _module, *_names in (
    (probe, "make_random_rollout"),
    (evaluate, "make_phi"),
    (robustness, "make_pair_rollout"),
    (learned, "make_restore"),
    (loading, "compiled"),
    (publish, "make_weights_probe"),
    (hierarchy, "make_epoch", "controlled_policy"),
    (solve, "random_policy", "zero_shot_policy", "planning_policy", "make_measure"),
):
    for _name in _names:
        setattr(_module, _name, _reused(getattr(_module, _name)))


# Most of the time of a figure is its rendering: only tests of figures and of tables with figures do that.

from wanderlust.report.plots import style  # noqa: E402

PICTURES = ("tests/report/", "tests/experiments/", "draw", "figure", "picture")
"""What the tests' names have in which a figure is rendered."""


def _where_it_is_tested(render, instead):
    def call(figure):
        test = os.environ.get("PYTEST_CURRENT_TEST", "")
        return render(figure) if any(word in test for word in PICTURES) else instead

    return call


style.svg_of = _where_it_is_tested(style.svg_of, b"<svg/>")
style.png_of = _where_it_is_tested(style.png_of, b"\x89PNG\r\n\x1a\n")


LONGEST = (
    "explorer_browser", "hierarchy", "ibol", "edl", "cli", "report", "sweep", "zoo", "gymnasium", "resume", "engines",
    "dads", "reproduce_coverage", "reproduce_fetch_goals", "engine_choice", "strangers", "ablations", "music",
    "learned", "video", "train", "visr_aps", "metra_csd", "export", "fast_parts", "prune", "fetch_goals", "process",
)  # fmt: skip
"""The files that take longest. They come first, so that the workers of a run end together."""


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # of xdist: files with many tests first, however short these are


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {f"test_{name}.py": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)))


# Tracing makes objects by the million: the collector need not go through all modules again and again.


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


MOST_MEMORY = max(2 << 30, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 6)
"""Of a worker, in bytes: beyond it, what was compiled for the tests of a file is let go."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None):
    """After a file that leaves much behind, give its programs back."""
    yield
    if nextitem is not None and nextitem.path != item.path and resident_memory() > MOST_MEMORY:
        jax.clear_caches()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # no glibc
            ctypes.CDLL(None).malloc_trim(0)


def resident_memory() -> int:
    """Bytes, where Linux says so."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


@pytest.fixture
def command_line(capsys):
    """Call the command line: exit code, output, errors."""
    from wanderlust import cli

    def call(*args: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            cli.main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return call
