"""A crew of processes that move worlds, for a desk on the GPU: all meet in shared memory.

A step of a world takes a fraction of a millisecond. Threads of one interpreter that meet twice in it wait for each
other, and for the threads of the engine to wake up. A process of this crew sleeps only between collections: it
watches a counter in shared memory, and moves a world as soon as it is told to. No world waits for another: those
that have arrived at the desk when it is free leave it together, whichever they are.

What one process writes others see in the order in which it was written: so it is on x86, and nowhere else by itself.
"""

import contextlib
import dataclasses
import json
import mmap
import os
import platform
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import jax
import numpy as np

from wanderlust import devices
from wanderlust.config import RunConfig, from_json, to_json
from wanderlust.envs import Physical, make_engine
from wanderlust.errors import UserError
from wanderlust.train.reception import Reception, reaches_host
from wanderlust.train.state import Actor, Parts, assemble
from wanderlust.train.turns import Desk, Draws, Log, turn_cuts, unpack

CACHE_LINE = 64
"""Bytes; arrays begin at multiples of it."""
PATIENCE = 5.0
"""Seconds that a process has to end once it was told to."""
LOOKS = 2_000
"""How often to look for something to do before others may have the core: for less than a millisecond where worlds are
moved, some milliseconds at the desk."""
PROGRAM = """
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the one that learns
answers = os.fdopen(os.dup(1), "wb", buffering=0)
os.dup2(2, 1)  # what a library prints is no answer
from wanderlust.train.processes import move_worlds
move_worlds(answers)
"""


def possible() -> bool:
    """Whether this machine's memory is such that processes and the device that learns can meet in it."""
    in_order = platform.machine() in ("x86_64", "AMD64")
    return in_order and hasattr(os, "memfd_create") and reaches_host(jax.devices()[0])


class Processes:
    """Worlds that go back and forth between the desk, here, and processes that move them."""

    def __init__(self, parts: Parts, members: int, desk_at: jax.Device | None = None) -> None:
        """Start so many, which takes seconds; the first collection waits for them. The desk is where learning is,
        unless it is said to be elsewhere.
        """
        self._members: list[subprocess.Popen[bytes]] = []
        self._end = weakref.finalize(self, _end, self._members)
        self._parts, self._desk_at, self._cuts = parts, desk_at, turn_cuts(parts)
        self._reception = Reception(parts, desk_at or jax.devices()[0])
        self._all_here = False
        memory = _shared_memory(parts, members)
        try:
            self._board = open_board(parts, members, memory)
            config = to_json(dataclasses.replace(parts.config, engine=parts.engine.name))
            for member in range(members):
                self._members.append(_start(memory))
                self._tell(member, json.dumps([config, memory, os.getpid() + member, member, members]))
        finally:
            os.close(memory)  # everyone has it open

    def collect(self, actor: Actor, steps: int, desk: Desk, draws: Draws) -> Log:
        """What happens in so many steps from this first turn."""
        if not self._end.alive:
            raise RuntimeError("the processes that move worlds have ended")
        if self._desk_at is not None:
            actor, desk, draws = jax.device_put((actor, desk, draws), self._desk_at)
        try:
            if not self._all_here:
                self._welcome()
            self._board.collecting[0] = 1
            for member in range(len(self._members)):
                self._tell(member, "go")
            log = self._go_round(actor, steps, desk, draws)
            self._board.collecting[0] = 0
        except BaseException:  # Ctrl-C, too: worlds are on their way, and would arrive in the next collection
            self.close()
            raise
        return log

    def _go_round(self, actor: Actor, steps: int, desk: Desk, draws: Draws) -> Log:
        """Send worlds off as they leave the desk, and take them back to it as they arrive, until all steps are made."""
        board, shape = self._board, desk.turn.shape
        turn = self._reception.open(actor, desk, draws)
        turns = np.empty((steps, *turn.shape), np.float32)
        after = np.empty((steps, *board.after.shape), np.float32)
        made, moved = np.zeros(len(turn), int), board.moved.copy()
        arrived = np.ones(len(turn), bool)
        away = 0
        while True:
            who = np.flatnonzero(arrived & (made < steps) & self._goes_on(turn))
            turns[made[who], who] = turn[who]
            self._send_off(who, turn)
            away += len(who)
            if not away:
                break
            arrived = self._await(moved)
            moved += arrived
            who = np.flatnonzero(arrived)
            away -= len(who)
            after[made[who], who] = board.after[who]
            made[who] += 1
            turn = self._reception.turn(board.after, arrived)
        for world in np.flatnonzero(made < steps):  # the rest of an episode that has ended: not stored
            turns[made[world] :, world] = turn[world]
            after[made[world] :, world] = turn[world, : self._cuts.state]
        return Log(turns.reshape(steps, *shape), after.reshape(steps, *shape[:2], -1), turn.reshape(shape))

    def _goes_on(self, turn: Any) -> Any:
        """Which worlds have something to do, as their turns have it."""
        if not self._parts.waits:
            return np.ones(len(turn), bool)
        return unpack(self._cuts, turn)[0].age < self._parts.world.spec.episode_length

    def _send_off(self, who: Any, turn: Any) -> None:
        """Tell for each of these worlds the process that has the least to do to move it."""
        board = self._board
        board.before[who], board.action[who] = turn[who, : self._cuts.state], turn[who, self._cuts.start + 1 :]
        busy = board.told - board.done
        for world in who:
            member = busy.argmin()
            busy[member] += 1
            told = board.told[member]
            board.queues[member, told % len(board.moved)] = world
            board.told[member] = told + 1  # the last of all this: from here on it may begin

    def _await(self, moved: Any) -> Any:
        """Wait until some worlds have been moved more often than that, and say which."""
        counts, looks = self._board.moved, 0
        while not (arrived := counts != moved).any():
            looks += 1
            if looks > LOOKS:
                os.sched_yield()
            if looks % (10 * LOOKS) == 0:
                self._look_after_members()
        return arrived

    def close(self) -> None:
        """End them. To forget this object does so, too."""
        self._board.collecting[0] = 0
        self._end()

    def _welcome(self) -> None:
        """Wait until all are there."""
        for member in self._members:
            if _stream(member.stdout).readline() != b"ready\n":
                self._give_up(member)
        self._all_here = True

    def _tell(self, member: int, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended, which will be noticed when nothing is heard of it
            _stream(self._members[member].stdin).write(line.encode() + b"\n")
            _stream(self._members[member].stdin).flush()

    def _look_after_members(self) -> None:
        for member in self._members:
            if member.poll() is not None:
                self._give_up(member)

    def _give_up(self, member: subprocess.Popen[bytes]) -> None:
        self.close()  # which waits for it: now there is a code
        raise UserError(
            f"a process that moves worlds has ended (exit code {member.returncode}; "
            "-9 is often a lack of memory); wanderlust discover --resume RUN goes on from the last checkpoint"
        )


# --- what is shared ------------------------------------------------------------------------------------------------


class Board(NamedTuple):
    """Arrays in shared memory; everyone who has the parts knows where they are. The desk writes the first five."""

    collecting: Any
    """[1] Whether there may be something to do."""
    told: Any
    """[members] How many worlds each was ever told to move."""
    queues: Any
    """[members, worlds] Which: the n-th of them stands at n modulo the number of worlds."""
    before: Any
    """[worlds, state] Where worlds are,"""
    action: Any
    """[worlds, action] and what they are to do."""
    done: Any
    """[members] How many worlds each has ever moved."""
    moved: Any
    """[worlds] How often each was ever moved."""
    after: Any
    """[worlds, state] Where that has led them."""


def _forms(parts: Parts, members: int) -> list[jax.ShapeDtypeStruct]:
    """Shapes and types of a board's arrays, in order."""
    worlds, state = parts.config.seeds * parts.config.schedule.worlds, turn_cuts(parts).state
    counts = [(1,), (members,), (members, worlds)]
    floats = [(worlds, state), (worlds, parts.world.spec.action_dim)]
    forms = [*((shape, np.int64) for shape in counts), *((shape, np.float32) for shape in floats)]
    forms += [((members,), np.int64), ((worlds,), np.int64), ((worlds, state), np.float32)]
    return [jax.ShapeDtypeStruct(*form) for form in forms]


def _places(forms: list[jax.ShapeDtypeStruct]) -> list[int]:
    """Where each begins, and where the last ends."""
    sizes = [-(-form.size * form.dtype.itemsize // CACHE_LINE) * CACHE_LINE for form in forms]
    return [sum(sizes[:n]) for n in range(len(sizes) + 1)]


def _shared_memory(parts: Parts, members: int) -> int:
    """Memory of the size of a board, as an open file without a name: nothing is left behind, however this ends."""
    number = os.memfd_create("wanderlust")
    os.ftruncate(number, _places(_forms(parts, members))[-1])
    return number


def open_board(parts: Parts, members: int, number: int) -> Board:
    """The board in the open file of this number."""
    forms = _forms(parts, members)
    *places, end = _places(forms)
    memory = mmap.mmap(number, 0)
    if len(memory) != end:
        raise RuntimeError(f"processes share {len(memory):,} bytes, and one of them needs {end:,}: it is of other code")
    return Board(*(np.ndarray(form.shape, form.dtype, memory, at) for form, at in zip(forms, places, strict=True)))


# --- one of them ---------------------------------------------------------------------------------------------------


def _start(memory: int) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(x or str(Path.cwd()) for x in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM],  # -P: modules come from where this process has them, and nowhere else
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[memory],
        process_group=0,  # of its own: Ctrl-C is for the one that learns
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path},
    )


def _stream(pipe: Any) -> Any:
    assert pipe is not None, "asked for when the process was started"
    return pipe


def _end(members: list[subprocess.Popen[bytes]]) -> None:
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
    """The program of such a process: told by a line that a collection begins, it moves worlds until that is over."""
    lines, parent = sys.stdin.buffer, os.getppid()
    if not (first := lines.readline()):
        return  # whoever started it has ended
    config, memory, place, me, members = json.loads(first)
    _stay_on_core(place)
    devices.prepare(1)
    parts = assemble(from_json(RunConfig, config, "the configuration"))
    engine, nq = make_engine(parts.world, parts.config.engine, threads=1), turn_cuts(parts).qpos
    move = jax.jit(engine.step) if engine.compiles else engine.step
    board, done = open_board(parts, members, memory), 0
    try:
        answers.write(b"ready\n")
    except BrokenPipeError:
        return  # whoever started it has ended meanwhile
    for _ in lines:
        while _has_work(board, me, done, parent):
            world = int(board.queues[me, done % len(board.moved)])
            before, action = board.before[world : world + 1], board.action[world : world + 1]
            qpos, qvel = move(Physical(before[:, :nq], before[:, nq:]), action)
            board.after[world, :nq], board.after[world, nq:] = qpos[0], qvel[0]
            done += 1
            board.done[me] = done
            board.moved[world] += 1  # the last of all this: from here on the desk may have it


def _has_work(board: Board, me: int, done: int, parent: int) -> bool:
    """Wait until there is a world to move, or none will come."""
    told, collecting, looks = board.told, board.collecting, 0
    while told[me] == done:
        looks += 1
        if looks > LOOKS:
            os.sched_yield()
            if not collecting[0] or (looks % LOOKS == 0 and os.getppid() != parent):
                return False
    return True


def _stay_on_core(place: int) -> None:
    """One core each: they are never idle while worlds move, so no two should have the same.

    Neighbours have neighbouring places; where they begin differs from run to run, so that runs do not crowd together.
    """
    if hasattr(os, "sched_setaffinity"):
        mine = sorted(os.sched_getaffinity(0))
        with contextlib.suppress(OSError):  # some systems forbid it; it is only quicker
            os.sched_setaffinity(0, {mine[place % len(mine)]})
