"""A task, skills and a controller that chooses among them: learn if it learns, measure, and write the results.

RUN/downstream/TASK-CONTROLLER/
  result.json              returns per seed beside those of random skills, and what the skills' speed allows
  curve.jsonl              the learning curve, one line per `log_every` epochs (controllers that learn)
  controller.safetensors   what was learned, so that it can be measured again
  training.safetensors     while it learns, and after it was stopped or killed: all that --resume needs
  paths.safetensors        where bodies went in the first episodes, and what the task showed them; states for --video
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from wanderlust import train
from wanderlust.config import EngineName
from wanderlust.downstream.controllers import hierarchy
from wanderlust.downstream.controllers.options import (
    ControlledSkills,
    HighLevelPolicy,
    TaskSetup,
    make_option_rollout,
    random_policy,
    returns,
    set_up_task,
)
from wanderlust.downstream.controllers.planning import planning_policy
from wanderlust.downstream.controllers.zero_shot import skill_speed, within_reach, zero_shot_policy
from wanderlust.downstream.request import (
    CONTROLLER,
    LEARNING,
    RESULT,
    TRAINING,
    Request,
    check_free,
    check_request,
    clear,
    result_folder,
    usual_seeds,
)
from wanderlust.downstream.saved import FORMAT, PAUSED, SavedController, load
from wanderlust.downstream.settings import usual_option_length
from wanderlust.downstream.tasks import AnyTask, GoalTask, make_task
from wanderlust.downstream.training import ControllerSetup, learn, new_training
from wanderlust.envs.mjcf import muted
from wanderlust.errors import UserError
from wanderlust.evaluation.metrics import summarise
from wanderlust.report.progress import progress
from wanderlust.runs.files import write_arrays, write_json
from wanderlust.runs.folders import make_folder
from wanderlust.runs.learned import load_learner
from wanderlust.runs.provenance import provenance
from wanderlust.runs.run import Run
from wanderlust.runs.writer import HeldError, hold
from wanderlust.runs.zoo import open_run

SHOWN = 6
"""Episodes per seed whose paths are kept."""


def solve(
    run: Run | Path | str,
    task: str | AnyTask,
    controller: str = "zero-shot",
    *,
    recipe: str | None = None,
    seed: int = 0,
    seeds: int | None = None,
    epochs: int | None = None,
    worlds: int | None = None,
    hold: int | None = None,
    episodes: int = 200,
    measure_only: bool = False,
    resume: bool = False,
    replace: bool = False,
    engine: EngineName = "auto",
    quiet: bool = False,
    film: bool = False,
) -> dict[str, Any]:
    """Solve a task with the skills of a run; the same as ``wanderlust downstream``.

    Args:
        run: what `wanderlust.discover` gives, the folder of a run, or a zoo entry, such as ``"zoo:ant"``.
        task: its name, or a task made with numbers of your own (`wanderlust.downstream.tasks.make_task`).
        controller: what chooses the skills: ``"zero-shot"``, ``"sac"``, ``"ppo"``, ``"mppi"`` or ``"random"``.
        recipe: numbers of a controller that learns: ``"paper"``, ``"fast"`` (a GPU) or ``"laptop"``.
        seed: the (first) seed of controllers.
        seeds: how many, side by side; seed k has the skills of seed k of the run, counted on from 0 beyond the last.
        epochs: of learning; by default the recipe's.
        worlds: episodes of an epoch, per seed; by default the recipe's.
        hold: control steps that a skill acts before another is chosen; by default the paper's.
        episodes: how many are measured, per seed.
        measure_only: measure what was learned before.
        resume: go on with learning that was stopped or killed, to the same end.
        replace: the controller and the result that are there already.
        engine: what steps the bodies.
        quiet: show no progress.
        film: keep the states of the first episodes in paths.safetensors, so that they can be filmed.

    Returns:
        What was written to result.json in RUN/downstream/TASK-CONTROLLER/.
    """
    source = open_run(run) if isinstance(run, str | Path) else run
    made = make_task(task) if isinstance(task, str) else task
    request = Request(
        made, controller, recipe, seed, seeds, epochs, worlds, hold, episodes, measure_only, resume, replace
    )
    check_request(request, source)
    folder = result_folder(source, made.name, controller)
    check_free(request, folder)
    with held(folder):
        return _solve(source, request, folder, engine, quiet, film)


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep other processes from the same results; a folder that was made for this and stayed empty goes again."""
    made = make_folder(folder)
    try:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(hold(folder))
            except HeldError:
                raise UserError(f"another process is at work in {folder}; wait for it or stop it first") from None
            yield
    finally:
        if made:
            with contextlib.suppress(OSError):
                folder.rmdir()
                folder.parent.rmdir()


def _solve(source: Run, request: Request, folder: Path, engine: EngineName, quiet: bool, film: bool) -> dict[str, Any]:
    made, controller = request.task, request.controller
    measure_only, resume = request.measure_only, request.resume
    parts = train.assemble(dataclasses.replace(source.config, engine=engine))
    setup = set_up_task(parts, made, engine)
    epoch, learned = load_learner(source, parts)
    begun = None
    if measure_only or resume:
        kept = (CONTROLLER, FORMAT) if measure_only else (TRAINING, PAUSED)
        begun = load(folder / kept[0], kept[1], parts, setup)
    count = request.seeds or usual_seeds(source)
    which = begun.seeds if begun else tuple(range(request.seed, request.seed + count))
    index = np.arange(len(which)) % source.config.seeds
    given = ControllerSetup(parts, setup, jax.tree.map(lambda x: x[index], learned), learned, which, folder)
    with muted():
        if controller in LEARNING and not measure_only:
            if begun is None:
                clear(folder)
            begun = learn(given, begun or new_training(given, request), quiet)
        return _measure(given, request, begun, epoch, quiet, film)


# --- measuring -------------------------------------------------------------------------------------------------------


def _measure(
    given: ControllerSetup, request: Request, saved: SavedController | None, epoch: int, quiet: bool, film: bool
) -> dict[str, Any]:
    """Roll out, compare with random skills and with what the skills' speed allows, and write the results."""
    parts, setup, task = given.parts, given.task, request.task
    hold = saved.learner.option_length if saved else request.hold or usual_option_length(task.env)
    skilled, chance = ControlledSkills(given.learned, saved.controllers if saved else ()), random_policy(parts, hold)
    others = {"zero-shot": zero_shot_policy, "mppi": planning_policy, "random": lambda _: chance}
    policy = hierarchy.controlled_policy(parts, saved.learner) if saved else others[request.controller](parts)
    with progress(3, "measuring", quiet=quiet) as line:
        line.note(f"rolling out {request.episodes} episodes per seed, and compiling that")
        earned, path = _rolled_out(setup, policy, skilled, given.seeds, request.episodes, film)
        line.update(1, "the same with random skills")
        by_chance = earned
        if policy is not chance:
            by_chance, _ = _rolled_out(setup, chance, skilled, given.seeds, request.episodes)
        line.update(2, "how far skills get")
        bound = _bounds(given, task) if isinstance(task, GoalTask) else {}
        setup.engine.check()
        line.update(3, "done")
    result = {
        "task": task.name,
        "numbers": dataclasses.asdict(task),
        "controller": request.controller,
        "skills": {"name": parts.config.name, "epoch": epoch},
        "recipe": saved.recipe if saved else None,
        "setting": dataclasses.asdict(saved.learner.setting) if saved else None,
        "epoch": saved.epoch if saved else None,
        "hold": policy.option_length,
        "seeds": list(given.seeds),
        "episodes_per_seed": request.episodes,
        "most": task.most,
        "return": _summary(earned),
        "random": {"hold": hold, **_summary(by_chance)},
        **bound,
        "provenance": provenance(dataclasses.replace(parts.config, engine=setup.engine.name)),
    }
    about = {"radius": str(getattr(task, "radius", 0.0)), "goals": str(int(isinstance(task, GoalTask)))}
    write_arrays(given.folder / "paths.safetensors", path, about)
    write_json(given.folder / RESULT, result)
    return result


def _bounds(given: ControllerSetup, task: GoalTask) -> dict[str, Any]:
    """Which goals lie within what the skills get in the time of one: at their mean speed, and from where they rest."""
    keys = jax.random.split(jax.random.key(given.seeds[0]), given.parts.config.seeds)
    world, whole = given.task.world, given.parts.world.spec.episode_length
    times = whole, min(task.slot, whole)
    usual, at_first = skill_speed(given.parts, given.skills, task.position_dims, keys, times).mean(axis=1)
    bounds = {"speed_bound": usual, "start_bound": at_first}
    return {name: within_reach(task, world, float(speed)) for name, speed in bounds.items()}


def _rolled_out(
    setup: TaskSetup,
    policy: HighLevelPolicy,
    skilled: ControlledSkills,
    seeds: tuple[int, ...],
    episodes: int,
    film: bool = False,
) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """[seeds, episodes] What was earned; and of the first episodes, [time, seeds, episodes, ...], where bodies were."""
    rollout = make_option_rollout(setup, policy, paths=True, states=SHOWN if film else 0)
    where = list(setup.world.spec.groups["position"])
    obs_dim = setup.world.spec.obs_dim

    def measure(skilled: ControlledSkills, keys: Array) -> Any:
        decisions = rollout(skilled, keys, episodes)
        path = decisions.path[:, :, :, :SHOWN]
        first = decisions.seen[:1, :, :SHOWN]
        seen = jnp.concatenate([first, path.reshape(-1, *path.shape[2:])])
        physics = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), decisions.physics)
        return returns(decisions), seen[..., np.array(where)], seen[..., obs_dim:], physics

    keys = jax.vmap(lambda s: jax.random.fold_in(jax.random.key(s), 2))(jnp.array(seeds))
    earned, position, entries, physics = (jax.jit(measure) if setup.engine.compiles else measure)(skilled, keys)
    path = {"position": position, "entries": entries} | ({"physics": physics} if film else {})
    return np.asarray(earned, np.float64), {name: np.asarray(x) for name, x in path.items()}


def _summary(earned: np.ndarray[Any, Any]) -> dict[str, Any]:
    per_seed = earned.mean(axis=1)
    return {**summarise(per_seed)._asdict(), "per_seed": per_seed.tolist()}
