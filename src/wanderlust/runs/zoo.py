"""The zoo: trained skills that ship with the package, each a pruned run folder with what use needs of one seed.

NAME/config.json         the configuration of the run, for that seed
NAME/skills.safetensors  the policy and what the method keeps for use, half precision where it costs nothing
NAME/card.json           facts: command, commit, machine, measures
NAME/card.md             the same for people, with trajectories.png

An entry may come from a stranger, so it is only read: no code in it is run, and no array is loaded that its
configuration does not ask for.
"""

import dataclasses
import re
from pathlib import Path
from typing import Any

from wanderlust.errors import UserError
from wanderlust.runs.checkpoints import read_tree
from wanderlust.runs.entries import LARGEST_TEXT, PREFIX, check_source, zoo_folder
from wanderlust.runs.files import ArrayFile, bounded
from wanderlust.runs.run import Run

FORMAT = "wanderlust-zoo-1"
LARGEST_SKILLS = 64 * 2**20
"""Bytes of skills.safetensors: sixteen million numbers in float32, several times what any recipe has."""


def open_run(where: Path | str, out: Path | None = None) -> Run:
    """The run in a folder, or the zoo entry that ``zoo:NAME`` names; its results go to `out`, or to runs/zoo-NAME."""
    entry = str(where)
    if not entry.startswith(PREFIX):
        if out is not None:
            raise UserError(f"--out is for zoo entries: what comes of {where} goes into its own folder")
        return Run.open(where)
    check_source(entry)
    name = entry.removeprefix(PREFIX)
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
