"""The zoo: trained skills that ship with the package, each a pruned run folder with what use needs of one seed.

NAME/config.json         the configuration of the run, for that seed
NAME/skills.safetensors  the policy and what the method keeps for use, half precision where it costs nothing
NAME/card.json           facts: command, commit, machine, measures
NAME/card.md             the same for people, with trajectories.png

An entry may come from a stranger, so it is only read: no code in it is run, and no array is loaded that its
configuration does not ask for.
"""

import dataclasses
import os
import re
from pathlib import Path
from typing import Any

from wanderlust.errors import UserError
from wanderlust.runs.checkpoints import read_tree
from wanderlust.runs.files import ArrayFile, bounded, read_object
from wanderlust.runs.metrics import is_number
from wanderlust.runs.run import Run

PREFIX = "zoo:"
DATA = "zoo_data"
"""Where an installed package keeps its zoo, below `wanderlust/`; pyproject.toml puts it there."""

FORMAT = "wanderlust-zoo-1"
LARGEST_SKILLS = 64 * 2**20
"""Bytes of skills.safetensors: sixteen million numbers in float32, several times what any recipe has."""
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


def open_run(where: Path | str, out: Path | None = None) -> Run:
    """The run in a folder, or the zoo entry that ``zoo:NAME`` names; its results go to `out`, or to runs/zoo-NAME."""
    entry = str(where)
    if not entry.startswith(PREFIX):
        if out is not None:
            raise UserError(f"--out is for zoo entries: what comes of {where} goes into its own folder")
        return Run.open(where)
    name, known = entry.removeprefix(PREFIX), names()
    if name not in known:
        have = f"it has {', '.join(known)}" if known else "it is empty"
        raise UserError(f"the zoo has no entry {name!r}; {have}")
    file = bounded(zoo_folder() / name / "config.json", LARGEST_TEXT)
    run = Run.open(file.parent)
    if run.config.seeds != 1:
        raise UserError(f"{file} is not of one seed")
    return dataclasses.replace(run, entry=entry, out=out or Path("runs") / f"zoo-{name}")


def read_skills(entry: Run, skeleton: Any) -> tuple[int, Any]:
    """The epoch an entry was taken from, and its weights in the form of `skeleton`, as float32, checked."""
    file = ArrayFile(bounded(entry.path / "skills.safetensors", LARGEST_SKILLS))
    epoch = file.about.get("epoch", "")
    if file.about.get("format") != FORMAT or not re.fullmatch("[0-9]{1,9}", epoch):
        raise UserError(f"{file.path} is not a {FORMAT}")
    return int(epoch), read_tree(file, skeleton, compact=True)


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
