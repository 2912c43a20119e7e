"""Pruning: a run without critics, replay and environments, for all of its seeds: small, to keep or to send.

The pruned folder is a run: all that uses skills takes it, and a study that finds it does not train it again. Only its
checkpoint differs. It holds the policy and what the method keeps for use, in half precision where that costs nothing.
"""

import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from wanderlust import train
from wanderlust.config import to_json
from wanderlust.errors import UserError
from wanderlust.runs.checkpoints import FORMAT, write_tree
from wanderlust.runs.folders import staging
from wanderlust.runs.learned import load_stored
from wanderlust.runs.publish import halved, visited_positions
from wanderlust.runs.run import Run, write_config

KEPT = ("provenance.json", "metrics.jsonl", "evaluation/evaluation.json", "evaluation/rollouts.safetensors")
"""Beside the configuration and the checkpoint, as far as they are there."""


def prune(run: Run, out: Path) -> dict[str, Any]:
    """Write the pruned form of a run to a new folder, and return what is in it. The run stays as it is.

    Whether half precision costs anything is measured where skills have been: a run that was not evaluated since its
    last checkpoint keeps full precision.
    """
    if run.entry:
        raise UserError(f"{run} is pruned already: entries of the zoo are")
    if out.exists():
        raise UserError(f"{out} already exists; choose another --out")
    parts = train.assemble(run.config)
    epoch, stored = load_stored(run, parts)
    try:
        seen = visited_positions(run)
    except UserError:
        seen = None
    names = list(stored[0])
    if seen is not None:
        smaller = [halved(parts, one, seen[seed])[0] for seed, one in enumerate(stored)]
        free = [name for name in names if all(_is_half(one[name]) for one in smaller)]
        stored = [
            {name: (small if name in free else one)[name] for name in names}
            for one, small in zip(stored, smaller, strict=True)
        ]
    weights = jax.tree.map(lambda *x: jnp.stack(x), *stored)
    with staging(out, out.parent) as folder:
        pruned = Run(folder, run.config)
        path = folder / "checkpoints" / f"epoch-{epoch:08d}.safetensors"
        counts = run.counts(epoch)
        about = {"format": FORMAT, "epoch": str(epoch), "pruned": "yes", "config": to_json(run.config)}
        write_tree(path, {"learner": weights}, about | ({"counts": counts.to_text()} if counts else {}))
        write_config(folder, run.config)
        for name in KEPT:
            if (run.path / name).is_file():
                (folder / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(run.path / name, folder / name)
        load_stored(pruned, parts)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        folder.rename(out)
    return {
        "epoch": epoch,
        "seeds": run.config.seeds,
        "bytes": size,
        "stored": {name: str(jax.tree.leaves(tree)[0].dtype) for name, tree in weights.items()},
    }


def _is_half(tree: Any) -> bool:
    return all(x.dtype == jnp.float16 for x in jax.tree.leaves(tree))
