"""What one update of each method costs beside LSD's: SAC and the method's network, no physics.

python benchmarks/method_updates.py OUT.json [--recipe fast] [--env ant] [--seconds 2] [KEY=VALUE ...]

All methods take turns in one process, on a replay full of random numbers, so that ratios mean something.
"""

import argparse
import dataclasses
import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
from jaxtyping import Array

from wanderlust import api, train
from wanderlust.config import RunConfig, ScheduleConfig
from wanderlust.envs import devices
from wanderlust.methods import DESCRIPTIONS
from wanderlust.methods.ibol.ibol import IbolConfig
from wanderlust.runs.provenance import commit
from wanderlust.train.state import example
from wanderlust.train.update import learn_all
from wanderlust_experiments.bench.measure import interleaved
from wanderlust_experiments.bench.updates import UpdateWorkload


class TrajectoryUpdates:
    """Gradient steps of a method whose skills lead another policy, from whole episodes of random numbers."""

    def __init__(self, config: RunConfig, steps: int, batch: int) -> None:
        count = max(1, batch // config.schedule.steps)  # as many environment steps as others have in a batch
        schedule = dataclasses.replace(
            config.schedule, worlds=count, sac_batch=count, sac_steps=steps, method_steps=steps
        )
        parts = train.assemble(dataclasses.replace(config, schedule=schedule))
        self._state, self.per_call = train.init(parts), steps
        shape = (schedule.steps, 1, count)
        episodes = jax.tree.map(lambda x: _random(x, shape), example(parts))
        age = jnp.broadcast_to(jnp.arange(schedule.steps)[:, None, None], shape)
        args = (episodes, age, jax.random.split(jax.random.key(0), 1))
        program = jax.jit(functools.partial(learn_all, parts))
        self._advance = lambda state: program(state, *args)[0]
        self.advance()
        self.about = {"episodes in a batch": count}

    def advance(self) -> None:
        """One call."""
        self._state = jax.block_until_ready(self._advance(self._state))

    def close(self) -> None:
        """Nothing is open."""


def _random(like: Array, shape: tuple[int, ...]) -> Array:
    full = (*shape, *like.shape)
    return jax.random.normal(jax.random.key(0), full) if like.dtype == jnp.float32 else jnp.zeros(full, like.dtype)


def contestant(config: RunConfig, alike: ScheduleConfig, steps: int) -> UpdateWorkload | TrajectoryUpdates:
    """A method with LSD's schedule; one that learns from whole episodes with batches of as many steps."""
    if isinstance(config.method, IbolConfig):
        return TrajectoryUpdates(config, steps, alike.sac_batch)
    return UpdateWorkload(dataclasses.replace(config, schedule=alike), steps)


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--recipe", default="fast")
    parser.add_argument("--env", default="ant")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", nargs="*", default=[name for name in DESCRIPTIONS if name != "ablation"])
    parser.add_argument("changes", nargs="*")
    args = parser.parse_intermixed_args()

    devices.prepare(1)
    steps = 4 if jax.default_backend() == "cpu" else 100
    alike = api.configure(args.env, recipe=args.recipe, set=tuple(args.changes)).schedule
    contestants = []
    for name in args.only:
        own = [c for c in args.changes if not (name == "ibol" and c.startswith("schedule."))]
        config = api.configure(args.env, method=name, recipe=args.recipe, set=tuple(own))
        contestants.append(contestant(config, alike, steps))
    rates = interleaved(contestants, args.seconds)
    ms = {name: 1e3 / rate.summary()["median"] for name, rate in zip(args.only, rates, strict=True)}
    table = {
        "command": f"python benchmarks/method_updates.py --recipe {args.recipe} --env {args.env}",
        "changes": args.changes,
        "commit": commit(),
        "device": devices.describe(),
        "batch": alike.sac_batch,
        "ms_per_update": ms,
        "times_lsd": {name: value / ms["lsd"] for name, value in ms.items()},
        "updates_per_second": {name: rate.summary() for name, rate in zip(args.only, rates, strict=True)},
    }
    args.out.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
