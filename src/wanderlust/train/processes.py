"""A crew of processes: whoever is free moves some of the worlds, and all share memory with the one that learns.

A step takes less than a millisecond. Threads of one interpreter that meet twice in it wait for each other, and for the
threads of the engine to wake up; a process moves its worlds for many steps before it waits for anyone.
"""

import collections
import contextlib
import dataclasses
import json
import mmap
import os
import selectors
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
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that learns
answers = os.fdopen(os.dup(1), "wb", buffering=0)
os.dup2(2, 1)  # what a library prints is no answer
from wanderlust.train.processes import move_worlds
move_worlds(answers)
"""
STEPS_AT_ONCE = 25
"""Steps that worlds are moved before whoever is free takes them on: cores are not equally fast, nor always free."""


class Processes:
    """Worlds in lines of a few, which processes take on in turns."""

    def __init__(self, parts: Parts, members: int, each: int) -> None:
        """Start so many, for lines of `each` worlds. They take seconds, which the first collection waits."""
        if parts.hold:
            raise ValueError("processes know nothing of orders that change within an episode")
        if parts.config.schedule.worlds % each:
            raise ValueError(f"{parts.config.schedule.worlds} worlds cannot be had in lines of {each}")
        path = _shared_file(parts)
        self._members: list[subprocess.Popen[bytes]] = []
        self._end = weakref.finalize(self, _end, self._members, path)
        self._board, self._lines = open_board(parts, path), parts.config.schedule.worlds // each
        config = to_json(dataclasses.replace(parts.config, engine=parts.engine.name))
        for member in range(members):
            self._members.append(_start())
            _tell(self._members[-1], json.dumps([config, str(path), os.getpid() + member, each]))
        self._path: Path | None = path

    def collect(self, actor: Actor, steps: int, desk: Desk, draws: Draws) -> Log:
        """What happens in so many steps from this first turn."""
        if not self._end.alive:
            raise RuntimeError("the processes that move worlds have ended")
        board = self._board
        try:
            if self._path is not None:
                for member in self._members:
                    self._hear(member, "ready")
                self._path.unlink()  # everyone has it open: nothing is left behind, however this ends
                self._path = None
            given = jax.device_get([*jax.tree.leaves(actor), draws.turns, desk.turn])
            for place, x in zip([*board.actor, board.draws, board.turn], given, strict=True):
                place[...] = x
            self._share_out(steps)
        except BaseException:  # Ctrl-C, too: an answer that nobody waited for would be taken for that to the next order
            self.close()
            raise
        return Log(board.turns[:steps].copy(), board.after[:steps].copy(), board.turn.copy())

    def _share_out(self, steps: int) -> None:
        """Have all lines moved through so many steps: the one that has waited longest, by the one that has."""
        waiting = collections.deque((line, 0) for line in range(self._lines))
        free = collections.deque(self._members)
        at_work: dict[subprocess.Popen[bytes], tuple[int, int]] = {}
        with selectors.DefaultSelector() as answers:
            for member in self._members:
                answers.register(_stream(member.stdout), selectors.EVENT_READ, member)
            while waiting or at_work:
                while waiting and free:
                    line, begin = waiting.popleft()
                    end = min(begin + STEPS_AT_ONCE, steps)
                    _tell(free[0], f"{line} {begin} {end}")
                    at_work[free.popleft()] = line, end
                for key, _ in answers.select():
                    self._hear(key.data, "done")
                    line, end = at_work.pop(key.data)
                    free.append(key.data)
                    if end < steps:
                        waiting.append((line, end))

    def close(self) -> None:
        """End them. To forget this object does so, too."""
        self._end()

    def _hear(self, member: subprocess.Popen[bytes], word: str) -> None:
        """Wait until it has said this."""
        if _stream(member.stdout).readline().decode().strip() != word:
            self.close()  # which waits for it: now there is a code
            raise UserError(
                f"a process that moves worlds has ended (exit code {member.returncode}; "
                "-9 is often a lack of memory); wanderlust discover --resume RUN goes on from the last checkpoint"
            )


# --- what is shared ------------------------------------------------------------------------------------------------


class Board(NamedTuple):
    """Arrays in shared memory; everyone who has the parts knows where they are."""

    actor: list[Any]
    """What chooses actions: written before a collection, as are the next two."""
    draws: Any
    """All that is random (`Draws.turns`)."""
    turn: Any
    """Where worlds stand: the first turn of a collection, and in the end the last."""
    turns: Any
    """Written by those who move worlds: what `Log` has."""
    after: Any

    def of_line(self, line: int, each: int) -> "Board":
        """The same with the worlds of one line."""
        some = slice(line * each, (line + 1) * each)
        draws, turns, after = (x[:, :, some] for x in (self.draws, self.turns, self.after))
        return Board(self.actor, draws, self.turn[:, some], turns, after)


def _forms(parts: Parts) -> list[jax.ShapeDtypeStruct]:
    """Shapes and types of a board's arrays, in order."""
    schedule, cuts = parts.config.schedule, turn_cuts(parts)
    turn = (parts.config.seeds, schedule.worlds, cuts.start + 1 + parts.world.spec.action_dim)
    after = (*turn[:2], cuts.state)
    shapes = ((schedule.steps, *turn), turn, (schedule.steps, *turn), (schedule.steps, *after))
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
    return Board(arrays[:-4], *arrays[-4:])


# --- one of them ---------------------------------------------------------------------------------------------------


def _start() -> subprocess.Popen[bytes]:
    path = os.pathsep.join(x or str(Path.cwd()) for x in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM],  # -P: modules come from where this process has them, and nowhere else
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path},
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
    lines = sys.stdin.buffer
    if not (first := lines.readline()):
        return  # whoever started it has ended
    config, path, place, each = json.loads(first)
    _stay_on_core(place)
    devices.prepare(1)
    parts = assemble(from_json(RunConfig, config, "the configuration"))
    collector = Collector(parts, make_engine(parts.world, parts.config.engine, threads=1))
    try:
        whole, structure = open_board(parts, Path(path)), jax.tree.structure(_actor_form(parts))
    except FileNotFoundError:
        return  # whoever started it has ended meanwhile
    answers.write(b"ready\n")
    for order in lines:
        line, begin, end = (int(word) for word in order.split())
        actor = jax.tree.unflatten(structure, jax.device_put(whole.actor))  # which copies nothing, if it can
        board = whole.of_line(line, each)
        desk, draws = Desk(jnp.int32(begin), jnp.array(board.turn)), Draws(jnp.array(board.draws), ())
        board.turns[begin:end], board.after[begin:end], board.turn[...] = collector(actor, end - begin, desk, draws)
        answers.write(b"done\n")


def _stay_on_core(place: int) -> None:
    """One core each: XLA then starts one thread, not as many as there are cores, and wakes up nobody elsewhere.

    Neighbours have neighbouring places; where they begin differs from run to run, so that runs do not crowd together.
    """
    if hasattr(os, "sched_setaffinity"):
        mine = sorted(os.sched_getaffinity(0))
        with contextlib.suppress(OSError):  # some systems forbid it; it is only quicker
            os.sched_setaffinity(0, {mine[place % len(mine)]})
