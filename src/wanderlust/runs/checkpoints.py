"""Trees of arrays as safetensors files, each array under the name of its place in the tree."""

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from wanderlust.errors import DamagedError, UserError
from wanderlust.runs.files import ArrayFile, write_arrays

FORMAT = "wanderlust-checkpoint-2"
OLD_FORMATS = ("wanderlust-checkpoint-1",)
EPOCH = re.compile("[0-9]{1,12}")
PIECE = 2**22
"""Numbers that are looked at in one go."""


class MisfitError(UserError):
    """A whole file that holds something else than the configuration asks for."""


def write_tree(path: Path, tree: Any, about: Mapping[str, str]) -> None:
    """Write a tree of arrays and random keys; one with a number that is not finite is refused, nothing is written."""
    raw = jax.tree.map(lambda x: jax.random.key_data(x) if _is_key(x) else x, tree)
    named = jax.tree_util.tree_leaves_with_path(jax.device_get(raw))
    arrays = {_name(place): np.asarray(leaf) for place, leaf in named}
    if wrong := [name for name, array in arrays.items() if not is_finite(array)]:
        raise UserError(f"{wrong[0]}{_others(wrong)} not finite: {path} was not written")
    write_arrays(path, arrays, about)


def is_finite(array: NDArray[Any]) -> bool:
    """Whether all numbers of an array are; in pieces, since what is saved may fill half of the memory."""
    if not np.issubdtype(array.dtype, np.inexact) and array.dtype.kind != "V":  # bfloat16 and its like are V
        return True
    flat = array.reshape(-1)
    return all(bool(np.isfinite(flat[k : k + PIECE]).all()) for k in range(0, flat.size, PIECE))


def _others(names: list[str]) -> str:
    return " is" if len(names) == 1 else f" and {len(names) - 1} other arrays are"


def read_tree(
    file: ArrayFile, skeleton: Any, part: str = "", only: Callable[[Any], Any] | None = None, compact: bool = False
) -> Any:
    """Read a tree, or the subtree called `part` of it, into the form of `skeleton` (as `jax.eval_shape` gives it).

    Every name and shape is checked before the first array is read. `only` picks what is read of the tree, by default
    all of it. Numbers must be finite. Types are the skeleton's; a `compact` file may hold float16 instead of float32.
    """
    prefix = f"{part}/" if part else ""
    form = jax.tree_util.tree_map_with_path(lambda place, leaf: _Stored.of(prefix + _name(place), leaf), skeleton)
    _check_form(file, prefix, jax.tree.leaves(form))
    return jax.tree.map(lambda stored: _read_array(file, stored, compact), only(form) if only else form)


def check_checkpoint(file: ArrayFile, epoch: int) -> None:
    """Refuse a file that is not the checkpoint of an epoch."""
    form, named = file.about.get("format"), file.about.get("epoch", "")
    if form in OLD_FORMATS:
        raise UserError(f"{file.path} is of an older Wanderlust, whose states this one cannot read; train it again")
    if form == FORMAT and named != str(epoch) and EPOCH.fullmatch(named):
        raise UserError(f"{file.path} is the checkpoint of epoch {named}; name it {file_name(int(named))} again")
    if form != FORMAT or named != str(epoch):
        raise UserError(f"{file.path} is not a {FORMAT} of epoch {epoch}")


def file_name(epoch: int) -> str:
    """What the checkpoint of an epoch is called."""
    return f"epoch-{epoch:08d}.safetensors"


def find_checkpoints(folder: Path) -> dict[int, Path]:
    """The checkpoints in a folder, by epoch, oldest first; a folder that cannot be looked into is refused.

    Whoever took it for an empty one would train from the beginning.
    """
    if not os.path.lexists(folder):
        return {}
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise UserError(
            f"{folder}, where the run's checkpoints are, cannot be looked into: {error.strerror}; put that right and "
            "try again: nothing was changed"
        ) from None
    numbers = (name.removeprefix("epoch-").removesuffix(".safetensors") for name in names)
    epochs = sorted(int(digits) for digits in numbers if EPOCH.fullmatch(digits))
    return {epoch: folder / file_name(epoch) for epoch in epochs if file_name(epoch) in names}


@dataclasses.dataclass(frozen=True)
class _Stored:
    """An array as it should be in a file."""

    name: str
    shape: tuple[int, ...]
    dtype: Any
    is_key: bool

    @staticmethod
    def of(name: str, leaf: Any) -> "_Stored":
        raw = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
        return _Stored(name, raw.shape, raw.dtype, _is_key(leaf))


def _check_form(file: ArrayFile, prefix: str, expected: list[_Stored]) -> None:
    shapes = {name: shape for name, shape in file.shapes().items() if name.startswith(prefix)}
    if spare := sorted(set(shapes) - {stored.name for stored in expected}):
        raise MisfitError(f"{file.path} does not fit the run's configuration: it also holds {spare[0]}")
    for stored in expected:
        if shapes.get(stored.name) != stored.shape:
            there = shapes.get(stored.name, "nothing")
            raise MisfitError(
                f"{file.path} does not fit the run's configuration at {stored.name}: {there} instead of {stored.shape}"
            )


def _read_array(file: ArrayFile, stored: _Stored, compact: bool) -> Array:
    array: NDArray[Any] = file.read(stored.name)
    halved = compact and stored.dtype == np.float32 and array.dtype == np.float16
    if array.dtype != stored.dtype and not halved:
        raise MisfitError(f"{file.path} does not fit the run's configuration at {stored.name}: {array.dtype}")
    if not is_finite(array):
        raise DamagedError(f"{file.path} is damaged: {stored.name} holds numbers that are not finite")
    return jax.random.wrap_key_data(jnp.asarray(array)) if stored.is_key else jnp.asarray(array, stored.dtype)


def _is_key(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jax.dtypes.prng_key))


def _name(place: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(place, simple=True, separator="/")
