"""A run on disk: a folder with its configuration, provenance, metrics, checkpoints and evaluation.

RUN/config.json        what was asked for: with the seed, all that decides the outcome
RUN/model/             the model with all its files, if the environment was made from one (`env.model`)
RUN/provenance.json    where it ran: commit, versions, device, precision, commands
RUN/metrics.jsonl      one line per `log_every` epochs, one value per seed
RUN/checkpoints/       the whole training state, safetensors; the last two are kept
RUN/evaluation/        evaluation.json, rollouts and figures
RUN/broken/            environments that the NaN guard has stopped, for `wanderlust replay`
RUN/writer.json        which process writes here, while one does (`writer.py`)

A run may be pruned (`prune.py`): its checkpoint then holds what use needs of all seeds, and nothing else.
An entry of the zoo is of one seed (`zoo.py`): what use needs in place of checkpoints, no metrics.
"""

import contextlib
import dataclasses
import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from wanderlust.config import RunConfig, flat, from_json, to_json
from wanderlust.envs import make_world
from wanderlust.errors import DamagedError, GoneError, UserError, is_count, notice, require, require_path
from wanderlust.runs import metrics
from wanderlust.runs.checkpoints import (
    FORMAT,
    MisfitError,
    check_checkpoint,
    file_name,
    find_checkpoints,
    read_tree,
    write_tree,
)
from wanderlust.runs.files import ArrayFile, append_line, read_text, write_atomic, write_json
from wanderlust.runs.folders import check_run_folder, refuse_links, set_aside, staging
from wanderlust.runs.metrics import Counts
from wanderlust.runs.provenance import provenance, read_provenance
from wanderlust.runs.writer import Writer, hold

LARGEST_CONFIG = 2**20
"""Bytes of a config.json; those of recipes have some thousands."""
KEEP = 2
"""Checkpoints."""
LOOKS = 3
"""At the checkpoints there are, as long as those that were seen go away meanwhile."""


def write_config(folder: Path, config: RunConfig) -> None:
    """Write config.json, and beside it what else the environment needs."""
    files: Callable[[], Mapping[str, bytes]] = getattr(make_world(config.env), "files", dict)
    for name, data in files().items():
        write_atomic(folder / name, data)
    write_atomic(folder / "config.json", to_json(config))


def read_config(path: Path, what: str) -> RunConfig:
    """Read a config.json; what lies beside it for its environment is found."""
    config = from_json(RunConfig, read_text(path, what, LARGEST_CONFIG), str(path))
    config.env.find_files(path.parent)
    return config


@dataclasses.dataclass(frozen=True)
class Run:
    """An existing run folder."""

    path: Path
    config: RunConfig
    entry: str = ""
    """`zoo:NAME` if it is an entry of the zoo. The folder of an entry is never written to."""
    out: Path | None = None
    """Where results go, if not into the folder itself."""
    writer: Writer | None = dataclasses.field(default=None, compare=False, repr=False)
    """By what this process writes to the folder, while it holds it (`lock`)."""

    @staticmethod
    def create(path: Path | str, config: RunConfig, fill: Callable[["Run"], None] = lambda run: None) -> "Run":
        """Make the folder, with configuration, provenance and what `fill` puts there, in one move."""
        require_path("--out", path)
        path = Path(path)
        if os.path.lexists(path):
            raise UserError(f"{path} already exists; choose another --out, or continue it with --resume {path}")
        with staging(path, path.parent) as folder:
            write_config(folder, config)
            write_json(folder / "provenance.json", provenance(config))
            fill(Run(folder, config))
            folder.rename(path)
        return Run(path, config)

    @staticmethod
    def open(path: Path | str) -> "Run":
        """Read the folder of a run."""
        require(isinstance(path, str | Path), f"a run is the path of a folder, not {path!r}")
        path = Path(path)
        check_run_folder(path)
        refuse_links(path)
        return Run(path, read_config(path / "config.json", "the run's configuration"))

    def __repr__(self) -> str:
        config, done = self.config, max(self.checkpoints(), default=0)
        seeds = "1 seed" if config.seeds == 1 else f"{config.seeds} seeds"
        trained = "" if self.entry else f", trained to epoch {done:,} of {config.schedule.epochs:,}"
        return f"<Run {self}: {config.name}, recipe {config.recipe}, {seeds}{trained}>"

    def __str__(self) -> str:
        """What messages call it."""
        return self.entry or str(self.path)

    @property
    def results(self) -> Path:
        """Where results go."""
        return self.out or self.path

    @property
    def evaluation(self) -> Path:
        """Where evaluations and figures go."""
        return self.results / "evaluation"

    @property
    def broken(self) -> Path:
        """Where environments go that the NaN guard has stopped."""
        return self.path / "broken"

    @contextlib.contextmanager
    def lock(self, claim: str = "") -> Iterator["Run"]:
        """The run, held: no other process trains it meanwhile. What a killed one left half-written is cleared away.

        From a process with the same `claim`, that of a sweep, the folder is taken over.
        """
        if self.writer is not None and self.writer.folder == self.path:
            yield self
            return
        with hold(self.path, claim, self.writer) as writer:
            for folder in (self.path, self.path / "checkpoints", self.broken):
                for leftover in folder.glob(".*.tmp"):
                    leftover.unlink()
            yield dataclasses.replace(self, writer=writer)

    def check_ours(self) -> None:
        """Refuse to write if this process held the folder and another one has taken it over."""
        if self.writer is not None:
            self.writer.check()

    def check_seed(self, seed: int) -> None:
        """Refuse a seed that is not there."""
        if not is_count(seed) or not 0 <= seed < self.config.seeds:
            raise UserError(f"{self} has no seed {seed!r}; it has {self.config.seeds}, counted from 0")

    # --- metrics and provenance --------------------------------------------------------------------------------

    def log(self, row: Mapping[str, Any], sync: bool = False) -> None:
        """Append a line to metrics.jsonl; `sync` has the disk keep it before this returns."""
        self.check_ours()
        append_line(self.path / "metrics.jsonl", json.dumps(row), sync)

    def metrics(self) -> list[dict[str, Any]]:
        """Every whole line of metrics.jsonl; a line cut short by a kill is left out. A zoo entry has none."""
        return [] if self.entry else metrics.read_metrics(self.path / "metrics.jsonl", self.config.seeds)

    def rewind(self, epoch: int) -> None:
        """Forget the metrics of epochs after `epoch`: they will be trained, and written, again."""
        self.check_ours()
        metrics.rewind(self.path / "metrics.jsonl", epoch)

    def counts(self, epoch: int) -> Counts | None:
        """What it took to come to an epoch, as its checkpoint says or its line of metrics; None if neither does."""
        if self.entry:
            return None
        if path := self.checkpoints().get(epoch):
            with contextlib.suppress(DamagedError):
                if (counts := Counts.of_text(ArrayFile(path).about.get("counts", ""))) is not None:
                    return counts
        return next((Counts.of(row) for row in reversed(self.metrics()) if row["epoch"] == epoch), None)

    def provenance(self) -> dict[str, Any]:
        """What provenance.json says of how the run was made; nothing if it is not there. A zoo entry has none."""
        return {} if self.entry else read_provenance(self.path / "provenance.json")

    def resumed(self) -> None:
        """Note in the provenance that the run is resumed, and where."""
        self.check_ours()
        facts = self.provenance()
        if not facts:
            set_aside(self.path / "provenance.json")
        facts["resumed"] = [*(facts.get("resumed") or []), provenance(self.config)]
        write_json(self.path / "provenance.json", facts)

    def rolled_back(self, epoch: int, diverged: int, why: str) -> None:
        """Note in the provenance that training diverged before an epoch, and went back to an earlier one."""
        self.check_ours()
        facts, turn = self.provenance(), {"to_epoch": epoch, "before_epoch": diverged, "why": why}
        write_json(self.path / "provenance.json", facts | {"rolled_back": [*(facts.get("rolled_back") or []), turn]})

    def began_with(self, other: "Run", epoch: int) -> None:
        """Note in the provenance what another run had learned when this one began with it."""
        theirs, counts = other.provenance(), other.counts(epoch)
        facts = {name: theirs.get(name) for name in ("command", "commit", "began_with")}
        facts["command"] = other.entry or facts["command"]
        facts |= {"epoch": epoch, "env_steps": counts.env_steps if counts else None}
        write_json(self.path / "provenance.json", {**self.provenance(), "began_with": facts})

    # --- checkpoints -------------------------------------------------------------------------------------------

    def checkpoints(self) -> dict[int, Path]:
        """The checkpoints there are, by epoch, oldest first."""
        return find_checkpoints(self.path / "checkpoints")

    def save(self, epoch: int, state: Any, counts: Counts | None = None) -> Path:
        """Write the whole training state and drop all but the newest checkpoints."""
        self.check_ours()
        path = self.path / "checkpoints" / file_name(epoch)
        about = {"format": FORMAT, "epoch": str(epoch), "config": to_json(self.config)}
        write_tree(path, state, about | ({"counts": counts.to_text()} if counts else {}))
        for old in list(self.checkpoints().values())[:-KEEP]:
            old.unlink()
        return path

    def drop_damaged(self, epoch: int) -> None:
        """Set aside the checkpoints after `epoch`, which `load` could not read: training writes them anew."""
        self.check_ours()
        for newer in (path for found, path in self.checkpoints().items() if found > epoch):
            set_aside(newer)

    def load(
        self, skeleton: Any, part: str = "", own: bool = True, only: Callable[[Any], Any] | None = None
    ) -> tuple[int, Any]:
        """Read the newest checkpoint into the form of `skeleton`; if it is damaged, the one before, and say so.

        `skeleton` is the state, or the subtree called `part` of it, as `jax.eval_shape` gives it; `only` picks what is
        read of that. Nothing is allocated before names and shapes are known to fit. Unless it is the run's `own`, its
        config.json has no part in it if one does not fit. A pruned checkpoint has no more than `only` picks.
        """
        for _ in range(LOOKS):
            with contextlib.suppress(GoneError):  # the run is being trained, and this one gave way to newer ones
                return self._load(skeleton, part, own, only)
        return self._load(skeleton, part, own, only)

    def _load(self, skeleton: Any, part: str, own: bool, only: Callable[[Any], Any] | None) -> tuple[int, Any]:
        found = self.checkpoints()
        if not found:
            raise UserError(
                f"{self.path} has no checkpoint yet; train it with `wanderlust discover --resume "
                f"{shlex.quote(str(self.path))}`"
            )
        damage: list[DamagedError] = []
        for epoch in reversed(found):
            try:
                read = self._read(found[epoch], epoch, skeleton, part, only)
            except DamagedError as error:
                damage.append(error)
            except MisfitError as error:
                raise UserError(f"{error}{self._difference(found[epoch]) if own else ''}") from None
            else:
                if damage:
                    notice(f"{damage[0]}; the checkpoint before it is used, of epoch {epoch}")
                return epoch, read
        others = "; no other checkpoint is there" if len(found) == 1 else "; none before it is whole either"
        raise DamagedError(f"{damage[0]}{others}")

    def _read(self, path: Path, epoch: int, skeleton: Any, part: str, only: Callable[[Any], Any] | None) -> Any:
        file = ArrayFile(path)
        check_checkpoint(file, epoch)
        if "pruned" not in file.about:
            return read_tree(file, skeleton, part, only)
        if only is None:
            raise UserError(f"{self.path} was pruned: it has what use needs, and cannot be trained any further")
        return read_tree(file, only(skeleton), part, compact=True)

    def _difference(self, path: Path) -> str:
        """What config.json says otherwise than when a checkpoint was written, and how to put that right."""
        where = self.path / "config.json"
        try:
            then = flat(dataclasses.asdict(from_json(RunConfig, ArrayFile(path).about["config"], str(path))))
        except (KeyError, UserError):
            return f"; {where} was changed, or is another run's: put back the one it was trained with"
        now = flat(dataclasses.asdict(self.config))
        changed = [name for name in then if name not in ("engine", "driver") and now.get(name) != then[name]]
        said = ", ".join(f"{name} {json.dumps(then[name])} and not {json.dumps(now.get(name))}" for name in changed[:5])
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        return f"; it was trained with {said}{more}: put that back in {where}" if changed else ""
