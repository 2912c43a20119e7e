"""Did it learn: a verdict in words on the skills of a run, from measures that need no paper to be understood.

Its thresholds, and what they say of known runs, are in docs/how-to/did-it-learn.md.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from wanderlust.envs.spec import EnvSpec, Rollout
from wanderlust.evaluation.metrics import coverage
from wanderlust.train.dead import LATE

FARTHER = 2.0
"""Skills that have learned cover at least so many times what random actions do."""
ALIKE = 0.2
"""Below this share of where episodes end that the skill decides, all skills do the same."""
TOLD_APART = 0.5
"""From this share, cosine, or accuracy on, skills are told apart."""
NEAREST = 5
"""Continuous skills are compared with so many of the nearest."""
STILL = 0.1
"""Bodies that move less than this share of what random actions make of them, in the second half of an episode, stand
still."""

Array = NDArray[np.floating]


class Floor(NamedTuple):
    """What random actions cover, over a few draws of as many episodes."""

    mean: float
    low: float
    high: float
    draws: list[int]


def floor_of(spec: EnvSpec, obs: Array) -> Floor:
    """Of random episodes [draws, time, episodes, obs], with the 95% interval of a draw's mean."""
    draws = [coverage(spec.place(x), spec.bin) for x in obs]
    mean = float(np.mean(draws))
    if len(draws) < 2:
        return Floor(mean, math.nan, math.nan, draws)
    half = float(stdtrit(len(draws) - 1, 0.975)) * float(np.std(draws, ddof=1)) / math.sqrt(len(draws))
    return Floor(mean, mean - half, mean + half, draws)


def decided(ends: Array, skill: Array) -> float:
    """Which share of the variation of where episodes end is decided by their skill, from 0 to 1.

    Episodes of nearest skills (of the same one, where skills are discrete) are compared with any two episodes. Where
    all end at the same place there is no variation, and nothing is decided.
    """
    between = 2.0 * float(np.var(ends, axis=0, ddof=1).sum())
    if not between > 1e-12:
        return 0.0
    apart = np.sum((skill[:, None] - skill[None]) ** 2, axis=-1)
    np.fill_diagonal(apart, np.inf)
    same = apart.min() == 0.0  # discrete skills: all others of the same one are as near
    reach = np.sort(apart, axis=1)[:, 0 if same else min(NEAREST, len(skill) - 1) - 1]
    near = apart <= reach[:, None]
    squares = np.sum((ends[:, None] - ends[None]) ** 2, axis=-1)
    within = float(np.mean(np.sum(squares * near, axis=1) / near.sum(axis=1)))
    return float(np.clip(1.0 - within / between, 0.0, 1.0))


def told_apart(moved: Array, skill: Array) -> float:
    """Share of episodes whose discrete skill is the one that phi's displacement points to most."""
    return float(np.mean(np.argmax(moved, axis=-1) == np.argmax(skill, axis=-1)))


def moving(obs: Array, alive: NDArray[np.bool_], std: Array) -> float:
    """How far [time, episodes, obs] moves in a step, in deviations, in the second half of what each episode lasts."""
    steps = np.linalg.norm(np.diff(obs, axis=0) / std, axis=-1)
    lasts = alive[:-1].sum(axis=0)
    late = alive[:-1] & (np.arange(len(steps))[:, None] >= lasts // 2)
    return float(steps[late].mean()) if late.any() else 0.0


def share_of_position(spec: EnvSpec, ends: Array) -> float | None:
    """Of the variation of where episodes end, in deviations, that of the position; None if none or all is."""
    if not spec.position or spec.directions or len(spec.position) == spec.obs_dim:
        return None
    variance = np.var(ends / np.array(spec.obs_std), axis=0)
    whole = float(variance.sum())
    return float(variance[list(spec.position)].sum()) / whole if whole > 0 else 0.0


def judge_seed(
    spec: EnvSpec, mode: Rollout, random: Rollout, floor: Floor, aligned: float, moved: Array, discrete: bool
) -> dict[str, float | None]:
    """The measures behind the verdict, of one seed: its episodes with mode actions, and random ones."""
    std = np.array(spec.obs_std)
    obs, alive = np.asarray(mode.obs), np.asarray(mode.alive)
    skill, ends = np.asarray(mode.skill), np.asarray(mode.obs)[-1]
    random_moves = moving(np.asarray(random.obs), np.asarray(random.alive), std)
    mapped = bool(np.isfinite(aligned))
    return {
        "coverage": float(coverage(spec.place(obs), spec.bin)),
        "times_random": coverage(spec.place(obs), spec.bin) / max(1.0, floor.mean),
        "decided_by_skill": decided(ends / std, skill),
        "cosine": aligned if mapped and not discrete else None,
        "accuracy": told_apart(moved, skill) if mapped and discrete else None,
        "chance": 1.0 / skill.shape[-1] if discrete else None,
        "position_share": share_of_position(spec, ends),
        "movement": moving(obs, alive, std) / random_moves if random_moves > 0 else None,
        "survived": float(alive[1:].mean()),
        "survived_random": float(np.asarray(random.alive)[1:].mean()),
    }


def level(found: Mapping[str, float | None], floor: Floor) -> str:
    """`learned`, `partly`, `static`, `alike` or `nothing`."""
    farther = _of(found, "times_random") >= FARTHER
    above = _of(found, "coverage") > (floor.high if math.isfinite(floor.high) else floor.mean)
    if not above and _of(found, "movement") < STILL:
        return "static"
    if _of(found, "decided_by_skill") < ALIKE:
        return "alike"
    if not above:
        return "nothing"
    return "learned" if farther and clear(found) else "partly"


def clear(found: Mapping[str, float | None]) -> bool:
    """Whether skills are told apart: by the method's map, or, without one, by where they end."""
    by_map = found.get("cosine") if found.get("accuracy") is None else found.get("accuracy")
    return (_of(found, "decided_by_skill") if by_map is None else by_map) >= TOLD_APART


def _of(found: Mapping[str, float | None], name: str) -> float:
    value = found.get(name)
    return math.nan if value is None else float(value)


HEADLINES = {
    "learned": "it learned: skills reach farther than random actions, and differ",
    "partly": "it learned something, and is not there yet",
    "static": "collapsed: bodies stand still, each skill in a pose of its own at best",
    "alike": "collapsed: all skills do the same",
    "nothing": "it has not learned to get about: random actions reach as far",
}


SO_FAR = {"static": "bodies stand still", "alike": "all skills do the same", "nothing": "random actions reach as far"}
"""What is said of a run in its first epochs instead: skills that will be good begin like that, too."""


def headline(verdict: Mapping[str, Any]) -> str:
    """The verdict in a line; nothing final before `LATE`, of a run that was to train for longer."""
    kind, trained = verdict["level"], verdict.get("trained")
    if kind in SO_FAR and trained is not None and trained < LATE:
        return f"too early to tell, after {trained:.1%} of its epochs; so far {SO_FAR[kind]}"
    return HEADLINES[kind]


def finite_or_none(value: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def mean_of(seeds: list[dict[str, float | None]]) -> dict[str, float | None]:
    """Means over seeds of what all of them have."""
    values = {name: [_of(one, name) for one in seeds] for name in seeds[0]}
    return {name: float(np.mean(x)) if np.isfinite(x).all() else None for name, x in values.items()}


def words(verdict: Mapping[str, Any]) -> list[str]:
    """The verdict for a person, a line each: the headline, and what is behind it."""
    found, floor, length = verdict["mean"], verdict["random_coverage"], verdict["episode_length"]
    where = {"position": "bins of the plane (or line)", "focus": "bins of the entries in focus"}.get(
        verdict["place"], "bins of the first two principal directions of the state under random actions"
    )
    levels = verdict["per_seed_level"]
    split = "" if len(set(levels)) == 1 else f" (by seed: {', '.join(levels)})"
    lines = [f"Verdict: {headline(verdict)}{split}."]
    interval = f", 95% interval {floor['low']:.0f} to {floor['high']:.0f}" if floor["low"] is not None else ""
    lines.append(
        f"Reach: {found['coverage']:,.0f} {where}, {found['times_random']:.1f} times what random actions cover "
        f"({floor['mean']:,.0f}{interval})."
    )
    if found["cosine"] is not None:
        lines.append(
            f"Told apart: skills go their own way on the learned map with cosine {found['cosine']:.2f} (1 is all)."
        )
    if found["accuracy"] is not None:
        lines.append(
            f"Told apart: the learned map names the skill of {found['accuracy']:.0%} of the episodes "
            f"(chance: {found['chance']:.0%})."
        )
    kinds = ""
    if found["position_share"] is not None:
        kinds = (
            f"; {found['position_share']:.0%} of the variation is where the body is, "
            f"{1 - found['position_share']:.0%} its pose and velocities"
        )
    lines.append(f"Decided by the skill: {found['decided_by_skill']:.0%} of how an episode ends{kinds}.")
    if found["movement"] is not None:
        lines.append(
            f"Movement: {found['movement']:.0%} of that under random actions, in the second half of an episode."
        )
    lines.append(
        f"Survival: {found['survived'] * length:.0f} of {length} steps, random actions "
        f"{found['survived_random'] * length:.0f}."
    )
    lines.extend(_robust(verdict["robustness"]))
    helps = verdict["place"] == "position" and not verdict.get("sees_place_alone")
    advice = [said for said in ADVICE[verdict["level"]] if said != FOCUS or helps]
    return lines + ([f"What to try: {', '.join(advice)}."] if advice else [])


def _robust(found: Mapping[str, Any]) -> list[str]:
    said = []
    if found.get("shifted") is not None:
        said.append(f"from starts up to {found['shift']:.3g} away with cosine {found['shifted']:.2f}")
    if found.get("changed") is not None:
        said.append(f"after a change of skill in mid-episode with cosine {found['changed']:.2f}")
    return [f"Robust: skills keep their direction {', and '.join(said)}."] if said else []


FOCUS = "`--focus position`"
"""Where the world has a position, and the method's network sees more."""
LONGER, SEEDS, WEIGHT = "train for longer", "other seeds (--seeds 4)", "a larger --sac.alpha"
ADVICE = {
    "learned": [],
    "partly": [LONGER, SEEDS, FOCUS],
    "static": [LONGER, FOCUS, WEIGHT, "if its method rewards no distance, one that does (`wanderlust list`)"],
    "alike": [LONGER, SEEDS, WEIGHT, "fewer dimensions of skills"],
    "nothing": [LONGER, SEEDS, FOCUS, WEIGHT],
}
