"""Grids small enough to train within seconds."""

import json
from collections import deque

from wanderlust.sweeps.attempt import FINISHED, Ending

TINY = {
    "env": {"episode_length": 5},
    "sac": {"hidden": [16, 16]},
    "method": {"hidden": [16, 16]},
    "schedule": {"worlds": 4, "steps": 5, "sac_steps": 2, "sac_batch": 16, "method_steps": 2, "learn_from": 1},
    "log_every": 2,
    "checkpoint_every": 2,
}


def tiny_grid(epochs=4, **words):
    """A grid on PointEnv as a mapping."""
    changes = {**TINY, "schedule": {**TINY["schedule"], "epochs": epochs}}
    return {"methods": ["lsd"], "worlds": ["point"], "set": changes, "episodes": 20, **words}


def attempts(folder):
    """The lines of attempts.jsonl: which run, and how it ended."""
    rows = map(json.loads, (folder / "attempts.jsonl").read_text().splitlines())
    return [(row["run"], row["reason"]) for row in rows]


class Scripted:
    """A place whose attempts end as a script says, one a turn; `finished` where it says nothing more."""

    about = "scripted"

    def __init__(self, size=1, **script):
        self.size, self.started, self.stops, self.closed = size, [], [], False
        self._script = {name: deque(ends) for name, ends in script.items()}
        self._running = deque()

    def start(self, order):
        self.started.append(order.name)
        self._running.append(order.name)
        assert len(self._running) <= self.size

    def wait(self, seconds):
        if not self._running:
            return {}
        name = self._running.popleft()
        ends = self._script.get(name)
        return {name: Ending(*ends.popleft()) if ends else Ending(FINISHED)}

    def stop(self, at_once):
        self.stops.append(at_once)

    def close(self):
        self.closed = True
