"""Environment steps per second of the engines, and of other libraries with the same environments."""

import contextlib
import dataclasses
import functools
import importlib
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from numpy.typing import NDArray

from wanderlust.envs import make_engine, make_world
from wanderlust.envs.mjcf import muted
from wanderlust.gym.vector import make_vec
from wanderlust.registry import WORLDS
from wanderlust.report.progress import Progress
from wanderlust.sweeps.tables import count
from wanderlust_experiments.bench.measure import Rates, Workload, first_call, interleaved, ratio
from wanderlust_experiments.bench.robotics import robotics_env

BenchEngine = Literal["c", "warp"]

ACTIONS = 64
"""Batches of random actions, drawn beforehand and used one after the other."""
BATCHES: dict[BenchEngine, tuple[int, ...]] = {"c": (16, 64, 256), "warp": (1024, 4096, 16384)}
"""World counts unless asked otherwise."""
MOST_PROCESSES = 64
"""AsyncVectorEnv has a process per world: beyond this many, starting them would take longer than all the rest."""


@dataclasses.dataclass
class VectorWorkload:
    """Any vector environment under random actions; the count of threads is that of processes where there are such."""

    engine: str
    envs: Any
    worlds: int
    threads: int
    actions: NDArray[Any]
    calls: int = 0

    @property
    def about(self) -> dict[str, Any]:
        return {"engine": self.engine, "worlds": self.worlds, "threads": self.threads, "compile_seconds": None}

    @property
    def per_call(self) -> int:
        return self.worlds

    def advance(self) -> None:
        self.envs.step(self.actions[self.calls % ACTIONS])
        self.calls += 1

    def close(self) -> None:
        self.envs.close()


def _workload(engine: str, envs: Any, space: Any, worlds: int, threads: int) -> VectorWorkload:
    """Put a vector environment at the start of its episodes, with actions over the whole of its range."""
    shape = (ACTIONS, worlds, space.shape[-1])
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, shape) * float(space.high.max())
    envs.reset()
    return VectorWorkload(engine, envs, worlds, threads, actions.astype(space.dtype))


def our_engine(env: str, worlds: int, threads: int) -> Workload:
    """The engine `c`, as the vector environment that users get, with the solver that the others have."""
    envs = make_vec(env, worlds, threads=threads, solver="stock")
    return _workload("c", envs, envs.single_action_space, worlds, threads)


ENVPOOL: dict[str, tuple[str, dict[str, Any]]] = {
    "ant": ("Ant-v4", {"terminate_when_unhealthy": False}),
    "half-cheetah": ("HalfCheetah-v4", {}),
    "humanoid": ("Humanoid-v4", {}),
}
"""Its leanest version of each body (v5 computes contact forces as well), with our episodes and five physics steps."""


def envpool(env: str, worlds: int, threads: int) -> Workload:
    """EnvPool's C++ threads."""
    name, settings = ENVPOOL[env]
    envs = importlib.import_module("envpool").make_gymnasium(
        name,
        num_envs=worlds,
        batch_size=worlds,
        num_threads=threads,
        max_episode_steps=WORLDS.get(env).episode_length,
        exclude_current_positions_from_observation=False,
        **settings,
    )
    return _workload("envpool", envs, envs.action_space, worlds, threads)


def gymnasium_env(env: str) -> gymnasium.Env[Any, Any]:
    """One of Gymnasium's environments, without the checks of its user's code."""
    world = WORLDS.get(env)
    name, settings = world.gymnasium
    with muted():  # HalfCheetah's file makes MuJoCo write a warning into the working folder
        return gymnasium.make(name, max_episode_steps=world.episode_length, disable_env_checker=True, **settings)


def async_processes(env: str, worlds: int) -> Workload:
    """Gymnasium's AsyncVectorEnv: a process per world."""
    # Forking this process would copy JAX's threads in whatever state they are; a server that has none forks instead,
    # and has imported beforehand what every process will: Gymnasium's bodies, this module, the program's main module.
    multiprocessing.set_forkserver_preload(["gymnasium.envs.mujoco", __name__, "wanderlust.cli"])
    envs = AsyncVectorEnv([functools.partial(gymnasium_env, env)] * worlds, context="forkserver")
    return _workload("async", envs, envs.single_action_space, worlds, worlds)


MOST_IN_A_LOOP = 8
"""SyncVectorEnv steps its worlds one after the other: more would only take longer to load."""


def sync_loop(env: str, worlds: int) -> Workload:
    """Gymnasium's SyncVectorEnv of Gymnasium-Robotics' environments: a Python loop on one core."""
    count = min(worlds, MOST_IN_A_LOOP)
    envs = SyncVectorEnv([functools.partial(robotics_env, env)] * count)
    return _workload("sync", envs, envs.single_action_space, count, 1)


class WarpWorkload:
    """The engine `warp` in a compiled program of many steps, as the `fused` driver has it."""

    per_program = 20
    """Control steps of a call."""

    def __init__(self, env: str, worlds: int) -> None:
        world = make_world(WORLDS.get(env).configure(env))
        engine = make_engine(world, "warp")
        size = (worlds, world.spec.action_dim)

        @jax.jit
        def program(state: Any, key: Any) -> Any:
            def step(state: Any, key: Any) -> tuple[Any, None]:
                return engine.step(state, jax.random.uniform(key, size, minval=-1.0, maxval=1.0)), None

            return jax.lax.scan(step, state, jax.random.split(key, self.per_program))[0]

        self._program, self._worlds, self._engine = program, worlds, engine
        self._state = jax.jit(jax.vmap(world.initial))(jax.random.split(jax.random.key(0), worlds))
        self._key = jax.random.key(1)
        self._compile_seconds = first_call(self.advance)

    @property
    def about(self) -> dict[str, Any]:
        return {
            "engine": "warp",
            "worlds": self._worlds,
            "threads": None,
            "compile_seconds": self._compile_seconds,
        }

    @property
    def per_call(self) -> int:
        return self._worlds * self.per_program

    def advance(self) -> None:
        self._state = jax.block_until_ready(self._program(self._state, self._key))

    def close(self) -> None:
        self._engine.check()


Group = list[Callable[[], Workload]]
"""Workloads that are measured together: makers, so that only one group's processes and buffers exist at a time."""


def physics_groups(
    env: str, engines: Sequence[BenchEngine], worlds: Sequence[int] | None, threads: Sequence[int], peers: set[str]
) -> Iterator[Group]:
    """What is measured, one group per engine and world count."""
    if "c" in engines:
        for size in worlds or BATCHES["c"]:
            group: Group = [functools.partial(our_engine, env, size, n) for n in threads]
            if "envpool" in peers and env in ENVPOOL:
                group += [functools.partial(envpool, env, size, n) for n in threads]
            if "async" in peers:
                processes = {min(max(threads), size), *([size] if size <= MOST_PROCESSES else [])}
                group += [functools.partial(async_processes, env, n) for n in sorted(processes)]
            if "sync" in peers and 1 in threads:
                group.append(functools.partial(sync_loop, env, size))
            yield group
    if "warp" in engines:
        for size in worlds or BATCHES["warp"]:
            yield [functools.partial(WarpWorkload, env, size)]


def measure_physics(groups: Sequence[Group], seconds: float, line: Progress) -> Iterator[dict[str, list[Any]]]:
    """Group by group: environment steps per second of every workload, and our ratios to the others'."""
    done = 0
    for number, group in enumerate(groups, 1):
        line.note(f"physics {number}/{len(groups)}: starting {len(group)} to measure")
        with contextlib.ExitStack() as stack:
            workloads: list[Workload] = []
            for make in group:
                workloads.append(make())
                stack.callback(workloads[-1].close)
            rates = interleaved(workloads, seconds)
        abouts = [{"group": number, **one.about} for one in workloads]
        rows = []
        for about, rate in zip(abouts, rates, strict=True):
            rows.append({**about, "steps_per_second": {**rate.summary(), "rounds": rate.rounds}})
            done += 1
            line.update(done, f"{_title(about)}: {rate.summary()['median']:,.0f} steps/s")
        yield {"physics": rows, "ratios": _ratios(abouts, rates)}


def _ratios(abouts: Sequence[dict[str, Any]], rates: Sequence[Rates]) -> list[dict[str, Any]]:
    """`c` against every other with as many threads; against a process per world, `c` with all its threads."""
    ours = {about["threads"]: k for k, about in enumerate(abouts) if about["engine"] == "c"}
    found = []
    for about, rate in zip(abouts, rates, strict=True):
        if about["engine"] in ("envpool", "async", "sync"):
            k = ours[max(ours) if about["engine"] == "async" else about["threads"]]
            sides = {"ours": identity(abouts[k]), "theirs": identity(about)}
            found.append({**sides, "ratio": ratio(rates[k], rate)})
    return found


def identity(about: dict[str, Any]) -> dict[str, Any]:
    """What tells one row of physics from the others."""
    return {name: about[name] for name in ("group", "engine", "worlds", "threads")}


def _title(about: dict[str, Any]) -> str:
    return f"{about['engine']}, {count(about['worlds'], 'world')}, {workers(about)}"


def workers(about: dict[str, Any]) -> str:
    """What steps the environments, in words."""
    if about["threads"] is None:
        return "the GPU" if jax.default_backend() != "cpu" else "the CPU"
    if about["engine"] == "async":
        return "1 process" if about["threads"] == 1 else f"{about['threads']} processes"
    return count(about["threads"], "thread")
