"""Environments that the NaN guard has stopped: written to disk, and replayed to see where the physics goes wrong.

RUN/broken/epoch-XXXXXXXX.safetensors holds, for every seed with such an environment, the last finite state and the
action that led out of it, with the configuration of the environment: replaying takes nothing else.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from wanderlust.config import EngineName, EnvConfig, from_json, to_json
from wanderlust.envs import MujocoWorld, WorldState, make_engine, make_world
from wanderlust.envs.base import sane
from wanderlust.envs.substeps import Substep, substeps
from wanderlust.errors import UserError
from wanderlust.runs.checkpoints import read_tree
from wanderlust.runs.files import ArrayFile, write_arrays

FORMAT = "wanderlust-broken-2"


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where broken environments come from."""

    env: EnvConfig
    engine: EngineName
    """The engine that stepped them."""
    epoch: int
    """They broke before the end of this epoch."""


@dataclasses.dataclass(frozen=True)
class Broken:
    """Environments before the control step that broke them, one for each seed that has one."""

    origin: Origin
    seed: NDArray[np.int32]
    physics: NDArray[np.float32]
    action: NDArray[np.float32]

    def write(self, path: Path) -> None:
        """Write them, whole or not at all."""
        arrays = {name: getattr(self, name) for name in ("seed", "physics", "action")}
        write_arrays(path, arrays, {"format": FORMAT, "origin": to_json(self.origin)})

    @staticmethod
    def read(path: Path) -> "Broken":
        """Read such a file; names, shapes and types are checked."""
        file = ArrayFile(path)
        if file.about.get("format") != FORMAT or "origin" not in file.about:
            raise UserError(
                f"{path} holds no broken environments; give one of the files in RUN/broken, such as "
                "epoch-00000040.safetensors"
            )
        origin = from_json(Origin, file.about["origin"], str(path))
        origin.env.find_files(path.resolve().parents[1])
        world = make_world(origin.env)
        count = max((1, *file.shapes().get("seed", ())))  # a file of none does not fit
        state = jax.eval_shape(world.initial, jax.random.key(0))
        form = {
            "seed": jax.ShapeDtypeStruct((count,), np.int32),
            "physics": jax.ShapeDtypeStruct((count, state.physics.size), np.float32),
            "action": jax.ShapeDtypeStruct((count, world.spec.action_dim), np.float32),
        }
        return Broken(origin, **jax.device_get(read_tree(file, form)))


@dataclasses.dataclass(frozen=True)
class Replayed:
    """One broken environment after its last control step was made again."""

    seed: int
    finite: bool
    substeps: tuple[Substep, ...]
    """Physics step by physics step; empty for engines that can only be seen from outside."""
    overflow: str = ""
    """What the engine said of its buffers, if the step needed more room than they have."""


def replay(broken: Broken, engine: EngineName) -> Iterator[Replayed]:
    """Make the last control step of every broken environment again, with any engine.

    Buffers that overflow while every state stays finite raise: such states say nothing.
    """
    world = make_world(broken.origin.env)
    stepper = make_engine(world, engine)
    if isinstance(world, MujocoWorld) and stepper.name == "c":
        for seed, physics, action in zip(broken.seed, broken.physics, broken.action, strict=True):
            seen = substeps(world, WorldState(jnp.asarray(physics), jnp.zeros(0)), action)
            yield Replayed(int(seed), seen[-1].finite, tuple(seen))
        return
    step = jax.jit(stepper.step) if stepper.compiles else stepper.step
    after = step(WorldState(jnp.asarray(broken.physics), jnp.zeros((len(broken.seed), 0))), jnp.asarray(broken.action))
    finite = np.asarray(sane(after))
    if finite.all():
        stepper.check()
    for k, seed in enumerate(broken.seed):
        yield Replayed(int(seed), bool(finite[k]), (), stepper.overflow())
