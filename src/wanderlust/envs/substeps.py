"""One control step of the engine `c`, physics step by physics step."""

from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from wanderlust.envs.base import MujocoWorld, Steered, WorldState, sane
from wanderlust.envs.mjcf import MOCAP, Controls, muted, physics_of, set_physics


class Substep(NamedTuple):
    """A body after one physics step."""

    speed: float
    """Largest entry of |qvel|."""
    acceleration: float
    """Largest entry of |qacc|, by which the step was made."""
    contacts: int
    rows: int
    """Constraint rows the solver saw."""
    warnings: tuple[str, ...]
    """What MuJoCo warned of during the step."""
    finite: bool
    """Whether the state is sane: a number, and not beyond MuJoCo's limit."""


def substeps(world: MujocoWorld, state: WorldState, action: NDArray[np.float32]) -> list[Substep]:
    """The physics steps of one control step of one world, up to the first whose result is not finite."""
    model = world.model_for_c
    data = mujoco.MjData(model)
    set_physics(model, data, state.physics)
    if isinstance(world, Steered):
        mujoco.mj_forward(model, data)  # the state has no sensors here
        parts: Any = (physics_of(model, data)[None], data.sensordata[None].copy())
        control, mocap = world.inputs(WorldState(*parts), np.asarray(action, np.float64)[None])
        data.ctrl[:] = control[0]
        mujoco.mj_setState(model, data, mocap[0], MOCAP)
        data.qacc_warmstart[:] = 0.0
    else:
        data.ctrl[:] = Controls.of_model(model).of(action)
    seen: list[Substep] = []
    with muted(), np.errstate(over="ignore"):
        while len(seen) < world.frame_skip and (not seen or seen[-1].finite):
            before = _warnings(data)
            mujoco.mj_step(model, data)
            after: Any = physics_of(model, data).astype(np.float32)
            seen.append(
                Substep(
                    speed=float(np.max(np.abs(data.qvel))),
                    acceleration=float(np.max(np.abs(data.qacc))),
                    contacts=int(data.ncon),
                    rows=int(data.nefc),
                    warnings=tuple(name for name, count in _warnings(data).items() if count > before[name]),
                    finite=bool(sane(WorldState(after, after[:0]))),
                )
            )
    return seen


def _warnings(data: mujoco.MjData) -> dict[str, int]:
    """How often MuJoCo has warned of what, by its own names."""
    kinds = [kind for kind in mujoco.mjtWarning.__members__.values() if int(kind) < len(data.warning)]
    return {kind.name.removeprefix("mjWARN_"): int(data.warning[int(kind)].number) for kind in kinds}
