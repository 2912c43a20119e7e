"""Work that takes seconds and writes often, for `soak.py`: how it begins, goes on after a kill, and what its end is."""

import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

# Programs are compiled quickly and kept, also small ones: this is about files, not about speed.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wanderlust-soak"
_cache.mkdir(parents=True, exist_ok=True)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_cache))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")

from wanderlust import api  # noqa: E402
from wanderlust.config import RunConfig, SkillConfig, StageConfig, method_config  # noqa: E402
from wanderlust.downstream import training  # noqa: E402
from wanderlust.downstream.request import CONTROLLER, TRAINING  # noqa: E402
from wanderlust.downstream.settings import get_setting  # noqa: E402
from wanderlust.downstream.solve import solve  # noqa: E402
from wanderlust.envs import devices  # noqa: E402
from wanderlust.envs.worlds.body import BodyConfig  # noqa: E402
from wanderlust.runs.files import ArrayFile  # noqa: E402
from wanderlust.runs.metrics import read_metrics  # noqa: E402
from wanderlust.runs.run import Run  # noqa: E402
from wanderlust.sweeps.local import Here  # noqa: E402
from wanderlust.sweeps.plan import read_plan  # noqa: E402
from wanderlust.sweeps.sweep import FINISHED, carry_out  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from helpers import tiny_config  # noqa: E402

sys.path.pop(0)
EPOCHS = 40


class Work(NamedTuple):
    """A kind of work in a folder."""

    about: str
    begin: Callable[[Path], Any]
    """Before the first process; computes nothing."""
    go_on: Callable[[Path], Any]
    """In a process of its own: from wherever it is, to its end."""
    end: Callable[[Path], dict[str, bytes]]
    """What it has come to."""


def runs(about: str, config: RunConfig) -> Work:
    """Training a run, all of its stages."""
    return Work(about, lambda folder: Run.create(folder / "run", config), train, arrays)


def train(folder: Path) -> None:
    """From its last checkpoint to its end."""
    devices.prepare()
    api.train(api.open_to_resume(folder / "run"), quiet=True)


def arrays(folder: Path) -> dict[str, bytes]:
    """Of the last checkpoints of all runs, stages included, and their metrics but for the time they took."""
    found = {}
    for checkpoints in sorted(folder.rglob("checkpoints")):
        path, place = max(checkpoints.glob("epoch-*.safetensors")), checkpoints.parent
        file = ArrayFile(path)
        found |= {f"{path.relative_to(folder)} {name}": file.read(name).tobytes() for name in file.shapes()}
        rows = read_metrics(place / "metrics.jsonl")
        timeless = [{k: v for k, v in row.items() if k not in ("seconds", "train_seconds")} for row in rows]
        found[f"{place.relative_to(folder)} metrics"] = repr(timeless).encode()
    return found


def controlled(folder: Path) -> dict[str, bytes]:
    """The controller that was learned, and its curve."""
    place = next((folder / "run" / "downstream").iterdir())
    file, rows = ArrayFile(place / CONTROLLER), read_metrics(place / "curve.jsonl")
    timeless = [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
    weights = {name: file.read(name).tobytes() for name in file.shapes()}
    return {**weights, "curve": repr(timeless).encode(), "result": str((place / "result.json").exists()).encode()}


def small_setting(*asked: Any) -> Any:
    """Numbers of a controller that learns within a second."""
    setting = get_setting(*asked)
    learner = dataclasses.replace(setting.learner, hidden=(16, 16))
    return dataclasses.replace(setting, learner=learner, steps=4, batch=32, log_every=2)


def learn_controller(folder: Path) -> None:
    """Skills first, then a controller over them; a training that waits is gone on with."""
    training.SAVE_AFTER, vars(training)["get_setting"] = 0.0, small_setting
    train(folder)
    place = folder / "run" / "downstream" / "point-goal-sac"
    waits, learned = (place / TRAINING).exists(), (place / CONTROLLER).exists()
    numbers: dict[str, Any] = {"resume": waits, "measure_only": learned and not waits}
    if not waits and not learned:
        numbers = {"recipe": "laptop", "seeds": 1, "epochs": 40, "worlds": 2}
    solve(Run.open(folder / "run"), "point-goal", "sac", episodes=2, quiet=True, **numbers)


def sweep(folder: Path) -> None:
    """Two methods, one after the other in this process."""
    changes = {
        "env": {"episode_length": 5},
        "sac": {"hidden": [16, 16]},
        "method": {"hidden": [16, 16]},
        "schedule": {
            "worlds": 4, "steps": 5, "sac_steps": 2, "sac_batch": 16, "method_steps": 2, "learn_from": 1, "epochs": 12,
        },
        "log_every": 2,
        "checkpoint_every": 2,
        "look_every": 6,
    }  # fmt: skip
    grid = {"methods": ["lsd", "diayn"], "worlds": ["point"], "set": changes, "episodes": 10}
    entries = carry_out(read_plan(grid, folder / "runs"), Here(quiet=True))
    if any(entry.state != FINISHED for entry in entries):
        raise SystemExit(f"a run of the sweep did not finish: {[entry.why for entry in entries]}")


def staged(first: RunConfig, last: RunConfig, method: str, **numbers: Any) -> RunConfig:
    """A method of two stages."""
    stage = StageConfig(first.method, first.skills, first.sac, first.schedule)
    return dataclasses.replace(last, method=method_config(method, first=stage, hidden=(8,), **numbers))


def edl() -> RunConfig:
    """Exploration, codes, skills."""
    small: dict[str, Any] = {"sac_hidden": (8,), "method_hidden": (8,), "env_episode_length": 9, "epochs": 20}
    first, last = tiny_config("smm", discrete=2, **small), tiny_config("diayn", discrete=3, **small)
    return staged(first, last, "edl", learning_rate=1e-3, code=4, code_steps=3, code_batch=8)


def ibol() -> RunConfig:
    """A linearizer, and a high-level policy over it."""
    small: dict[str, Any] = {"sac_hidden": (8,), "env_episode_length": 6, "schedule_steps": 6, "epochs": 20}
    first = tiny_config(**small, schedule_order="joint")
    lower = method_config("linearizer", block=2, hold=2)
    first = dataclasses.replace(first, method=lower, skills=SkillConfig("box", 2))
    last = tiny_config(**small, schedule_order="joint", schedule_collect="episodes")
    return staged(first, last, "ibol", samples=4, alternatives=8, learning_rate=1e-2)


def ant() -> RunConfig:
    """Ant on the engine c."""
    config = tiny_config(epochs=12, engine="c", driver="split", schedule_steps=10, look_every=6)
    return dataclasses.replace(config, env=BodyConfig("ant", episode_length=20))


KINDS = {
    "point": runs("PointEnv, LSD, driver fused", tiny_config(epochs=EPOCHS, look_every=10)),
    "ant": runs("Ant, LSD, engine c", ant()),
    "edl": runs("PointEnv, EDL in its stages", edl()),
    "ibol": runs("PointEnv, IBOL in its stages", ibol()),
    "downstream": Work(
        "a SAC controller over skills of PointEnv, trained before it",
        lambda folder: Run.create(folder / "run", tiny_config(epochs=4)),
        learn_controller,
        controlled,
    ),
    "sweep": Work("a sweep of two methods on PointEnv, in one process", lambda folder: None, sweep, arrays),
}
