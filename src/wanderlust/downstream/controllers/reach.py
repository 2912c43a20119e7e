"""Send a body to goals of your own, one after the other, zero-shot."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wanderlust import train
from wanderlust.config import EngineName
from wanderlust.downstream.controllers.zero_shot import act_towards
from wanderlust.envs import make_world
from wanderlust.envs.base import sane
from wanderlust.errors import UserError
from wanderlust.runs.files import write_json
from wanderlust.runs.learned import load_learner, of_seed
from wanderlust.runs.run import Run


def reach(
    run: Run,
    goals: list[tuple[float, ...]],
    radius: float = 1.0,
    limit: int = 100,
    seed: int = 0,
    engine: EngineName = "auto",
) -> dict[str, Any]:
    """Follow goals in order from the origin, `limit` steps each; writes RUN/reach/reach.json and returns it."""
    _check(run, goals, radius, limit, seed)
    parts = train.assemble(dataclasses.replace(run.config, engine=engine))
    epoch, learned = load_learner(run, parts)
    world = parts.world.from_origin()
    observe, terminated = jax.jit(jax.vmap(world.observe)), jax.jit(jax.vmap(world.terminated))
    position = list(world.spec.groups["position"])
    act = jax.jit(partial(act_towards, parts, of_seed(learned, seed)))
    step = jax.jit(parts.engine.step) if parts.engine.compiles else parts.engine.step
    state = jax.vmap(world.initial)(jax.random.split(jax.random.key(seed), 1))

    def where() -> list[float]:
        return np.asarray(observe(state))[0, position].tolist()

    legs: list[dict[str, Any]] = []
    path, fell = [where()], False
    for goal in goals:
        target, used = jnp.array([goal], jnp.float32), 0
        while (away := float(np.linalg.norm(np.subtract(path[-1], goal)))) > radius and used < limit and not fell:
            action, _ = act(state, target)
            after = step(state, action)
            if not np.all(sane(after)):
                raise UserError(f"the physics of {world.spec.name} broke down on the way to goal {len(legs) + 1}")
            state, used = after, used + 1
            path.append(where())
            fell = bool(np.any(terminated(state)))
        facts = {"reached": away <= radius, "steps": used, "distance": round(away, 4), "fell": fell}
        legs.append({"goal": list(goal), **facts})
    parts.engine.check()
    result = {
        "name": run.config.name,
        "epoch": epoch,
        "seed": run.config.seed + seed,
        "radius": radius,
        "steps_per_goal": limit,
        "legs": legs,
        "path": [[round(x, 4) for x in p] for p in path],
    }
    write_json(reach_folder(run) / "reach.json", result)
    return result


def reach_folder(run: Run) -> Path:
    """Where paths to goals are kept."""
    return run.results / "reach"


def _check(run: Run, goals: list[tuple[float, ...]], radius: float, limit: int, seed: int) -> None:
    dims = len(make_world(run.config.env).spec.groups["position"])
    if not goals:
        place = "X" if dims == 1 else "X Y"
        raise UserError(f"no goal given; add --goal {place}, once for each goal")
    for goal in goals:
        if len(goal) != dims or not np.all(np.isfinite(goal)):
            needed = "1 finite number" if dims == 1 else f"{dims} finite numbers"
            raise UserError(f"--goal {' '.join(map(str, goal))} is not {needed}, which is what a place is to this body")
    if not radius > 0:
        raise UserError(f"--radius is {radius}; it must be positive")
    if limit < 1:
        raise UserError(f"--steps-per-goal is {limit}; it must be at least 1")
    run.check_seed(seed)
