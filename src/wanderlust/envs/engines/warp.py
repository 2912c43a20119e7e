"""The engine `warp`: MuJoCo on a GPU."""

import functools
import importlib
import inspect
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float

from wanderlust.config import EngineName
from wanderlust.envs.base import Capacity, MujocoWorld, Steered, WorldState
from wanderlust.envs.devices import cache_folder
from wanderlust.envs.engines.base import Engine
from wanderlust.envs.mjcf import Controls, muted, set_physics
from wanderlust.errors import UserError

NO_DRIVER = "Could not find or load the NVIDIA CUDA driver"


class WarpEngine(Engine):
    """MuJoCo Warp, called once per control step: all its substeps are one captured CUDA graph.

    The simulation's buffers belong to Warp and stay where they are; only states, sensors and controls cross.
    On a machine without a GPU it runs as well, slowly, which is what tests need.
    """

    name: EngineName = "warp"
    compiles = True

    def __init__(self, world: MujocoWorld) -> None:
        self._model, self._skip = world.model, world.frame_skip
        self._steered = world if isinstance(world, Steered) else None
        if self._model.npluginstate or self._model.nhistory:
            raise UserError(f"--engine warp cannot step {world.spec.name}: it has plugins or delays; use --engine c")
        self.capacity = world.capacity or measured_capacity(world)
        self._simulations: dict[tuple[str, int], _Simulation] = {}
        self._lock = threading.Lock()

    def step(self, state: WorldState, action: Float[Array, "worlds action"]) -> WorldState:
        if self._steered is None:
            return self._step(state, Controls.of_model(self._model).of_batch(action))
        state = jax.tree.map(jnp.asarray, state)
        control, mocap = self._steered.inputs(state, jnp.asarray(action))
        poses = jnp.concatenate([state.physics[:, : -mocap.shape[1]], mocap], axis=1)
        after = self._step(state._replace(physics=poses), control)
        return after._replace(physics=self._steered.corrected(after.physics))

    @functools.cached_property
    def _step(self) -> Any:
        """The step as JAX sees it: a batch of batches is one larger batch."""
        call, model, sizes = self._callable, self._model, self._sizes
        cuts = np.cumsum(list(sizes.values()))

        @jax.custom_batching.custom_vmap
        def step(state: WorldState, control: Array) -> WorldState:
            worlds = control.shape[0]
            self.prepare(worlds)  # now, while tracing: memory made while a graph is captured would belong to the graph
            time, *parts = jnp.split(state.physics, [1, *(1 + cuts[:-1])], axis=1)
            known = dict(zip(sizes, parts, strict=True))
            dims = {f"{name}_out": (worlds, size) for name, size in self._outputs.items()}
            controls = (control,) if model.nu else ()  # a model without actuators has none
            made = dict(zip(self._outputs, call(*parts, *controls, output_dims=dims), strict=True))
            time = time + self._skip * model.opt.timestep
            physics = jnp.concatenate([time, *({**known, **made}[name] for name in sizes)], axis=1)
            return WorldState(physics, made.get("sensordata", jnp.zeros((worlds, 0))))

        @step.def_vmap
        def batched(size: int, is_batched: Any, state: WorldState, control: Array) -> tuple[WorldState, Any]:
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
    def _sizes(self) -> dict[str, int]:
        """What the state holds behind its time, as far as the model has it."""
        model = self._model
        sizes = {
            "qpos": model.nq,
            "qvel": model.nv,
            "act": model.na,
            "mocap_pos": 3 * model.nmocap,
            "mocap_quat": 4 * model.nmocap,
        }
        return {name: size for name, size in sizes.items() if size}

    @functools.cached_property
    def _outputs(self) -> dict[str, int]:
        """What a step changes, and what it senses."""
        sizes = {name: size for name, size in self._sizes.items() if not name.startswith("mocap")}
        return {**sizes, **({"sensordata": self._model.nsensordata} if self._model.nsensordata else {})}

    @functools.cached_property
    def _callable(self) -> Any:
        wp = import_warp()
        matrix = wp.array2d(dtype=wp.float32)
        inputs, outputs = [*self._sizes, *(["ctrl"] if self._model.nu else [])], list(self._outputs)

        def step(*arrays: Any) -> None:
            simulation = self._simulation(wp.get_device(), arrays[0].shape[0])
            given, wanted = arrays[: len(inputs)], arrays[len(inputs) :]
            simulation.advance(dict(zip(inputs, given, strict=True)), dict(zip(outputs, wanted, strict=True)))

        names = [*inputs, *(f"{name}_out" for name in outputs)]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature([inspect.Parameter(name, kind, annotation=matrix) for name in names])
        control_step: Any = step
        control_step.__signature__ = signature
        control_step.__annotations__ = dict.fromkeys(names, matrix)
        on_gpu = jax.default_backend() != "cpu"
        mode = wp.JaxCallableGraphMode.WARP_STAGED if on_gpu else wp.JaxCallableGraphMode.NONE
        return wp.jax_callable(control_step, num_outputs=len(outputs), graph_mode=mode, vmap_method=None)

    def _simulation(self, device: Any, worlds: int) -> "_Simulation":
        with self._lock:
            key = (str(device), worlds)
            if key not in self._simulations:
                self._simulations[key] = _Simulation(self._model, self._skip, worlds, self.capacity)
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

    def overflow(self) -> str:
        for (_, worlds), simulation in self._simulations.items():
            contacts, rows, overflowed = simulation.load()
            if overflowed or contacts > self.capacity.contacts * worlds or rows > self.capacity.rows:
                return (
                    f"the buffers of MuJoCo Warp overflowed: {contacts} contacts in {worlds} worlds (room for "
                    f"{self.capacity.contacts * worlds}), {rows} constraint rows in one world (room for "
                    f"{self.capacity.rows}); physics was wrong since, go on with --engine c"
                )
        return ""


class _Simulation:
    """The buffers of one batch of worlds on one device."""

    def __init__(self, model: mujoco.MjModel, frame_skip: int, worlds: int, room: Capacity) -> None:
        warp = import_mujoco_warp()
        self._step, self._forward, self._skip = warp.step, warp.forward, frame_skip
        self._model = warp.put_model(model)
        self._model.opt.warn_overflow = 0  # it is counted and checked instead of printed
        self._data = warp.make_data(model, nworld=worlds, naconmax=room.contacts * worlds, njmax=room.rows)
        wp = import_warp()
        self._wp = wp
        self._worst = wp.zeros(2, dtype=wp.int32)
        self._gather = _load_kernel()
        self._full = int(warp.OverflowType.NEFC | warp.OverflowType.BROADPHASE | warp.OverflowType.NARROWPHASE)

    def advance(self, given: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        """One control step of all worlds, as a sequence of launches that a CUDA graph can hold."""
        wp, data = self._wp, self._data
        for name, values in given.items():
            wp.copy(self._matrix(name), values)
        data.qacc_warmstart.zero_()
        for _ in range(self._skip):
            self._step(self._model, data)
            wp.launch(self._gather, data.nefc.shape[0], inputs=[data.nacon, data.ncollision, data.nefc, self._worst])
        if "sensordata" in wanted:
            self._forward(self._model, data)
        for name, values in wanted.items():
            wp.copy(values, self._matrix(name))

    def _matrix(self, name: str) -> Any:
        """One of the data's arrays as [worlds, numbers]."""
        wp, array = self._wp, getattr(self._data, name)
        if not name.startswith("mocap"):
            return array
        numbers = array.shape[1] * (3 if name == "mocap_pos" else 4)
        return wp.array(ptr=array.ptr, dtype=wp.float32, shape=(array.shape[0], numbers), device=array.device)

    def warm_up(self) -> None:
        """Compile or load every kernel; the worlds stand still in their initial pose."""
        data = self._data
        here = {name: getattr(data, name) for name in ("qpos", "qvel", "ctrl")}
        self.advance(here, {name: here[name] for name in ("qpos", "qvel")})
        if data.sensordata.size:
            self._forward(self._model, data)
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
    warp = _import("warp")
    warp.config.log_level = max(warp.config.log_level, warp.LOG_WARNING)  # no banner, no line per kernel
    if warp.config.kernel_cache_dir is None and "WARP_CACHE_PATH" not in os.environ:
        warp.config.kernel_cache_dir = str(cache_folder() / "warp")
    if jax.default_backend() == "cpu":
        _begin_without_gpu()
    return warp


@functools.cache
def _begin_without_gpu() -> None:
    """Let Warp begin where it finds no GPU: its C++ code says so on stderr, past every log level."""
    warp, (reading, writing) = _import("warp"), os.pipe()
    kept = os.dup(2)
    try:
        os.dup2(writing, 2)
        warp.init()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(writing)
    with open(reading, errors="replace") as said:
        for line in said:
            if NO_DRIVER not in line:
                sys.stderr.write(line)


def import_mujoco_warp() -> Any:
    """MuJoCo Warp, as MJX ships it."""
    import_warp()
    return _import("mujoco.mjx.third_party.mujoco_warp")


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(
            "--engine warp needs MuJoCo Warp: install wanderlust with its extra, wanderlust[cuda]"
        ) from None


def measured_capacity(world: MujocoWorld) -> Capacity:
    """Twice what the worst of some rollouts with full and with random actions needed, for worlds that do not say."""
    model, rng = world.model, np.random.default_rng(0)
    data, controls, contacts, rows = mujoco.MjData(model), Controls.of_model(model), 0, 0
    with muted():
        for rollout in range(8):
            start = world.initial(jax.random.key(rollout))
            mujoco.mj_resetData(model, data)
            set_physics(model, data, np.asarray(start.physics))
            for step in range(50 * world.frame_skip):
                if step % world.frame_skip == 0:
                    action = rng.uniform(-1, 1, model.nu)
                    data.ctrl[:] = controls.of(action if rollout % 2 else np.sign(action))
                mujoco.mj_step(model, data)
                contacts, rows = max(contacts, data.ncon), max(rows, data.nefc)
    return Capacity(contacts=2 * contacts + 8, rows=2 * rows + 16)
