"""Send a body to goals of your own, one after the other, zero-shot."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wanderlust import train
from wanderlust.config import EngineName, require, require_at_least, require_positive
from wanderlust.envs import WorldState, make_world
from wanderlust.envs.base import sane
from wanderlust.errors import UserError
from wanderlust.runs.files import write_json
from wanderlust.runs.learned import Learned, choose_skill, load_learner, of_seed
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
            after = step(state, act(state, target))
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
    write_json(run.results / "reach" / "reach.json", result)
    return result


def act_towards(
    parts: train.Setup, learned: Learned, state: WorldState, goal: Float[Array, "worlds xy"]
) -> Float[Array, "worlds action"]:
    """The mode actions of the skills towards the goals of a batch of worlds."""
    obs = jax.vmap(parts.world.observe)(state)
    return train.actions(parts, learned.policy, obs, choose_skill(parts, learned, obs, goal))


def _check(run: Run, goals: list[tuple[float, ...]], radius: float, limit: int, seed: int) -> None:
    dims = len(make_world(run.config.env).spec.groups["position"])
    place, needed = ("X", "1 finite number") if dims == 1 else ("X Y", f"{dims} finite numbers")
    require(len(goals) > 0, f"no goal given; add --goal {place}, once for each goal")
    for goal in goals:
        shown = " ".join(map(str, goal))
        ok = len(goal) == dims and bool(np.all(np.isfinite(goal)))
        require(ok, f"--goal {shown} is not {needed}, which is what a place is to this body")
    require_positive("--radius", radius)
    require_at_least(1, "--steps-per-goal", limit)
    run.check_seed(seed)
