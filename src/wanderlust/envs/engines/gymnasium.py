"""The engine `gymnasium`: environments that keep their state to themselves, in processes of their own.

Such an environment cannot be set to a state. A `WorldState` holds what it showed last, and that it is where the state
says is checked at every step: a state goes on in the world it came from, or it is a fresh start, of which the seed is
known. The process then resets its environment with that seed, and steps.
"""

import contextlib
import os
import subprocess
import sys
import time
import weakref
from multiprocessing.connection import Connection, Pipe
from typing import Any, NamedTuple, Protocol, runtime_checkable

import gymnasium
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import NDArray

from wanderlust.config import EngineName
from wanderlust.envs.base import World, WorldState
from wanderlust.envs.devices import cores
from wanderlust.envs.engines.base import Engine
from wanderlust.errors import UserError
from wanderlust.outside.process import BEGIN, SKIP, STEP, answer, receive, send

LONGEST_START = 300.0
"""Seconds that a process may take to begin, or to look at an environment."""
AT_ONCE = 64
"""Episodes that are played side by side when whole ones are looked at."""
OVER, CUT, AGE, SEED = -4, -3, -2, -1
"""Where a state has, behind the observation: terminated, truncated, steps since its start, and the seed of that."""


class EnvRequest(NamedTuple):
    """Which environments to step, and how."""

    name: str
    kwargs: dict[str, Any]
    added: list[int]
    here: bool
    """In this process, since no other knows the id."""
    patience: float
    """Seconds that a step may take."""
    restarts: int
    """How many environments may be restarted before the run stops."""


@runtime_checkable
class Outside(World, Protocol):
    """A world whose environments are Gymnasium's."""

    @property
    def asked(self) -> EnvRequest: ...


class Worker:
    """A process with a share of the worlds, or the same in this process."""

    def __init__(self, here: bool = False) -> None:
        self._share: Any = None
        self._line: Connection | None = None
        self._said: dict[str, Any] | None = None
        if here:
            return
        self._line, theirs = Pipe()
        known = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "wanderlust.outside.process", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": known},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # what goes wrong comes back as an answer
            start_new_session=True,  # Ctrl-C reaches the command alone
        )
        theirs.close()
        self.close = weakref.finalize(self, _end, self._process, self._line)

    def send(self, message: dict[str, Any]) -> None:
        """Ask for something; in this process it is carried out at once."""
        if self._line is None:
            self._share, self._said = answer(self._share, message)
            return
        with contextlib.suppress(OSError):  # which the answer will tell
            send(self._line, message)

    def receive(self, until: float) -> dict[str, Any] | None:
        """The answer; None if the process has died, or says nothing until then."""
        if self._line is None:
            return self._said
        try:
            return receive(self._line) if self._line.poll(max(0.0, until - time.monotonic())) else None
        except (EOFError, OSError):
            return None

    def ask(self, message: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """Both."""
        self.send(message)
        return self.receive(time.monotonic() + seconds)

    def stop(self) -> None:
        """End the process."""
        if self._line is not None:
            self.close()
        elif self._share is not None:
            self._share.close()


def _end(process: "subprocess.Popen[bytes]", line: Connection) -> None:
    line.close()
    process.kill()
    process.wait()


class GymnasiumEngine(Engine):
    """Steps environments in as many processes as there are cores. One that raises or hangs is restarted."""

    name: EngineName = "gymnasium"
    compiles = False
    stateful = True

    def __init__(self, world: Outside) -> None:
        self._world, self._asked = world, world.asked
        self._workers: list[Worker] = []
        self._last: Any = None
        """The states handed out last; nothing before the first step."""
        self._looking: GymnasiumEngine | None = None
        self._news: list[str] = []
        self._restarts = 0

    def for_episodes(self) -> "GymnasiumEngine":
        """An engine of its own for whole episodes: the worlds of this one stay where they are."""
        if self._looking is None:
            self._looking = GymnasiumEngine(self._world)
            self._looking.at_once = AT_ONCE
            self._looking._news = self._news
        return self._looking

    @property
    def restarts(self) -> int:
        return self._restarts + (self._looking.restarts if self._looking else 0)

    def news(self) -> list[str]:
        found = self._news.copy()
        self._news.clear()
        return found

    def step(self, state: WorldState, action: Float[Array, "worlds action"]) -> WorldState:
        before = np.asarray(state.physics, np.float32)
        moves: Any = np.asarray(action, np.float32)
        fresh, over = before[:, AGE] == 0, (before[:, OVER] > 0) | (before[:, CUT] > 0)
        what: Any = np.where(over, SKIP, np.where(fresh, BEGIN, STEP)).astype(np.int8)
        self._check_known(before, what == STEP)
        after: Any = before.copy()
        deadline = time.monotonic() + self._asked.patience
        parts = np.array_split(np.arange(len(before)), self._open(len(before)))
        for worker, mine in zip(self._workers, parts, strict=True):
            given = {"what": what[mine], "seed": before[mine, SEED].astype(np.int64), "action": moves[mine]}
            worker.send({"do": "step", "obs": before[mine, :OVER], **given})
        for n, (worker, mine) in enumerate(zip(self._workers, parts, strict=True)):
            said = worker.receive(deadline)
            acted = what[mine] != SKIP
            if said is None:
                self._restart(n)
                after[mine[acted], CUT] = 1.0
                continue
            after[mine, :OVER] = said["obs"]
            after[mine, OVER : CUT + 1] = np.where(acted[:, None], said["over"], before[mine, OVER : CUT + 1])
            for world, reason in said["failed"].items():
                self._failed(f"world {mine[int(world)]} raised {reason}", "it was restarted")
        after[what != SKIP, AGE] += 1.0
        self._last = after
        sensors: Any = np.asarray(state.sensors)
        return WorldState(after, sensors)

    def step_running(
        self, state: WorldState, action: Float[Array, "worlds action"], running: Bool[Array, " worlds"]
    ) -> WorldState:
        """The environments of the other worlds are left alone."""
        physics: Any = np.array(state.physics, np.float32)
        physics[~np.asarray(running), CUT] = 1.0
        return self.step(state._replace(physics=physics), action)

    def _check_known(self, before: NDArray[np.float32], going_on: NDArray[np.bool_]) -> None:
        """Refuse states that are not those the environments are in."""
        if not going_on.any():
            return
        known = self._last is not None and self._last.shape == before.shape
        if not known or not np.array_equal(self._last[going_on], before[going_on]):
            raise UserError(
                f"{self._world.spec.name} cannot be set to a state: a Gymnasium environment only goes on from where it "
                "is; what jumps between states needs a world of MuJoCo's (`wanderlust list`)"
            )

    def _open(self, worlds: int) -> int:
        """Have as many processes as it takes for so many worlds; how many there are."""
        count = 1 if self._asked.here else min(cores(), worlds)
        if len(self._workers) != count or (self._last is not None and len(self._last) != worlds):
            for worker in self._workers:
                worker.stop()
            self._workers = [self._started() for _ in range(count)]
        return count

    def _started(self) -> Worker:
        worker, asked = Worker(self._asked.here), self._asked
        said = worker.ask(
            {"do": "open", "name": asked.name, "kwargs": asked.kwargs, "added": asked.added}, LONGEST_START
        )
        if said is None:
            raise UserError(f"{self._world.spec.name}: a process for its environments does not start")
        return worker

    def _restart(self, n: int) -> None:
        """Begin a process anew that has died or hangs, with all its worlds."""
        self._workers[n].stop()
        self._workers[n] = self._started()
        patience = f"has died, or said nothing for {self._asked.patience:g} s"
        self._failed(f"process {n} {patience}", "it was restarted with all its worlds")

    def _failed(self, what: str, done: str) -> None:
        self._restarts += 1
        most = self._asked.restarts
        self._news.append(f"{self._world.spec.name}: {what}; {done} ({self._restarts} of at most {most} restarts)")
        if self._restarts > most:
            for worker in self._workers:
                worker.stop()
            self._workers, self._last = [], None
            raise UserError(
                f"{self._world.spec.name}: {what}; that is more than {most} restarts (--env.restarts), so it is the "
                "environment that needs attention"
            )


def examined(name: str, kwargs: dict[str, Any], **amounts: int) -> tuple[dict[str, Any], bool]:
    """What `outside.examine` finds in a process of its own; or in this one, if no other knows the id. And which."""
    message = {"do": "examine", "name": name, "kwargs": kwargs, **amounts}
    said, here = _asked(message), False
    if said.get("unregistered") and name in gymnasium.registry:
        said, here = _asked(message, here=True), True
    if "refused" in said:
        raise UserError(f"gymnasium:{name}: {said['refused']}")
    return said, here


def _asked(message: dict[str, Any], here: bool = False) -> dict[str, Any]:
    worker = Worker(here)
    try:
        said = worker.ask(dict(message), LONGEST_START)
    finally:
        worker.stop()
    if said is None:
        raise UserError(
            f"gymnasium:{message['name']}: it says nothing for {LONGEST_START:g} s, or its process has died"
        )
    return said
