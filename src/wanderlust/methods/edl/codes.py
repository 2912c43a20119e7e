"""EDL's second stage: the states that exploration left in its replay, summed up in one goal per skill.

RUN/codes.safetensors   the `Summary` of each seed's VQ-VAE; goals are as the method sees states, normalised
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from wanderlust import train
from wanderlust.config import EdlConfig
from wanderlust.errors import UserError
from wanderlust.methods.edl import vqvae
from wanderlust.methods.edl.edl import with_goals
from wanderlust.methods.edl.vqvae import States, Summary
from wanderlust.report.progress import progress
from wanderlust.runs.files import ArrayFile, write_arrays
from wanderlust.runs.run import Run

FORMAT = "wanderlust-codes-1"
CHUNK = 500
"""Gradient steps between two looks at Ctrl-C."""


def begin(
    explored: Run, run: Run, parts: train.Setup, pressed: Callable[[], bool], quiet: bool
) -> train.TrainState | None:
    """The state EDL's skills begin with: their goals are found, or read if they have been; None if interrupted."""
    path = run.path / "codes.safetensors"
    if not path.exists() and not _learn(path, explored, parts, pressed, quiet):
        return None
    state = train.init(parts)
    found = _read(path, (parts.config.seeds, parts.skills.size, parts.view.method_dim))
    method = jax.jit(jax.vmap(with_goals))(found.goal, found.spread)
    return state._replace(learner=state.learner._replace(method=method))


def _read(path: Path, shape: tuple[int, int, int]) -> Summary:
    """What a file holds, checked; `shape` is that of the goals."""
    file, expected = ArrayFile(path), {"goal": shape, "share": shape[:2], "spread": shape[:1]}
    fits = file.about.get("format") == FORMAT and file.shapes() == expected
    found = [file.read(name) for name in Summary._fields] if fits else []
    if not fits or not all(np.isfinite(x).all() for x in found):
        raise UserError(f"{path} does not fit the run's configuration; delete it to learn the codes again")
    return Summary(*(jnp.asarray(x, jnp.float32) for x in found))


def _learn(path: Path, explored: Run, parts: train.Setup, pressed: Callable[[], bool], quiet: bool) -> bool:
    """Train the VQ-VAE of every seed and write what came of it; whether it was not interrupted."""
    config = parts.config.method
    assert isinstance(config, EdlConfig)
    epoch, states = _states(explored, parts)
    seeds = jnp.arange(parts.config.seed, parts.config.seed + parts.config.seeds)
    make = partial(vqvae.init, config, parts.skills.size, parts.view.method_dim)
    # a key of the seed that its runs do not use
    fitted = jax.jit(jax.vmap(lambda seed: make(jax.random.fold_in(jax.random.key(seed), 2))))(seeds)
    some = jax.jit(train.each_seed(partial(vqvae.fit, config)))
    with progress(config.code_steps, "step", quiet=quiet) as line:
        for done in range(0, config.code_steps, CHUNK):
            count = min(CHUNK, config.code_steps - done)
            fitted, error = jax.block_until_ready(some(states, fitted, jnp.full(len(seeds), count)))
            line.update(done + count, f"squared error of a state {float(jnp.mean(error)):.3g}")
            if pressed():
                return False
    summary = jax.device_get(jax.jit(train.each_seed(vqvae.summed_up))(fitted.model, states))
    if not all(np.isfinite(x).all() for x in summary):
        raise UserError("the VQ-VAE diverged; a smaller method.learning_rate may help")
    write_arrays(path, summary._asdict(), {"format": FORMAT, "epoch": str(epoch)})
    used = ", ".join(f"{np.count_nonzero(share)} of {len(share)}" for share in summary.share)
    line.console.print(f"codes that stand for any state: {used}", soft_wrap=True, highlight=False)
    return True


def _states(explored: Run, parts: train.Setup) -> tuple[int, States]:
    """The states in the replay of the newest checkpoint, as the method sees them, and its epoch."""
    form = jax.eval_shape(lambda: train.init(train.assemble(explored.config))).replay
    epoch, replay = explored.load(form, part="replay")
    return epoch, States(parts.view.for_method(replay.data.next_obs), replay.size)
