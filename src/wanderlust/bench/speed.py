"""`wanderlust bench`: how fast this machine moves worlds and learns, beside what else could move the same worlds.

Everything of one kind is measured in turns, a slice of time each, round after round: a machine that is busy for a
while is busy for all of them. A ratio is the median of the rounds' own ratios, for the same reason.
"""

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import itertools
import multiprocessing
import os
import platform
import re
import statistics
import time
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AsyncVectorEnv
from numpy.typing import NDArray
from rich.table import Table

from wanderlust import train
from wanderlust.config import BodyName, RunConfig, SkillConfig
from wanderlust.envs import make_engine, make_world
from wanderlust.envs.devices import cores
from wanderlust.envs.engines.warp import import_mujoco_warp
from wanderlust.envs.mjcf import muted
from wanderlust.errors import UserError
from wanderlust.gym.vector import make_vec
from wanderlust.recipes import get_recipe
from wanderlust.registry import WORLDS
from wanderlust.report.progress import Progress, progress
from wanderlust.runs.provenance import PACKAGES, command, commit, processor, version

Part = Literal["physics", "updates"]
EngineName = Literal["c", "warp"]

ROUNDS = 5
"""Slices a measurement is cut into."""
ACTIONS = 64
"""Batches of random actions, drawn beforehand and used in turn."""
BATCHES: dict[EngineName, tuple[int, ...]] = {"c": (16, 64, 256), "warp": (1024, 4096, 16384)}
"""World counts unless asked otherwise."""
MOST_PROCESSES = 64
"""AsyncVectorEnv has a process per world: beyond this many, starting them would take longer than all the rest."""
SEEDS = (1, 4)
SMALLER = (4, 1)
"""Updates are measured at the recipe's batch size divided by these."""


# --- what is measured ------------------------------------------------------------------------------------------


class Contestant(Protocol):
    """Something that does a known amount of work per call."""

    @property
    def about(self) -> dict[str, Any]:
        """What it is, as it stands in the results."""
        ...

    @property
    def per_call(self) -> int: ...

    def advance(self) -> None: ...

    def close(self) -> None: ...


class Rates(NamedTuple):
    """Work per second in every round."""

    rounds: list[float]

    def summary(self) -> dict[str, Any]:
        return {"median": statistics.median(self.rounds), "lowest": min(self.rounds), "highest": max(self.rounds)}


def in_turns(contestants: Sequence[Contestant], seconds: float, rounds: int = ROUNDS) -> list[Rates]:
    """Measure all of them for `seconds` each, a slice at a time in turns, after a slice to warm up."""
    for one in contestants:
        _slice(one, seconds / rounds)
    rates = [Rates([]) for _ in contestants]
    for _ in range(rounds):
        for one, rate in zip(contestants, rates, strict=True):
            rate.rounds.append(_slice(one, seconds / rounds))
    return rates


def _slice(one: Contestant, seconds: float) -> float:
    calls, began, spent = 0, time.perf_counter(), 0.0
    while spent < seconds:
        one.advance()
        calls += 1
        spent = time.perf_counter() - began
    return calls * one.per_call / spent


def ratio(ours: Rates, theirs: Rates) -> dict[str, float]:
    """How many times faster we were, round by round."""
    each = [a / b for a, b in zip(ours.rounds, theirs.rounds, strict=True)]
    return Rates(each).summary()


# --- physics ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class VectorContestant:
    """Any vector environment under random actions; the count of threads is that of processes where there are such."""

    engine: str
    envs: Any
    worlds: int
    threads: int
    actions: NDArray[Any]
    turn: int = 0

    @property
    def about(self) -> dict[str, Any]:
        return {"engine": self.engine, "worlds": self.worlds, "threads": self.threads, "compile_seconds": None}

    @property
    def per_call(self) -> int:
        return self.worlds

    def advance(self) -> None:
        self.envs.step(self.actions[self.turn % ACTIONS])
        self.turn += 1

    def close(self) -> None:
        self.envs.close()


def _contestant(engine: str, envs: Any, space: Any, worlds: int, threads: int) -> VectorContestant:
    """Put a vector environment at the start of its episodes, with actions over the whole of its range."""
    shape = (ACTIONS, worlds, space.shape[-1])
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, shape) * float(space.high.max())
    envs.reset()
    return VectorContestant(engine, envs, worlds, threads, actions.astype(space.dtype))


def our_engine(env: BodyName, worlds: int, threads: int) -> Contestant:
    """The engine `c`, as the vector environment that users get, with the solver that the others have."""
    envs = make_vec(env, worlds, threads=threads, solver="stock")
    return _contestant("c", envs, envs.single_action_space, worlds, threads)


ENVPOOL: dict[BodyName, tuple[str, dict[str, Any]]] = {
    "ant": ("Ant-v4", {"terminate_when_unhealthy": False}),
    "half-cheetah": ("HalfCheetah-v4", {}),
    "humanoid": ("Humanoid-v4", {}),
}
"""Its leanest version of each body (v5 computes contact forces as well), with our episodes and five physics steps."""


def envpool(env: BodyName, worlds: int, threads: int) -> Contestant:
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
    return _contestant("envpool", envs, envs.action_space, worlds, threads)


def gymnasium_env(env: BodyName) -> gymnasium.Env[Any, Any]:
    """One of Gymnasium's environments, without the checks of its user's code."""
    world = WORLDS.get(env)
    name, settings = world.gymnasium
    with muted():  # HalfCheetah's file makes MuJoCo write a warning into the working folder
        return gymnasium.make(
            name,
            max_episode_steps=world.episode_length,
            disable_env_checker=True,
            **settings,
        )


def async_processes(env: BodyName, worlds: int) -> Contestant:
    """Gymnasium's AsyncVectorEnv: a process per world."""
    # Forking this process would copy JAX's threads in whatever state they are; a server that has none forks instead,
    # and has imported beforehand what every process will: Gymnasium's bodies, this module, the program's main module.
    multiprocessing.set_forkserver_preload(["gymnasium.envs.mujoco", "wanderlust.bench.speed", "wanderlust.cli"])
    envs = AsyncVectorEnv([functools.partial(gymnasium_env, env)] * worlds, context="forkserver")
    return _contestant("async", envs, envs.single_action_space, worlds, worlds)


class WarpContestant:
    """The engine `warp` in a compiled program of many steps, as the `fused` driver has it."""

    per_program = 20
    """Control steps of a call."""

    def __init__(self, env: BodyName, worlds: int) -> None:
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
        self._compile_seconds = _first_call(self.advance)

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


def _first_call(call: Callable[[], None]) -> float:
    """Seconds that the first call takes beyond the second."""
    spent = []
    for _ in range(2):
        began = time.perf_counter()
        call()
        spent.append(time.perf_counter() - began)
    return max(0.0, spent[0] - spent[1])


Group = list[Callable[[], Contestant]]
"""Contestants that are measured together: makers, so that only one group's processes and buffers exist at a time."""


def physics_groups(
    env: BodyName, engines: Sequence[EngineName], worlds: Sequence[int] | None, threads: Sequence[int], rivals: set[str]
) -> Iterator[Group]:
    """What is measured, one group per engine and world count."""
    if "c" in engines:
        for count in worlds or BATCHES["c"]:
            group: Group = [functools.partial(our_engine, env, count, n) for n in threads]
            if "envpool" in rivals:
                group += [functools.partial(envpool, env, count, n) for n in threads]
            if "async" in rivals:
                processes = {min(max(threads), count), *([count] if count <= MOST_PROCESSES else [])}
                group += [functools.partial(async_processes, env, n) for n in sorted(processes)]
            yield group
    if "warp" in engines:
        for count in worlds or BATCHES["warp"]:
            yield [functools.partial(WarpContestant, env, count)]


def measure_physics(groups: Sequence[Group], seconds: float, line: Progress) -> Iterator[dict[str, list[Any]]]:
    """Group by group: environment steps per second of every contestant, and our ratios to the others'."""
    done = 0
    for number, group in enumerate(groups, 1):
        line.note(f"physics {number}/{len(groups)}: starting {len(group)} to measure in turns")
        with contextlib.ExitStack() as stack:
            contestants: list[Contestant] = []
            for make in group:
                contestants.append(make())
                stack.callback(contestants[-1].close)
            rates = in_turns(contestants, seconds)
        abouts = [{"group": number, **one.about} for one in contestants]
        rows = []
        for about, rate in zip(abouts, rates, strict=True):
            rows.append({**about, "steps_per_second": {**rate.summary(), "rounds": rate.rounds}})
            done += 1
            line.update(done, f"{_title(about)}: {rate.summary()['median']:,.0f} steps/s")
        yield {"physics": rows, "ratios": _ratios(abouts, rates)}


def _ratios(abouts: Sequence[dict[str, Any]], rates: Sequence[Rates]) -> list[dict[str, Any]]:
    """`c` against every other with as many threads; against processes, `c` with all its threads."""
    ours = {about["threads"]: k for k, about in enumerate(abouts) if about["engine"] == "c"}
    found = []
    for about, rate in zip(abouts, rates, strict=True):
        if about["engine"] in ("envpool", "async"):
            k = ours[about["threads"] if about["engine"] == "envpool" else max(ours)]
            sides = {"ours": _identity(abouts[k]), "theirs": _identity(about)}
            found.append({**sides, "ratio": ratio(rates[k], rate)})
    return found


IDENTITY = ("group", "engine", "worlds", "threads")
"""What tells one row of physics from the others."""


def _identity(about: dict[str, Any]) -> dict[str, Any]:
    return {name: about[name] for name in IDENTITY}


def _title(about: dict[str, Any]) -> str:
    return f"{about['engine']}, {_count(about['worlds'], 'world')}, {_workers(about)}"


def _workers(about: dict[str, Any]) -> str:
    """What moves the worlds, in words."""
    if about["threads"] is None:
        return "the GPU" if jax.default_backend() != "cpu" else "the CPU"
    if about["engine"] == "async":
        return "1 process" if about["threads"] == 1 else f"{about['threads']} processes"
    return _count(about["threads"], "thread")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


# --- updates ---------------------------------------------------------------------------------------------------


class UpdateContestant:
    """Gradient steps of a recipe, a step of SAC and a step of phi each, from a full replay of random numbers."""

    def __init__(self, config: RunConfig, steps: int) -> None:
        schedule = dataclasses.replace(config.schedule, sac_steps=steps, method_steps=steps)
        config = dataclasses.replace(config, schedule=schedule)
        parts = train.assemble(config)
        state = train.init(parts)
        self._config = config
        self._key = jax.random.split(jax.random.key(0), config.seeds)
        self._learner, self._replay = state.learner, _filled(state.replay, jax.random.key(1))
        self._fresh = jax.tree.map(lambda x: x[:, : schedule.collection], self._replay.data)
        self._program = jax.jit(train.each_seed(functools.partial(train.learn, parts)))
        self._compile_seconds = _first_call(self.advance)

    @property
    def about(self) -> dict[str, Any]:
        return {
            "recipe": self._config.recipe,
            "batch": self._config.schedule.sac_batch,
            "seeds": self._config.seeds,
            "precision": self._config.precision,
            "compile_seconds": self._compile_seconds,
        }

    @property
    def per_call(self) -> int:
        return self._config.schedule.sac_steps * self._config.seeds

    def advance(self) -> None:
        called = self._program(self._learner, self._replay, self._fresh, self._key)
        self._learner = jax.block_until_ready(called)[0]

    def close(self) -> None:
        pass


def _filled(replay: Any, key: Any) -> Any:
    """A replay that is full, of standard-normal numbers."""
    leaves, form = jax.tree.flatten(replay.data)
    keys = jax.random.split(key, len(leaves))
    drawn = [
        jax.random.normal(k, x.shape, x.dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x
        for k, x in zip(keys, leaves, strict=True)
    ]
    data = jax.tree.unflatten(form, drawn)
    data = data._replace(action=jnp.tanh(data.action))
    return replay._replace(data=data, size=jnp.full_like(replay.size, data.obs.shape[1]))


def update_configs(env: BodyName) -> Iterator[RunConfig]:
    """The device's recipe at several batch sizes and numbers of seeds."""
    recipe = "laptop" if jax.default_backend() == "cpu" else "fast"
    config = get_recipe(recipe, env, "lsd", SkillConfig("continuous", 2))
    for seeds in SEEDS:
        for divisor in SMALLER:
            schedule = dataclasses.replace(config.schedule, sac_batch=config.schedule.sac_batch // divisor)
            yield dataclasses.replace(config, schedule=schedule, seeds=seeds)


def measure_updates(
    configs: Sequence[RunConfig], seconds: float, line: Progress
) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """One by one: gradient steps per second, all seeds together."""
    steps = 4 if jax.default_backend() == "cpu" else 100
    for number, config in enumerate(configs, 1):
        what = f"batch {config.schedule.sac_batch}, {_count(config.seeds, 'seed')}"
        line.note(f"updates {number}/{len(configs)}: compiling {what}")
        one = UpdateContestant(config, steps)
        (rate,) = in_turns([one], seconds)
        line.update(line.total - len(configs) + number, f"{what}: {rate.summary()['median']:,.1f} updates/s")
        yield {"updates": [{**one.about, "updates_per_second": {**rate.summary(), "rounds": rate.rounds}}]}


# --- all of it -------------------------------------------------------------------------------------------------


def bench(
    env: str = "ant",
    engines: Sequence[EngineName] | None = None,
    worlds: Sequence[int] | None = None,
    threads: Sequence[int] | None = None,
    seconds: float = 2.0,
    only: Part | None = None,
    quiet: bool = False,
    keep: Callable[[dict[str, Any]], None] = lambda result: None,
) -> dict[str, Any]:
    """Measure physics and updates; the results, ready for JSON. `keep` gets what there is whenever there is more."""
    body = _check(env, worlds, threads, seconds)
    threads = tuple(dict.fromkeys(threads or (1, cores())))
    engines = tuple(dict.fromkeys(engines or _engines_here()))
    if "warp" in engines:
        import_mujoco_warp()
    rivals, missing = _rivals() if only != "updates" else (set(), {})
    groups = list(physics_groups(body, engines, worlds, threads, rivals)) if only != "updates" else []
    configs = list(update_configs(body)) if only != "physics" else []
    result: dict[str, Any] = {
        "provenance": _provenance(),
        "env": body,
        "seconds_per_measurement": seconds,
        "rounds": ROUNDS,
        "missing": missing,
        "physics": [],
        "ratios": [],
        "updates": [],
        "complete": False,
    }
    began = time.monotonic()
    with progress(sum(map(len, groups)) + len(configs), "measurement", quiet=quiet) as line:
        for more in itertools.chain(measure_physics(groups, seconds, line), measure_updates(configs, seconds, line)):
            for kind, rows in more.items():
                result[kind] += rows
            keep(result | {"took_seconds": time.monotonic() - began})
    result |= {"complete": True, "took_seconds": time.monotonic() - began}
    keep(result)
    return result


def _check(env: str, worlds: Sequence[int] | None, threads: Sequence[int] | None, seconds: float) -> BodyName:
    bodies = typing.get_args(BodyName)
    if env not in bodies:
        raise UserError(f"--env is {env}; it must be one of {', '.join(bodies)}")
    for flag, values in (("--worlds", worlds), ("--threads", threads)):
        if values is not None and (not values or min(values) < 1):
            raise UserError(f"{flag} is {' '.join(map(str, values)) or 'empty'}; it must be whole numbers from 1 on")
    if not 0 < seconds <= 3600:
        raise UserError(f"--seconds is {seconds}; it must be positive, and an hour at most")
    return typing.cast(BodyName, env)


def _engines_here() -> tuple[EngineName, ...]:
    """`c` everywhere, `warp` where there is a GPU and it is installed."""
    if jax.default_backend() == "cpu":
        return ("c",)
    try:
        import_mujoco_warp()
    except UserError:
        return ("c",)
    return ("c", "warp")


NEEDS = {
    "envpool": (("envpool",), "not installed: the package envpool has it"),
    "async": (("imageio", "glfw"), "not installed: Gymnasium's own bodies need the extra gymnasium[mujoco]"),
}
"""The modules without which a rival cannot run, and what to say then."""


def _rivals() -> tuple[set[str], dict[str, str]]:
    """What else there is to compare with, and why the rest is missing."""
    reasons = {name: _why_missing(*needs) for name, needs in NEEDS.items()}
    missing = {name: why for name, why in reasons.items() if why is not None}
    return set(NEEDS) - set(missing), missing


def _why_missing(modules: tuple[str, ...], if_not_installed: str) -> str | None:
    if any(importlib.util.find_spec(module) is None for module in modules):
        return if_not_installed
    try:
        for module in modules:
            importlib.import_module(module)
    except Exception as error:  # whatever it is, a missing library of the system's, say: not ours, and no reason to end
        return f"installed, but cannot be loaded: {' '.join(str(error).split()) or type(error).__name__}"
    return None


def _provenance() -> dict[str, Any]:
    device = jax.devices()[0]
    return {
        "command": command(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in (*PACKAGES, "envpool")}},
        "device": {
            "platform": device.platform,
            "kind": processor() if device.platform == "cpu" else device.device_kind,
            "cpu": processor(),
            "cpu_cores": os.cpu_count(),
        },
    }


def default_path(result: dict[str, Any]) -> Path:
    """Where results go unless said otherwise: benchmarks/results/bench_<device>.json."""
    device = result["provenance"]["device"]
    name = device["kind"] + (f" {device['cpu_cores']} cores" if device["platform"] == "cpu" else "")
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return Path("benchmarks/results") / f"bench_{slug}.json"


def table(result: dict[str, Any]) -> Table:
    """The results as a person reads them."""
    against = {_key(entry["theirs"]): entry["ratio"] for entry in result["ratios"]}
    title = f"{result['env']}, {result['provenance']['device']['kind']}"
    made = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("", "size", "on"):
        made.add_column(column, no_wrap=True)
    for column in ("per s", "range", "compile", "c / this"):
        made.add_column(column, no_wrap=True, justify="right")
    for row in result["physics"]:
        ours = against.get(_key(row))
        times = f"{ours['median']:.2f}" if ours else ""
        size = _count(row["worlds"], "world")
        made.add_row(f"{row['engine']} steps", size, _workers(row), *_cells(row["steps_per_second"], row), times)
    for row in result["updates"]:
        size, seeds = f"batch {row['batch']}", _count(row["seeds"], "seed")
        made.add_row(f"{row['recipe']} updates", size, seeds, *_cells(row["updates_per_second"], row), "")
    return made


def _key(about: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(about[name] for name in IDENTITY)


def _cells(rate: dict[str, Any], row: dict[str, Any]) -> tuple[str, str, str]:
    digits = 0 if rate["median"] >= 100 else 1
    seconds = "" if row["compile_seconds"] is None else f"{row['compile_seconds']:.1f} s"
    return f"{rate['median']:,.{digits}f}", f"{rate['lowest']:,.{digits}f}-{rate['highest']:,.{digits}f}", seconds
