"""The engine `c`: MuJoCo on CPU cores."""

import threading
from typing import Any

import mujoco
import mujoco.rollout
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from wanderlust.config import EngineName
from wanderlust.envs.base import LARGEST, MujocoWorld, Steered, WorldState
from wanderlust.envs.devices import cores
from wanderlust.envs.engines.base import Engine
from wanderlust.envs.mjcf import FULL, MOCAP, Controls, ignore_warnings, without_forces

MANY_CORES = 8
"""From here on callers share them out: on 16, two pools of 16 threads stepped 10 Ants each in 0.74 ms, of 8 in 0.58."""


class CEngine(Engine):
    """`mujoco.rollout`: one call steps all worlds on a pool of threads. NumPy in, NumPy out.

    A world of which MuJoCo warns (a state or a control that is not sane) stops there and keeps that state to the end of
    the control step. Warnings are not printed, nor written to a file in the working folder:
    callers read it off the states.
    """

    name: EngineName = "c"
    compiles = False

    def __init__(self, world: MujocoWorld, threads: int | None = None) -> None:
        self._world = world
        self._model = world.model_for_c
        self.threads = cores() if threads is None else threads
        ignore_warnings()
        self._mine = threading.local()

    def __eq__(self, other: object) -> bool:
        """They step alike: what was compiled around one does for the other."""
        if not isinstance(other, CEngine) or type(other) is not type(self):
            return False
        return (other._world, other.threads) == (self._world, self.threads)

    def __hash__(self) -> int:
        return hash((self._world, self.threads))

    def _buffers(self, worlds: int) -> "_Buffers":
        """The pool, scratch space and buffers of the calling thread: two callers must not share them."""
        mine = self._mine
        if not hasattr(mine, "pool"):
            mine.pool = mujoco.rollout.Rollout(nthread=self.threads if self.threads > 1 else 0)
            mine.scratch = [mujoco.MjData(self._model) for _ in range(self.threads)]
            mine.buffers = {}
        if worlds not in mine.buffers:
            mine.buffers[worlds] = _Buffers(self._world, self._model, worlds, mine.pool, mine.scratch)
        return mine.buffers[worlds]

    def step(self, state: WorldState, action: Float[Array, "worlds action"]) -> WorldState:
        return self.step_checked(state, action)[0]

    def step_checked(self, state: WorldState, action: Any) -> tuple[WorldState, bool]:
        """The states after the step, new arrays; and whether all are known to be sane. If not, look at each."""
        buffers = self._buffers(len(action))
        after = buffers.roll_out(state, action)
        # Half the limit, as rounding may reach it. If any entry is NaN, then so is the largest, and not less.
        all_sane = bool(np.abs(after).max() < LARGEST / 2)
        with np.errstate(over="ignore"):  # a body that breaks down may be beyond float32: infinite, found as such
            physics: Any = after.astype(np.float32)
        sensors: Any = buffers.sense(physics)
        return WorldState(physics, sensors), all_sane

    def for_callers(self, count: int) -> "CEngine":
        """The same for so many threads that call at once: each with its share of the cores.

        Few cores are not shared out: while one caller does something else, the other should have them all.
        """
        return CEngine(self._world, self.threads // count) if self.threads >= MANY_CORES else self


class _Buffers:
    """What one thread needs to step a number of worlds: made once, so that a step allocates and checks nothing."""

    def __init__(
        self,
        world: MujocoWorld,
        model: mujoco.MjModel,
        worlds: int,
        pool: mujoco.rollout.Rollout,
        scratch: list[mujoco.MjData],
    ) -> None:
        self._full, mocap = (mujoco.mj_stateSize(model, part) for part in (FULL, MOCAP))
        self._nu, self._steered = model.nu, world if isinstance(world, Steered) else None
        self._start = np.zeros((worlds, self._full))
        self._path = np.zeros((worlds, world.frame_skip, self._full))
        self._control = np.zeros((worlds, world.frame_skip, model.nu + mocap))
        self._after = self._path[:, -1] if not mocap else np.zeros((worlds, self._full + mocap))
        self._controls = Controls.of_model(model).of_worlds(worlds)
        self._inputs = int(mujoco.mjtState.mjSTATE_CTRL) | (MOCAP if mocap else 0)
        self._models, self._pool, self._scratch = [model] * worlds, pool, scratch
        # a thread takes few enough worlds at a time that the last ones do not wait for one thread
        self._chunk = max(1, worlds // (len(scratch) * 4))
        self._readers = [without_forces(model)] * worlds
        self._nowhere = np.zeros((worlds, 1, self._full))
        self._sensors = np.zeros((worlds, 1, model.nsensordata))

    def roll_out(self, state: WorldState, action: Any) -> NDArray[np.float64]:
        """One control step of all worlds; the array returned is overwritten by the next call."""
        physics, steered = state.physics, self._steered
        if steered is None:
            control, mocap = self._controls.of(action), physics[:, self._full :]
        else:
            wide: Any = [np.asarray(part, np.float64) for part in state]
            control, mocap = steered.inputs(WorldState(*wide), np.asarray(action, np.float64))
        self._start[:] = physics[:, : self._full]
        self._control[:, :, : self._nu] = control[:, None]
        if mocap.shape[1]:
            self._control[:, :, self._nu :] = mocap[:, None]
        self._run(self._control, self._path)
        if mocap.shape[1]:
            self._after[:, : self._full] = self._path[:, -1]
            self._after[:, self._full :] = mocap
        return self._after if steered is None else steered.corrected(self._after)

    def sense(self, physics: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the sensors read in these states. After a step MuJoCo has what they read before its last substep."""
        if self._sensors.size:
            self._start[:] = physics[:, : self._full]
            self._run(self._control[:, :1], self._nowhere, self._sensors, self._readers)
        return self._sensors[:, 0].astype(np.float32)

    def _run(self, control: Any, path: Any, sensors: Any = None, models: list[mujoco.MjModel] | None = None) -> None:
        self._pool.rollout(
            models or self._models,
            self._scratch,
            self._start,
            control,
            control_spec=self._inputs,
            skip_checks=True,
            nstep=path.shape[1],
            state=path,
            sensordata=sensors,
            chunk_size=self._chunk,
        )
