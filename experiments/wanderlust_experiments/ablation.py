"""The ablation study of the appendix: what each component of LSD's reward is worth, measured as coverage.

The paper mixes three components freely, 24 cells in all, and shows them as one figure on Ant without numbers. Every
cell is trained with the same recipe, so cells differ in the reward alone (`sweeps` trains and measures them).
"""

import dataclasses
import itertools
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from wanderlust.api import configure
from wanderlust.config import RunConfig
from wanderlust.errors import UserError
from wanderlust.methods.ablation import FORMS, USES
from wanderlust.recipes import DEFAULT
from wanderlust.sweeps import grid
from wanderlust.sweeps.figures import COVERAGES, bars
from wanderlust.sweeps.grid import Row
from wanderlust.sweeps.tables import JsonObject, Study, number


class Cell(NamedTuple):
    """One mixture of the three components."""

    form: str
    states: str
    spectral: bool

    @property
    def name(self) -> str:
        """As the command line and the files call it."""
        return f"{self.form}-{self.states}-{'spectral' if self.spectral else 'free'}"


LSD = Cell("inner-product", "step", True)
GRID = {
    cell.name: cell
    for cell in itertools.starmap(Cell, itertools.product(tuple(FORMS)[::-1], tuple(USES)[::-1], (True, False)))
}
"""All cells, LSD first."""
ONE_APART = {name: cell for name, cell in GRID.items() if sum(a != b for a, b in zip(cell, LSD, strict=True)) <= 1}
"""LSD, and the cells that differ from it in one component."""

KNOWN_AS = {
    LSD: "LSD",
    Cell("normal", "next-state", False): "DIAYN",
    Cell("normal", "next-state", True): "DIAYN with SN",
    Cell("von-mises-fisher", "state", False): "VISR",
}
SYMBOLS = {"state": "φ(s)", "next-state": "φ(s')", "change": "φ(s' - s)", "step": "φ(s') - φ(s)"}


def reproduce(
    out: Path,
    work: Path,
    env: str = "ant",
    recipe: str = DEFAULT,
    only: tuple[str, ...] = (),
    everything: bool = False,
    seeds: int = 3,
    budget_steps: int | None = None,
    changes: tuple[str, ...] = (),
    quiet: bool = False,
    workers: int = 1,
) -> tuple[dict[str, Any], str, tuple[Path, ...]]:
    """Train and measure the cells that the results under `out` lack; return the results, as a table, and their files.

    Runs go under `work`. A cell whose training fails is named and left out; the next call tries it again.
    """
    cells = _chosen(only, everything)
    shared = _shared_config(env, recipe, seeds, budget_steps, changes)
    rows = {cell.name: Row(_config(shared, cell), _about(cell)) for cell in cells}
    shown = grid_study(out, env)
    return *grid.carry_out(shown, rows, shared, work / env, quiet, workers=workers), shown.files


def grid_study(out: Path, env: str) -> Study:
    """Its files, table and figure."""
    return Study(
        item="ablation",
        stem=f"ablation_{env}",
        title=f"Ablation of LSD on {env}",
        row_is="cell",
        measure_is="1x1 bins covered by {episodes} random skills",
        order=tuple(GRID),
        columns={
            "cell": lambda name, _: name,
            "known as": lambda _, cell: cell["known_as"] or "",
            "form": lambda _, cell: str(cell["form"]),
            "of": lambda _, cell: SYMBOLS[cell["states"]],
            "constraint": lambda _, cell: "spectral" if cell["spectral"] else "none",
            "mode actions": lambda _, cell: number(cell, "coverage_mode"),
            "sampled actions": lambda _, cell: number(cell, "coverage_sampled"),
        },
        figures={
            "": partial(
                bars,
                measures=COVERAGES,
                axis="bins covered by {episodes} random skills",
                label=lambda name, cell: f"{name} ({cell['known_as']})" if cell["known_as"] else name,
            )
        },
        out=out,
    )


def _about(cell: Cell) -> JsonObject:
    return {**cell._asdict(), "known_as": KNOWN_AS.get(cell)}


def _chosen(only: tuple[str, ...], everything: bool) -> list[Cell]:
    if only and everything:
        raise UserError("--all and --only exclude each other: choose every cell, or some of them")
    for name in only:
        if name not in GRID:
            raise UserError(
                f"there is no cell {name!r}; a cell is FORM-STATES-CONSTRAINT, e.g. {LSD.name}, with FORM one of "
                f"{', '.join(FORMS)}, STATES one of {', '.join(USES)}, CONSTRAINT spectral or free"
            )
    return [GRID[name] for name in dict.fromkeys(only)] or list((GRID if everything else ONE_APART).values())


def _shared_config(env: str, recipe: str, seeds: int, budget_steps: int | None, changes: tuple[str, ...]) -> RunConfig:
    """What all cells have in common; its method is the cell of LSD."""
    changed = {change.partition("=")[0] for change in changes}
    if taken := sorted(changed & {"method.name", "method.form", "method.states", "method.spectral"}):
        raise UserError(f"--set {taken[0]}: that is what the cells differ in; choose cells with --only")
    config = configure(env, "ablation", seeds=seeds, recipe=recipe, set=changes, budget_steps=budget_steps)
    if config.skills.kind == "discrete":
        raise UserError("--set skills.kind: the grid is of continuous skills")
    return config


def _config(shared: RunConfig, cell: Cell) -> RunConfig:
    return dataclasses.replace(shared, method=dataclasses.replace(shared.method, **cell._asdict()))
