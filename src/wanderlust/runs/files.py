"""Files that are either whole or not there."""

import contextlib
import errno
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from wanderlust.errors import UserError


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write a file under a temporary name beside its place, then move it there."""
    payload = data.encode() if isinstance(data, str) else data
    with _explained(path, len(payload)):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(payload)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


@contextlib.contextmanager
def staging(target: Path, inside: Path) -> Iterator[Path]:
    """A temporary folder in the folder `inside`, to be filled and moved to `target` by the end of the block.

    What is left of it is removed, and so is `inside` if it was made for this and stayed empty. A failure of the disk
    is one line that names `target`.
    """
    with _explained(target):
        made = not inside.exists()
        try:
            inside.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=inside, prefix=f".{target.name}.", ignore_cleanup_errors=True) as name:
                os.chmod(name, 0o755)
                yield Path(name)
        finally:
            if made:
                with contextlib.suppress(OSError):
                    inside.rmdir()


def put_in_place(folder: Path, target: Path) -> None:
    """Move a finished folder to its place; the one it replaces comes back if that fails."""
    aside = folder.with_name(f"{folder.name}.old")
    if target.exists():
        target.rename(aside)
    try:
        folder.rename(target)
    except OSError:
        if aside.exists():
            aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def check_writable(folder: Path) -> None:
    """Refuse a folder in which nothing can be written, before work is put into what should go there."""
    with _explained(folder):
        # folders that are missing are made when there is something to put there
        there = next(place for place in (folder, *folder.parents) if place.exists())
        tempfile.TemporaryFile(dir=there).close()


def append_line(path: Path, line: str) -> None:
    """Add a line to a log; a line that could not be written whole is taken back."""
    payload = f"{line}\n".encode()
    with _explained(path, len(payload)), open(path, "ab") as file:
        before = file.tell()
        try:
            file.write(payload)
            file.flush()
        except OSError:
            with contextlib.suppress(OSError):
                os.truncate(path, before)
            raise


def write_json(path: Path, data: Any) -> None:
    """Write JSON that any reader takes: no NaN, no infinity."""
    write_atomic(path, json.dumps(_finite(data), indent=2, allow_nan=False) + "\n")


def read_text(path: Path, what: str) -> str:
    """Read a text file of a run; `what` names it in the message if it cannot be read."""
    try:
        return path.read_text()
    except FileNotFoundError:
        raise UserError(f"{what} is missing: there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{what} cannot be read: {path}: {error}") from None


def read_object(path: Path, what: str) -> dict[str, Any]:
    """Read a JSON object; `what` names it in the message if it cannot be read."""
    text = read_text(path, what)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise UserError(f"{path} is damaged: it is not a JSON object")
    return data


def bounded(path: Path, most: int) -> Path:
    """The path of a file, if there is one and it has `most` bytes at most."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    if (size := path.stat().st_size) > most:
        raise UserError(f"{path} has {size:,} bytes; it can have {most:,} at most")
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a log, one per line, up to the first line that is not whole; none if there is no log."""
    rows: list[dict[str, Any]] = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except ValueError:
            break
        if not isinstance(row, dict):
            break
        rows.append(row)
    return rows


# --- arrays ------------------------------------------------------------------------------------------------------


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, str]) -> None:
    """Write named arrays as safetensors, with a checksum of each among the metadata."""
    contiguous = {name: np.ascontiguousarray(x) for name, x in arrays.items()}
    sums = {name: zlib.crc32(x.tobytes()) for name, x in contiguous.items()}
    metadata = {**about, "crc32": json.dumps(sums)}
    write_atomic(path, safetensors.numpy.save(contiguous, metadata))


class ArrayFile:
    """A safetensors file opened for reading; nothing is loaded before it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = safetensors.safe_open(path, framework="numpy")
            self.about: dict[str, str] = self._file.metadata() or {}
            self._sums: dict[str, int] = dict(json.loads(self.about["crc32"]))
        except FileNotFoundError:
            raise UserError(f"there is no file {path}") from None
        except (safetensors.SafetensorError, OSError, KeyError, ValueError, TypeError):
            raise UserError(
                f"{path} is not a whole wanderlust file: it is truncated, damaged or something else"
            ) from None

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every array in the file."""
        return {name: tuple(self._file.get_slice(name).get_shape()) for name in self._file.keys()}  # noqa: SIM118

    def read(self, name: str) -> NDArray[Any]:
        """One array, checked against its checksum."""
        try:
            array: NDArray[Any] = self._file.get_tensor(name)
        except (safetensors.SafetensorError, OSError, TypeError):
            raise UserError(f"{self.path} has no readable array {name}") from None
        if zlib.crc32(np.ascontiguousarray(array).tobytes()) != self._sums.get(name):
            raise UserError(f"{self.path} is damaged: the checksum of {name} does not match")
        return array


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, np.generic):
        data = data.item()
    return None if isinstance(data, float) and not np.isfinite(data) else data


@contextlib.contextmanager
def _explained(path: Path, size: int = 0) -> Iterator[None]:
    """Turn a failed write into one line that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise UserError(f"cannot write to {path}: {error.strerror or error}") from error
        needed = f" ({size / 1e6:.1f} MB needed)" if size else ""
        raise UserError(f"no space left on the disk of {path}{needed}; free some and run again") from error
