"""The engines that move worlds: the only file that knows them. One signature, a batch of worlds per call.

`jax`   worlds whose dynamics are a formula, inside or outside a compiled program
`c`     MuJoCo's own engine on CPU cores, a pool of threads; outside compiled programs only
`warp`  MuJoCo Warp, the GPU implementation of MJX, inside compiled programs

A control step is a function of (qpos, qvel, action) alone: the solver starts every one of them from nothing, so that
no hidden state travels between steps and all engines can go on from a state that another one left.
"""

import dataclasses
import functools
import os
import threading
from typing import Any, NamedTuple, Protocol, get_args

import jax
import jax.numpy as jnp
import mujoco
import mujoco.rollout
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from wanderlust.config import Engine as EngineName
from wanderlust.devices import cache_folder, cores
from wanderlust.envs.base import LARGEST, Physical, SelfStepping, World
from wanderlust.envs.locomotion import FRAME_SKIP, Body
from wanderlust.envs.models import ignore_warnings, load_model, load_model_for_c
from wanderlust.errors import UserError


class Engine(Protocol):
    """Moves a batch of worlds by one control step."""

    @property
    def name(self) -> EngineName: ...

    @property
    def compiles(self) -> bool:
        """Whether `step` may be called inside jit; if not, only the `split` driver can use the engine."""
        ...

    def step(self, state: Physical, action: Float[Array, "worlds action"]) -> Physical: ...

    def for_callers(self, count: int) -> "Engine":
        """The engine that so many threads should use which call it at once."""
        ...

    def check(self) -> None:
        """Raise if a buffer of the engine has overflowed since it was made: physics was wrong from there on."""
        ...


def overflow_of(engine: Engine) -> str:
    """What `check` would raise, or nothing: for those who must look at something else first."""
    try:
        engine.check()
    except UserError as error:
        return str(error)
    return ""


@dataclasses.dataclass(frozen=True)
class JaxEngine:
    """Worlds that step themselves by a formula."""

    world: SelfStepping
    compiles: bool = True
    name: EngineName = "jax"

    def step(self, state: Physical, action: Float[Array, "worlds action"]) -> Physical:
        return jax.vmap(self.world.step)(state, action)

    def for_callers(self, count: int) -> "JaxEngine":
        return self

    def check(self) -> None:
        pass


# --- MuJoCo on CPU cores -------------------------------------------------------------------------------------------


MANY_CORES = 8
"""From here on callers share them out: on 16, two pools of 16 threads moved 10 Ants each in 0.74 ms, of 8 in 0.58."""


class CEngine:
    """`mujoco.rollout`: one call moves all worlds on a pool of threads. NumPy in, NumPy out.

    A world of which MuJoCo warns (a state or a control that is not sane) stops there and keeps that state to the end of
    the control step. Warnings are not printed, nor written to a file in the working folder: whoever needs to know looks
    at the states.
    """

    name: EngineName = "c"
    compiles = False

    def __init__(self, world: Body, threads: int | None = None) -> None:
        self._world = world
        self._model = load_model_for_c(world.config, world.bars)
        self._threads = cores() if threads is None else threads
        ignore_warnings()
        self._mine = threading.local()

    def _tools(self, worlds: int) -> "_Tools":
        """The pool, scratch space and buffers of the calling thread: two callers must not share them."""
        mine = self._mine
        if not hasattr(mine, "pool"):
            mine.pool = mujoco.rollout.Rollout(nthread=self._threads if self._threads > 1 else 0)
            mine.scratch = [mujoco.MjData(self._model) for _ in range(self._threads)]
            mine.tools = {}
        if worlds not in mine.tools:
            mine.tools[worlds] = _Tools(self._model, worlds, self._chunk(worlds), mine.pool, mine.scratch)
        return mine.tools[worlds]

    def step(self, state: Physical, action: Float[Array, "worlds action"]) -> Physical:
        tools = self._tools(len(action))
        tools.qpos[:], tools.qvel[:] = state
        tools.roll_out(action)
        after: Any = _rounded(tools.after)
        nq = tools.qpos.shape[1]
        return Physical(qpos=after[:, :nq], qvel=after[:, nq:])

    def step_rows(self, state: NDArray[np.float32], action: NDArray[np.float32]) -> tuple[NDArray[np.float32], bool]:
        """The same for rows of qpos and then qvel, quicker: with few worlds, what surrounds physics is felt.

        Returns:
            The rows after the step, a new array; and whether all worlds are known to be sane. If not, look at each.
        """
        tools = self._tools(len(action))
        tools.before[:] = state
        tools.roll_out(action)
        # Half the limit, as rounding may reach it. If any entry is no number, then nor is the largest, and not less.
        if np.abs(tools.after).max() < LARGEST / 2:
            return tools.after.astype(np.float32), True
        return _rounded(tools.after), False

    def for_callers(self, count: int) -> "CEngine":
        """The same for so many threads that call at once: each with its share of the cores.

        Few cores are not shared out: while one caller does something else, the other should have them all.
        """
        return CEngine(self._world, self._threads // count) if self._threads >= MANY_CORES else self

    def _chunk(self, worlds: int) -> int:
        """Worlds a thread takes at a time: few enough that the last ones do not wait for one thread."""
        return max(1, worlds // (self._threads * 4))

    def check(self) -> None:
        pass


def _rounded(states: NDArray[np.float64]) -> NDArray[np.float32]:
    """A body that breaks down may be beyond float32: infinite, and found as such."""
    with np.errstate(over="ignore"):
        return states.astype(np.float32)


class _Tools:
    """What one thread needs to move a number of worlds: made once, so that a step allocates and checks nothing."""

    def __init__(
        self,
        model: mujoco.MjModel,
        worlds: int,
        chunk: int,
        pool: mujoco.rollout.Rollout,
        scratch: list[mujoco.MjData],
    ) -> None:
        size = 1 + model.nq + model.nv  # a full physics state is (time, qpos, qvel) for bodies without muscles
        self._start = np.zeros((worlds, size))
        self._path = np.zeros((worlds, FRAME_SKIP, size))
        self._control = np.zeros((worlds, FRAME_SKIP, model.nu))
        self._controls = Controls.of_model(model).of_worlds(worlds)
        self.before, self.after = self._start[:, 1:], self._path[:, -1, 1:]
        """Where the states [worlds, qpos and qvel] stand from which worlds go on, and to which they came."""
        self.qpos, self.qvel = self.before[:, : model.nq], self.before[:, model.nq :]
        self._models, self._chunk, self._pool, self._scratch = [model] * worlds, chunk, pool, scratch

    def roll_out(self, action: Any) -> None:
        """One control step of all worlds, from `before` to `after`."""
        self._control[:] = self._controls.of(action)[:, None]
        self._pool.rollout(
            self._models,
            self._scratch,
            self._start,
            self._control,
            skip_checks=True,
            nstep=FRAME_SKIP,
            state=self._path,
            chunk_size=self._chunk,
        )


class Controls(NamedTuple):
    """What actions in [-1, 1] are as a model's controls. Looked up once: a step of few worlds takes little longer."""

    low: np.ndarray[Any, np.dtype[np.float64]]
    half: np.ndarray[Any, np.dtype[np.float64]]
    """Of the range."""

    @classmethod
    def of_model(cls, model: mujoco.MjModel) -> "Controls":
        low, high = model.actuator_ctrlrange.T.copy()
        return cls(low, 0.5 * (high - low))

    def of_worlds(self, count: int) -> "Controls":
        """The same, a row for each of so many worlds: NumPy goes through arrays of one shape in one go."""
        return Controls(np.tile(self.low, (count, 1)), np.tile(self.half, (count, 1)))

    def of(self, action: Any) -> Any:
        """[..., action] NumPy in, NumPy in double precision out."""
        wide = np.asarray(action, np.float64)
        return self.low + (np.minimum(np.maximum(wide, -1.0), 1.0) + 1.0) * self.half

    def of_batch(self, action: Float[Array, "worlds action"]) -> Float[Array, "worlds control"]:
        """The same in JAX."""
        low, half = jnp.asarray(self.low, jnp.float32)[None], jnp.asarray(self.half, jnp.float32)[None]
        return low + (jnp.clip(action, -1.0, 1.0) + 1.0) * half


# --- MuJoCo on a GPU -----------------------------------------------------------------------------------------------


class Capacity(NamedTuple):
    """Room in MuJoCo Warp's buffers. Beyond it physics is silently wrong, so it is counted and checked."""

    contacts: int
    """Contacts (and pairs close enough to be looked at) per world; the buffer is shared by all worlds of a batch."""
    rows: int
    """Constraint rows of any one world."""


CAPACITIES = {
    "ant": Capacity(contacts=25, rows=72),
    "half-cheetah": Capacity(contacts=16, rows=72),
    "humanoid": Capacity(contacts=32, rows=120),
}
"""1.5 times or more the worst case seen in rollouts with random and with full actions from random poses
(`tests/test_engines.py` measures it again): 11 contacts and 48 rows, 7 and 32, 19 and 76. HalfCheetah among
the bars of CheetahHurdle needs little more, 8 and 32 (`tests/test_tasks.py`)."""


class WarpEngine:
    """MuJoCo Warp, called once per control step: all its substeps are one captured CUDA graph.

    The simulation's buffers belong to Warp and stay where they are; only positions, velocities and controls cross.
    On a machine without a GPU it runs as well, slowly, which is what tests need.
    """

    name: EngineName = "warp"
    compiles = True

    def __init__(self, world: Body) -> None:
        self._model = load_model(world.config, world.bars)
        self.capacity = CAPACITIES[world.config.name]
        self._simulations: dict[tuple[str, int], _Simulation] = {}
        self._lock = threading.Lock()

    def step(self, state: Physical, action: Float[Array, "worlds action"]) -> Physical:
        return self._step(state, Controls.of_model(self._model).of_batch(action))

    @functools.cached_property
    def _step(self) -> Any:
        """The step as JAX sees it: a batch of batches is one larger batch."""
        call = self._callable

        @jax.custom_batching.custom_vmap
        def step(state: Physical, control: Array) -> Physical:
            worlds, model = control.shape[0], self._model
            self.prepare(worlds)  # now, while tracing: memory made while a graph is captured would belong to the graph
            dims = {"qpos_out": (worlds, model.nq), "qvel_out": (worlds, model.nv)}
            return Physical(*call(state.qpos, state.qvel, control, output_dims=dims))

        @step.def_vmap
        def batched(size: int, is_batched: Any, state: Physical, control: Array) -> tuple[Physical, Any]:
            spread = jax.tree.map(
                lambda x, has: x if has else jnp.broadcast_to(x, (size, *x.shape)), (state, control), tuple(is_batched)
            )
            worlds = spread[1].shape[1]
            flat = jax.tree.map(lambda x: x.reshape((size * worlds, *x.shape[2:])), spread)
            after = step(*flat)
            spread_again = jax.tree.map(lambda x: x.reshape((size, worlds, *x.shape[1:])), after)
            return spread_again, jax.tree.map(lambda _: True, spread_again)

        return step

    @functools.cached_property
    def _callable(self) -> Any:
        wp = import_warp()
        matrix = wp.array2d(dtype=wp.float32)

        def control_step(qpos: Any, qvel: Any, control: Any, qpos_out: Any, qvel_out: Any) -> None:
            self._simulation(wp.get_device(), qpos.shape[0]).advance(qpos, qvel, control, qpos_out, qvel_out)

        names = ("qpos", "qvel", "control", "qpos_out", "qvel_out")
        control_step.__annotations__ = dict.fromkeys(names, matrix)
        on_gpu = jax.default_backend() != "cpu"
        mode = wp.JaxCallableGraphMode.WARP_STAGED if on_gpu else wp.JaxCallableGraphMode.NONE
        return wp.jax_callable(control_step, num_outputs=2, graph_mode=mode, vmap_method=None)

    def _simulation(self, device: Any, worlds: int) -> "_Simulation":
        with self._lock:
            key = (str(device), worlds)
            if key not in self._simulations:
                self._simulations[key] = _Simulation(self._model, worlds, self.capacity)
            return self._simulations[key]

    def prepare(self, worlds: int) -> None:
        """Make the buffers for a batch of this size and load the kernels, outside of any compiled program."""
        wp = import_warp()
        device = wp.get_device("cpu" if jax.default_backend() == "cpu" else None)
        with wp.ScopedDevice(device):
            simulation = self._simulation(device, worlds)
            simulation.warm_up()

    def bytes(self, worlds: int) -> int:
        """About how much memory the buffers of that many worlds take."""
        model, room = self._model, self.capacity
        per_row = 4 * (model.nv + 16)
        per_contact = 4 * 64
        per_world = 4 * (40 * model.nbody + 12 * model.nv * model.nv + 64 * model.nv + 24 * model.ngeom)
        return worlds * (per_world + room.rows * per_row + room.contacts * per_contact)

    def for_callers(self, count: int) -> "WarpEngine":
        return self

    def check(self) -> None:
        for (_, worlds), simulation in self._simulations.items():
            contacts, rows, overflowed = simulation.load()
            if overflowed or contacts > self.capacity.contacts * worlds or rows > self.capacity.rows:
                raise UserError(
                    f"the buffers of MuJoCo Warp overflowed: {contacts} contacts in {worlds} worlds (room for "
                    f"{self.capacity.contacts * worlds}), {rows} constraint rows in one world (room for "
                    f"{self.capacity.rows}); physics was wrong since, go on with --engine c"
                )


class _Simulation:
    """The buffers of one batch of worlds on one device."""

    def __init__(self, model: mujoco.MjModel, worlds: int, room: Capacity) -> None:
        warp = import_mujoco_warp()
        self._step = warp.step
        self._model = warp.put_model(model)
        self._model.opt.warn_overflow = 0  # it is counted and checked instead of printed
        self._data = warp.make_data(model, nworld=worlds, naconmax=room.contacts * worlds, njmax=room.rows)
        wp = import_warp()
        self._wp = wp
        self._worst = wp.zeros(2, dtype=wp.int32)
        self._gather = _load_kernel()
        self._full = int(warp.OverflowType.NEFC | warp.OverflowType.BROADPHASE | warp.OverflowType.NARROWPHASE)

    def advance(self, qpos: Any, qvel: Any, control: Any, qpos_out: Any, qvel_out: Any) -> None:
        """One control step of all worlds, as a sequence of launches that a CUDA graph can hold."""
        wp, data = self._wp, self._data
        wp.copy(data.qpos, qpos)
        wp.copy(data.qvel, qvel)
        wp.copy(data.ctrl, control)
        data.qacc_warmstart.zero_()
        for _ in range(FRAME_SKIP):
            self._step(self._model, data)
            wp.launch(self._gather, data.nefc.shape[0], inputs=[data.nacon, data.ncollision, data.nefc, self._worst])
        wp.copy(qpos_out, data.qpos)
        wp.copy(qvel_out, data.qvel)

    def warm_up(self) -> None:
        """Compile or load every kernel; the worlds stand still in their initial pose."""
        data = self._data
        self.advance(data.qpos, data.qvel, data.ctrl, data.qpos, data.qvel)
        self._wp.synchronize()

    def load(self) -> tuple[int, int, bool]:
        """The most contacts in all worlds, the most rows in one, and whether the engine itself saw an overflow."""
        contacts, rows = (int(x) for x in self._worst.numpy())
        return contacts, rows, bool(np.any(self._data.overflow.numpy() & self._full))


@functools.cache
def _load_kernel() -> Any:
    wp = import_warp()

    def gather_load(nacon: Any, ncollision: Any, nefc: Any, worst: Any) -> None:
        world = wp.tid()
        if world == 0:
            wp.atomic_max(worst, 0, wp.max(nacon[0], ncollision[0]))
        wp.atomic_max(worst, 1, nefc[world])

    counts = wp.array(dtype=wp.int32)
    gather_load.__annotations__ = dict.fromkeys(("nacon", "ncollision", "nefc", "worst"), counts)
    return wp.kernel(gather_load)


def import_warp() -> Any:
    """Warp, quiet and with our cache; a clear message where it is missing."""
    try:
        import warp
    except ImportError:
        raise UserError(
            "--engine warp needs MuJoCo Warp: install wanderlust with its extra, wanderlust[cuda]"
        ) from None
    warp.config.log_level = max(warp.config.log_level, warp.LOG_WARNING)  # no banner, no line per kernel
    if warp.config.kernel_cache_dir is None and "WARP_CACHE_PATH" not in os.environ:
        warp.config.kernel_cache_dir = str(cache_folder() / "warp")
    return warp


def import_mujoco_warp() -> Any:
    """MuJoCo Warp, as MJX ships it."""
    import_warp()
    try:
        from mujoco.mjx.third_party import mujoco_warp
    except ImportError:
        raise UserError(
            "--engine warp needs MuJoCo Warp: install wanderlust with its extra, wanderlust[cuda]"
        ) from None
    return mujoco_warp


# --- which one -----------------------------------------------------------------------------------------------------


def make_engine(world: World, name: EngineName = "auto", threads: int | None = None) -> Engine:
    """The engine for a world; `auto` is resolved by `choose_engine`. `threads` are those of `c`, all cores if None."""
    if name not in get_args(EngineName):
        raise UserError(f"engine is {name!r}; it must be one of {', '.join(get_args(EngineName))}")
    if isinstance(world, SelfStepping):
        if name not in ("auto", "jax"):
            raise UserError(
                f"--engine {name} cannot move {world.spec.name}: its dynamics are a formula, so leave it out"
            )
        return JaxEngine(world)
    if not isinstance(world, Body):
        raise TypeError(f"no engine moves {type(world).__name__}: it has no step of its own")
    picked = choose_engine(world, name)[0]
    return WarpEngine(world) if picked == "warp" else CEngine(world, threads)


def choose_engine(world: World, name: EngineName = "auto") -> tuple[EngineName, str]:
    """The engine to use, and why, in words."""
    if not isinstance(world, Body):
        return "jax", "its dynamics are a formula"
    if name == "jax":
        raise UserError(f"--engine jax cannot move {world.spec.name}: choose c or warp")
    if name == "c":
        return "c", "asked for"
    if world.config.solver == "stock" and world.config.name == "humanoid":
        if name == "warp":
            raise UserError(
                "--engine warp has no PGS solver, which env.solver=stock (the paper's) asks for: use --engine c, or "
                "--set env.solver=newton"
            )
        return "c", "env.solver=stock asks for PGS, which only this engine has"
    if name == "warp":
        import_mujoco_warp()
        return "warp", "asked for"
    if jax.default_backend() == "cpu":
        return "c", "JAX sees no GPU"
    try:
        import_mujoco_warp()
    except UserError:
        return "c", "there is a GPU, but MuJoCo Warp is not installed: wanderlust[cuda] has it"
    return "warp", f"there is a GPU ({jax.devices()[0].device_kind})"
