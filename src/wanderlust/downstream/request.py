"""What can be asked of `solve`, and what cannot be: every wrong combination is one line."""

import dataclasses
from pathlib import Path

from wanderlust.catalogue import CONTROLLERS
from wanderlust.downstream.tasks import AnyTask, GoalTask
from wanderlust.errors import UserError, require_at_least, require_seed
from wanderlust.methods import make_method
from wanderlust.methods.skills import make_skills
from wanderlust.registry import METHODS
from wanderlust.runs.run import Run

LEARNING = ("sac", "ppo")
RESULT, CONTROLLER, TRAINING = "result.json", "controller.safetensors", "training.safetensors"
SEEDS = 4


@dataclasses.dataclass(frozen=True)
class Request:
    """What is asked for; None is the default."""

    task: AnyTask
    controller: str
    recipe: str | None = None
    seed: int = 0
    seeds: int | None = None
    epochs: int | None = None
    worlds: int | None = None
    hold: int | None = None
    episodes: int = 200
    measure_only: bool = False
    resume: bool = False
    replace: bool = False


def usual_seeds(source: Run) -> int:
    """How many controllers by default: as many as the skills have seeds, or a few where they have one."""
    return source.config.seeds if source.config.seeds > 1 else SEEDS


def result_folder(source: Run, task: str, controller: str) -> Path:
    """Where all of it is written."""
    return source.results / "downstream" / f"{task}-{controller}"


def check_request(request: Request, source: Run) -> None:
    """Refuse what does not go together, in one line."""
    task, controller, config = request.task, request.controller, source.config
    method, discrete = make_method(config.method, make_skills(config.skills)), config.skills.kind == "discrete"
    if not isinstance(task, AnyTask):
        raise UserError(f"the task is {task!r}; it must be the name of one, or what make_task gives")
    if not isinstance(controller, str) or controller not in CONTROLLERS:
        raise UserError(f"--controller is {controller!r}; it must be one of {', '.join(CONTROLLERS)}")
    if task.env != config.env.name:
        raise UserError(f"{task.name} is a task of {task.env!r}; these skills are of {config.env.name!r}")
    learns = "ppo" if discrete else "sac"
    if controller in LEARNING and controller != learns:
        kinds = ("discrete", "continuous") if discrete else ("continuous", "discrete")
        raise UserError(
            f"--controller {controller} chooses {kinds[1]} skills; these are {kinds[0]}: use --controller {learns}"
        )
    if controller in ("zero-shot", "mppi") and not isinstance(task, GoalTask):
        raise UserError(f"--controller {controller} follows goals, and {task.name} has none: use --controller {learns}")
    if controller == "mppi" and not method.plans:
        planners = ", ".join(name for name in METHODS.names() if METHODS.get(name).plans)
        raise UserError(
            f"--controller mppi plans over skill dynamics, which {config.method.name} does not learn; known: {planners}"
        )
    if controller == "zero-shot" and method.goal_rule is None:
        instead = "mppi, which plans," if method.plans else learns
        raise UserError(f"{config.method.name} has no skill for a goal at once: use --controller {instead} instead")
    if controller not in LEARNING:
        for name in ("recipe", "epochs", "worlds", "measure_only", "resume"):
            if getattr(request, name):
                flag = name.replace("_", "-")
                raise UserError(f"--{flag} is for controllers that learn, {' and '.join(LEARNING)}; leave it out")
    for name in ("seeds", "epochs", "worlds", "hold", "episodes"):
        value = getattr(request, name)
        if value is not None:
            require_at_least(1, f"--{name}", value)
    require_seed("--seed", request.seed)
    if request.hold is not None and controller in ("zero-shot", "mppi"):
        raise UserError(f"--hold is not for --controller {controller}, which has a rhythm of its own; leave it out")
    decided = ("recipe", "seeds", "epochs", "worlds", "hold")
    given = [name for name in decided if getattr(request, name) is not None] + ["seed"] * (request.seed != 0)
    if request.measure_only and request.resume:
        raise UserError("--resume goes on learning and --measure-only does not learn: choose one")
    if request.measure_only and given:
        raise UserError(f"--measure-only measures what was learned as it was learned; leave out --{given[0]}")
    if request.replace and (request.measure_only or request.resume):
        other = "measure-only" if request.measure_only else "resume"
        raise UserError(f"--replace begins anew and --{other} does not: choose one")
    if request.resume and given:
        raise UserError(f"--resume goes on as it was begun; leave out --{given[0]}")


def check_free(request: Request, folder: Path) -> None:
    """Refuse to replace what is there already, unless that is asked for."""
    if request.measure_only or request.resume or request.replace:
        return
    if (folder / TRAINING).exists():
        raise UserError(f"a training waits in {folder}: --resume goes on with it, --replace begins anew")
    if (folder / CONTROLLER).exists():
        raise UserError(f"{folder} has a controller already: --measure-only measures it, --replace trains another")
    if (folder / RESULT).exists():
        raise UserError(f"{folder} has a result already: --replace measures anew")


def clear(folder: Path) -> None:
    """Remove what an earlier training left, so that no result of one stands beside the weights of another."""
    for name in (RESULT, TRAINING, CONTROLLER, "curve.jsonl", "paths.safetensors"):
        (folder / name).unlink(missing_ok=True)
    for picture in folder.glob("*.png"):
        picture.unlink()
