"""The machine: settings of JAX that must be made before it first computes, and what there is."""

import contextlib
import importlib
import os
import time
import warnings
import zlib
from pathlib import Path
from typing import Any

import jax

from wanderlust.errors import UserError, notice

CONTROL_GROUP = Path("/sys/fs/cgroup")
"""Where Linux says what a container may use."""


def prepare(seeds: int = 1) -> None:
    """Spread seeds over CPU cores and keep compiled programs between commands. Harmless when it comes too late."""
    count = max(n for n in range(1, min(seeds, cores()) + 1) if seeds % n == 0)
    with contextlib.suppress(RuntimeError):  # JAX has already started: it stays with the devices it has
        jax.config.update("jax_num_cpu_devices", count)
    if not getattr(jax.config, "jax_compilation_cache_dir", None) and not _cache_refused:
        try:
            folder = healed_cache(cache_folder() / "xla")
        except OSError as error:
            _cache_refused.append(True)
            notice(
                f"compiled programs cannot be kept in {cache_folder()}: {error.strerror}; every command compiles anew. "
                "WANDERLUST_CACHE names another folder"
            )
            return
        warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry", UserWarning)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


_cache_refused: list[bool] = []
"""Whether it was said that there is no cache."""
CHECKED = "wanderlust-checked"
"""A file of the cache: entries newer than it were not looked at yet."""


def healed_cache(folder: Path) -> Path:
    """The folder of compiled programs, without entries that a full disk or a kill has cut short.

    JAX would read, and warn of, such an entry at every start. An entry is looked at once. Raises `OSError` where
    nothing can be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / CHECKED
    since = stamp.stat().st_mtime if stamp.exists() else 0.0
    now = time.time()
    for entry in folder.glob("*-cache"):
        with contextlib.suppress(OSError):  # another process may remove it, too
            if entry.stat().st_mtime >= since and not _is_whole(entry.read_bytes()):
                entry.unlink()
    stamp.touch()
    os.utime(stamp, (now, now))
    return folder


def _is_whole(entry: bytes) -> bool:
    """Whether an entry can be unpacked: by zlib, or by Zstandard where JAX has found it."""
    if not entry.startswith(b"\x28\xb5\x2f\xfd"):
        try:
            zlib.decompress(entry)
        except zlib.error:
            return False
        return True
    try:
        zstandard: Any = importlib.import_module("zstandard")
    except ImportError:
        return True
    try:
        zstandard.ZstdDecompressor().decompress(entry)
    except zstandard.ZstdError:
        return False
    return True


_first_process: list[int] = []
"""The process that has first computed here: memory of a fork has it from its parent."""


def note_process() -> None:
    """Remember which process this is, if it is the first to ask."""
    if not _first_process:
        _first_process.append(os.getpid())


def refuse_fork() -> None:
    """Refuse to compute in a process that was forked from one that has: JAX's threads are not there, and it would wait.

    What begins to compute calls this.
    """
    note_process()
    if _first_process[0] != os.getpid():
        raise UserError(
            "this process was forked from one that uses JAX already, and would wait for ever: start it with the method "
            "spawn or forkserver, e.g. multiprocessing.get_context('spawn'), or for gymnasium.make_vec "
            "vector_kwargs={'context': 'spawn'}"
        )


def cores() -> int:
    """CPU cores that this process may use: of the machine, or of its container where that has the time of fewer."""
    have = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # no control group, or one without a limit ("max")
        time, period = map(int, (CONTROL_GROUP / "cpu.max").read_text().split())
        have = min(have, max(1, time // period))
    return have


def cache_folder() -> Path:
    """Where compiled programs are kept between commands: WANDERLUST_CACHE, or the user's cache folder."""
    if chosen := os.environ.get("WANDERLUST_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wanderlust"


def host_memory() -> int:
    """Bytes of memory this machine has, or its container where that has less."""
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # no control group, or one without a limit ("max")
        have = min(have, int((CONTROL_GROUP / "memory.max").read_text()))
    return have


def has_gpu() -> bool:
    """Whether JAX computes on anything but the CPU."""
    return jax.default_backend() != "cpu"


def describe() -> str:
    """The device in words."""
    devices = jax.devices()
    first = devices[0]
    if first.platform == "cpu":
        return f"CPU ({cores()} cores)"
    return f"{len(devices)} x {first.device_kind}" if len(devices) > 1 else first.device_kind
