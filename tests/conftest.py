"""Settings of the whole suite: CPU, two devices, strict shapes, a cache of compiled programs of its own."""

import contextlib
import ctypes
import dataclasses
import functools
import gc
import importlib.metadata
import os
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


# Most tests that train do so with the same few configurations: their programs are traced once in a process. What is
# cached has no state of its own, and what it depends on is its key.

from wanderlust import train  # noqa: E402
from wanderlust.train import probe, state  # noqa: E402


def _reused(make):
    """Make the same of two setups that differ in nothing a program could depend on."""
    cached = functools.lru_cache(maxsize=64)(make)

    @functools.wraps(make)
    def call(parts, *args, **options):
        config = parts.config
        schedule = dataclasses.replace(config.schedule, epochs=1)
        alike = dataclasses.replace(config, seed=0, log_every=1, checkpoint_every=1, schedule=schedule)
        try:
            return cached(dataclasses.replace(parts, config=alike), *args, **options)
        except TypeError:  # a test's own part that has no hash
            return make(parts, *args, **options)

    return call


@_reused
def _init(parts):
    return jax.jit(jax.vmap(lambda seed: state.init_seed(parts, jax.random.key(seed))))


def _init_all(parts):
    return _init(parts)(jax.numpy.arange(parts.config.seed, parts.config.seed + parts.config.seeds))


train.init = state.init = _init_all
train.make_driver = _reused(train.make_driver)
train.make_skill_rollout = probe.make_skill_rollout = _reused(probe.make_skill_rollout)


# Half the time of a figure is its second form: only tests of figures and of tables with figures draw it.

from wanderlust.report.plots import style  # noqa: E402

_svg_of = style.svg_of


def _svg_where_it_is_tested(figure):
    where = os.environ.get("PYTEST_CURRENT_TEST", "")
    return _svg_of(figure) if "tests/report/" in where or "tests/experiments/" in where else b"<svg/>"


style.svg_of = _svg_where_it_is_tested


LONGEST = (
    "hierarchy", "ibol", "edl", "resume", "engines", "ablations", "cli", "train", "zoo", "visr_aps", "fast_parts",
    "guard", "dads", "sac", "ablation_grid", "export", "metra_csd", "zero_shot", "reproduce_ablation",
)  # fmt: skip
"""Files of more than 20 seconds. They come first, so that the workers of a run end together."""


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


MOST_MEMORY = 2 << 30


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
