"""What a world must know of a Gymnasium environment, found by looking at it and by trying it."""

import contextlib
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from wanderlust.outside.single import RefusedError, Single, make, one_line

SAMPLES = 500
"""Steps of a random policy by which entries of the observation are recognised."""


def examine(name: str, kwargs: dict[str, Any], starts: int, rollouts: int, steps: int) -> dict[str, Any]:
    """All that a world must know of an environment, or `RefusedError` with the reason why it cannot be one.

    The starts of the first seeds; mean and deviation of what is observed while actions are random, as
    `wanderlust.normalise` has them; which entries are what.
    """
    made = make(name, kwargs)
    try:
        _check_spaces(made)
    finally:
        made.close()
    one = Single(name, kwargs)
    try:
        parts = _parts(one.env.observation_space)
        shown, qpos, qvel = _walk(one, SAMPLES)
        found = _recognised(one.env, shown, qpos, qvel)
        one.env.close()
        one = Single(name, kwargs, found["added"])
        first = [_begun(one, seed) for seed in range(starts)]
        if not np.array_equal(_begun(one, 0), first[0]):
            raise RefusedError(
                "reset(seed=0) does not start twice in the same state, as Gymnasium asks of every environment: draw "
                "starts from self.np_random, after super().reset(seed=seed)"
            )
        rolled = np.array([_random_rollout(one, k, steps) for k in range(rollouts)])
    finally:
        with contextlib.suppress(Exception):
            one.env.close()
    states = rolled.reshape(-1, rolled.shape[-1])
    mean, std = states.mean(axis=0, dtype=np.float64), states.std(axis=0, dtype=np.float64)
    place = found["groups"].get("position", [])
    std[place] = std[place].max(initial=0.0)  # a metre is as far to the side as ahead
    std[std == 0.0] = 1.0
    _, _, directions = np.linalg.svd((states[:20_000] - mean) / std, full_matrices=False)
    more = len(found["added"])
    groups = {key: [more + e for e in entries] for key, entries in parts.items()}
    return {
        "action_dim": int(np.prod(one.env.action_space.shape)),
        "unbounded": bool(not np.all(np.isfinite([one.env.action_space.low, one.env.action_space.high]))),
        **found,
        "groups": {**found["groups"], **groups},
        "starts": np.array(first),
        "mean": mean.astype(np.float32),
        "std": std.astype(np.float32),
        "moved": _moved(rolled[..., place] / std[place]) if place else 0.0,
        "control_seconds": _control_seconds(one.env),
        "directions": _signed(directions[:2]).astype(np.float32),
    }


def _moved(places: NDArray[np.floating]) -> float:
    """By how much [rollouts, time, entries] change in a step: the median, as some steps begin an episode."""
    return float(np.median(np.linalg.norm(np.diff(places, axis=1), axis=-1)))


def _control_seconds(env: Any) -> float:
    """Simulated time of a step, of environments that say it where Gymnasium's own do; 0 of others."""
    step = getattr(env.unwrapped, "dt", 0.0) if _model(env) is not None else 0.0
    return float(step) if isinstance(step, float | int) and 0 < step < 10 else 0.0


def _signed(directions: NDArray[np.floating]) -> NDArray[np.floating]:
    """The same directions; of the two signs of each, the one whose largest entry is positive."""
    rows = np.arange(len(directions))
    return directions * np.sign(directions[rows, np.argmax(np.abs(directions), axis=1)])[:, None]


def _check_spaces(env: Any) -> None:
    action, observed = env.action_space, env.observation_space
    if not isinstance(action, spaces.Box):
        raise RefusedError(
            f"its actions are {type(action).__name__}; the policy draws from a distribution over numbers, so actions "
            "must be a Box"
        )
    for space in _leaves(observed):
        if isinstance(space, spaces.Box) and (len(space.shape) > 2 or space.dtype == np.uint8):
            raise RefusedError(f"it observes images ({space.shape}); observations must be vectors of numbers")
        if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete):
            raise RefusedError(f"it observes a {type(space).__name__}; observations must be a Box or a Dict of them")


def _leaves(space: Any) -> list[Any]:
    if isinstance(space, spaces.Dict):
        return [leaf for one in space.spaces.values() for leaf in _leaves(one)]
    return [leaf for one in space.spaces for leaf in _leaves(one)] if isinstance(space, spaces.Tuple) else [space]


def _parts(space: Any, prefix: str = "", first: int = 0) -> dict[str, list[int]]:
    """Entries by the names of a Dict, those of one inside another joined by a dot; nothing for a plain Box."""
    found: dict[str, list[int]] = {}
    if not isinstance(space, spaces.Dict):
        return found
    for key, one in space.spaces.items():
        size = spaces.flatdim(one)
        found[f"{prefix}{key}"] = list(range(first, first + size))
        found.update(_parts(one, f"{prefix}{key}.", first))
        first += size
    return found


def _begun(one: Single, seed: int) -> NDArray[np.float32]:
    try:
        return one.begin(seed)
    except Exception as error:
        raise RefusedError(f"reset(seed={seed}) raises {type(error).__name__}: {one_line(error)}") from None


def _stepped(one: Single, action: NDArray[np.floating]) -> tuple[NDArray[np.float32], bool]:
    try:
        obs, terminated, truncated = one.step(action)
        return obs, terminated or truncated
    except Exception as error:
        raise RefusedError(f"step() with a random action raises {type(error).__name__}: {one_line(error)}") from None


def _random_rollout(one: Single, seed: int, steps: int) -> NDArray[np.float32]:
    """What is observed after each of some steps with random actions; an episode that ends is begun anew."""
    draw, shown, over = np.random.default_rng(seed), [], True
    size = int(np.prod(one.env.action_space.shape))
    for n in range(steps):
        if over:
            _begun(one, seed if n == 0 else int(draw.integers(2**31)))
        obs, over = _stepped(one, draw.uniform(-1, 1, size))
        shown.append(obs)
    return np.array(shown)


def _walk(one: Single, steps: int) -> tuple[NDArray[Any], NDArray[Any] | None, NDArray[Any] | None]:
    """What a random policy observes; and MuJoCo's positions and velocities at the same times, where there are any."""
    draw, shown, qpos, qvel, over = np.random.default_rng(0), [], [], [], True
    size = int(np.prod(one.env.action_space.shape))
    for n in range(steps):
        if over:
            _begun(one, n)
        obs, over = _stepped(one, draw.uniform(-1, 1, size))
        shown.append(obs)
        if _model(one.env) is not None:
            qpos.append(np.array(one.env.unwrapped.data.qpos))
            qvel.append(np.array(one.env.unwrapped.data.qvel))
    return (np.array(shown), np.array(qpos), np.array(qvel)) if qpos else (np.array(shown), None, None)


def _model(env: Any) -> Any:
    """MuJoCo's model, of environments that have one where Gymnasium's own do."""
    inner = env.unwrapped
    model = getattr(inner, "model", None)
    return model if hasattr(model, "jnt_qposadr") and hasattr(getattr(inner, "data", None), "qpos") else None


def _recognised(env: Any, shown: NDArray[Any], qpos: NDArray[Any] | None, qvel: NDArray[Any] | None) -> dict[str, Any]:
    """Names of entries and groups, found in a MuJoCo model by what the entries were when random actions moved it.

    The position is where the root body stands: the first two coordinates of a free joint, or the horizontal slides of
    a root. Where the environment does not observe it, it is `added`, in front of all else.
    """
    size = shown.shape[1]
    if qpos is None or qvel is None:
        names = [f"s{n + 1}" for n in range(size)]
        return {"added": [], "groups": {}, "names": names, "qpos": [], "qvel": []}
    model = _model(env)
    place, turn = _root(model, np.abs(qvel).max(axis=0) > 0)
    of_qpos, of_qvel = _matches(shown, qpos), _matches(shown, qvel)
    missing = [i for i in place if of_qpos[i] < 0]
    added = place if missing else []
    more = len(added)
    of_qpos, of_qvel = ([e + more if e >= 0 else -1 for e in entries] for entries in (of_qpos, of_qvel))
    for n, i in enumerate(added):
        of_qpos[i] = n
    names = [f"s{n + 1}" for n in range(size + more)]
    for kind, entries, words in (("", of_qpos, _joints(model, True)), (" velocity", of_qvel, _joints(model, False))):
        for i, entry in enumerate(entries):
            if entry >= 0:
                names[entry] = f"{words[i]}{kind}"
    groups: dict[str, list[int]] = {"position": [of_qpos[i] for i in place]} if place else {}
    if turn and all(of_qpos[i] >= 0 for i in turn):
        groups["orientation"] = [of_qpos[i] for i in turn]
    for name, entries, out in (("joints", of_qpos, {*place, *turn}), ("velocities", of_qvel, set())):
        if seen := [entry for i, entry in enumerate(entries) if entry >= 0 and i not in out]:
            groups[name] = seen
    found = {"added": added, "groups": groups, "names": names, "qpos": of_qpos, "qvel": of_qvel}
    return found


def _matches(shown: NDArray[Any], coordinates: NDArray[Any]) -> list[int]:
    """For each coordinate the entry of the observation that was always the same, perhaps clipped; -1 if none was."""
    found, most = [], np.abs(shown).max(axis=0)
    for column in np.asarray(coordinates, np.float32).T:
        clipped = np.clip(column[:, None], -most, most)
        varies = np.ptp(clipped, axis=0) > 0
        same: Any = np.flatnonzero((shown == clipped).all(axis=0) & varies)
        found.append(int(same[0]) if len(same) else -1)
    return found


FREE, SLIDE, HINGE = 0, 2, 3
"""MuJoCo's numbers of kinds of joints (mjtJoint)."""


def _root(model: Any, moves: NDArray[np.bool_]) -> tuple[list[int], list[int]]:
    """Entries of qpos that say where the root body stands on the plane (or line), and how it is turned.

    Bodies that random actions do not move, such as the mark of a goal, are no roots; `moves` is of qvel.
    """
    for joint in range(model.njnt):
        if model.jnt_type[joint] == FREE and moves[model.jnt_dofadr[joint]]:
            at = int(model.jnt_qposadr[joint])
            return [at, at + 1], [at + 3, at + 4, at + 5, at + 6]
    roots = [j for j in range(model.njnt) if model.body_parentid[model.jnt_bodyid[j]] == 0]
    flat = [j for j in roots if model.jnt_type[j] == SLIDE and abs(model.jnt_axis[j][2]) < 0.01]
    flat = [j for j in flat if moves[model.jnt_dofadr[j]]]
    if not flat:
        return [], []
    body = model.jnt_bodyid[flat[0]]
    flat = [j for j in flat if model.jnt_bodyid[j] == body][:2]
    pitch = [j for j in roots if model.jnt_type[j] == HINGE and model.jnt_bodyid[j] == body]
    pitch = [j for j in pitch if abs(model.jnt_axis[j][2]) < 0.01]
    return [int(model.jnt_qposadr[j]) for j in flat], [int(model.jnt_qposadr[j]) for j in pitch[:1]]


def _joints(model: Any, places: bool) -> list[str]:
    """A name for every entry of qpos, or of qvel."""
    said: list[str] = []
    for joint in range(model.njnt):
        name, kind = model.joint(joint).name or f"joint {joint}", int(model.jnt_type[joint])
        if kind == FREE:
            turn = [
                f"{name} {part}" for part in (("qw", "qx", "qy", "qz") if places else ("turn x", "turn y", "turn z"))
            ]
            said += [*(f"{name} {axis}" for axis in "xyz"), *turn]
        elif kind in (SLIDE, HINGE):
            said.append(name)
        else:
            said += [f"{name} {part}" for part in (("qw", "qx", "qy", "qz") if places else ("x", "y", "z"))]
    return said
