"""A run on disk: a folder with its configuration, provenance, metrics, checkpoints and evaluation.

RUN/config.json        what was asked for: with the seed, all that decides the outcome
RUN/provenance.json    where it ran: commit, versions, device, precision, commands
RUN/metrics.jsonl      one line per `log_every` epochs, one value per seed
RUN/checkpoints/       the whole training state, safetensors; the last two are kept
RUN/evaluation/        evaluation.json, rollouts and figures
RUN/broken/            worlds whose physics broke down, for `wanderlust replay`
"""

import contextlib
import dataclasses
import fcntl
import importlib.metadata
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from wanderlust.config import RunConfig, from_json, to_json
from wanderlust.errors import UserError
from wanderlust.runs.files import ArrayFile, append_line, read_rows, read_text, write_arrays, write_atomic, write_json

T = TypeVar("T")

FORMAT = "wanderlust-checkpoint-2"
KEEP = 2
PHYSICS = ("mujoco", "mujoco-mjx", "warp-lang", "gymnasium")
PACKAGES = ("wanderlust", "jax", "jaxlib", "equinox", "optax", "numpy", *PHYSICS)


@dataclasses.dataclass(frozen=True)
class Run:
    """An existing run folder."""

    path: Path
    config: RunConfig

    @staticmethod
    def create(path: Path, config: RunConfig, fill: Callable[["Run"], None] = lambda run: None) -> "Run":
        """Make the folder, with configuration, provenance and what `fill` puts there, in one move."""
        path = Path(path)
        try:
            if path.exists() or path.is_symlink():
                raise UserError(f"{path} already exists; choose another --out, or continue it with --resume {path}")
            path.parent.mkdir(parents=True, exist_ok=True)
            staging = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        except OSError as error:
            raise UserError(f"cannot make the folder {path}: {error.strerror}") from None
        try:
            write_atomic(staging / "config.json", to_json(config))
            write_json(staging / "provenance.json", provenance(config))
            fill(Run(staging, config))
            staging.chmod(0o755)
            staging.rename(path)
        except OSError as error:
            raise UserError(f"cannot make the folder {path}: {error.strerror}") from None
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return Run(path, config)

    @staticmethod
    def open(path: Path | str) -> "Run":
        """Read the folder of a run."""
        path = Path(path)
        if not path.is_dir():
            raise UserError(f"there is no run folder {path}; `wanderlust discover` makes one and says where")
        where = path / "config.json"
        return Run(path, from_json(RunConfig, read_text(where, "the run's configuration"), str(where)))

    @property
    def evaluation(self) -> Path:
        """Where evaluations and figures go."""
        return self.path / "evaluation"

    @property
    def broken(self) -> Path:
        """Where worlds go whose physics broke down."""
        return self.path / "broken"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from training the same run; clear away what a killed one left half-written."""
        lock = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for folder in (self.path, self.path / "checkpoints", self.broken):
                for leftover in folder.glob(".*.tmp"):
                    leftover.unlink()
            yield
        except BlockingIOError:
            raise UserError(f"another process is training {self.path}; wait for it or stop it first") from None
        finally:
            os.close(lock)

    # --- metrics -----------------------------------------------------------------------------------------------

    def log(self, row: Mapping[str, Any]) -> None:
        """Append a line to metrics.jsonl."""
        append_line(self.path / "metrics.jsonl", json.dumps(row))

    def metrics(self) -> list[dict[str, Any]]:
        """Every whole line of metrics.jsonl; a line cut short by a kill is left out."""
        return [row for row in read_rows(self.path / "metrics.jsonl") if isinstance(row.get("epoch"), int)]

    def rewind(self, epoch: int) -> None:
        """Forget the metrics of epochs after `epoch`: they will be trained, and written, again."""
        kept = [json.dumps(row) for row in self.metrics() if row["epoch"] <= epoch]
        if kept or (self.path / "metrics.jsonl").exists():
            write_atomic(self.path / "metrics.jsonl", "".join(f"{line}\n" for line in kept))

    def commit(self) -> str | None:
        """The commit the run was started from, as far as its provenance says."""
        return self.record().get("commit")

    def resumed(self) -> None:
        """Note in the provenance that the run goes on, and where."""
        record = self.record()
        record["resumed"] = [*(record.get("resumed") or []), provenance(self.config)]
        write_json(self.path / "provenance.json", record)

    def began_with(self, other: "Run", epoch: int) -> None:
        """Note in the provenance what another run had learned when this one began with it."""
        theirs, last = other.record(), next((r for r in other.metrics() if r["epoch"] == epoch), {})
        facts = {"command": theirs.get("command"), "commit": theirs.get("commit"), "epoch": epoch}
        facts |= {"env_steps": last.get("env_steps")}
        facts |= {"began_with": theirs["began_with"]} if "began_with" in theirs else {}
        record = {**self.record(), "began_with": facts}
        write_json(self.path / "provenance.json", record)

    def record(self) -> dict[str, Any]:
        """What provenance.json says of how the run was made; nothing if it is not there."""
        path = self.path / "provenance.json"
        try:
            record = json.loads(read_text(path, "the run's provenance")) if path.exists() else {}
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise UserError(f"{path} is damaged: it is not a JSON object; delete it to go on without it")
        if wrong := _wrong_entry(record):
            raise UserError(f"{path} is damaged: {wrong} is not what it should be; delete it to go on without it")
        return record

    # --- checkpoints -------------------------------------------------------------------------------------------

    def checkpoints(self) -> dict[int, Path]:
        """The checkpoints there are, by epoch, oldest first."""
        found = {}
        for path in sorted((self.path / "checkpoints").glob("epoch-*.safetensors")):
            digits = path.stem.removeprefix("epoch-")
            if digits.isdigit():
                found[int(digits)] = path
        return dict(sorted(found.items()))

    def save(self, epoch: int, state: Any) -> Path:
        """Write the whole training state and drop all but the newest checkpoints."""
        path = self.path / "checkpoints" / f"epoch-{epoch:08d}.safetensors"
        write_tree(path, state, {"format": FORMAT, "epoch": str(epoch)})
        for old in list(self.checkpoints().values())[:-KEEP]:
            old.unlink()
        return path

    def load(self, skeleton: T, part: str = "", epoch: int | None = None, own: bool = True) -> tuple[int, T]:
        """Read a checkpoint (the newest, unless `epoch` says which) into the shape of `skeleton`.

        `skeleton` is the state, or the subtree called `part` of it, as `jax.eval_shape` gives it: nothing is
        allocated before names, shapes and types are known to fit. Unless it is the run's `own`, one that does not fit
        is no sign of damage.
        """
        found = self.checkpoints()
        if not found or (epoch is not None and epoch not in found):
            which = f"checkpoint of epoch {epoch}" if epoch is not None else "checkpoint yet"
            raise UserError(f"{self.path} has no {which}; train it with `wanderlust discover --resume {self.path}`")
        epoch = max(found) if epoch is None else epoch
        path = found[epoch]
        try:
            file = ArrayFile(path)
            if file.about.get("format") == "wanderlust-checkpoint-1":
                raise UserError(f"{path} is of an older Wanderlust, whose states this one cannot read; train it again")
            if file.about.get("format") != FORMAT or file.about.get("epoch") != str(epoch):
                raise UserError(f"{path} is not a {FORMAT} of epoch {epoch}")
            return epoch, read_tree(file, skeleton, part)
        except UserError as error:
            earlier = [e for e in found if e < epoch]
            hint = f"; delete it to go on from epoch {max(earlier)}" if earlier and own else ""
            raise UserError(f"{error}{hint}") from None


# --- pytrees and names -----------------------------------------------------------------------------------------------


def write_tree(path: Path, tree: Any, about: Mapping[str, str]) -> None:
    """Write a tree of arrays and random keys, each under the name of its place."""
    write_arrays(path, _flatten(jax.device_get(_raw_keys(tree))), about)


def read_tree(file: ArrayFile, skeleton: T, part: str = "") -> T:
    """Read a tree, or the subtree called `part` of it, in the form that `jax.eval_shape` gives."""
    return _unflatten(_raw_keys(skeleton), skeleton, file, part)


def _is_key(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jax.dtypes.prng_key))


def _raw_keys(tree: Any) -> Any:
    """Random keys as the integers they are made of."""

    def raw(x: Any) -> Any:
        if not _is_key(x):
            return x
        return jax.eval_shape(jax.random.key_data, x) if isinstance(x, jax.ShapeDtypeStruct) else jax.random.key_data(x)

    return jax.tree.map(raw, tree)


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _flatten(tree: Any) -> dict[str, np.ndarray]:
    return {_name(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def _unflatten(raw: Any, skeleton: T, file: ArrayFile, part: str) -> T:
    prefix = f"{part}/" if part else ""
    shapes = {name: shape for name, shape in file.shapes().items() if name.startswith(prefix)}
    expected = {prefix + _name(path) for path, _ in jax.tree_util.tree_leaves_with_path(raw)}
    if spare := sorted(set(shapes) - expected):
        raise UserError(f"{file.path} does not fit the run's configuration: it also holds {spare[0]}")

    def read(path: tuple[Any, ...], leaf: Any, like: Any) -> Array:
        name = prefix + _name(path)
        if shapes.get(name) != leaf.shape:
            raise UserError(
                f"{file.path} does not fit the run's configuration at {name}: "
                f"{shapes.get(name, 'nothing')} instead of {leaf.shape}"
            )
        array = file.read(name)
        if array.dtype != leaf.dtype:
            raise UserError(f"{file.path} does not fit the run's configuration at {name}: {array.dtype}")
        return jax.random.wrap_key_data(jnp.asarray(array)) if _is_key(like) else jnp.asarray(array)

    return jax.tree_util.tree_map_with_path(read, raw, skeleton)


# --- provenance ------------------------------------------------------------------------------------------------------


def provenance(config: RunConfig) -> dict[str, Any]:
    """Where and with what a run happens."""
    device = jax.devices()[0]
    return {
        "command": command(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "device": {
            "platform": device.platform,
            "kind": processor() if device.platform == "cpu" else device.device_kind,
            "count": len(jax.devices()),
            "cpu_cores": os.cpu_count(),
        },
        "precision": {
            "arrays": "float32",
            "matmul": str(getattr(jax.config, "jax_default_matmul_precision", None) or "default"),
        },
        "engine": config.engine,
        "driver": config.driver,
    }


ENTRIES = {"command": str, "commit": str, "time": str, "device": dict, "versions": dict, "resumed": list}
"""Of provenance.json, as far as somebody reads them; any may be missing."""
LONGEST_LINE = 100
"""Runs that began with each other, one after the other."""


def _wrong_entry(record: Mapping[str, Any]) -> str | None:
    """The first entry of a provenance, or of one it began with, that nobody here has written."""
    for _ in range(LONGEST_LINE):
        for name, kind in ENTRIES.items():
            if not isinstance(record.get(name), kind | None):
                return name
        before = record.get("began_with")
        if before is None:
            return None
        if not isinstance(before, dict) or not isinstance(before.get("epoch"), int):
            return "began_with"
        record = before
    return "began_with"


def command() -> str:
    """The command line that is running."""
    program = Path(sys.argv[0]).name
    words = ["python", "-m", "wanderlust"] if program == "__main__.py" else [program]
    return shlex.join([*words, *sys.argv[1:]])


def version(package: str) -> str | None:
    """The installed version of a package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """The commit of the source, with + if it was changed since; None for an installed package.

    WANDERLUST_COMMIT says it where the source travels without its history.
    """
    if said := os.environ.get("WANDERLUST_COMMIT"):
        return said
    here = Path(__file__).resolve().parent
    try:
        ours = subprocess.run(
            ["git", "ls-files", "--error-unmatch", __file__], cwd=here, capture_output=True, timeout=10
        )
        if ours.returncode:
            return None
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=10)
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--", here], cwd=here, capture_output=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return head.stdout.strip() + ("+" if changed.stdout else "") or None


def processor() -> str:
    """The name of the CPU."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
