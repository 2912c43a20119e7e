"""How well skills can be driven: many bodies go zero-shot from one random goal to the next, for thousands of steps.

Writes evaluation/drive.json into the run's folder; for a zoo entry, which is only read, under runs/.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key
from numpy.typing import ArrayLike, NDArray

from wanderlust import train
from wanderlust.config import EngineName, require_at_least
from wanderlust.envs import WorldState
from wanderlust.envs.base import sane
from wanderlust.envs.unroll import RolloutStep, make_unroll
from wanderlust.errors import UserError
from wanderlust.evaluation.metrics import summarise, survival_median
from wanderlust.methods.views import seen_from_body
from wanderlust.runs.files import write_json
from wanderlust.runs.learned import Learned, choose_skill, load_learner, of_seed
from wanderlust.runs.pace import PATIENCE, Pace, pace_of, walks
from wanderlust.runs.run import Run
from wanderlust.train.autoreset import where_worlds

RANGE = 15.0
"""Goals lie within so many metres of the body."""
UP_AGAIN = 10
"""A fall is over when the body has not been down for so many steps in a row."""
GIVEN_UP_AFTER = 100
"""A fall that is not over after so many steps is not recovered from: the body is put up again."""
RESAMPLED = 1000
"""Times the bodies are resampled for the interval of a median."""


class Drive(NamedTuple):
    """Bodies on their way."""

    state: WorldState
    goal: Float[Array, "bodies xy"]
    used: Int[Array, " bodies"]
    """Steps made towards the goal."""
    down: Int[Array, " bodies"]
    """Steps since the body fell, 0 while it has not."""
    up: Int[Array, " bodies"]
    """Steps in a row without being down."""


class Event(NamedTuple):
    """What a step brought, [bodies] or [steps, bodies]."""

    reached: Bool[Array, "*steps bodies"]
    missed: Bool[Array, "*steps bodies"]
    fell: Bool[Array, "*steps bodies"]
    unrecovered: Bool[Array, "*steps bodies"]
    """A fall was not recovered from: the body is put up again at the origin, with another goal."""


def evaluate_drive(
    run: Run, bodies: int = 32, steps: int = 10_000, seed: int = 0, engine: EngineName = "auto", every: int = 1
) -> dict[str, Any]:
    """Drive bodies to random goals with the skills of each seed of a run; write and return what came of it.

    A skill is chosen anew `every` so many steps. Goals and starts are drawn from `seed`.
    """
    require_at_least(2, "--bodies", bodies)
    require_at_least(1, "--steps", steps)
    require_at_least(1, "--skill-every", every)
    parts = train.assemble(dataclasses.replace(run.config, engine=engine))
    if not walks(parts):
        raise UserError(f"--drive is for bodies that walk or run; {run.config.env.name} is none")
    epoch, learned = load_learner(run, parts)
    drive = _driver(parts, bodies, every)
    seeds = []
    for which in range(run.config.seeds):
        pace = pace_of(run, parts, learned, which)
        event = drive(of_seed(learned, which), pace, jax.random.split(jax.random.key(seed), steps + 2))
        parts.engine.check()
        facts = {"radius": round(pace.radius, 4), "speed": round(pace.speed, 5), "steps_per_goal": pace.steps(RANGE)}
        seeds.append({"seed": run.config.seed + which, **facts, "metrics": drive_measures(event)})
    result = {
        "name": run.config.name,
        "run": str(run),
        "epoch": epoch,
        "engine": parts.engine.name,
        "bodies": bodies,
        "steps": steps,
        "seed_of_goals": seed,
        "skill_every": every,
        "range": RANGE,
        "patience": PATIENCE,
        "fallen": getattr(parts.world, "fall", ""),
        "up_again_after": UP_AGAIN,
        "given_up_after": GIVEN_UP_AFTER,
        "seeds": seeds,
    }
    write_json(run.evaluation / "drive.json", result)
    return result


def _driver(parts: train.Setup, bodies: int, every: int) -> Callable[[Learned, Pace, Key[Array, " steps+2"]], Event]:
    world = parts.world.from_origin()
    entries = jnp.array(parts.world.spec.groups["position"])
    observe: Any = jax.vmap(world.observe)
    fallen: Any = jax.vmap(lambda state: world.fallen(state) | world.terminated(state))  # type: ignore[attr-defined]

    def place(state: WorldState) -> Array:
        return observe(state)[:, entries]

    def fresh(key: Key[Array, ""]) -> WorldState:
        return jax.vmap(world.initial)(jax.random.split(key, bodies))

    def act(learned: Learned, carry: Any, now: Any) -> tuple[Any, WorldState, Array]:
        drive, skill, rule = carry
        obs, goal = seen_from_body(parts.world.spec, observe(drive.state), drive.goal)
        chosen = choose_skill(parts, learned, obs, goal)
        skill = jnp.where((drive.used % every == 0)[:, None], chosen, skill)
        return (drive, skill, rule), drive.state, train.actions(parts, learned.policy, obs, skill)

    def record(carry: Any, before: WorldState, action: Array, after: WorldState, key: Any) -> tuple[Any, Event]:
        drive, skill, (radius, limit) = carry
        state, broken = where_worlds(sane(after), after, before), ~sane(after)
        is_down = fallen(state)
        up = jnp.where(is_down, 0, drive.up + 1)
        fell = is_down & (drive.down == 0)
        down = jnp.where(fell | ((drive.down > 0) & (up < UP_AGAIN)), drive.down + 1, 0)
        given_up = (down > GIVEN_UP_AFTER) | jax.vmap(world.terminated)(state) | broken
        there = jnp.linalg.norm(place(state) - drive.goal, axis=1) <= radius
        used = drive.used + 1
        event = Event(
            there & ~given_up,
            ~there & ((used >= limit) | given_up) | (there & given_up),
            fell | (given_up & (down == 0)),
            given_up,
        )
        start, draw = jax.random.split(key)
        state = where_worlds(given_up, fresh(start), state)
        over = event.reached | event.missed
        goal = jnp.where(over[:, None], place(state) + random_goals(draw, bodies, len(entries)), drive.goal)
        drive = Drive(state, goal, jnp.where(over, 0, used), jnp.where(given_up, 0, down), jnp.where(given_up, 0, up))
        return (drive, skill, (radius, limit)), event

    compiles = parts.engine.compiles
    unroll = make_unroll(parts.engine, RolloutStep(act, record), on_host=not compiles)
    unroll = jax.jit(unroll) if compiles else unroll

    def driven(learned: Learned, pace: Pace, keys: Key[Array, " steps+2"]) -> Event:
        state, zeros = fresh(keys[0]), jnp.zeros(bodies, jnp.int32)
        goal = place(state) + random_goals(keys[1], bodies, len(entries))
        skill, rule = jnp.zeros((bodies, parts.skills.size)), (jnp.float32(pace.radius), jnp.int32(pace.steps(RANGE)))
        _, event = unroll(learned, (Drive(state, goal, zeros, zeros, zeros), skill, rule), keys[2:])
        return jax.device_get(event)

    return driven


def random_goals(key: Key[Array, ""], count: int, dims: int) -> Float[Array, "count dims"]:
    """Uniform over the disc of radius `RANGE`, or over the line that reaches as far both ways."""
    far, turn = jax.random.split(key)
    direction = jax.random.normal(turn, (count, dims))
    share = jax.random.uniform(far, (count, 1)) ** (1 / dims)
    return RANGE * share * direction / jnp.linalg.norm(direction, axis=1, keepdims=True)


# --- from events to measures -----------------------------------------------------------------------------------------


def drive_measures(event: Event) -> dict[str, Any]:
    """Of events [steps, bodies]: shares and rates with 95% intervals over bodies, and medians of times to an event."""
    steps = len(event.reached)
    goals = np.maximum(1, (event.reached | event.missed).sum(axis=0))
    return {
        "goals": int((event.reached | event.missed).sum()),
        "reached_share": _mean(event.reached.sum(axis=0) / goals),
        "falls_per_1000_steps": _mean(1000 * event.fell.sum(axis=0) / steps),
        "unrecovered_falls_per_1000_steps": _mean(1000 * event.unrecovered.sum(axis=0) / steps),
        "recovered_share": _recovered(event),
        "steps_between_falls": _median(event.fell),
        "steps_between_unrecovered_falls": _median(event.unrecovered),
        "put_up": int(event.unrecovered.sum()),
    }


GOOD_SHARE, GOOD_STEPS = 0.9, 5_000
"""Of goals reached, and between falls that are not recovered from: what the verdict calls good to drive."""


def drive_verdict(one: dict[str, Any]) -> str:
    """One line on the skills of a seed."""
    found = one["metrics"]
    share, median = found["reached_share"]["mean"], found["steps_between_unrecovered_falls"]["median"]
    driven = found["steps_between_unrecovered_falls"]["at_most"]
    stays = f"more than {driven:,}" if median is None else f"{median:,.0f}"
    words = f"{share:.0%} of the goals reached, {stays} steps between falls that it does not get up from"
    if share >= GOOD_SHARE and ((median is None and driven >= GOOD_STEPS) or (median or 0) > GOOD_STEPS):
        return f"Verdict: good to drive: {words}."
    weak = [
        *(["it misses too many goals"] if share < GOOD_SHARE else []),
        *(["it stays down too often"] if median is not None and median <= GOOD_STEPS else []),
        *(["it was not driven for long enough to tell"] if median is None and driven < GOOD_STEPS else []),
    ]
    return f"Verdict: not good to drive yet, {' and '.join(weak)}: {words}."


def _mean(per_body: ArrayLike) -> dict[str, Any]:
    found = summarise(np.asarray(per_body))
    return {"mean": found.mean, "ci95": found.ci95, "per_body": np.round(np.asarray(per_body), 5).tolist()}


def _recovered(event: Event) -> float | None:
    """Of all falls, those that the body recovered from; None where nothing fell."""
    fell = int(event.fell.sum())
    return None if fell == 0 else 1.0 - int(event.unrecovered.sum()) / fell


def _median(happened: ArrayLike) -> dict[str, Any]:
    """Median steps to an event, from the start or the event before; None where it is longer than the drive."""
    steps = np.asarray(happened)
    per_body = [times_to(column) for column in steps.T]
    draw, medians = np.random.default_rng(0), []
    for _ in range(RESAMPLED):
        picked = [per_body[k] for k in draw.integers(len(per_body), size=len(per_body))]
        medians.append(_of_times(picked))
    low, high = np.quantile(np.array(medians), (0.025, 0.975), method="inverted_cdf")
    return {
        "median": _finite(_of_times(per_body)),
        "low": _finite(low),
        "high": _finite(high),
        "at_most": len(steps),
    }


def times_to(happened: NDArray[np.bool_]) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """Steps to each event of one body, and at the end those that passed without one; and which were events."""
    at = np.flatnonzero(happened) + 1
    times = np.diff(np.concatenate([[0], at, [len(happened)]])).astype(float)
    ended = np.concatenate([np.ones(len(at), bool), [False]])
    kept = times > 0
    return times[kept], ended[kept]


def _of_times(per_body: list[tuple[NDArray[np.floating], NDArray[np.bool_]]]) -> float:
    times, ended = (np.concatenate(x) for x in zip(*per_body, strict=True))
    return survival_median(times, ended)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
