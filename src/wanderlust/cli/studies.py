"""Commands that measure: reproduce, bench."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from tyro.conf import UseAppendAction, arg, subcommand

from wanderlust.cli.reports import EXIT_BROKEN
from wanderlust.errors import UserError


@dataclasses.dataclass(frozen=True)
class PointGoals:
    """Both PointEnv tables of the appendix, with the paper's numbers beside ours.

    For example:
      wanderlust reproduce point-goals      eight seeds, under 20 minutes on two cores
    """

    seeds: int = 8
    """Seeds per row."""
    work: Path = Path("runs/point-goals")
    """Where the runs go; finished ones are reused, unfinished ones resumed."""
    out: Path = Path("benchmarks/results")
    """Where the JSON and Markdown go."""
    set: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="KEY=VALUE")] = ()
    """Change one number of every row, e.g. --set env.normalise=false; may be repeated."""
    only: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="METHOD")] = ()
    """Only the row of this method, e.g. --only lsd; may be repeated."""

    def run(self, console: Console) -> int:
        import wanderlust_experiments as reproduce

        if self.seeds < 1:
            raise UserError(f"--seeds is {self.seeds}; it must be at least 1")
        result, text = reproduce.point_goals.reproduce(self.out, self.work, self.seeds, self.set, self.only)
        console.print(text, soft_wrap=True)
        console.print(f"written: {self.out / 'point_goals.json'}, {self.out / 'point_goals.md'}", soft_wrap=True)
        console.print(f"this command took {result['this_command_seconds'] / 60:.1f} min")
        return 0


@dataclasses.dataclass(frozen=True)
class AblationStudy:
    """Coverage of LSD with each component of its reward replaced: the ablation study of the appendix.

    Stopped and called again, it goes on where it was. For example:
      wanderlust reproduce ablation --budget-steps 5000000      LSD, and six cells that differ from it in one component
      wanderlust reproduce ablation --recipe fast --all         all 24, on a GPU
      wanderlust reproduce ablation --env point --only inner-product-step-free --only normal-next-state-spectral
    """

    env: str = "ant"
    """The environment."""
    recipe: str = "laptop"
    """Whose numbers: laptop (CPU cores), fast (a GPU), or paper for the published setting."""
    only: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="CELL")] = ()
    """Only this cell, FORM-STATES-CONSTRAINT, e.g. --only inner-product-step-free; may be repeated."""
    all: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """All 24 cells."""
    seeds: int = 3
    """Seeds per cell, trained in one program."""
    budget_steps: Annotated[int | None, arg(metavar="N")] = None
    """Environment steps per seed and cell (rounded up to whole epochs); by default the recipe's."""
    work: Path = Path("runs/ablation")
    """Where the runs go; finished ones are reused, unfinished ones resumed."""
    out: Path = Path("benchmarks/results")
    """Where JSON, Markdown and figure go."""
    set: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="KEY=VALUE")] = ()
    """Change one number of every cell, e.g. --set sac.discount=0.99; may be repeated."""

    def run(self, console: Console) -> int:
        from wanderlust_experiments import ablation

        result, text = ablation.reproduce(
            self.out, self.work, self.env, self.recipe, self.only, self.all, self.seeds, self.budget_steps, self.set
        )
        console.print(text, soft_wrap=True)
        console.print(f"written: {ablation.grid_study(self.out, self.env).files}", soft_wrap=True)
        return EXIT_BROKEN if result["failed"] else 0


@dataclasses.dataclass(frozen=True)
class CoverageStudy:
    """Coverage, state difference and trajectories of every method, with equal steps and updates: figures 2 and 3.

    Stopped and called again, it goes on where it was. For example:
      wanderlust reproduce coverage --recipe fast               every method and variant on Ant, on a GPU
      wanderlust reproduce coverage --env point --only lsd --only diayn-xyo --only random
    """

    env: str = "ant"
    """The environment."""
    recipe: str = "laptop"
    """Whose numbers: laptop (CPU cores), fast (a GPU), or paper for the published setting."""
    only: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="NAME")] = ()
    """Only this row, a method with an optional suffix -xy, -o or -xyo, or random (uniform actions); may be repeated."""
    skills: Annotated[int | None, arg(metavar="D")] = None
    """Continuous skills of this many dimensions (the default, with 2)."""
    discrete: Annotated[int | None, arg(metavar="N")] = None
    """This many discrete skills instead: lsd, dads, diayn, vic, edl, metra, csd, random; or what --only says."""
    seeds: int = 3
    """Seeds per row, trained in one program."""
    budget_steps: Annotated[int | None, arg(metavar="N")] = None
    """Environment steps per seed and row (rounded up to whole epochs); by default the recipe's for LSD."""
    work: Path = Path("runs/coverage")
    """Where the runs go; finished ones are reused, unfinished ones resumed."""
    out: Path = Path("benchmarks/results")
    """Where JSON, Markdown and figures go."""
    set: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="KEY=VALUE")] = ()
    """Change one number of every row, e.g. --set sac.discount=0.99; may be repeated."""

    def run(self, console: Console) -> int:
        from wanderlust_experiments import coverage

        result, text, files = coverage.reproduce(
            self.out,
            self.work,
            self.env,
            self.recipe,
            self.only,
            self.skills,
            self.discrete,
            self.seeds,
            self.budget_steps,
            self.set,
        )
        console.print(text, soft_wrap=True)
        console.print(f"written: {files}", soft_wrap=True)
        return EXIT_BROKEN if result["failed"] else 0


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Reproduce a table or figure of the paper, with its numbers beside ours where it gives them.

    For example:
      wanderlust reproduce point-goals      both PointEnv tables, eight seeds, under 20 minutes on two cores
      wanderlust reproduce ablation --help
      wanderlust reproduce coverage --help
    """

    item: tyro.conf.OmitArgPrefixes[
        Annotated[PointGoals, subcommand("point-goals", prefix_name=False)]
        | Annotated[AblationStudy, subcommand("ablation", prefix_name=False)]
        | Annotated[CoverageStudy, subcommand("coverage", prefix_name=False)]
    ]

    def run(self, console: Console) -> int:
        return self.item.run(console)


@dataclasses.dataclass(frozen=True)
class Bench:
    """Measure how fast this machine moves worlds and learns, beside EnvPool and AsyncVectorEnv where installed.

    For example:
      wanderlust bench                                      about two minutes on two cores
      wanderlust bench --only physics --worlds 64 --threads 2 --seconds 10
      wanderlust bench --env humanoid --engines c warp
    """

    env: str = "ant"
    """The body: ant, half-cheetah or humanoid."""
    engines: Annotated[tuple[Literal["c", "warp"], ...], arg(metavar="ENGINE ...")] = ()
    """The engines to measure; by default c, and warp where there is a GPU."""
    worlds: Annotated[tuple[int, ...], arg(metavar="N ...")] = ()
    """Worlds side by side; by default 16, 64 and 256 for c, and 1,024, 4,096 and 16,384 for warp."""
    threads: Annotated[tuple[int, ...], arg(metavar="N ...")] = ()
    """Threads of c and EnvPool; by default 1 and as many as there are cores."""
    seconds: Annotated[float, arg(metavar="S")] = 2.0
    """How long each thing is measured."""
    only: Literal["physics", "updates"] | None = None
    """Only environment steps, or only gradient steps."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """Where the JSON goes; by default benchmarks/results/bench_<device>.json. Before all is measured it is
    FILE.partial.json."""

    def run(self, console: Console) -> int:
        from wanderlust.bench import speed
        from wanderlust.runs.files import write_json

        if self.out is not None and self.out.is_dir():
            raise UserError(f"--out is {self.out}, a folder; name a file, e.g. {self.out / 'bench.json'}")

        def keep(result: dict[str, Any]) -> None:
            path = self.out or speed.default_path(result)
            partial = path.with_suffix(".partial.json")  # an earlier result is replaced by a complete one alone
            write_json(path if result["complete"] else partial, result)
            if result["complete"]:
                partial.unlink(missing_ok=True)

        result = speed.bench(
            self.env,
            self.engines or None,
            self.worlds or None,
            self.threads or None,
            self.seconds,
            self.only,
            keep=keep,
        )
        console.print(speed.table(result))
        for name, why in result["missing"].items():
            console.print(f"{name}: {why}", soft_wrap=True)
        console.print(f"written: {self.out or speed.default_path(result)}", soft_wrap=True)
        return 0
