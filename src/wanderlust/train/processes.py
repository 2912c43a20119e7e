"""A crew of processes: each moves some of the worlds, and all share a piece of memory with the one that learns.

A step takes less than a millisecond. Threads of one interpreter that meet twice in it wait for each other, and for the
threads of the engine to wake up; processes have nothing to wait for until a collection is over.
"""

import contextlib
import dataclasses
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wanderlust import devices
from wanderlust.config import RunConfig, from_json, to_json
from wanderlust.envs import make_engine
from wanderlust.errors import UserError
from wanderlust.train.state import Actor, Parts, assemble, init, sampler
from wanderlust.train.turns import Collector, Desk, Draws, Log, turn_cuts

CACHE_LINE = 64
"""Bytes; arrays begin at multiples of it."""
PATIENCE = 5.0
"""Seconds that a process has to end once it was told to."""
PROGRAM = """
import os
answers = os.fdopen(os.dup(1), "wb", buffering=0)
os.dup2(2, 1)  # what a library prints is no answer
from wanderlust.train.processes import move_worlds
move_worlds(answers)
"""
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
"""For XLA: the cores belong to the other processes."""


class Processes:
    """Groups of worlds, each in a process of its own."""

    def __init__(self, parts: Parts, groups: int, threads: int = 1) -> None:
        """Start them; each moves its worlds by so many threads. They take seconds, which the first collection waits."""
        if parts.hold:
            raise ValueError("processes know nothing of orders that change within an episode")
        path = _shared_file(parts)
        self._members: list[subprocess.Popen[bytes]] = []
        self._end = weakref.finalize(self, _end, self._members, path)
        self._board = open_board(parts, path)
        config = to_json(dataclasses.replace(parts.config, engine=parts.engine.name))
        for group in range(groups):
            self._members.append(_start())
            _tell(self._members[-1], json.dumps([config, str(path), group, groups, threads]))
        self._path: Path | None = path

    def collect(self, actor: Actor, steps: int, desk: Desk, draws: Draws) -> Log:
        """What happens in so many steps from this first turn."""
        if not self._end.alive:
            raise RuntimeError("the processes that move worlds have ended")
        try:
            if self._path is not None:
                self._hear_all("ready")
                self._path.unlink()  # everyone has it open: nothing is left behind, however this ends
                self._path = None
            given = jax.device_get([*jax.tree.leaves(actor), desk.turn, draws.turns])
            for place, x in zip(self._board.given, given, strict=True):
                place[...] = x
            for member in self._members:
                _tell(member, str(steps))
            self._hear_all("done")
        except BaseException:  # Ctrl-C, too: an answer that nobody waited for would be taken for that to the next order
            self.close()
            raise
        log = self._board.log
        return Log(log.turns[:steps].copy(), log.after[:steps].copy(), log.last.copy())

    def close(self) -> None:
        """End them. To forget this object does so, too."""
        self._end()

    def _hear_all(self, word: str) -> None:
        """Wait until each has said this."""
        for member in self._members:
            if _stream(member.stdout).readline().decode().strip() != word:
                self.close()  # which waits for it: now there is a code
                raise UserError(
                    f"a process that moves worlds has ended (exit code {member.returncode}; "
                    "-9 is often a lack of memory); wanderlust discover --resume RUN goes on from the last checkpoint"
                )


# --- what is shared ------------------------------------------------------------------------------------------------


class Board(NamedTuple):
    """Arrays in shared memory; everyone who has the parts knows where they are."""

    given: list[Any]
    """Written before a collection: what chooses actions, the first turn, and all that is random (`Draws.turns`)."""
    log: Log
    """Written by those who move worlds."""

    def of_group(self, group: int, groups: int) -> "Board":
        """The same with some of the worlds only."""
        *actor, turn, draws = self.given
        size = turn.shape[1] // groups
        some = slice(group * size, (group + 1) * size)
        log = Log(self.log.turns[:, :, some], self.log.after[:, :, some], self.log.last[:, some])
        return Board([*actor, turn[:, some], draws[:, :, some]], log)


def _forms(parts: Parts) -> list[jax.ShapeDtypeStruct]:
    """Shapes and types of a board's arrays, in order."""
    schedule, cuts = parts.config.schedule, turn_cuts(parts)
    turn = (parts.config.seeds, schedule.worlds, cuts.start + 1 + parts.world.spec.action_dim)
    after = (*turn[:2], cuts.state)
    shapes = (turn, (schedule.steps, *turn), (schedule.steps, *turn), (schedule.steps, *after), turn)
    return [*jax.tree.leaves(_actor_form(parts)), *(jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes)]


def _actor_form(parts: Parts) -> Any:
    """What chooses actions, but for its numbers."""
    return jax.eval_shape(lambda: sampler(parts, init(parts).learner))


def _places(forms: list[jax.ShapeDtypeStruct]) -> list[int]:
    """Where each begins, and where the last ends."""
    sizes = [-(-form.size * form.dtype.itemsize // CACHE_LINE) * CACHE_LINE for form in forms]
    return [sum(sizes[:n]) for n in range(len(sizes) + 1)]


def _shared_file(parts: Parts) -> Path:
    """A file of the size of a board, in memory where the system has a folder for that with room in it."""
    size = _places(_forms(parts))[-1]
    for folder in ("/dev/shm", None):
        with contextlib.suppress(OSError):
            number, name = tempfile.mkstemp(prefix=f"wanderlust-{os.getpid()}-", dir=folder)
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(bytes(size))  # now: a full disk that is noticed later is a crash
            except OSError:
                os.unlink(name)
                raise
            return Path(name)
    raise UserError(
        f"no room for {size:,} bytes that processes share, neither in /dev/shm nor in {tempfile.gettempdir()}; "
        "make some, or let TMPDIR name a folder that has it"
    )


def open_board(parts: Parts, path: Path) -> Board:
    """The board in this file."""
    forms = _forms(parts)
    *places, end = _places(forms)
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    if len(memory) != end:
        raise RuntimeError(
            f"processes share {len(memory):,} bytes, and one of them needs {end:,}: JAX is set otherwise"
        )
    arrays = [np.ndarray(form.shape, form.dtype, memory, at) for form, at in zip(forms, places, strict=True)]
    return Board(arrays[:-3], Log(*arrays[-3:]))


# --- one of them ---------------------------------------------------------------------------------------------------


def _start() -> subprocess.Popen[bytes]:
    flags = f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD}".strip()
    path = os.pathsep.join(x or str(Path.cwd()) for x in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM],  # -P: modules come from where this process has them, and nowhere else
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "PYTHONPATH": path},
    )


def _tell(member: subprocess.Popen[bytes], line: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # it has ended, which will be noticed when nothing is heard of it
        _stream(member.stdin).write(line.encode() + b"\n")
        _stream(member.stdin).flush()


def _stream(pipe: Any) -> Any:
    assert pipe is not None, "asked for when the process was started"
    return pipe


def _end(members: list[subprocess.Popen[bytes]], path: Path) -> None:
    path.unlink(missing_ok=True)
    for member in members:
        with contextlib.suppress(BrokenPipeError):
            _stream(member.stdin).close()  # the end of what it reads is the end of its work
    last = time.monotonic() + PATIENCE
    for member in members:
        try:
            member.wait(max(0.0, last - time.monotonic()))
        except subprocess.TimeoutExpired:
            member.kill()
            member.wait()
        _stream(member.stdout).close()


def move_worlds(answers: BinaryIO) -> None:
    """The program of such a process: told by lines what to do, it answers by lines what it has done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that learns
    lines = sys.stdin.buffer
    if not (first := lines.readline()):
        return  # whoever started it has ended
    config, path, group, groups, threads = json.loads(first)
    devices.prepare(1)
    parts = assemble(from_json(RunConfig, config, "the configuration"))
    collector = Collector(parts, make_engine(parts.world, parts.config.engine, threads))
    board = open_board(parts, Path(path)).of_group(group, groups)
    structure = jax.tree.structure(_actor_form(parts))
    answers.write(b"ready\n")
    for line in lines:
        *actor, turn, draws = (jnp.array(x) for x in board.given)
        policy = jax.tree.unflatten(structure, actor)
        log = collector(policy, int(line), Desk(jnp.int32(0), turn), Draws(draws, ()))
        board.log.turns[: int(line)] = log.turns
        board.log.after[: int(line)] = log.after
        board.log.last[...] = log.last
        answers.write(b"done\n")
