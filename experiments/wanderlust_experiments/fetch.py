"""Where the skills of every method take the object of the Fetch worlds: the paper's figure of its trajectories, and how
many bins of 0.1 x 0.1 m it is seen in.

Rows are comparable as in `coverage`: LSD's steps, updates, batches and widths for all. A method's name with `+music` is
that method with the reward of MUSIC added. Episodes start with the object at random places, so 200 of them cover bins
although nobody touches it: `untouched` is this floor, `random` a hand that moves at random. An object that leaves the
table is counted where it falls and rolls; a column of the table leaves those steps out.
"""

from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from wanderlust.api import configure
from wanderlust.catalogue import FETCHES
from wanderlust.config import SkillConfig
from wanderlust.envs.spec import Rollout
from wanderlust.errors import UserError
from wanderlust.recipes import DEFAULT
from wanderlust.registry import WORLDS
from wanderlust.sweeps import grid
from wanderlust.sweeps.figures import COVERAGES, bars
from wanderlust.sweeps.grid import Row
from wanderlust.sweeps.tables import Study, count, number
from wanderlust_experiments.coverage import (
    UNTRAINED,
    RandomActions,
    refuse_what_rows_differ_in,
    roll_out_randomly,
    row,
)
from wanderlust_experiments.trajectories import RANDOM, trajectories

UNTOUCHED = "untouched"
ROWS = ("lsd", "diayn", "dads", "lsd+music", "diayn+music", "dads+music", "music", RANDOM, UNTOUCHED)
PICK = "fetch-pick-and-place"


def reproduce(
    out: Path,
    work: Path,
    env: str = FETCHES[0],
    recipe: str = DEFAULT,
    only: tuple[str, ...] = (),
    seeds: int = 4,
    budget_steps: int | None = None,
    changes: tuple[str, ...] = (),
    quiet: bool = False,
    workers: int = 1,
) -> tuple[dict[str, Any], str, tuple[Path, ...]]:
    """Train and measure the rows that the results under `out` lack; return the results, as a table, and their files.

    Runs go under `work`. A row whose training fails is named and left out; the next call tries it again.
    """
    if env not in FETCHES:
        raise UserError(f"--env is {env}; it must be one of {', '.join(FETCHES)}")
    if taken := [change for change in changes if change.startswith("skills.")]:
        raise UserError(f"--set {taken[0]}: the skills of this figure are continuous, of two dimensions")
    refuse_what_rows_differ_in(changes)
    shared = configure(env, "lsd", seeds=seeds, recipe=recipe, set=changes, budget_steps=budget_steps)
    space = SkillConfig(shared.skills.kind, shared.skills.size)

    def made(name: str) -> Row:
        return Untouched(shared, UNTRAINED) if name == UNTOUCHED else row(name, shared, recipe, space, changes, ROWS)

    rows = {name: made(name) for name in dict.fromkeys(name.lower() for name in only or ROWS)}
    shown = fetch_study(out, work / env, env)
    return *grid.carry_out(shown, rows, shared, work / env, quiet, workers=workers), shown.files


class Untouched(RandomActions):
    """The floor: a hand that never moves, so that the object is counted where episodes start."""

    @property
    def plan(self) -> str:
        return f"{count(self.config.seeds, 'seed')} of a hand at rest"

    def rollout(self, episodes: int) -> Rollout:
        return roll_out_randomly(self.config, episodes, largest=0.0)


def fetch_study(out: Path, runs: Path, env: str) -> Study:
    """Its files, table and figures."""
    lifts = {
        "lifted by 5 cm": lambda _, row: number(row, "lifted"),
        "still so at the end": lambda _, row: number(row, "held"),
        "highest (m)": lambda _, row: number(row, "highest", 2),
    }
    return Study(
        item="fetch",
        stem=env.replace("-", "_"),
        title=f"Where skills take the object of {env}",
        row_is="row",
        measure_is="0.1 x 0.1 m bins that the object is seen in during {episodes} episodes of random skills with mode "
        "and with sampled actions, with mode actions also those before it fell off the table, and metres from its "
        f"start to its end (`{RANDOM}`: uniform actions, `{UNTOUCHED}`: none, both never trained)",
        order=ROWS,
        columns={
            "row": lambda name, _: name,
            "environment steps": lambda _, row: f"{row['env_steps_per_seed']:,}",
            "SAC updates": lambda _, row: f"{row['updates_per_seed']['sac']:,}",
            "coverage, mode actions": lambda _, row: number(row, "coverage_mode"),
            "coverage, sampled actions": lambda _, row: number(row, "coverage_sampled"),
            "before it fell": lambda _, row: number(row, "coverage_unfallen"),
            "distance (m)": lambda _, row: number(row, "distance", 2),
            **(lifts if env == PICK else {}),
            "training minutes": lambda _, row: f"{row['training_seconds'] / 60:.1f}",
            "in the paper": lambda name, _: in_the_paper(name, env),
        },
        figures={
            "": partial(
                bars,
                measures=COVERAGES,
                axis="0.1 x 0.1 m bins that the object is seen in, {episodes} random skills",
                floor=UNTOUCHED,
            ),
            "_trajectories": partial(trajectories, runs=runs, unit=" (m)", scenery=partial(draw_table, env)),
        },
        out=out,
    )


def in_the_paper(name: str, env: str) -> str:
    """What the paper says of a row: it has figures and no numbers."""
    others = "fewer bins than LSD" if name in ROWS and name not in (RANDOM, UNTOUCHED) else ""
    return {"lsd": "most bins" + (", and lifts the object in many directions" if env == PICK else "")}.get(name, others)


def draw_table(env: str, axes: Axes) -> None:
    """The outline of the table, from above."""
    model = WORLDS.get(env)(WORLDS.get(env).configure(env)).model
    middle, half = model.body("table0").pos, model.geom(int(model.body("table0").geomadr[0])).size
    corner, size = middle[:2] - half[:2], 2 * half[:2]
    axes.add_patch(Rectangle(tuple(corner), *size, facecolor="0.94", edgecolor="0.6", linewidth=0.8, zorder=0))
