"""The functions behind the public names of `wanderlust`."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import gymnasium
from gymnasium.vector import VectorEnv

from wanderlust.checks import ROLLBACKS, OnDivergence, check_budget, check_request, rollbacks_allowed
from wanderlust.config import (
    EngineName,
    EnvConfig,
    RunConfig,
    SkillConfig,
    labelled,
    parsed,
    with_changes,
)
from wanderlust.envs import World, devices, make_engine, make_world
from wanderlust.envs.statistics import Statistics, random_statistics
from wanderlust.errors import UserError, require
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.gym.statistics import gym_statistics
from wanderlust.recipes import DEFAULT, get_recipe, usual_skills
from wanderlust.registry import WORLDS
from wanderlust.report.plots import draw_run
from wanderlust.report.progress import waiting
from wanderlust.report.sinks import Listeners
from wanderlust.runs.run import Run, read_config
from wanderlust.train import loop, stages
from wanderlust.train.loop import resume as open_to_resume
from wanderlust.train.stages import start as start_run
from wanderlust.train.stages import train_run as train

__all__ = ["Run", "configure", "discover", "normalise", "open_to_resume", "start_run", "train"]


def configured(env: str | World, changes: tuple[str, ...]) -> tuple[str | EnvConfig, tuple[str, ...]]:
    """What a recipe is to be for, and the changes that are left to make to it.

    The rules of a world that is made from a file begin with what is said of it.
    """
    if not isinstance(env, str):
        own = getattr(env, "config", None)
        if not isinstance(own, EnvConfig):
            raise UserError(f"env is {env!r}; it must be a name, the path of a model file, or a world")
        return own, changes
    if not WORLDS.is_family(env):
        return env, changes
    of_env = tuple(change for change in changes if change.startswith("env."))
    given = dict(parsed(change.removeprefix("env.")) for change in of_env)
    return WORLDS.get(env).configure(env, given), tuple(change for change in changes if change not in of_env)


def configure(
    env: str | World = "point",
    method: str = "lsd",
    skills: int | None = None,
    discrete: int | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    recipe: str = DEFAULT,
    config: Path | None = None,
    set: tuple[str, ...] = (),  # noqa: A002 - the name of the flag
    budget_steps: int | None = None,
    driver: Literal["fused", "split"] | None = None,
    engine: EngineName | None = None,
    bonus: str | None = None,
) -> RunConfig:
    """A run's configuration: a recipe, or the configuration of another run, and changes to it.

    `auto` becomes an engine here. An engine that is named without a driver gets the driver that suits it.
    """
    check_request(env, method, skills, discrete, seed, seeds, recipe, config, set, budget_steps, driver, engine, bonus)
    space = usual_skills(method) if skills is None else SkillConfig("continuous", skills)
    space = space if discrete is None else SkillConfig("discrete", discrete)
    left = tuple(set)
    if config is not None:
        made = read_config(Path(config), "the configuration")
    else:
        world, left = configured(env, left)
        made = get_recipe(recipe, world, method, space, bonus)
    made = dataclasses.replace(
        made,
        seed=made.seed if seed is None else seed,
        seeds=made.seeds if seeds is None else seeds,
        driver=driver or made.driver,
        engine=engine or made.engine,
    )
    made = labelled(with_changes(made, left), made)
    if budget_steps is not None:
        made = stages.with_steps(made, budget_steps)
    named = {change.partition("=")[0] for change in set}
    asked = engine is not None or "engine" in named
    devices.prepare(made.seeds)
    if not asked and loop.needs_gpu(made):
        where = f"--config {config}" if config is not None else f"--recipe {recipe}"
        advice = "use --recipe laptop, or add --set engine=c, which is slow"
        raise UserError(f"{where} needs a GPU, and JAX sees none; {advice}")
    by_recipe = config is None and made.engine == "auto"  # another run's file also says which driver it had
    return loop.resolve_engine(made, driver is None and "driver" not in named and (asked or by_recipe))


def discover(
    env: str | World = "point",
    *,
    method: str = "lsd",
    focus: str | None = None,
    bonus: str | None = None,
    skills: int | None = None,
    discrete: int | None = None,
    seed: int = 0,
    seeds: int = 1,
    recipe: str = DEFAULT,
    engine: EngineName | None = None,
    changes: Mapping[str, Any] | Sequence[str] = (),
    out: Path | str | None = None,
    begin_with: Path | str | None = None,
    resume: Path | str | None = None,
    budget_seconds: float | None = None,
    budget_steps: int | None = None,
    log: Sequence[str] = (),
    on_metrics: Callable[[Mapping[str, Any]], None] | None = None,
    on_divergence: OnDivergence = "stop",
    rollbacks: int = ROLLBACKS,
    quiet: bool = False,
) -> Run:
    """Discover skills without a reward, evaluate and draw them; the same as ``wanderlust discover``.

    Args:
        env: the environment, e.g. ``"point"``, the path of a model file, or a world (`world_from_mjcf`).
        method: e.g. ``"lsd"`` or ``"diayn"``, with an optional suffix ``-xy``, ``-o`` or ``-xyo``.
        focus: which entries of the observation the method's network sees, e.g. ``"position"``, ``"qpos[0:2]"`` or
            ``"0,1"``; by default what the world says, mostly all.
        bonus: a method whose reward is added, ``"music"``; the same as ``--with music``.
        skills: dimensions of continuous skills (2 if neither this nor ``discrete`` is given; smm and edl have
            discrete skills only, 4 and 10 unless said).
        discrete: number of discrete skills.
        seed: the (first) seed.
        seeds: how many seeds are trained side by side.
        recipe: ``"laptop"``, ``"fast"`` (a GPU) or ``"paper"``.
        engine: what steps the environments: ``"c"`` (MuJoCo on CPU cores), ``"warp"`` (MuJoCo on a GPU), ``"auto"`` for
            the better one that is there; by default the recipe's.
        changes: single numbers to change, e.g. ``{"sac.discount": 0.995}``.
        out: folder of the run; by default one under ``runs/``.
        begin_with: folder of a run whose networks the new one begins with; its numbers may be others.
        resume: folder of a run to go on with, instead of starting one.
        budget_seconds: stop after about this long.
        budget_steps: environment steps per seed, rounded up to whole epochs.
        log: where rows of ``metrics.jsonl`` go, too: ``"tensorboard"``, ``"wandb"``, ``"trackio"`` (extras).
        on_metrics: a function that is called with every such row, a dictionary.
        on_divergence: ``"stop"``, or ``"rollback"`` to the last good checkpoint and on with fresh noise.
        rollbacks: how often a run may go back, over its whole life.
        quiet: show no progress.

    Returns:
        The run: its folder is ``run.path``, and ``wanderlust.load(run)`` gives its skills.
    """
    require(focus is None or isinstance(focus, str), f"focus is {focus!r}; it must be names of entries")
    check_budget(budget_seconds)
    listeners = Listeners((log,) if isinstance(log, str) else tuple(log), on_metrics)
    listeners.check()
    turns = rollbacks_allowed(on_divergence, rollbacks)
    if resume is not None and begin_with is not None:
        raise UserError("resume and begin_with exclude each other: go on with a run, or begin a new one")
    if resume is not None:
        run = open_to_resume(resume, engine)
    else:
        config = configure(
            env,
            method,
            skills,
            discrete,
            seed,
            seeds,
            recipe,
            set=_listed(changes) if focus is None else (*_listed(changes), f"env.focus={json.dumps(focus)}"),
            budget_steps=budget_steps,
            engine=engine,
            bonus=bonus,
        )
        run = start_run(config, out, begin_with)
    return _trained(run, budget_seconds, quiet, turns, listeners)


def _trained(run: Run, budget_seconds: float | None, quiet: bool, rollbacks: int, listeners: Listeners) -> Run:
    """Train, evaluate and draw; `KeyboardInterrupt` if somebody stopped it."""
    outcome = train(run, budget_seconds, quiet, rollbacks, listeners)
    if outcome.reason == "interrupted":
        where = f"epoch {outcome.epoch}" + (f" of stage {outcome.stage}" if outcome.stage else "")
        raise KeyboardInterrupt(f"stopped at {where}; go on with resume={str(run.path)!r}")
    with waiting("measuring 200 random skills of each seed, and compiling that", quiet):
        evaluate(run, engine=run.config.engine)
    with waiting("drawing figures", quiet):
        draw_run(run.path)
    return run


def _listed(changes: Mapping[str, Any] | Sequence[str]) -> tuple[str, ...]:
    """Changes as the command line has them."""
    if not isinstance(changes, Mapping):
        require(not isinstance(changes, str), f"changes are {changes!r}; give a dictionary, {{'sac.discount': 0.995}}")
        return tuple(changes)
    try:
        return tuple(f"{name}={json.dumps(value)}" for name, value in changes.items())
    except TypeError:
        raise UserError(f"changes are {changes!r}; their values must be numbers, texts, lists or None") from None


def normalise(
    env: str | gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any],
    *,
    rollouts: int = 10_000,
    steps: int = 50,
    seed: int = 0,
    engine: EngineName = "auto",
) -> Statistics:
    """Mean and standard deviation of every entry of the observation under a random policy.

    By such numbers networks see a world; those of the paper's bodies are preset, and this is how they were made.

    Args:
        env: a world of ours, e.g. ``"ant"``; or any environment that observes a Box: an
            id that Gymnasium has registered, e.g. ``"Hopper-v5"``, a `gymnasium.Env`, or a
            `gymnasium.vector.VectorEnv` in any autoreset mode, e.g. ``wanderlust.make_vec("ant", 64)``. One that is
            handed over is reseeded and stepped, not closed: reset it before you use it again.
        rollouts: how often ``steps`` steps are made from a fresh start, with random actions: uniform in [-1, 1], or as
            Gymnasium's action space draws them. Rounded up to whole batches: of at most 1,000, or of all worlds of a
            vector environment.
        steps: length of a rollout; the state it starts from does not count. A world by its name never ends early; an
            episode of Gymnasium's that ends within a rollout is begun anew, and what it showed until then counts.
        seed: the seed of starts and actions.
        engine: ``"auto"``, ``"c"`` or ``"warp"``, for worlds of ours.

    Returns:
        The means and the standard deviations, one number per entry of the (flattened) observation.
    """
    if isinstance(env, str) and env.startswith("gymnasium:"):
        env = env.partition(":")[2]
    elif isinstance(env, str) and env in WORLDS:
        world = make_world(configure(env).env)
        return random_statistics(world, make_engine(world, engine), rollouts, steps, seed)
    if engine != "auto":
        raise UserError(
            f"engine is {engine!r}, and engines step our worlds only ({', '.join(WORLDS.names())}); leave it out"
        )
    return gym_statistics(env, rollouts, steps, seed)
