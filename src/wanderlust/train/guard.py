"""NaN guard: a run that went wrong stops, and keeps its last good checkpoint; or it goes back to that, if asked to."""

import shlex
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from wanderlust import train
from wanderlust.errors import UserError
from wanderlust.runs.broken import Broken, Origin
from wanderlust.runs.run import Run
from wanderlust.train.autoreset import Diverged

LARGEST = 1e15
"""A number that learning makes, beyond which it has exploded: float32 ends at 3e38, and its digits long before."""


class DivergedError(UserError):
    """Training or physics went wrong, so that other noise may go right."""


def stop_if_broken(
    run: Run, parts: train.Setup, epoch: int, state: train.TrainState, values: dict[str, list[float]]
) -> None:
    """A run that went wrong must not overwrite its last good checkpoint.

    An overflow comes last, and is added to whatever else there is: a body that breaks down is thrown into more contacts
    and limits than there is room for, so the overflow alone would hide the state to look at.
    """
    diverged: Diverged = state.diverged
    overflow = parts.engine.overflow()
    also = f"; {overflow}" if overflow else ""
    sane = np.isfinite(diverged.action).all(axis=1)  # a policy that has diverged is none of the engine's business
    found = np.asarray(diverged.found) & sane
    if overflow or found.any():
        train.assemble.cache_clear()  # an engine that went wrong once is not used again
    if found.any():
        file = run.broken / f"epoch-{epoch:08d}.safetensors"
        seeds = parts.config.seed + np.flatnonzero(found)
        Broken(
            Origin(parts.config.env, parts.engine.name, epoch),
            seed=seeds.astype(np.int32),
            physics=np.asarray(diverged.before.physics)[found],
            action=np.asarray(diverged.action)[found],
        ).write(file)
        raise _error(overflow)(
            f"the physics of {parts.config.env.name} broke down before epoch {epoch} (seed "
            f"{', '.join(map(str, seeds))}): a state is not finite, or beyond 1e10; the one before is in {file}, and "
            f"`wanderlust replay {shlex.quote(str(file))} --engine {parts.engine.name}` shows where it goes wrong"
            f"{also} ({_kept(run)})"
        )
    bad = [name for name, v in values.items() if not np.all(np.abs(v) < LARGEST)] + ["actions"] * (not sane.all())
    bad += exploded(state.learner)
    if bad:
        named = ", ".join(bad[:NAMED]) + (f" and {len(bad) - NAMED} more" if len(bad) > NAMED else "")
        raise _error(overflow)(
            f"training diverged before epoch {epoch}: {named} not finite, or beyond {LARGEST:g}; smaller learning "
            f"rates may help, or --resume with --on-divergence rollback{also} ({_kept(run)})"
        )
    if overflow:
        raise UserError(f"before epoch {epoch} {overflow} ({_kept(run)})")


def _error(overflow: str) -> type[UserError]:
    """Buffers that are too small stay so, whatever the noise."""
    return UserError if overflow else DivergedError


def with_fresh_noise(state: train.TrainState, turn: int) -> train.TrainState:
    """The same state, from which all that is drawn will be other than before; the same at each `turn`."""
    return state._replace(key=jax.vmap(lambda key: jax.random.fold_in(key, turn))(state.key))


NAMED = 6
"""Things that a message names."""


def exploded(learner: Any) -> list[str]:
    """The arrays of a learner with a number that is none, or as good as none: saved, they would give no actions."""
    named = [
        (jax.tree_util.keystr(place, simple=True, separator="/"), leaf)
        for place, leaf in jax.tree_util.tree_leaves_with_path(learner)
        if jnp.issubdtype(leaf.dtype, jnp.inexact)
    ]
    found = np.asarray(_all_sound([leaf for _, leaf in named]))
    return [name for (name, _), sound in zip(named, found, strict=True) if not sound]


@jax.jit
def _all_sound(arrays: list[Array]) -> Bool[Array, " arrays"]:
    return jnp.stack([(jnp.abs(array) < LARGEST).all() for array in arrays])


def _kept(run: Run) -> str:
    if not run.checkpoints():
        return "there was no checkpoint yet"
    return f"the last good checkpoint is kept in {run.path / 'checkpoints'}"
