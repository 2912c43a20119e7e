"""Gymnasium environments that go wrong in one way each, for a process that imports this file."""

import time

import gymnasium
import numpy as np
from gymnasium import spaces


class Drifts(gymnasium.Env):
    """A point that moves by its action, and counts its steps. It starts where its seed says."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = spaces.Box(np.float32([-2.0, 0.0]), np.float32([2.0, 1.0]))

    def __init__(self, ends=10**6, cuts=10**6):
        self.ends, self.cuts = ends, cuts

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.array([*self.np_random.normal(size=2), 0.0])
        return self.state, {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.state = self.state + np.array([*action, 1.0])
        return self.state, 0.0, bool(self.state[2] >= self.ends), bool(self.state[2] >= self.cuts), {}


class Raises(Drifts):
    """It raises in the fourth step of an episode whose first action is the largest."""

    def step(self, action):
        self.big = (self.state[2] > 0 and self.big) or action[0] >= 2.0
        if self.big and self.state[2] == 3:
            raise ValueError("out of\nreach")
        return super().step(action)


class Hangs(Drifts):
    def step(self, action):
        self.big = (self.state[2] > 0 and self.big) or action[0] >= 2.0
        if self.big and self.state[2] == 3:
            time.sleep(1000)
        return super().step(action)


class NoReset(Drifts):
    def reset(self, *, seed=None, options=None):
        raise RuntimeError("no simulator here")


class NotANumber(Drifts):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0] * np.nan, {}


class Unseeded(Drifts):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.random.normal(size=3)
        return self.state, {}


class Sees(Drifts):
    observation_space = spaces.Box(0, 255, (8, 8, 3), np.uint8)


class Parts(Drifts):
    """It observes a dictionary, one inside another."""

    observation_space = spaces.Dict(
        clock=spaces.Box(-np.inf, np.inf, (1,)),
        thing=spaces.Dict(at=spaces.Box(-np.inf, np.inf, (2,)), kind=spaces.Discrete(3)),
    )

    def _seen(self):
        kind = int(self.state[2]) % 3
        return {"thing": {"at": self.state[:2].astype(np.float32), "kind": kind}, "clock": self.state[2:].astype("f4")}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action):
        rest = super().step(action)[1:]
        return self._seen(), *rest


for _kind in (Drifts, Raises, Hangs, NoReset, NotANumber, Unseeded, Sees, Parts):
    gymnasium.register(f"{_kind.__name__}-v0", entry_point=_kind, max_episode_steps=7)
