"""Crews: threads and processes move the same worlds to the same places, and processes leave nothing behind."""

import dataclasses
import gc
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import tiny_config
from wanderlust import train
from wanderlust.config import BodyConfig
from wanderlust.envs.physics import CEngine
from wanderlust.errors import UserError
from wanderlust.train import crews, processes, reception
from wanderlust.train.crews import Threads, make_crew
from wanderlust.train.processes import Processes
from wanderlust.train.reception import Reception
from wanderlust.train.turns import Desk, take_turn, turn_cuts, unpack


@pytest.fixture(scope="module")
def point():
    """PointEnv in steps that cut episodes in two, and processes that move it."""
    parts = train.assemble(
        tiny_config(driver="split", seeds=2, method="vic", schedule_steps=3, env_start_range=2.0, schedule_worlds=6)
    )
    crew = Processes(parts, members=2)
    yield parts, crew
    crew.close()


def test_processes_collect_what_threads_do(point):
    parts, crew = point
    (threads, their_metrics), (apart, metrics) = (
        train.SplitDriver(parts, by)(train.init(parts), 3) for by in (Threads(parts, 2), crew)
    )
    assert parts.keeps_start  # so that every piece of a turn is there
    for one, other in zip(jax.tree.leaves(threads.replay.data), jax.tree.leaves(apart.replay.data), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(metrics["reward"], their_metrics["reward"], rtol=1e-4)


def test_some_steps_of_a_collection_are_the_first_of_all(point):
    parts, crew = point
    driver, state = train.SplitDriver(parts, crew), train.init(parts)
    whole, some = driver.collect(state)[1], driver.collect(state, 2)[1]
    assert whole.turns.shape[0] == 3
    np.testing.assert_array_equal(some.turns, whole.turns[:2])
    np.testing.assert_array_equal(some.after, whole.after[:2])
    np.testing.assert_array_equal(some.last, whole.turns[2])


def test_it_does_not_matter_who_moves_which_world(point):
    parts, crew = point
    state = train.init(parts)
    before = crew._board.done.copy()
    log = train.SplitDriver(parts, crew).collect(state)[1]
    steps = crew._board.done - before
    assert steps.sum() == 3 * 2 * 6
    assert steps.min() > 0  # both had something to do
    alone = Processes(parts, members=1)
    jax.tree.map(np.testing.assert_array_equal, train.SplitDriver(parts, alone).collect(state)[1], log)
    alone.close()


def test_a_world_goes_to_the_process_that_has_the_least_to_do(point):
    parts, _ = point
    memory = processes._shared_memory(parts, 2)
    crew = object.__new__(Processes)  # without the processes
    crew._board, crew._cuts = processes.open_board(parts, 2, memory), turn_cuts(parts)
    os.close(memory)
    crew._board.told[:], crew._board.done[:] = (13, 4), (10, 4)
    turn = np.arange(12 * 30, dtype=np.float32).reshape(12, 30)[:, : crew._cuts.start + 3]
    crew._send_off(np.array([7, 1, 2, 11, 5]), turn)
    assert crew._board.told.tolist() == [14, 8]  # four go to the second, until both have four to do
    queues = crew._board.queues
    assert sorted([*(queues[1, n % 12] for n in range(4, 8)), queues[0, 13 % 12]]) == [1, 2, 5, 7, 11]
    np.testing.assert_array_equal(crew._board.before[11], turn[11, : crew._cuts.state])
    np.testing.assert_array_equal(crew._board.action[5], turn[5, crew._cuts.start + 1 :])


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not tie processes to cores")
def test_each_process_stays_on_a_core(point):
    parts, crew = point
    train.SplitDriver(parts, crew).collect(train.init(parts))  # now both have begun
    theirs = [os.sched_getaffinity(member.pid) for member in crew._members]
    assert [len(cores) for cores in theirs] == [1, 1]
    assert len(set.union(*theirs)) == min(2, len(os.sched_getaffinity(0)))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system does not say what time a process takes")
def test_processes_sleep_between_collections(point):
    parts, crew = point
    train.SplitDriver(parts, crew).collect(train.init(parts))
    time.sleep(0.2)
    before = [cpu_seconds(member.pid) for member in crew._members]
    time.sleep(0.5)
    after = [cpu_seconds(member.pid) for member in crew._members]
    assert max(after) > 0
    assert all(now - then < 0.1 for now, then in zip(after, before, strict=True))


def cpu_seconds(pid):
    """User time so far, the 14th entry; the second is a name in brackets."""
    entries = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(entries[11]) / os.sysconf("SC_CLK_TCK")


def test_a_log_stays_as_it_is_when_worlds_move_on(point):
    parts, crew = point
    driver, state = train.SplitDriver(parts, crew), train.init(parts)
    log = driver.collect(state)[1]
    kept = jax.tree.map(np.copy, log)
    driver.collect(state._replace(key=jax.random.split(jax.random.key(9), 2)))
    jax.tree.map(np.testing.assert_array_equal, log, kept)


class Asking(Threads):
    """Threads that remember what they are asked."""

    def collect(self, *asked):
        self.asked = asked
        return super().collect(*asked)


def test_worlds_whose_episodes_are_over_stay_where_they_are():
    parts = train.assemble(
        tiny_config(driver="split", schedule_collect="episodes", schedule_method_batch=8, schedule_worlds=4)
    )
    assert parts.waits
    threads = Asking(parts, 1)
    train.SplitDriver(parts, threads).collect(train.init(parts))
    actor, steps, desk, draws = threads.asked
    turn, cuts = np.array(desk.turn), turn_cuts(parts)
    turn[:, :2, cuts.start] = parts.world.spec.episode_length
    some = Desk(desk.at, jnp.array(turn))
    crew = Processes(parts, members=1)
    log, whole = crew.collect(actor, steps, some, draws), threads.collect(actor, steps, some, draws)
    assert np.all(crew._board.moved == [0, 0, steps, steps])  # nobody moved the first two
    np.testing.assert_array_equal(log.turns[:, :, :2], np.broadcast_to(turn[:, :2], log.turns[:, :, :2].shape))
    np.testing.assert_array_equal(log.after[:, :, :2], log.turns[:, :, :2, : cuts.state])
    np.testing.assert_array_equal(log.turns[:, :, 2:], whole.turns[:, :, 2:])
    np.testing.assert_array_equal(log.after[:, :, 2:], whole.after[:, :, 2:])

    turn[..., cuts.start] = parts.world.spec.episode_length
    nobody = Desk(desk.at, jnp.array(turn))
    for log in (crew.collect(actor, 2, nobody, draws), threads.collect(actor, 2, nobody, draws)):
        np.testing.assert_array_equal(log.turns, [turn, turn])
        np.testing.assert_array_equal(log.after, [turn[..., : cuts.state]] * 2)
        np.testing.assert_array_equal(log.last, turn)
    crew.close()


def test_a_device_that_would_look_at_a_copy_is_not_used(monkeypatch):
    assert reception.reaches_host(jax.devices()[0])
    assert processes.possible()
    monkeypatch.setattr(reception, "_writable", lambda array: np.array(array))
    assert not reception.reaches_host(jax.devices()[0])
    assert not processes.possible()


def test_a_desk_serves_those_who_have_arrived(point):
    parts, _ = point
    threads = Asking(parts, 1)
    train.SplitDriver(parts, threads).collect(train.init(parts))
    actor, _, desk, draws = threads.asked
    everyone, nobody = np.ones(12, bool), np.zeros(12, bool)
    some = np.arange(12) % 3 == 0
    desk_side, cuts = Reception(parts, jax.devices()[0]), turn_cuts(parts)
    first = desk_side.open(actor, desk, draws)
    after = first[:, : cuts.state] + np.float32(0.5)
    np.testing.assert_array_equal(desk_side.turn(after, nobody), first)
    turns = desk_side.turn(after, some)
    np.testing.assert_array_equal(turns[~some], first[~some])
    np.testing.assert_array_equal(turns[some, : cuts.state], after[some])
    rest = desk_side.turn(after, ~some)
    np.testing.assert_array_equal(rest[some], turns[some])  # they wait for where their next step leads them
    at_once = take_turn(parts, actor, desk, draws, jnp.array(after), jnp.array(everyone))
    np.testing.assert_allclose(rest, at_once.turn.reshape(12, -1), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(at_once.at, desk.at + 1)
    apart = take_turn(parts, actor, at_once, draws, jnp.array(after), jnp.array(some))
    np.testing.assert_array_equal(apart.at.reshape(-1), np.where(some, 2, 1))


def test_processes_are_told_when_one_of_them_ends_and_leave_nothing_behind():
    before = open_files()
    parts = train.assemble(tiny_config(driver="split"))
    crew = Processes(parts, members=2)
    assert open_files() == before + 5  # two pipes each, and the memory that they share
    driver, state = train.SplitDriver(parts, crew), train.init(parts)
    driver.collect(state)
    crew._members[1].kill()
    with pytest.raises(UserError, match=r"a process that moves worlds has ended \(exit code -9; .* --resume"):
        driver.collect(state)
    assert [member.returncode for member in crew._members] == [0, -9]
    assert open_files() == before + 1
    with pytest.raises(RuntimeError, match="the processes that move worlds have ended"):
        driver.collect(state)


def test_worlds_that_are_on_their_way_when_a_collection_is_stopped_do_not_arrive_in_the_next(monkeypatch):
    parts = train.assemble(tiny_config(driver="split"))
    crew = Processes(parts, members=1)
    driver, state = train.SplitDriver(parts, crew), train.init(parts)
    driver.collect(state)

    def interrupted(moved):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(crew, "_await", interrupted)
        driver.collect(state)
    with pytest.raises(RuntimeError, match="the processes that move worlds have ended"):
        driver.collect(state)
    assert crew._members[0].returncode == 0


def test_processes_end_with_the_one_that_learns_even_if_it_is_killed():
    program = """
import os, signal
from helpers import tiny_config
from wanderlust import train
from wanderlust.train.processes import Processes
parts = train.assemble(tiny_config(driver="split"))
crew = Processes(parts, members=2)
train.SplitDriver(parts, crew).collect(train.init(parts))
crew._board.collecting[0] = 1  # they look for something to do
for member in range(2):
    crew._tell(member, "go")
print(*(member.pid for member in crew._members), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    left = [int(pid) for pid in ended.stdout.split()]
    assert len(left) == 2
    last = time.monotonic() + 20
    while any(map(is_running, left)):
        assert time.monotonic() < last
        time.sleep(0.05)


@pytest.mark.parametrize("signal_name", ["SIGTERM", "SIGKILL"])
def test_processes_whose_learner_ends_before_they_are_there_say_nothing(signal_name):
    program = f"""
import os, signal
from helpers import tiny_config
from wanderlust import train
from wanderlust.train.processes import Processes
crew = Processes(train.assemble(tiny_config(driver="split")), members=1)
print(crew._members[0].pid, flush=True)
os.kill(os.getpid(), signal.{signal_name})
"""
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    ended = subprocess.run(  # which waits for the member as well: it has the same standard error
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert ended.returncode == -getattr(signal, signal_name)
    assert ended.stderr == ""
    assert not is_running(int(ended.stdout))


def open_files():
    """How many this process has."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_processes_that_need_other_memory_are_refused(tmp_path):
    parts = train.assemble(tiny_config(driver="split"))
    path = tmp_path / "shared"
    path.write_bytes(bytes(64))
    with path.open("r+b") as file, pytest.raises(RuntimeError, match=r"share 64 bytes, and one of them needs [\d,]+"):
        processes.open_board(parts, 1, file.fileno())


def test_a_crew_that_is_forgotten_ends():
    before = open_files()
    crew = Processes(train.assemble(tiny_config(driver="split")), members=1)
    members = crew._members
    del crew
    gc.collect()
    assert members[0].returncode is not None
    assert open_files() == before


def test_orders_may_change_on_the_way():
    parts = train.assemble(tiny_config(driver="split", schedule_hold=2))
    crew, state = Processes(parts, members=1), train.init(parts)
    apart, here = (train.SplitDriver(parts, by).collect(state)[1] for by in (crew, Threads(parts, 1)))
    crew.close()
    cuts = turn_cuts(parts)
    orders = here.turns[..., cuts.state : cuts.skill]
    assert np.ptp(orders, axis=0).min() > 0  # they did
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-6), apart, here)


@pytest.fixture
def ant():
    config = dataclasses.replace(tiny_config(driver="split"), env=BodyConfig("ant"), engine="c")
    return train.assemble(config)


def test_processes_move_bodies_as_threads_do(ant):
    crew = Processes(ant, members=2)
    state = train.init(ant)
    apart, here = (train.SplitDriver(ant, by).collect(state)[1] for by in (crew, Threads(ant, 2)))
    crew.close()
    assert np.ptp(here.after[..., 0], axis=0).min() > 0  # they moved
    np.testing.assert_allclose(apart.after, here.after, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(apart.turns, here.turns, rtol=1e-4, atol=1e-4)


def check_every_step(ant, members, rounding):
    """Twenty bodies: every step is the engine's, and every turn what follows from the step before."""
    schedule = dataclasses.replace(ant.config.schedule, worlds=20, steps=30)
    parts = dataclasses.replace(ant, config=dataclasses.replace(ant.config, schedule=schedule))
    asked, crew = Asking(parts, 1), Processes(parts, members)
    train.SplitDriver(parts, asked).collect(train.init(parts))
    log = crew.collect(*asked.asked)
    crew.close()
    actor, steps, desk, draws = jax.device_put(asked.asked, jax.devices("cpu")[0])
    turned = jax.jit(partial(take_turn, parts))
    for step, (turn, after) in enumerate(zip(log.turns, log.after, strict=True)):
        worlds, action = unpack(turn_cuts(parts), turn[0])
        moved = np.concatenate(parts.engine.step(worlds.state, action), axis=1)
        np.testing.assert_allclose(after[0], moved, rtol=1e-5, atol=1e-5)
        follows = turned(actor, Desk(jnp.full_like(desk.at, step), jnp.array(turn)), draws, jnp.array(after[0]))
        led = log.turns[step + 1] if step + 1 < steps else log.last
        np.testing.assert_allclose(led, follows.turn, rtol=rounding, atol=rounding)
    assert np.ptp(log.after[..., 0], axis=0).min() > 0  # they moved


def test_every_step_of_a_collection_follows_from_the_one_before(ant):
    check_every_step(ant, members=2, rounding=1e-5)


@pytest.mark.gpu
def test_every_step_follows_from_the_one_before_with_a_desk_on_a_gpu(ant):
    if jax.default_backend() == "cpu":
        pytest.skip("needs a GPU: WANDERLUST_TEST_PLATFORMS=cuda,cpu pytest -m gpu")
    check_every_step(ant, members=8, rounding=5e-3)  # a GPU multiplies with ten bits of each factor


def test_processes_are_for_few_bodies_of_a_gpu_on_many_cores(ant, monkeypatch):
    made = []
    monkeypatch.setattr(crews, "Processes", lambda parts, members: made.append(members))

    def with_schedule(**changes):
        schedule = dataclasses.replace(ant.config.schedule, **changes)
        return dataclasses.replace(ant, config=dataclasses.replace(ant.config, schedule=schedule))

    def chosen(parts, cores, backend="gpu"):
        made.clear()
        monkeypatch.setattr(crews, "has_gpu", lambda: backend == "gpu")
        monkeypatch.setattr(crews, "cores", lambda: cores)
        return "threads" if isinstance(make_crew(parts), Threads) else made[0]

    few = with_schedule(worlds=20)
    assert chosen(few, 16) == 12
    assert chosen(few, 8) == 6
    assert chosen(few, 7) == "threads"
    assert chosen(few, 16, backend="cpu") == "threads"
    assert chosen(with_schedule(worlds=10), 16) == 10
    assert chosen(with_schedule(worlds=40), 16) == "threads"
    assert chosen(with_schedule(worlds=20, hold=2), 16) == 12
    assert isinstance(ant.engine, CEngine)
    assert chosen(train.assemble(tiny_config(driver="split", schedule_worlds=20)), 16) == "threads"
    monkeypatch.setattr(processes.platform, "machine", lambda: "aarch64")  # whose memory is not in order
    assert chosen(few, 16) == "threads"


def test_ctrl_c_is_for_the_process_that_learns(point):
    parts, crew = point
    driver, state = train.SplitDriver(parts, crew), train.init(parts)
    before = driver.collect(state)[1]
    for member in crew._members:
        assert os.getpgid(member.pid) != os.getpgid(0)  # a terminal does not even send it there
        member.send_signal(signal.SIGINT)
    jax.tree.map(np.testing.assert_array_equal, driver.collect(state)[1], before)
