"""Statistics of a random policy in any Gymnasium environment, single or vector."""

import contextlib
import copy
from collections.abc import Iterable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from wanderlust.envs.statistics import Statistics, check_amounts
from wanderlust.errors import UserError
from wanderlust.gym.base import autoreset_mode_of
from wanderlust.rl.moments import Moments

AnyEnv = gymnasium.Env[Any, Any]
AnyVectorEnv = VectorEnv[Any, Any, Any]


def gym_statistics(
    env: str | AnyEnv | AnyVectorEnv, rollouts: int = 10_000, steps: int = 50, seed: int = 0
) -> Statistics:
    """Mean and standard deviation of every entry of the observation while actions are drawn from the action space.

    Over the observations after each step; those that episodes start with do not count. A rollout is `steps` steps from
    a fresh start. An episode that ends before is begun anew, and the step that ended it counts like any other. A vector
    environment steps its worlds side by side, and rollouts are rounded up to whole batches of them. An entry that never
    changes gets the deviation 1, so that it can be divided by; entries of an image come in the order of `ravel`.

    An environment that is handed over is reseeded, left where its last step led it, and not closed.
    """
    check_amounts(rollouts, steps, seed)
    if seed < 0:
        raise UserError(f"seed is {seed}; Gymnasium takes none below 0")
    if isinstance(env, str):
        with contextlib.closing(_make(env)) as made:
            return gym_statistics(made, rollouts, steps, seed)
    name = _checked_name(env)

    # Seeds of their own: from equal ones, starts and actions would be the same draws. And a copy of the action space,
    # so that the user's own goes on drawing where it was.
    start_seed, action_seed = (int(s) for s in np.random.SeedSequence(int(seed)).generate_state(2))
    actions = copy.deepcopy(env.action_space)
    actions.seed(action_seed)
    moments, origin = moments_in_batches(_visited(env, name, actions, rollouts, steps, start_seed))
    if not np.all(np.isfinite(moments.variance)):
        raise UserError(
            f"normalise: a random policy led {name} to where its observation is not finite or too large to be squared"
        )
    std = np.sqrt(moments.variance)
    std[std == 0.0] = 1.0
    return tuple((origin + moments.mean).tolist()), tuple(std.tolist())


def moments_in_batches(batches: Iterable[NDArray[np.float64]]) -> tuple[Moments, NDArray[np.float64]]:
    """Mean and variance of states that come in batches of any size, and the first state, from which both count.

    An entry that never changes has then exactly the variance zero, whatever its value.
    """
    zero: Any = np.zeros(1)
    count, moments = 0, Moments(zero, zero)
    origin: Any = None
    for states in filter(len, batches):
        origin = states[0].copy() if origin is None else origin
        count += len(states)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is reported at the end
            shifted = states - origin
            new = Moments(shifted.mean(axis=0), shifted.var(axis=0))
            moments = moments.merge(new, share=len(states) / count)
    return moments, origin


def _visited(
    env: AnyEnv | AnyVectorEnv, name: str, actions: spaces.Space[Any], rollouts: int, steps: int, seed: int
) -> Iterator[NDArray[np.float64]]:
    """What an environment shows after each step, in batches of the worlds that made one, whatever its autoreset mode.

    A step that only begins an episode (the next-step mode has such) shows a start, which does not count; its world
    makes up for it, so that all of them give the same number of states. A single environment is one world, which is
    reset by hand.
    """
    worlds, mode = 1, AutoresetMode.DISABLED
    if isinstance(env, VectorEnv):
        said: Any = env.metadata.get("autoreset_mode")
        worlds, mode = env.num_envs, autoreset_mode_of(f"normalise: metadata of {name}", said)
    for batch in range(-(-rollouts // worlds)):
        env.reset(seed=seed if batch == 0 else None)
        over = np.zeros(worlds, bool)
        left = np.full(worlds, steps)
        while (left > 0).any():
            if mode is AutoresetMode.DISABLED and over.any():
                begin: dict[str, Any] = {"options": {"reset_mask": over}} if isinstance(env, VectorEnv) else {}
                env.reset(**begin)
            obs, _, terminated, truncated, infos = env.step(actions.sample())
            begun = over if mode is AutoresetMode.NEXT_STEP else np.zeros(worlds, bool)
            over = np.atleast_1d(np.asarray(terminated, bool) | np.asarray(truncated, bool))
            states = np.array(obs, np.float64).reshape(worlds, -1)
            if mode is AutoresetMode.SAME_STEP:  # the worlds that are over show their next start already
                for k in np.flatnonzero(over).tolist():
                    states[k] = _last(name, infos, k)
            counts = (left > 0) & ~begun
            left -= counts
            yield states[counts]


def _last(name: str, infos: dict[str, Any], world: int) -> NDArray[np.float64]:
    """What a world showed in the step that ended its episode and began the next."""
    last = infos["final_obs"][world] if "final_obs" in infos else None
    if last is None:
        raise UserError(f"normalise: {name} begins episodes in the same step, but left no infos['final_obs']")
    return np.ravel(np.asarray(last, np.float64))


def _make(name: str) -> AnyEnv:
    try:
        return gymnasium.make(name, disable_env_checker=True)
    except (gymnasium.error.Error, ImportError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"normalise: {name!r} is no world of ours, and Gymnasium cannot make it: {reason}") from None


def _checked_name(env: Any) -> str:
    """What to call an environment, if it is one whose observations are vectors."""
    if not isinstance(env, VectorEnv | gymnasium.Env):
        kind = type(env).__name__
        raise UserError(f"normalise: env is of type {kind}; it must be a name, a gymnasium.Env or a VectorEnv")
    observation = env.single_observation_space if isinstance(env, VectorEnv) else env.observation_space
    name: str = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    if not isinstance(observation, spaces.Box):
        raise UserError(
            f"normalise: {name} observes a {type(observation).__name__}; it must be a Box, "
            "such as Gymnasium's wrapper FlattenObservation makes"
        )
    return name
