"""Where the rows of metrics.jsonl also go, while a run trains: TensorBoard, Weights & Biases, trackio, a function.

None of them can stop a training: one that fails is left out from then on, and one line says so.
"""

import contextlib
import dataclasses
import functools
import importlib.util
import io
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wanderlust.errors import UserError, notice

if TYPE_CHECKING:
    from wanderlust.runs.run import Run

Row = Mapping[str, Any]
Log = Callable[[Row], None]

PROJECT = "wanderlust"


@contextlib.contextmanager
def tensorboard(run: "Run") -> Iterator[Log]:
    """Event files in RUN/tensorboard; `tensorboard --logdir runs` shows them."""
    from tensorboardX import SummaryWriter

    with SummaryWriter(str(run.path / "tensorboard")) as writer:

        def log(row: Row) -> None:
            for name, value in scalars(row).items():
                writer.add_scalar(name, value, row["env_steps"])
            writer.flush()

        yield log


@contextlib.contextmanager
def wandb(run: "Run") -> Iterator[Log]:
    """A run of Weights & Biases, in RUN/wandb; offline where nobody is logged in (`wandb sync` sends it later)."""
    import wandb as weights_and_biases

    mode: Any = os.environ.get("WANDB_MODE") or ("online" if weights_and_biases.login(prompt=False) else "offline")
    quiet = weights_and_biases.Settings(silent=True)
    facts = dataclasses.asdict(run.config)
    with weights_and_biases.init(
        project=PROJECT, name=run.path.name, dir=str(run.path), config=facts, mode=mode, settings=quiet
    ) as theirs:
        yield lambda row: theirs.log({**scalars(row), "env_steps": row["env_steps"]}, step=row["env_steps"])


@contextlib.contextmanager
def trackio(run: "Run") -> Iterator[Log]:
    """A run of trackio, kept on this machine (TRACKIO_DIR); `trackio show` opens it."""
    import trackio as tracker

    facts = dataclasses.asdict(run.config)
    with contextlib.redirect_stdout(io.StringIO()):
        theirs = tracker.init(project=PROJECT, name=run.path.name, config=facts, resume="allow", embed=False)
    try:
        yield lambda row: theirs.log({**scalars(row), "env_steps": row["env_steps"]}, step=row["env_steps"])
    finally:
        with contextlib.redirect_stdout(io.StringIO()):
            tracker.finish()


SINKS: dict[str, Callable[["Run"], contextlib.AbstractContextManager[Log]]] = {
    "tensorboard": tensorboard,
    "wandb": wandb,
    "trackio": trackio,
}
MODULES = {"tensorboard": "tensorboardX", "wandb": "wandb", "trackio": "trackio"}


@dataclasses.dataclass(frozen=True)
class Listeners:
    """Who hears of every row."""

    names: tuple[str, ...] = ()
    """Of `SINKS`."""
    callback: Log | None = None

    def check(self) -> None:
        """Refuse what is not there, before anything is trained."""
        for name in self.names:
            if name not in SINKS:
                raise UserError(f"--log is {name!r}; it must be one of {', '.join(SINKS)}")
            if importlib.util.find_spec(MODULES[name]) is None:
                raise UserError(f"--log {name} needs {MODULES[name]}: pip install 'wanderlust[{name}]'")
        if self.callback is not None and not callable(self.callback):
            raise UserError(f"on_metrics is {self.callback!r}; it must be a function of one row of metrics")

    @contextlib.contextmanager
    def opened(self, run: "Run") -> Iterator[Log]:
        """What takes the rows of a run, and hands them on."""
        with contextlib.ExitStack() as closing:
            open_now: dict[str, Log] = {}
            for name in self.names:
                with _left_out_if_it_fails(f"--log {name}"):
                    sink = SINKS[name](run)
                    open_now[name] = sink.__enter__()
                    closing.callback(_close, name, sink)
            if self.callback is not None:
                open_now["on_metrics"] = self.callback

            def tell(row: Row) -> None:
                for name, log in list(open_now.items()):
                    with _left_out_if_it_fails(name, functools.partial(open_now.pop, name)):
                        log(row)

            yield tell


def scalars(row: Row) -> dict[str, float]:
    """The numbers of a row by name: one for each seed where there are several, and their mean."""
    found: dict[str, float] = {}
    for name, value in row.items():
        if not isinstance(value, list | tuple):
            found[name] = float(value)
        elif len(value) > 0:
            found[name] = float(sum(value) / len(value))
            found |= {f"{name}/seed {n}": float(x) for n, x in enumerate(value) if len(value) > 1}
    return found


def _close(name: str, sink: contextlib.AbstractContextManager[Log]) -> None:
    with _left_out_if_it_fails(name):
        sink.__exit__(None, None, None)


@contextlib.contextmanager
def _left_out_if_it_fails(name: str, drop: Callable[[], Any] = lambda: None) -> Iterator[None]:
    try:
        yield
    except Exception as problem:  # whatever a tracker does, the training goes on
        drop()
        words = " ".join(str(problem).split()) or type(problem).__name__
        notice(f"{name} failed and is left out from here on, training goes on: {words}")
