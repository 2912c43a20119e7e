"""Films of bodies on their way to goals, and of episodes of a task, from the states that were kept of them."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wanderlust.downstream.tasks import make_task
from wanderlust.envs import World, make_world
from wanderlust.report.explorer.mechanics import Mechanics
from wanderlust.report.plots.colours import MISSED, MUTED, REACHED, distinct, rgb_of
from wanderlust.report.video.canvas import Mark
from wanderlust.report.video.film import Filmed, film
from wanderlust.report.video.shooting import Shooting, Take
from wanderlust.runs.files import ArrayFile, read_object
from wanderlust.runs.run import Run

NAME = "film"
NEXT = MUTED
"""The colour of goals that are still to come."""


def film_reach(run: Run, how: Shooting | None = None) -> Filmed:
    """Film the last `wanderlust reach` of a run."""
    folder, mechanics = run.results / "reach", Mechanics(make_world(run.config.env))
    facts = read_object(folder / "reach.json", "the way to film")
    physics = ArrayFile(folder / "states.safetensors").read("physics")[:, None]
    legs, radius = facts["legs"], float(facts["radius"])
    ends = np.cumsum([leg["steps"] for leg in legs])

    def leg_at(step: int) -> int:
        return min(int(np.searchsorted(ends, step, side="right" if step else "left")), len(legs) - 1)

    def marks(step: int, _: int) -> list[Mark]:
        shown = []
        for n, leg in enumerate(legs):
            over = step >= ends[n]
            colour = rgb_of((REACHED if leg["reached"] else MISSED) if over else REACHED if n == leg_at(step) else NEXT)
            shown.append(Mark(_placed(mechanics, leg["goal"]), radius, colour))
        return shown

    def words(step: int, _: int) -> str:
        done = sum(1 for n, leg in enumerate(legs) if leg["reached"] and step >= ends[n])
        return f"{done} of {len(legs)} reached"

    world, position = mechanics.world, _positions(mechanics.world, physics)
    title, names = f"{facts['name']}   {run}", [f"to {len(legs)} goals" if len(legs) > 1 else "to a goal"]
    take = Take(
        world, physics, position, np.ones(physics.shape[:2], bool), names, np.array([rgb_of(REACHED)]), title,
        mechanics.seconds, marks, words, marks(0, 0),
    )  # fmt: skip
    return film(take, how or Shooting(), folder, NAME)


def film_task(run: Run, task: str, folder: Path, how: Shooting | None = None) -> Filmed:
    """Film the first episodes of the first seed of a task that was solved, from what its folder holds."""
    made = make_task(task)
    world = made.arrange(make_world(run.config.env))
    mechanics = Mechanics(world)
    data = ArrayFile(folder / "paths.safetensors")
    physics, entries = data.read("physics")[:, 0], data.read("entries")[1:, 0]
    colours = distinct(physics.shape[1])
    radius = float(data.about["radius"]) if data.about["goals"] == "1" else 0.0

    def marks(step: int, body: int) -> list[Mark]:
        return [Mark(_placed(mechanics, entries[step, body]), radius, colours[body])] if radius else []

    moved = np.abs(np.diff(physics[:, :, 1:], axis=0)).max(axis=-1) > 0
    alive = np.concatenate([moved[::-1].cumsum(axis=0)[::-1] > 0, np.ones((1, physics.shape[1]), bool)])
    alive[-1] = alive[-2] if len(alive) > 1 else True
    names, position = [f"episode {n}" for n in range(1, physics.shape[1] + 1)], _positions(world, physics)
    goals = [mark for n in range(physics.shape[1]) for mark in marks(0, n)]
    take = Take(
        world, physics, position, alive, names, colours, f"{task}   {run}", mechanics.seconds, marks, None, goals
    )
    return film(take, how or Shooting(), folder, NAME)


def _placed(mechanics: Mechanics, goal: Any) -> NDArray[np.float64]:
    """Where a goal is drawn."""
    found = np.array([0.0, 0.0, mechanics.ground])
    found[: len(goal)] = goal
    return found


def _positions(world: World, physics: NDArray[Any]) -> NDArray[np.float64]:
    """[..., 1 or 2] Where states say that bodies are."""
    import jax

    from wanderlust.envs import WorldState

    flat: Any = physics.reshape(-1, physics.shape[-1])
    nothing: Any = np.zeros((len(flat), world.model.nsensordata if hasattr(world, "model") else 0), np.float32)
    obs = np.asarray(jax.vmap(world.observe)(WorldState(flat, nothing)))
    position = obs[:, list(world.spec.groups["position"])[:2]]
    return position.reshape(*physics.shape[:-1], -1).astype(np.float64)
