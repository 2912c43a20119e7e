"""Which runs and zoo entries there are, by name. Light: the command line asks before anything is opened."""

import os
import re
from pathlib import Path
from typing import Any

from wanderlust.errors import UserError
from wanderlust.runs.files import bounded, read_object
from wanderlust.runs.folders import check_run_folder
from wanderlust.runs.metrics import is_number

PREFIX = "zoo:"
DATA = "zoo_data"
"""Where an installed package keeps its zoo, below `wanderlust/`; pyproject.toml puts it there."""

LARGEST_TEXT = 2**18
"""Bytes of config.json and card.json."""

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


def zoo_folder() -> Path:
    """WANDERLUST_ZOO, or the zoo of the installed package, or `zoo/` of the checkout."""
    if chosen := os.environ.get("WANDERLUST_ZOO"):
        return Path(chosen)
    here = Path(__file__).resolve().parents[1]
    return here / DATA if (here / DATA).is_dir() else here.parents[1] / "zoo"


def names() -> list[str]:
    """The entries there are, whole or not."""
    try:
        return sorted(path.name for path in zoo_folder().iterdir() if NAME.fullmatch(path.name) and path.is_dir())
    except OSError:
        return []


def check_source(where: Path | str) -> None:
    """Refuse the folder of a run, or a zoo:NAME, that is not there."""
    entry = str(where)
    if not entry.startswith(PREFIX):
        check_run_folder(Path(where))
        return
    name, known = entry.removeprefix(PREFIX), names()
    if name not in known:
        have = f"it has {', '.join(known)}" if known else "it is empty"
        raise UserError(f"the zoo has no entry {name!r}; {have}")


CARD = {
    **dict.fromkeys(("command", "commit", "time", "note", "summary"), str),
    **dict.fromkeys(("device", "versions", "metrics", "began_with"), dict),
    **dict.fromkeys(("epoch", "env_steps", "resumed", "train_seconds", "seconds"), float),
}
"""Entries of card.json that are read, as far as they are there."""


def read_card(folder: Path) -> dict[str, Any]:
    """What the card of an entry says, checked."""
    path = bounded(folder / "card.json", LARGEST_TEXT)
    found = read_object(path, "the entry's card")
    for name, kind in CARD.items():
        value = found.get(name)
        if value is not None and not (is_number(value) if kind is float else isinstance(value, kind)):
            raise UserError(f"{path} is damaged: {name} is not what it should be")
    return found


def summaries() -> dict[str, str]:
    """One line for each entry; what is wrong with it, if its card cannot be read."""
    found = {}
    for name in names():
        try:
            text = read_card(zoo_folder() / name).get("summary")
            found[name] = one_line(text) if isinstance(text, str) and text.strip() else "its card says nothing"
        except UserError as error:
            found[name] = f"damaged: {error}"
    return found


def one_line(text: str, longest: int = 160) -> str:
    """Text from a stranger: printable, on one line, cut off where it is longer than it can rightly be."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= longest else f"{words[: longest - 1]}…"
