"""Evaluation of skills: how much of the plane random skills cover, how far they travel, how well they are aligned.

Writes evaluation/evaluation.json and rollouts.safetensors, from which the figures are drawn, into the run's folder; for
a zoo entry, which is only read, under runs/.
"""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wanderlust import train
from wanderlust.config import EngineName
from wanderlust.envs.names import entry_names
from wanderlust.envs.spec import EnvSpec, Rollout
from wanderlust.errors import UserError, is_count, require_at_least, require_seed
from wanderlust.evaluation.baseline import measures_of_draws
from wanderlust.evaluation.metrics import alignment, coverage, kind_of_motion, of_object, summarise, travelled
from wanderlust.evaluation.robustness import robustness
from wanderlust.evaluation.verdict import finite_or_none, floor_of, judge_seed, level, mean_of
from wanderlust.runs.files import read_object, write_arrays, write_json
from wanderlust.runs.folders import make_folder
from wanderlust.runs.learned import load_learner, represent
from wanderlust.runs.run import Run
from wanderlust.train.probe import random_episodes

RANDOM_DRAWS = 3
"""Draws of as many episodes of random actions as of skills: their spread is the interval of the floor."""


def evaluate(run: Run, episodes: int = 200, seed: int = 0, engine: EngineName = "auto") -> dict[str, Any]:
    """Roll out `episodes` random skills per seed with mode and with sampled actions; write and return the measures.

    As many episodes of random actions, drawn three times for all seeds together, are what they are compared with.
    The engine need not be the one that trained the run.
    """
    require_at_least(1, "episodes", episodes)
    require_seed("seed", seed)
    parts = train.assemble(dataclasses.replace(run.config, engine=engine))
    epoch, learned = load_learner(run, parts)
    keys = jax.random.split(jax.random.key(seed), run.config.seeds)
    skill_keys, rollout_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
    skill = train.sample_skills(parts, skill_keys, episodes)
    mode: Rollout = jax.device_get(train.make_skill_rollout(parts, mode=True)(learned.policy, skill, rollout_keys))
    sampled: Rollout = jax.device_get(train.make_skill_rollout(parts, mode=False)(learned.policy, skill, rollout_keys))
    parts.engine.check()
    by_chance = random_episodes(parts.world, parts.engine, episodes, range(seed, seed + RANDOM_DRAWS))
    random = by_chance.obs[0]
    phi = jax.jit(jax.vmap(partial(represent, parts)))
    ends = np.broadcast_to(random[-1], mode.obs[:, -1].shape)
    phi_first, phi_last, phi_random = (np.asarray(phi(learned, x)) for x in (mode.obs[:, 0], mode.obs[:, -1], ends))
    codes = np.asarray(jax.vmap(jax.vmap(parts.skills.code))(jnp.asarray(mode.skill)))
    spec = parts.world.spec
    aligned = [alignment(b - a, c) for a, b, c in zip(phi_first, phi_last, codes, strict=True)]
    per_seed = {**measures(spec, mode, sampled), "alignment": aligned}
    result: dict[str, Any] = {
        "name": run.config.name,
        "recipe": run.config.recipe,
        "epoch": epoch,
        "env_steps": _env_steps(run, epoch),
        "env_steps_before": _env_steps_before(run),
        "episodes": episodes,
        "engine": parts.engine.name,
        "seeds": list(range(run.config.seed, run.config.seed + run.config.seeds)),
        "metrics": {name: {**summarise(v)._asdict(), "per_seed": v} for name, v in per_seed.items()},
        "random": measures_of_draws(spec, by_chance.obs),
        "entries": list(entry_names(parts.world)),
        "unit": getattr(parts.world, "unit", "m"),
        "bin": spec.bin,
        "place_dims": int(spec.place(random).shape[-1]),
        "verdict": _verdict(parts, mode, by_chance, aligned, phi_last - phi_first)
        | {
            "trained": epoch / run.config.schedule.epochs,
            "robustness": robustness(parts, learned.policy, mode, rollout_keys),
        },
    }
    if run.config.skills.kind == "discrete":
        kinds = [_kinds(spec, *of_seed) for of_seed in zip(mode.obs, mode.skill, mode.alive, strict=True)]
        result["kinds"] = {
            "per_seed": kinds,
            "counts": [{kind: names.count(kind) for kind in sorted(set(names))} for names in kinds],
        }
    arrays = {
        "position": np.asarray(spec.place(mode.obs), np.float32),
        "skill": np.asarray(mode.skill),
        "last": np.asarray(mode.obs[:, -1]),
        "random": np.asarray(spec.place(random), np.float32),
        "phi_first": phi_first,
        "phi_last": phi_last,
        "phi_random": phi_random,
    }
    run.check_ours()
    _keep_another(run, result)
    write_arrays(run.evaluation / "rollouts.safetensors", arrays, {"skills": run.config.skills.kind})
    write_json(run.evaluation / "evaluation.json", result)
    return result


def _verdict(parts: train.Setup, mode: Rollout, by_chance: Rollout, aligned: list[float], moved: Any) -> dict[str, Any]:
    """Did it learn? Of every seed, and of their mean."""
    spec, discrete = parts.world.spec, parts.config.skills.kind == "discrete"
    floor, random = floor_of(spec, np.asarray(by_chance.obs)), jax.tree.map(lambda x: x[0], by_chance)
    seeds = [
        judge_seed(spec, jax.tree.map(lambda x, k=k: x[k], mode), random, floor, aligned[k], moved[k], discrete)
        for k in range(len(aligned))
    ]
    return {
        "level": level(mean_of(seeds), floor),
        "per_seed_level": [level(one, floor) for one in seeds],
        "mean": mean_of(seeds),
        "per_seed": seeds,
        "random_coverage": {name: finite_or_none(value) for name, value in floor._asdict().items()},
        "sees_place_alone": parts.view.method_entries == spec.position,
        "place": "position" if not spec.directions else "focus" if spec.position else "principal directions",
        "episode_length": spec.episode_length,
    }


def _keep_another(run: Run, result: dict[str, Any]) -> None:
    """Put the evaluation of another epoch, or of more or fewer episodes, into a folder that says so."""
    try:
        there = read_object(run.evaluation / "evaluation.json", "the evaluation")
    except UserError:
        return
    epoch, episodes = (there.get(name) for name in ("epoch", "episodes"))
    if not (is_count(epoch) and is_count(episodes) and max(epoch, episodes) < 10**9):  # type: ignore[type-var,operator]
        return
    if (epoch, episodes) == (result["epoch"], result["episodes"]):
        return
    folder = run.evaluation / f"epoch-{epoch:08d}-{episodes}-episodes"
    make_folder(folder)
    for name in ("evaluation.json", "rollouts.safetensors"):
        if (run.evaluation / name).exists():
            (run.evaluation / name).replace(folder / name)


def measures(spec: EnvSpec, mode: Rollout, sampled: Rollout) -> dict[str, list[float]]:
    """Of episodes with mode and with sampled actions, for every seed; arrays of both lead with the seed axis."""
    side, std = spec.bin, np.array(spec.obs_std)
    per_seed: dict[str, list[float]] = {
        "coverage_mode": [coverage(spec.place(x), side) for x in mode.obs],
        "coverage_sampled": [coverage(spec.place(x), side) for x in sampled.obs],
        "travelled": [float(travelled(x, std).mean()) for x in mode.obs],
        "distance": [float(np.linalg.norm(spec.place(x[-1]) - spec.place(x[0]), axis=-1).mean()) for x in mode.obs],
        "survived": [float(x[:-1].sum(axis=0).mean()) for x in mode.alive],
        "survived_median": [float(np.median(x[:-1].sum(axis=0))) for x in mode.alive],
    }
    if len(thing := list(spec.groups.get("object", ()))) == 3:
        objects = [of_object(x[..., thing], side) for x in mode.obs]
        per_seed.update({name: [one[name] for one in objects] for name in objects[0]})
    return per_seed


def _env_steps(run: Run, epoch: int) -> int:
    """Environment steps behind an epoch; a zoo entry and a run without metrics only know the most there can be."""
    counts = run.counts(epoch)
    return counts.env_steps if counts else epoch * run.config.schedule.collection


def _env_steps_before(run: Run) -> int:
    """Environment steps of what this run began with, an earlier stage or another run, as far as its provenance says."""
    steps, before = 0, run.provenance().get("began_with")
    while before:
        steps += before["env_steps"] if isinstance(before.get("env_steps"), int) else 0
        before = before.get("began_with")
    return steps


def _kinds(spec: EnvSpec, obs: Any, drawn: Any, alive: Any) -> list[str]:
    """What each discrete skill of one seed does; a skill that was never drawn is `not tried`."""
    which, steps, found = np.argmax(drawn, axis=-1), alive[:-1].sum(axis=0), []
    groups = [list(spec.groups.get(name, ())) for name in ("position", "orientation")]
    for skill in range(drawn.shape[-1]):
        mine = which == skill
        position, orientation = (obs[:, mine][..., entries] for entries in groups)
        found.append(kind_of_motion(position, orientation, steps[mine]) if mine.any() else "not tried")
    return found
