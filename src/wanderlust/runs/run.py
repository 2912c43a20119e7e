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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from wanderlust.config import RunConfig, from_json, to_json
from wanderlust.envs import make_world
from wanderlust.errors import UserError
from wanderlust.runs.checkpoints import FORMAT, check_checkpoint, read_tree, write_tree
from wanderlust.runs.files import ArrayFile, append_line, read_rows, read_text, staging, write_atomic, write_json
from wanderlust.runs.provenance import provenance, read_provenance
from wanderlust.runs.writer import Writer, hold

KEEP = 2
"""Checkpoints."""


def write_config(folder: Path, config: RunConfig) -> None:
    """Write config.json, and beside it what else the environment needs."""
    files: Callable[[], Mapping[str, bytes]] = getattr(make_world(config.env), "files", dict)
    for name, data in files().items():
        write_atomic(folder / name, data)
    write_atomic(folder / "config.json", to_json(config))


def read_config(path: Path, what: str) -> RunConfig:
    """Read a config.json; what lies beside it for its environment is found."""
    config = from_json(RunConfig, read_text(path, what), str(path))
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
        path = Path(path)
        if not path.is_dir():
            raise UserError(f"there is no run folder {path}; `wanderlust discover` makes one and says where")
        return Run(path, read_config(path / "config.json", "the run's configuration"))

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
        if not 0 <= seed < self.config.seeds:
            raise UserError(f"{self} has no seed {seed}; it has {self.config.seeds}, counted from 0")

    # --- metrics and provenance --------------------------------------------------------------------------------

    def log(self, row: Mapping[str, Any]) -> None:
        """Append a line to metrics.jsonl."""
        self.check_ours()
        append_line(self.path / "metrics.jsonl", json.dumps(row))

    def metrics(self) -> list[dict[str, Any]]:
        """Every whole line of metrics.jsonl; a line cut short by a kill is left out. A zoo entry has none."""
        rows = [] if self.entry else read_rows(self.path / "metrics.jsonl")
        return [row for row in rows if isinstance(row.get("epoch"), int)]

    def rewind(self, epoch: int) -> None:
        """Forget the metrics of epochs after `epoch`: they will be trained, and written, again."""
        self.check_ours()
        kept = [json.dumps(row) for row in self.metrics() if row["epoch"] <= epoch]
        if kept or (self.path / "metrics.jsonl").exists():
            write_atomic(self.path / "metrics.jsonl", "".join(f"{line}\n" for line in kept))

    def provenance(self) -> dict[str, Any]:
        """What provenance.json says of how the run was made; nothing if it is not there. A zoo entry has none."""
        return {} if self.entry else read_provenance(self.path / "provenance.json")

    def resumed(self) -> None:
        """Note in the provenance that the run is resumed, and where."""
        self.check_ours()
        facts = self.provenance()
        facts["resumed"] = [*(facts.get("resumed") or []), provenance(self.config)]
        write_json(self.path / "provenance.json", facts)

    def began_with(self, other: "Run", epoch: int) -> None:
        """Note in the provenance what another run had learned when this one began with it."""
        theirs, last = other.provenance(), next((r for r in other.metrics() if r["epoch"] == epoch), {})
        facts = {name: theirs.get(name) for name in ("command", "commit", "began_with")}
        facts["command"] = other.entry or facts["command"]
        facts |= {"epoch": epoch, "env_steps": last.get("env_steps")}
        write_json(self.path / "provenance.json", {**self.provenance(), "began_with": facts})

    # --- checkpoints -------------------------------------------------------------------------------------------

    def checkpoints(self) -> dict[int, Path]:
        """The checkpoints there are, by epoch, oldest first."""
        paths = (self.path / "checkpoints").glob("epoch-*.safetensors")
        found = {path.stem.removeprefix("epoch-"): path for path in paths}
        return dict(sorted((int(digits), path) for digits, path in found.items() if digits.isdecimal()))

    def save(self, epoch: int, state: Any) -> Path:
        """Write the whole training state and drop all but the newest checkpoints."""
        self.check_ours()
        path = self.path / "checkpoints" / f"epoch-{epoch:08d}.safetensors"
        write_tree(path, state, {"format": FORMAT, "epoch": str(epoch)})
        for old in list(self.checkpoints().values())[:-KEEP]:
            old.unlink()
        return path

    def load(
        self, skeleton: Any, part: str = "", own: bool = True, only: Callable[[Any], Any] | None = None
    ) -> tuple[int, Any]:
        """Read the newest checkpoint into the form of `skeleton`.

        `skeleton` is the state, or the subtree called `part` of it, as `jax.eval_shape` gives it; `only` picks what is
        read of that. Nothing is allocated before names and shapes are known to fit. Unless it is the run's `own`, one
        that does not fit is no sign of damage. A pruned checkpoint has no more than `only` picks.
        """
        found = self.checkpoints()
        if not found:
            raise UserError(
                f"{self.path} has no checkpoint yet; train it with `wanderlust discover --resume {self.path}`"
            )
        *earlier, epoch = found
        try:
            file = ArrayFile(found[epoch])
            check_checkpoint(file, epoch)
            if "pruned" not in file.about:
                return epoch, read_tree(file, skeleton, part, only)
            if only is None:
                raise UserError(f"{self.path} was pruned: it has what use needs, and cannot be trained any further")
            return epoch, read_tree(file, only(skeleton), part, compact=True)
        except UserError as error:
            hint = f"; delete it to go on from epoch {earlier[-1]}" if earlier and own else ""
            raise UserError(f"{error}{hint}") from None
