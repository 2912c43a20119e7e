"""The clock of the simulation: a thread that steps it in real time while somebody watches, and sleeps otherwise."""

import collections
import queue
import threading
import time
from collections.abc import Callable

from wanderlust.report.explorer.simulation import Simulation

FRAME = 1 / 30
"""Seconds between two drawings, at least."""
BEHIND = 0.25
"""Seconds that the simulation may be late before it stops trying to catch up."""
WINDOW = 2.0
"""Seconds over which the pace is measured."""


class Loop:
    """Steps a simulation on a thread of its own. Only this thread touches the simulation: others `ask` it to."""

    def __init__(self, simulation: Simulation, draw: Callable[[Simulation], None]) -> None:
        self.simulation, self.speed = simulation, 1.0
        self.failure: BaseException | None = None
        self.over = threading.Event()
        """Set when the thread has ended, by `stop` or by an error (`failure`)."""
        self._draw = draw
        self._asked: queue.SimpleQueue[Callable[[Simulation], None] | None] = queue.SimpleQueue()
        self._watched = threading.Event()
        self._stopping = False
        self._pace: collections.deque[tuple[float, float]] = collections.deque()
        self._thread = threading.Thread(target=self._run, name="explorer", daemon=True)

    def start(self) -> None:
        """Begin; nothing moves until somebody watches."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self._stopping = True
        self._watched.set()
        self._asked.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    def watch(self, anybody: bool) -> None:
        """Say whether anybody watches."""
        if anybody:
            self._watched.set()
        else:
            self._watched.clear()
            self._asked.put(None)

    def ask(self, what: Callable[[Simulation], None]) -> None:
        """Have something done to the simulation before its next step."""
        self._asked.put(what)

    @property
    def pace(self) -> float | None:
        """Simulated seconds per second of late; None while too little is known."""
        pairs = list(self._pace)
        if self.simulation.paused or len(pairs) < 2 or pairs[-1][0] - pairs[0][0] < 0.2 * WINDOW:
            return None
        return (pairs[-1][1] - pairs[0][1]) / (pairs[-1][0] - pairs[0][0])

    # --- on the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._watched.wait()
                self._pace.clear()
                self._while_watched()
        except BaseException as failure:  # the thread that waits for `over` raises it
            self.failure = failure
        finally:
            self.over.set()

    def _while_watched(self) -> None:
        due, drawn, simulated = time.perf_counter(), 0.0, 0.0
        while self._watched.is_set() and not self._stopping:
            now = time.perf_counter()
            if self.simulation.paused:
                due = now + FRAME
            elif now >= due:
                due = max(due, now - BEHIND) + self.simulation.mechanics.seconds / self.speed
                self.simulation.step()
                simulated += self.simulation.mechanics.seconds
                self._measured(now, simulated)
            late = time.perf_counter() >= due
            if time.perf_counter() - drawn >= FRAME and (not late or time.perf_counter() - drawn >= 3 * FRAME):
                drawn = time.perf_counter()
                self._draw(self.simulation)
            self._answer(max(0.0, due - time.perf_counter()))

    def _measured(self, now: float, simulated: float) -> None:
        self._pace.append((now, simulated))
        while self._pace and now - self._pace[0][0] > WINDOW:
            self._pace.popleft()

    def _answer(self, wait: float) -> None:
        """Do what was asked for; wait that long for more, if there is nothing."""
        try:
            what = self._asked.get(timeout=wait) if wait > 0 else self._asked.get_nowait()
            while True:
                if what is not None:
                    what(self.simulation)
                what = self._asked.get_nowait()
        except queue.Empty:
            return
