"""Folders that are made in one move, held by one process, and have no way out."""

import contextlib
import ctypes
import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from wanderlust.errors import UserError, notice
from wanderlust.runs.files import explained, is_folder


@contextlib.contextmanager
def staging(target: Path, inside: Path) -> Iterator[Path]:
    """A temporary folder in the folder `inside`, to be filled and moved to `target` by the end of the block.

    What is left of it is removed, and so is `inside` if it was made for this and stayed empty; what killed commands
    left is removed, too. A failure of the disk is one line that names `target`.
    """
    with explained(target):
        made = not inside.exists()
        try:
            inside.mkdir(parents=True, exist_ok=True)
            _clear_abandoned(target, inside)
            with tempfile.TemporaryDirectory(
                dir=inside, prefix=f".{target.name}.", suffix=STAGED, ignore_cleanup_errors=True
            ) as name:
                os.chmod(name, 0o755)
                with contextlib.ExitStack() as held:
                    with contextlib.suppress(OSError):  # a file system without locks: nobody clears it away there
                        held.enter_context(locked(Path(name)))
                    yield Path(name)
        finally:
            if made:
                with contextlib.suppress(OSError):
                    inside.rmdir()


STAGED, REPLACED = ".new", ".old"
"""How the names of folders end that are being filled, and with both those that give way to one."""


def _clear_abandoned(target: Path, inside: Path) -> None:
    """Remove the folders that killed commands were filling for this target; whoever still fills one holds its lock.

    One that was to be replaced comes back if nothing is in its place.
    """
    for entry in list(os.scandir(inside)):
        ours = entry.name.startswith(f".{target.name}.") and entry.is_dir(follow_symlinks=False)
        if ours and entry.name.endswith(STAGED + REPLACED) and not os.path.lexists(target):
            Path(entry.path).rename(target)
            notice(f"{target} was to be replaced when a command was killed; it is back as it was")
        elif ours and entry.name.endswith((STAGED, STAGED + REPLACED)):
            with contextlib.suppress(OSError), locked(Path(entry.path)):
                shutil.rmtree(entry.path, ignore_errors=True)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes; `BlockingIOError` if one of them holds it. A killed one lets go."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def set_aside(path: Path) -> None:
    """Give a damaged file another name, so that one can be written in its place and nothing is lost."""
    if os.path.lexists(path):
        with explained(path):
            os.replace(path, free_name(path.with_name(f"{path.name}.damaged")))


def free_name(path: Path) -> Path:
    """A file's name if it is not taken, else one with a number: bench.json, bench-2.json."""
    others = (path.with_name(f"{path.stem}-{n}{path.suffix}") for n in itertools.count(2))
    return next(name for name in itertools.chain([path], others) if not os.path.lexists(name))


def check_run_folder(path: Path) -> None:
    """Refuse the folder of a run if it is not there."""
    if not is_folder(path):
        raise UserError(f"there is no run folder {path}; `wanderlust discover` makes one and says where")


MANY_FILES = 100_000


def refuse_links(folder: Path) -> None:
    """Refuse a folder with a link that leads out of it: what is written or deleted behind it may be anything."""
    home = os.path.realpath(folder)
    for count, (where, folders, files) in enumerate(os.walk(folder)):
        for name in (*folders, *files):
            path = Path(where, name)
            if path.is_symlink() and not os.path.realpath(path).startswith(home + os.sep):
                raise UserError(
                    f"{path} is a link to {os.path.realpath(path)}, out of the folder, and will not be followed; put "
                    "the files themselves there (the whole folder may be a link)"
                )
        if count >= MANY_FILES:
            raise UserError(f"{folder} has more than {MANY_FILES:,} folders in it: it is no run")


def make_folder(folder: Path) -> bool:
    """Make a folder, and say whether it was not there."""
    with explained(folder):
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        return made


def put_in_place(folder: Path, target: Path) -> None:
    """Move a finished folder to its place, in one step: whoever looks sees the one before, or the new one."""
    if not target.exists():
        folder.rename(target)
        return
    try:
        _exchange(folder, target)
    except OSError:  # a system that cannot: the one before comes back if something fails
        aside = folder.with_name(f"{folder.name}{REPLACED}")
        target.rename(aside)
        try:
            folder.rename(target)
        except OSError:
            aside.rename(target)
            raise
        folder = aside
    shutil.rmtree(folder, ignore_errors=True)


def _exchange(one: Path, other: Path) -> None:
    """Let two names change places (Linux)."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if rename is None or rename(here, os.fsencode(one), here, os.fsencode(other), exchange) != 0:
        raise OSError(ctypes.get_errno(), "cannot exchange two names")
