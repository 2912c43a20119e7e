"""Which engine steps a world."""

import functools
from typing import Any, get_args

import jax
import mujoco

from wanderlust.config import EngineName
from wanderlust.envs.base import MujocoWorld, SelfStepping, World
from wanderlust.envs.devices import cores
from wanderlust.envs.engines.base import Engine
from wanderlust.envs.engines.formula import JaxEngine
from wanderlust.envs.engines.gymnasium import GymnasiumEngine, Outside
from wanderlust.envs.engines.mujoco_c import CEngine
from wanderlust.envs.engines.warp import WarpEngine, import_mujoco_warp
from wanderlust.errors import UserError


def make_engine(world: World, name: EngineName = "auto", threads: int | None = None) -> Engine:
    """The engine for a world; `auto` is resolved by `choose_engine`. `threads` are those of `c`, all cores if None."""
    picked = choose_engine(world, name)[0]
    if isinstance(world, Outside):
        return GymnasiumEngine(world)
    if isinstance(world, SelfStepping):
        return JaxEngine(world)
    if not isinstance(world, MujocoWorld):
        raise TypeError(f"no engine steps {type(world).__name__}: it has neither a model nor a step of its own")
    return WarpEngine(world) if picked == "warp" else CEngine(world, threads)


def choose_engine(world: World, name: EngineName = "auto") -> tuple[EngineName, str]:
    """The engine to use, and why, in words."""
    if name not in get_args(EngineName):
        raise UserError(f"engine is {name!r}; it must be one of {', '.join(get_args(EngineName))}")
    if isinstance(world, Outside):
        if name not in ("auto", "gymnasium"):
            raise UserError(f"--engine {name} cannot step {world.spec.name}: it steps itself, so leave it out")
        return "gymnasium", _how_many(world)
    if name == "gymnasium":
        raise UserError(f"--engine gymnasium cannot step {world.spec.name}: leave it out")
    if not isinstance(world, MujocoWorld):
        if name not in ("auto", "jax"):
            raise UserError(
                f"--engine {name} cannot step {world.spec.name}: its dynamics are a formula, so leave it out"
            )
        return "jax", "its dynamics are a formula"
    if name == "jax":
        raise UserError(f"--engine jax cannot step {world.spec.name}: choose c or warp")
    if name == "c":
        return "c", "asked for"
    if world.model.opt.solver == mujoco.mjtSolver.mjSOL_PGS:
        if name == "warp":
            raise UserError(
                "--engine warp has no PGS solver, which env.solver=stock (the paper's) asks for: use --engine c, or "
                "--set env.solver=newton"
            )
        return "c", "env.solver=stock asks for PGS, which only this engine has"
    if name == "warp":
        if missing := warp_misses(world):
            raise UserError(f"--engine warp cannot step {world.spec.name}: {missing}; use --engine c")
        return "warp", "asked for"
    if jax.default_backend() == "cpu":
        return "c", "JAX sees no GPU"
    try:
        missing = warp_misses(world)
    except UserError:
        return "c", "there is a GPU, but MuJoCo Warp is not installed: wanderlust[cuda] has it"
    if missing:
        return "c", f"there is a GPU, but MuJoCo Warp cannot step this model: {missing}"
    return "warp", f"there is a GPU ({jax.devices()[0].device_kind})"


def warp_misses(world: MujocoWorld) -> str:
    """Which feature of a world's model MuJoCo Warp does not have, in its own words; nothing if it has all."""
    import_mujoco_warp()  # raises where it is not installed, also after a world has been tried
    hashable: Any = world
    return _warp_misses(hashable)


@functools.cache
def _warp_misses(world: Any) -> str:
    warp = import_mujoco_warp()
    if world.model.npluginstate or world.model.nhistory:
        return "it has plugins or delays"
    try:
        warp.put_model(world.model)
    except NotImplementedError as error:
        return " ".join(str(error).split()).rstrip(".")
    return ""


def _how_many(world: Outside) -> str:
    if world.asked.here:
        return "it steps itself, in this process"
    count = cores()
    return f"it steps itself, in {count} processes" if count > 1 else "it steps itself, in a process of its own"
