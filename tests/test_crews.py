"""Crews: threads and processes move the same worlds to the same places, and processes leave nothing behind."""

import dataclasses
import gc
import os
import signal
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
from wanderlust.train import crews, processes
from wanderlust.train.crews import Threads, make_crew
from wanderlust.train.processes import Processes
from wanderlust.train.turns import Collector, Desk, turn_cuts


def shared_files():
    folders = [Path(processes.tempfile.gettempdir()), Path("/dev/shm")]
    return sorted(path for folder in folders if folder.is_dir() for path in folder.glob(f"wanderlust-{os.getpid()}-*"))


@pytest.fixture(scope="module")
def point():
    """PointEnv in steps that cut episodes in two, and processes that move it."""
    parts = train.assemble(
        tiny_config(driver="split", seeds=2, method="vic", schedule_steps=3, env_start_range=2.0, schedule_worlds=6)
    )
    crew = Processes(parts, members=2, each=2)  # three lines for two of them
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


def test_it_does_not_matter_who_moves_worlds_for_how_long(point, monkeypatch):
    parts, crew = point
    driver, state = train.SplitDriver(parts, crew), train.init(parts)
    whole = driver.collect(state)[1]
    told = []
    monkeypatch.setattr(processes, "STEPS_AT_ONCE", 1)
    tell = processes._tell
    monkeypatch.setattr(
        processes, "_tell", lambda member, order: (told.append((member.pid, order)), tell(member, order))
    )
    jax.tree.map(np.testing.assert_array_equal, driver.collect(state)[1], whole)
    orders = [[int(word) for word in order.split()] for _, order in told]
    assert sorted(orders) == [[line, step, step + 1] for line in range(3) for step in range(3)]
    assert len({pid for pid, _ in told}) == 2  # both had something to do


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not tie processes to cores")
def test_each_process_stays_on_a_core(point):
    parts, crew = point
    train.SplitDriver(parts, crew).collect(train.init(parts))  # now both have begun
    theirs = [os.sched_getaffinity(member.pid) for member in crew._members]
    assert [len(cores) for cores in theirs] == [1, 1]
    assert len(set.union(*theirs)) == min(2, len(os.sched_getaffinity(0)))


def test_lines_are_of_one_length(point):
    with pytest.raises(ValueError, match="6 worlds cannot be had in lines of 4"):
        Processes(point[0], members=1, each=4)


def test_a_log_stays_as_it_is_when_worlds_move_on(point):
    parts, crew = point
    driver, state = train.SplitDriver(parts, crew), train.init(parts)
    log = driver.collect(state)[1]
    kept = jax.tree.map(np.copy, log)
    driver.collect(state._replace(key=jax.random.split(jax.random.key(9), 2)))
    jax.tree.map(np.testing.assert_array_equal, log, kept)


def test_worlds_whose_episodes_are_over_before_they_are_taken_on_stay_where_they_are():
    parts = train.assemble(tiny_config(driver="split", schedule_collect="episodes", schedule_method_batch=8))
    asked = {}

    class Asking(Threads):
        def collect(self, actor, steps, desk, draws):
            asked.update(actor=actor, desk=desk, draws=draws)
            return super().collect(actor, steps, desk, draws)

    train.SplitDriver(parts, Asking(parts, 1)).collect(train.init(parts))
    assert parts.waits
    turn = np.array(asked["desk"].turn)
    turn[..., turn_cuts(parts).start] = parts.world.spec.episode_length
    log = Collector(parts, parts.engine)(asked["actor"], 2, Desk(jnp.int32(3), jnp.array(turn)), asked["draws"])
    np.testing.assert_array_equal(log.turns, [turn, turn])
    np.testing.assert_array_equal(log.after, [turn[..., : turn_cuts(parts).state]] * 2)
    np.testing.assert_array_equal(log.last, turn)


def test_processes_are_told_when_one_of_them_ends_and_leave_nothing_behind():
    before = shared_files()
    parts = train.assemble(tiny_config(driver="split"))
    crew = Processes(parts, members=2, each=1)
    assert len(shared_files()) == len(before) + 1
    driver, state = train.SplitDriver(parts, crew), train.init(parts)
    driver.collect(state)
    assert shared_files() == before  # it is open in all of them, and has no name any more
    crew._members[1].kill()
    with pytest.raises(UserError, match=r"a process that moves worlds has ended \(exit code -9; .* --resume"):
        driver.collect(state)
    assert [member.returncode for member in crew._members] == [0, -9]
    with pytest.raises(RuntimeError, match="the processes that move worlds have ended"):
        driver.collect(state)


def test_an_answer_that_nobody_waited_for_is_not_taken_for_another(monkeypatch):
    parts = train.assemble(tiny_config(driver="split"))
    crew = Processes(parts, members=1, each=2)
    driver, state = train.SplitDriver(parts, crew), train.init(parts)
    driver.collect(state)

    def interrupted(member, word):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(crew, "_hear", interrupted)
        driver.collect(state)
    with pytest.raises(RuntimeError, match="the processes that move worlds have ended"):
        driver.collect(state)
    assert crew._members[0].returncode == 0


def test_processes_that_need_other_memory_are_refused(tmp_path):
    parts = train.assemble(tiny_config(driver="split"))
    (tmp_path / "shared").write_bytes(bytes(64))
    with pytest.raises(RuntimeError, match=r"processes share 64 bytes, and one of them needs [\d,]+"):
        processes.open_board(parts, tmp_path / "shared")


def test_a_crew_that_is_forgotten_ends():
    before = shared_files()
    crew = Processes(train.assemble(tiny_config(driver="split")), members=1, each=1)
    members = crew._members
    del crew
    gc.collect()
    assert members[0].returncode is not None
    assert shared_files() == before


def test_without_room_for_what_is_shared_there_is_one_line(monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(processes.tempfile, "mkstemp", full)
    with pytest.raises(UserError, match=r"no room for [\d,]+ bytes that processes share.* TMPDIR"):
        Processes(train.assemble(tiny_config(driver="split")), members=1, each=1)


def test_orders_that_change_are_for_threads():
    parts = train.assemble(tiny_config(driver="split", schedule_hold=2))
    with pytest.raises(ValueError, match="orders that change within an episode"):
        Processes(parts, members=1, each=2)


@pytest.fixture
def ant():
    config = dataclasses.replace(tiny_config(driver="split"), env=BodyConfig("ant"), engine="c")
    return train.assemble(config)


def test_processes_move_bodies_as_threads_do(ant):
    crew = Processes(ant, members=2, each=1)
    state = train.init(ant)
    apart, here = (train.SplitDriver(ant, by).collect(state)[1] for by in (crew, Threads(ant, 2)))
    crew.close()
    assert np.ptp(here.after[..., 0], axis=0).min() > 0  # they moved
    np.testing.assert_allclose(apart.after, here.after, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(apart.turns, here.turns, rtol=1e-4, atol=1e-4)


def test_processes_are_for_few_bodies_of_a_gpu_on_many_cores(ant, monkeypatch):
    made = []
    monkeypatch.setattr(crews, "Processes", lambda parts, members, each: made.append((members, each)))

    def with_schedule(**changes):
        schedule = dataclasses.replace(ant.config.schedule, **changes)
        return dataclasses.replace(ant, config=dataclasses.replace(ant.config, schedule=schedule))

    def chosen(parts, cores, backend="gpu"):
        made.clear()
        monkeypatch.setattr(crews.jax, "default_backend", lambda: backend)
        monkeypatch.setattr(crews, "cores", lambda: cores)
        return "threads" if isinstance(make_crew(parts), Threads) else made[0]

    few = with_schedule(worlds=20)
    assert chosen(few, 16) == (16, 1)
    assert chosen(few, 8) == (8, 1)
    assert chosen(few, 7) == "threads"
    assert chosen(few, 16, backend="cpu") == "threads"
    assert chosen(with_schedule(worlds=10), 16) == (10, 1)
    assert chosen(with_schedule(worlds=40), 16) == "threads"
    assert chosen(with_schedule(worlds=20, hold=2), 16) == "threads"
    assert isinstance(ant.engine, CEngine)
    assert chosen(train.assemble(tiny_config(driver="split", schedule_worlds=20)), 16) == "threads"


def test_ctrl_c_is_for_the_process_that_learns(point):
    parts, crew = point
    driver, state = train.SplitDriver(parts, crew), train.init(parts)
    before = driver.collect(state)[1]
    for member in crew._members:
        member.send_signal(signal.SIGINT)  # as a terminal sends it to all of them
    jax.tree.map(np.testing.assert_array_equal, driver.collect(state)[1], before)
