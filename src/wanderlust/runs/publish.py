"""Publishing: an evaluated run, pruned to what use needs of one seed, becomes an entry of the zoo."""

import dataclasses
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from wanderlust import train
from wanderlust.config import RunConfig
from wanderlust.envs import make_world
from wanderlust.envs.worlds.body import Body
from wanderlust.errors import UserError
from wanderlust.methods import make_method
from wanderlust.methods.skills import make_skills
from wanderlust.report import plots
from wanderlust.runs.card import ON_CARD, PROBES, best_seed, facts_of, render
from wanderlust.runs.checkpoints import write_tree
from wanderlust.runs.entries import NAME, zoo_folder
from wanderlust.runs.files import write_atomic, write_json
from wanderlust.runs.folders import put_in_place, staging
from wanderlust.runs.learned import load_stored, of_seed, represent, restored
from wanderlust.runs.measured import open_rollouts, read_evaluation
from wanderlust.runs.run import Run, write_config
from wanderlust.runs.zoo import FORMAT


class Deviation(NamedTuple):
    """What storing changes: the largest over `PROBES` observations."""

    action: float
    """Of a mode action, in any of its entries."""
    step: float
    """Of a difference phi(s') - phi(s), as a share of ||s' - s||."""


TOLERATED = Deviation(action=0.005, step=0.005)
"""Half precision is used where it changes no more than this; docs/reference/zoo.md says what was measured."""


def publish(
    run: Run, name: str, seed: int | None = None, zoo: Path | None = None, replace: bool = False
) -> tuple[Path, dict[str, Any]]:
    """Put the newest checkpoint of an evaluated run into the zoo; return the entry's folder and the facts on its card.

    Of several seeds it is the one whose mode actions cover most, unless `seed` says which, counted from 0. The entry
    appears whole or not at all.
    """
    zoo = zoo or zoo_folder()
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise UserError(f"--name is {name!r}; it must be lower-case letters, digits and hyphens, 64 at most")
    if (zoo / name).exists() and not replace:
        raise UserError(f"{zoo / name} already exists; choose another --name, or --replace it")
    evaluation = _evaluation(run)
    seed = best_seed(evaluation) if seed is None else seed
    run.check_seed(seed)
    position = visited_positions(run)
    parts = train.assemble(dataclasses.replace(run.config, engine="auto"))
    epoch, stored = load_stored(run, parts)
    weights, deviation = halved(parts, stored[seed], position[seed])
    config = dataclasses.replace(run.config, seed=run.config.seed + seed, seeds=1)
    facts = facts_of(run, name, seed, epoch, evaluation)
    with staging(zoo / name, zoo) as folder:
        skills = folder / "skills.safetensors"
        write_tree(skills, weights, {"format": FORMAT, "epoch": str(epoch)})
        write_config(folder, config)
        facts |= {
            "stored": {part: str(jax.tree.leaves(tree)[0].dtype) for part, tree in weights.items()},
            "parameters": sum(x.size for x in jax.tree.leaves(weights)),
            "bytes": skills.stat().st_size,
            "deviation": deviation._asdict(),
        }
        write_json(folder / "card.json", facts)
        plots.draw_trajectories(run.results, folder / "trajectories.png", seed)
        write_atomic(folder / "card.md", render(facts, example_goals(run.config)))
        load_stored(Run(folder, config, entry=name), dataclasses.replace(parts, config=config))
        put_in_place(folder, zoo / name)
    return zoo / name, facts


def _evaluation(run: Run) -> dict[str, Any]:
    """The evaluation of the newest checkpoint."""
    path, newest = run.evaluation / "evaluation.json", max(run.checkpoints(), default=0)
    advice = f"run `wanderlust evaluate {shlex.quote(str(run.path))}` first"
    if not path.is_file():
        raise UserError(f"{run.path} has not been evaluated; {advice}")
    found = read_evaluation(run.evaluation)
    if newest and found.get("epoch") != newest:
        raise UserError(f"{path} is of epoch {found.get('epoch')}, the newest checkpoint of {newest}; {advice}")
    metrics = found["metrics"]
    for measure in ON_CARD:
        values = metrics.get(measure, {}).get("per_seed", [])
        if len(values) != run.config.seeds or None in values:
            raise UserError(f"{path} does not say {measure} of every seed; {advice}")
    return found


def visited_positions(run: Run) -> NDArray[np.floating]:
    """Where the skills of every seed have been in the evaluation."""
    position = open_rollouts(run.evaluation, run.config.seeds).read("position")
    spec = make_world(run.config.env).spec
    dims = len(spec.directions or spec.position)
    if position.shape[-1] != dims or position.dtype.kind != "f" or not np.isfinite(position).all():
        raise UserError(
            f"{run.evaluation / 'rollouts.safetensors'} does not say where skills have been; run `wanderlust evaluate` "
            "on the run again"
        )
    return position


def example_goals(config: RunConfig) -> str:
    """Flags for `reach`; empty for methods that cannot pick a skill for a goal."""
    if make_method(config.method, make_skills(config.skills)).goal_rule is None:
        return ""
    world = make_world(config.env)
    goals, dims = getattr(world, "example_goals", Body.example_goals), len(world.spec.position)
    return "" if not dims else " ".join(f"--goal {' '.join(f'{x:g}' for x in goal[:dims])}" for goal in goals)


# --- half precision --------------------------------------------------------------------------------------------------


def halved(
    parts: train.Setup, weights: dict[str, Any], position: NDArray[np.floating]
) -> tuple[dict[str, Any], Deviation]:
    """One seed's weights, policy and method each in half precision if that costs nothing; and what it changes."""
    half: dict[str, Any] = jax.tree.map(lambda x: x.astype(jnp.float16), weights)
    deviation = _make_deviation(parts, weights, position)
    policy = deviation({**weights, "policy": half["policy"]}).action <= TOLERATED.action
    changed = deviation({**half, "policy": weights["policy"]})
    # a number beyond half precision is infinite there; deviations that are no numbers are not tolerated either
    finite = all(np.isfinite(x).all() for x in jax.tree.leaves(half))
    method = finite and all(x <= most for x, most in zip(changed, TOLERATED, strict=True))
    stored = {name: (half if (policy if name == "policy" else method) else weights)[name] for name in weights}
    return stored, Deviation(deviation(stored).action, changed.step if method else 0.0)


def _make_deviation(
    parts: train.Setup, weights: dict[str, Any], position: NDArray[np.floating]
) -> Callable[[dict[str, Any]], Deviation]:
    """Measures where skills have been: at visited positions, the other entries normal around their means."""
    rng = np.random.default_rng(0)
    spec = parts.world.spec
    mean, std = np.array(spec.obs_mean), np.array(spec.obs_std)
    obs = mean + std * rng.normal(size=(PROBES, spec.obs_dim))
    visited = position.reshape(-1, position.shape[-1])
    if spec.position and not spec.directions:
        obs[:, list(spec.position)] = visited[rng.integers(len(visited), size=PROBES)]
    moved = obs + 0.1 * std * rng.normal(size=obs.shape)
    here, there = (jnp.asarray(x, jnp.float32) for x in (obs, moved))
    skill = jax.vmap(parts.skills.sample)(jax.random.split(jax.random.key(0), PROBES))
    length = jnp.linalg.norm(parts.view.for_method(there) - parts.view.for_method(here), axis=1)

    @jax.jit
    def probe(weights: dict[str, Any]) -> tuple[Array, Array]:
        learned = of_seed(restored(parts, jax.tree.map(lambda x: x.astype(jnp.float32), weights)), 0)
        after, before = (represent(parts, learned, x) for x in (there, here))
        return train.actions(parts, learned.policy, here, skill), after - before

    action, step = probe(weights)

    def deviation(stored: dict[str, Any]) -> Deviation:
        other_action, other_step = probe(stored)
        return Deviation(
            action=float(jnp.max(jnp.abs(other_action - action))),
            step=float(jnp.max(jnp.linalg.norm(other_step - step, axis=1) / length)),
        )

    return deviation
