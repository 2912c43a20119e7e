"""One attempt at a run: begin it or go on with it, train it to its end or the end of its budget, measure and draw it.

`python -m wanderlust.sweeps.attempt` is the process that a sweep starts for it: the order comes in as a line of JSON,
the ending goes out as one, and when the sweep is gone (its pipe closes) the run stops as on Ctrl-C.
"""

import contextlib
import dataclasses
import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from wanderlust.runs.run import Run

FINISHED, BUDGET, INTERRUPTED, HELD, LOST, FAILED = "finished", "budget", "interrupted", "held", "lost", "failed"
"""How attempts end: `budget` spent, `held` by another process, `lost` with the machine."""


@dataclasses.dataclass(frozen=True)
class Order:
    """What is to be done."""

    name: str
    folder: str
    config: str
    """JSON."""
    claim: str
    """Of the sweep, whose attempts take a folder over from each other."""
    seconds: float | None
    """For training, all attempts together."""
    episodes: int
    cores: tuple[int, ...] = ()
    """The CPU cores it may use, if not all."""


class Ending(NamedTuple):
    """How it ended."""

    reason: str
    why: str = ""


def attempt(order: Order, quiet: bool = False) -> Ending:
    """Do what an order says, and say how it ended; only the process's own death is not told."""
    from wanderlust.config import RunConfig, from_json
    from wanderlust.envs import devices
    from wanderlust.errors import UserError
    from wanderlust.runs.writer import HeldError
    from wanderlust.sweeps.standing import open_or_start
    from wanderlust.train.loop import needs_gpu

    try:
        config = from_json(RunConfig, order.config, order.name)
        devices.prepare(config.seeds)
        if needs_gpu(config):
            raise UserError(f"{order.name} is for the engine warp, which needs a GPU, and JAX sees none here")
        run = open_or_start(Path(order.folder), config)
        with run.lock(order.claim) as held:
            return carry_on(held, order.seconds, order.episodes, quiet)
    except HeldError as error:
        return Ending(HELD, str(error))
    except UserError as error:
        return Ending(FAILED, str(error))
    except KeyboardInterrupt:
        return Ending(INTERRUPTED)
    except Exception as error:
        traceback.print_exc()
        return Ending(FAILED, f"{type(error).__name__}: {' '.join(str(error).split())}")


def carry_on(run: "Run", seconds: float | None, episodes: int, quiet: bool) -> Ending:
    """Train, measure and draw what is missing of a run that this process holds; of its checkpoints the last is kept."""
    from wanderlust.evaluation.evaluate import evaluate
    from wanderlust.report.plots import draw_run
    from wanderlust.sweeps.standing import standing
    from wanderlust.train import stages

    now = standing(run, seconds)
    if now.trains:
        left = None if seconds is None else seconds - now.seconds
        if stages.train_run(run, left, quiet).reason == "interrupted":
            return Ending(INTERRUPTED)
        now = standing(run, seconds)
    if not now.measured:
        evaluate(run, episodes, engine=run.config.engine)
        draw_run(run.path)
    keep_last(run)
    return Ending(FINISHED if now.epoch >= now.epochs else BUDGET)


def keep_last(run: "Run") -> None:
    """Of a run's checkpoints, which hold the replay, keep the last of each stage."""
    from wanderlust.train import stages

    for one in stages.runs(run):
        for checkpoint in list(one.checkpoints().values())[:-1]:
            checkpoint.unlink()


def main() -> None:
    """Take an order from the standard input, and answer on the standard output."""
    answer = os.dup(1)
    os.dup2(2, 1)  # what libraries print belongs to the log
    order = Order(**json.loads(sys.stdin.readline()))
    if order.cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, order.cores)
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    ending = attempt(order)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError):
        os.write(answer, json.dumps(ending).encode())


def _as_ctrl_c(signum: int, frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)


def _stop_with_parent() -> None:
    """Wait for the end of the standard input: the sweep was killed."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main()
