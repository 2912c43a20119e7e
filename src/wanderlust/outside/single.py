"""One Gymnasium environment: actions in [-1, 1], and one vector of float32 as observation."""

import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

NO_LIMIT = 10**9
"""Steps: the time limit of a registration is lifted, since the run has its own."""
LARGEST = 1e10
"""Beyond this, or if it is not a number, an observation is refused."""


class RefusedError(Exception):
    """An environment that cannot be a world; the message is for the user."""


class UnregisteredError(RefusedError):
    """No environment has this id here."""


class Single:
    """One environment: actions in [-1, 1], observations as one vector, entries that it leaves out in front."""

    def __init__(self, name: str, kwargs: dict[str, Any], added: tuple[int, ...] = ()) -> None:
        """`added` are the entries of MuJoCo's qpos that come before what the environment observes itself."""
        self.env = make(name, kwargs)
        self._added = list(added)
        self._box: Any = self.env.action_space
        low, high = (np.asarray(x, np.float64) for x in (self._box.low, self._box.high))
        bounded = np.isfinite(low) & np.isfinite(high)
        self._middle = np.where(bounded, (high + low) / 2, 0.0)
        self._half = np.where(bounded, (high - low) / 2, 1.0)

    def begin(self, seed: int) -> NDArray[np.float32]:
        """Start the episode of a seed."""
        return self._observed(self.env.reset(seed=seed)[0])

    def step(self, action: NDArray[np.floating]) -> tuple[NDArray[np.float32], bool, bool]:
        """The observation after an action in [-1, 1], and whether the episode is over: terminated, truncated."""
        scaled = self._middle + self._half * np.clip(action, -1.0, 1.0).reshape(self._box.shape)
        obs, _, terminated, truncated, _ = self.env.step(scaled.astype(self._box.dtype))
        return self._observed(obs), bool(terminated), bool(truncated)

    def _observed(self, obs: Any) -> NDArray[np.float32]:
        own: Any = spaces.flatten(self.env.observation_space, obs)
        if self._added:
            data: Any = self.env.unwrapped.data
            own = np.concatenate([data.qpos[self._added], own])
        if not np.all(np.abs(own) < LARGEST):
            raise ValueError("it observes what is not a number, or beyond 1e10")
        return np.asarray(own, np.float32)


def make(name: str, kwargs: dict[str, Any]) -> Any:
    """The environment, without a time limit; `RefusedError` says why there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of older versions of an id, and the like
        try:
            return gymnasium.make(name, max_episode_steps=NO_LIMIT, disable_env_checker=True, **kwargs)
        except gymnasium.error.UnregisteredEnv as error:
            raise UnregisteredError(f"Gymnasium has no such environment: {one_line(error)}") from None
        except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
            raise RefusedError(f"it needs a package that is not installed: {one_line(error)}") from None
        except Exception as error:  # a stranger's code may raise anything
            raise RefusedError(f"it cannot be made: {type(error).__name__}: {one_line(error)}") from None


def one_line(error: BaseException) -> str:
    """What an error says."""
    return " ".join(str(error).split())
