"""EDL's second stage: the states that exploration left in its replay, summed up in one goal per skill.

RUN/codes.safetensors   the `CodeSummary` of each seed's VQ-VAE; goals are as the method sees states, normalised
"""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from wanderlust.errors import UserError
from wanderlust.methods.base import FirstStage
from wanderlust.methods.edl import vqvae
from wanderlust.methods.edl.vqvae import CodeSummary, EdlConfig, States
from wanderlust.runs.files import ArrayFile, write_arrays
from wanderlust.runs.metrics import LARGEST

FORMAT = "wanderlust-codes-1"
CHUNK = 500
"""Gradient steps between two checks for Ctrl-C."""


def find(config: EdlConfig, count: int, first: FirstStage) -> CodeSummary | None:
    """A goal for each of `count` skills of every seed: learned, or read if it has been; None if interrupted."""
    path = first.folder / "codes.safetensors"
    if not path.exists() and not _learn(path, config, count, first):
        return None
    return _load(path, (len(first.seeds), count, first.obs_dim))


def _load(path: Path, shape: tuple[int, int, int]) -> CodeSummary:
    """What a file holds, checked; `shape` is that of the goals."""
    file, expected = ArrayFile(path), {"goal": shape, "share": shape[:2], "spread": shape[:1]}
    fits = file.about.get("format") == FORMAT and file.shapes() == expected
    found = [file.read(name) for name in CodeSummary._fields] if fits else []
    if not fits or not all(x.dtype.kind == "f" and (np.abs(x) < LARGEST).all() for x in found):
        raise UserError(
            f"{path} does not fit the run's configuration; put back the one it was learned with, "
            "or move the file away to learn the codes again"
        )
    return CodeSummary(*(jnp.asarray(x, jnp.float32) for x in found))


def _learn(path: Path, config: EdlConfig, count: int, first: FirstStage) -> bool:
    """Train the VQ-VAE of every seed and write what came of it; False if it was interrupted."""
    epoch, obs, size = first.states()
    states, seeds = States(obs, size), jnp.asarray(first.seeds)
    make = partial(vqvae.init, config, count, first.obs_dim)
    # a key of the seed that its runs do not use
    fitted = jax.jit(jax.vmap(lambda seed: make(jax.random.fold_in(jax.random.key(seed), 2))))(seeds)
    some = jax.jit(first.each_seed(partial(vqvae.fit, config)))
    with first.progress(config.code_steps, "step") as line:
        for done in range(0, config.code_steps, CHUNK):
            steps = min(CHUNK, config.code_steps - done)
            fitted, error = jax.block_until_ready(some(states, fitted, jnp.full(len(seeds), steps)))
            line.update(done + steps, f"squared error of a state {float(jnp.mean(error)):.3g}")
            if first.interrupted():
                return False
    summary = jax.device_get(jax.jit(first.each_seed(vqvae.summarise))(fitted.model, states))
    if not all(np.isfinite(x).all() for x in summary):
        raise UserError("the VQ-VAE diverged; a smaller method.learning_rate may help")
    write_arrays(path, summary._asdict(), {"format": FORMAT, "epoch": str(epoch)})
    used = ", ".join(f"{np.count_nonzero(share)} of {len(share)}" for share in summary.share)
    first.say(f"codes that stand for any state: {used}")
    return True
