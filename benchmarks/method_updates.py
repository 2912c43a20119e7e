"""What one update of each method costs beside LSD's: SAC and the method's network, no physics.

python benchmarks/method_updates.py OUT.json [--recipe fast] [--env ant] [--seconds 2] [KEY=VALUE ...]

All methods take turns in one process, on a replay full of random numbers, so that ratios mean something.
"""

import argparse
import dataclasses
import json
from pathlib import Path

import jax

from wanderlust import api, devices
from wanderlust.bench import UpdateContestant, in_turns
from wanderlust.methods import DESCRIPTIONS


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
        config = api.configure(args.env, method=name, recipe=args.recipe, set=tuple(args.changes))
        contestants.append(UpdateContestant(dataclasses.replace(config, schedule=alike), steps))
    rates = in_turns(contestants, args.seconds)
    ms = {name: 1e3 / rate.summary()["median"] for name, rate in zip(args.only, rates, strict=True)}
    table = {
        "command": f"python benchmarks/method_updates.py --recipe {args.recipe} --env {args.env}",
        "changes": args.changes,
        "device": devices.describe(),
        "batch": alike.sac_batch,
        "ms_per_update": ms,
        "times_lsd": {name: value / ms["lsd"] for name, value in ms.items()},
        "updates_per_second": {name: rate.summary() for name, rate in zip(args.only, rates, strict=True)},
    }
    args.out.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
