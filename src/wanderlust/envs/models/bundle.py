"""A model with all the files it needs, by name and content; and the models that this process knows, by their hashes.

A configuration names its model by a hash. The files lie beside it in the run's folder, so that a run goes on, and its
skills load, when the file it was made from has moved or changed.
"""

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from wanderlust.errors import UserError

FOLDER = "model"
"""Where a run keeps its model, below its own folder."""
LARGEST = 512 * 2**20
"""Bytes of all files of a model."""
MOST_FILES = 4_000

_NAME = re.compile(r"[\w+-][\w.+-]{0,199}")


@dataclasses.dataclass(frozen=True, eq=False)
class Bundle:
    """A model file, its includes put in, and its meshes, textures and so on; all side by side, in no folders."""

    main: str
    files: Mapping[str, bytes]

    @property
    def text(self) -> str:
        """The model itself."""
        return self.files[self.main].decode()

    @property
    def is_urdf(self) -> bool:
        """Whether it is a URDF, and not MJCF."""
        return self.main.endswith(".urdf")

    @property
    def assets(self) -> dict[str, bytes]:
        """All but the model itself."""
        return {name: data for name, data in self.files.items() if name != self.main}

    def digest(self) -> str:
        """The same for the same files, and for no others."""
        whole = hashlib.sha256(self.main.encode())
        for name in sorted(self.files):
            whole.update(f"\0{name}\0".encode() + hashlib.sha256(self.files[name]).digest())
        return whole.hexdigest()


_known: dict[str, Bundle] = {}


def remember(bundle: Bundle) -> str:
    """Make a model known to this process; its hash."""
    digest = bundle.digest()
    _known[digest] = bundle
    return digest


def known(digest: str) -> Bundle:
    """The model of a hash."""
    if digest not in _known:
        raise UserError(
            f"the model {digest[:12]} is not here: it lies in the folder `{FOLDER}` beside the config.json of its run; "
            "open that run, or start from the model's file"
        )
    return _known[digest]


def read_beside(folder: Path, main: str, digest: str) -> None:
    """Make the model known that lies beside a configuration, unless it is; it must be the one of that hash."""
    if digest in _known:
        return
    place = folder / FOLDER
    if not _NAME.fullmatch(main) or not (place / main).is_file():
        raise UserError(f"the run's model is missing: there is no file {place / main}")
    paths = [path for path in sorted(place.iterdir()) if _NAME.fullmatch(path.name) and path.suffix != ".json"]
    if any(path.is_symlink() or not path.is_file() for path in paths):
        raise UserError(f"{place} holds something else than files")
    if len(paths) > MOST_FILES or sum(path.stat().st_size for path in paths) > LARGEST:
        raise UserError(f"{place} has more than {MOST_FILES:,} files or {LARGEST / 2**20:.0f} MB")
    bundle = Bundle(main, {path.name: path.read_bytes() for path in paths})
    if bundle.digest() != digest:
        raise UserError(f"{place} is damaged or was changed: its files are not those of the run's env.model")
    _known[digest] = bundle
