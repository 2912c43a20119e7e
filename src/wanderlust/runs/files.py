"""Files that are either whole or not there."""

import contextlib
import errno
import json
import os
import stat
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from wanderlust.errors import DamagedError, DiskError, GoneError, UserError

LARGEST_TEXT = 2**24
"""Bytes of a text file of a run: a stranger's may be endless."""
LARGEST_LOG = 2**27
"""Bytes of a log, such as metrics.jsonl."""


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write a file under a temporary name beside its place, then move it there."""
    payload = data.encode() if isinstance(data, str) else data
    with explained(path, len(payload)):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(payload)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
            sync_folder(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk, so that a power cut does not take back what was written."""
    with contextlib.suppress(OSError):  # file systems that know no such thing
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_writable(folder: Path) -> None:
    """Refuse a folder in which nothing can be written, before work is put into what should go there."""
    with explained(folder):
        # folders that are missing are made when there is something to put there
        there = next(place for place in (folder, *folder.parents) if place.exists())
        tempfile.TemporaryFile(dir=there).close()


def append_line(path: Path, line: str, sync: bool = False) -> None:
    """Add a line to a log; a line that could not be written whole is taken back. `sync` has the disk keep all of it."""
    payload = f"{line}\n".encode()
    with explained(path, len(payload)), open(path, "ab") as file:
        before = file.tell()
        try:
            file.write(payload)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                os.truncate(path, before)
            raise


def write_json(path: Path, data: Any) -> None:
    """Write JSON that any reader takes: no NaN, no infinity."""
    write_atomic(path, json.dumps(_finite(data), indent=2, allow_nan=False) + "\n")


# --- reading: a file may be a stranger's, so it is a plain one, of bounded size, and parsed with care -----------------


def read_bytes(path: Path, what: str, most: int = LARGEST_TEXT) -> bytes:
    """Read a plain file that is not too large: no pipe that hangs, no device without an end."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise UserError(f"{what} is missing: there is no file {path}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{what} cannot be read: {path}: {_reason(error)}") from None
    try:
        kind = os.fstat(handle)
        if not stat.S_ISREG(kind.st_mode):
            raise UserError(f"{what} cannot be read: {path} is no ordinary file")
        if kind.st_size > most:
            raise UserError(f"{what} cannot be read: {path} has {kind.st_size:,} bytes; it can have {most:,}")
        with open(handle, "rb", closefd=False) as file:
            return file.read(most)
    except OSError as error:
        raise UserError(f"{what} cannot be read: {path}: {_reason(error)}") from None
    finally:
        os.close(handle)


def read_text(path: Path, what: str, most: int = LARGEST_TEXT) -> str:
    """Read a text file of a run; `what` names it in the message if it cannot be read."""
    try:
        return read_bytes(path, what, most).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{what} cannot be read: {path}: {error}") from None


def parse_json(text: str | bytes) -> Any:
    """JSON; whatever is wrong with it is a `ValueError`."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_object(path: Path, what: str) -> dict[str, Any]:
    """Read a JSON object; `what` names it in the message if it cannot be read."""
    text = read_text(path, what)
    try:
        data = parse_json(text)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise UserError(f"{path} is damaged: it is not a JSON object")
    return data


def is_folder(path: Path) -> bool:
    """Whether there is a folder; a name that no file system takes names none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # longer than any may be, or with a zero in it
        return False


def bounded(path: Path, most: int) -> Path:
    """The path of a file, if there is one and it has `most` bytes at most."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    if (size := path.stat().st_size) > most:
        raise UserError(f"{path} has {size:,} bytes; it can have {most:,} at most")
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a log, one per line, without lines that are damaged; none if there is no log."""
    return [row for _, row in read_lines(path) if row is not None]


def read_lines(path: Path) -> list[tuple[bytes, dict[str, Any] | None]]:
    """The lines of a log, each with the object it holds, or None if it is damaged; none if there is no log."""
    lines = read_bytes(path, "the log", LARGEST_LOG).splitlines() if os.path.lexists(path) else []
    return [(line, _row(line)) for line in lines]


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = parse_json(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


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
            if not stat.S_ISREG(path.stat().st_mode):
                raise OSError
            self._file = safetensors.safe_open(path, framework="numpy")
            self.about: dict[str, str] = self._file.metadata() or {}
            self._sums: dict[str, int] = parse_json(self.about["crc32"])
            if not isinstance(self._sums, dict):
                raise ValueError
        except FileNotFoundError:
            raise GoneError(f"there is no file {path}") from None
        except (safetensors.SafetensorError, OSError, KeyError, ValueError, TypeError):
            raise DamagedError(
                f"{path} is not a whole wanderlust file: it is truncated, damaged or something else"
            ) from None

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every array in the file."""
        return {name: tuple(self._file.get_slice(name).get_shape()) for name in self._file.keys()}  # noqa: SIM118

    def read(self, name: str) -> NDArray[Any]:
        """One array, checked against its checksum."""
        try:
            array: NDArray[Any] = self._file.get_tensor(name)
        except (safetensors.SafetensorError, OSError, TypeError, ValueError, AttributeError):
            raise DamagedError(f"{self.path} has no readable array {name}") from None
        if zlib.crc32(np.ascontiguousarray(array).tobytes()) != self._sums.get(name):
            raise DamagedError(f"{self.path} is damaged: the checksum of {name} does not match")
        return array


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, np.generic):
        data = data.item()
    return None if isinstance(data, float) and not np.isfinite(data) else data


def _reason(error: Exception) -> str:
    """Why a file cannot be reached, in words; a name may also be no name: with a zero in it, or not to be encoded."""
    return str(getattr(error, "strerror", None) or error)


@contextlib.contextmanager
def explained(path: Path, size: int = 0) -> Iterator[None]:
    """Turn a failed write into one line that says what to do."""
    try:
        yield
    except (OSError, UnicodeEncodeError) as error:
        if not isinstance(error, OSError) or error.errno != errno.ENOSPC:
            raise DiskError(f"cannot write to {path}: {_reason(error)}") from error
        needed = f" ({size / 1e6:.1f} MB needed)" if size else ""
        raise DiskError(f"no space left on the disk of {path}{needed}; free some and run again") from error
