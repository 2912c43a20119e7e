"""Send a body, or the object it moves, to goals of your own, one after the other, zero-shot."""

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
from wanderlust.envs.worlds.body import Body
from wanderlust.errors import UserError
from wanderlust.methods.views import goal_entries, goal_sizes, seen_from_body
from wanderlust.runs.files import write_arrays, write_json
from wanderlust.runs.learned import Learned, choose_skill, load_learner, of_seed
from wanderlust.runs.pace import pace_of, walks
from wanderlust.runs.run import Run

LONGEST = 10_000
"""Steps after which a goal is given up that is followed until it is reached."""
USUAL = 100
"""Steps a goal may take where no pace says how many."""


def reach(
    run: Run,
    goals: list[tuple[float, ...]],
    radius: float | None = None,
    limit: int | None = None,
    seed: int = 0,
    engine: EngineName = "auto",
    until_reached: bool = False,
) -> dict[str, Any]:
    """Follow goals in order from the start; writes RUN/reach/reach.json, and returns it.

    The states on the way go to states.safetensors beside it, to be filmed.

    A goal is a position, or all of what the world's method focuses on, such as an object's place in space. How near
    counts as reached and how many steps a goal may take are chosen by the skills' own speed (`runs/pace.py`), for what
    is no walking body by its world; or given. `until_reached` gives a goal up after `LONGEST` steps only.
    """
    _check_goals(run, goals, radius, limit, seed)
    require(not until_reached or limit is None, "--until-reached and --steps-per-goal exclude each other")
    parts = train.assemble(dataclasses.replace(run.config, engine=engine))
    epoch, learned = load_learner(run, parts)
    if parts.view.focus is not None:  # of what it does not see, the map cannot say where it lies
        for goal in goals:
            parts.view.places(goal_entries(parts.world.spec, len(goal)))
    world = parts.world.from_origin()
    observe, terminated = jax.jit(jax.vmap(world.observe)), jax.jit(jax.vmap(world.terminated))
    pace = pace_of(run, parts, learned, seed) if walks(parts) else None
    if radius is None:
        radius = pace.radius if pace else getattr(world, "goal_radius", Body.goal_radius)
    shown = goal_entries(world.spec, max(map(len, goals)))
    act = jax.jit(partial(act_towards, parts, of_seed(learned, seed)))
    step = jax.jit(parts.engine.step) if parts.engine.compiles else parts.engine.step
    state = jax.vmap(world.initial)(jax.random.split(jax.random.key(seed), 1))

    def observed() -> Any:
        return np.asarray(observe(state), np.float64)[0]

    legs: list[dict[str, Any]] = []
    seen, states, fell = [observed()], [state.physics[0]], False
    for goal in goals:
        target, entries = jnp.array([goal], jnp.float32), list(goal_entries(world.spec, len(goal)))
        aways, most = [_away(seen[-1], goal, entries)], limit or (LONGEST if until_reached else USUAL)
        if pace and limit is None and not until_reached:
            most = pace.steps(aways[0])
        while aways[-1] > radius and len(aways) <= most and not fell:
            after = step(state, act(state, target))
            if not np.all(sane(after)):
                raise UserError(f"the physics of {world.spec.name} broke down on the way to goal {len(legs) + 1}")
            state = after
            seen.append(observed())
            states.append(state.physics[0])
            aways.append(_away(seen[-1], goal, entries))
            fell = bool(np.any(terminated(state)))
        facts = {"reached": aways[-1] <= radius, "steps": len(aways) - 1, "distance": round(aways[-1], 4), "fell": fell}
        legs.append({"goal": list(goal), **facts, "closest": round(min(aways), 4), "most_steps": most})
    parts.engine.check()
    result = {
        "name": run.config.name,
        "epoch": epoch,
        "seed": run.config.seed + seed,
        "unit": getattr(parts.world, "unit", "m"),
        "radius": round(radius, 4),
        "speed": round(pace.speed, 5) if pace else None,
        "legs": legs,
        "path": [[round(x, 4) for x in obs[list(shown)].tolist()] for obs in seen],
    }
    write_json(run.results / "reach" / "reach.json", result)
    write_arrays(run.results / "reach" / "states.safetensors", {"physics": np.stack(jax.device_get(states))}, {})
    return result


def _away(obs: Any, goal: tuple[float, ...], entries: list[int]) -> float:
    return float(np.linalg.norm(obs[entries] - goal))


def act_towards(
    parts: train.Setup, learned: Learned, state: WorldState, goal: Float[Array, "worlds xy"]
) -> Float[Array, "worlds action"]:
    """The mode actions of the skills towards the goals of a batch of worlds; walking bodies go anywhere."""
    obs = jax.vmap(parts.world.observe)(state)
    if walks(parts):
        obs, goal = seen_from_body(parts.world.spec, obs, goal)
    return train.actions(parts, learned.policy, obs, choose_skill(parts, learned, obs, goal))


def _check_goals(run: Run, goals: list[tuple[float, ...]], radius: float | None, limit: int | None, seed: int) -> None:
    sizes = goal_sizes(make_world(run.config.env).spec)
    needed = f"{' or '.join(map(str, sizes))} finite number{'s' if sizes[-1] > 1 else ''}"
    require(len(goals) > 0, f"no goal given; add --goal {' '.join('XYZ'[: sizes[0]])}, once for each goal")
    for goal in goals:
        shown = " ".join(map(str, goal))
        ok = len(goal) in sizes and bool(np.all(np.isfinite(goal)))
        require(ok, f"--goal {shown} is not {needed}, which is what a place is to this body")
    if radius is not None:
        require_positive("--radius", radius)
    if limit is not None:
        require_at_least(1, "--steps-per-goal", limit)
    run.check_seed(seed)
