"""Commands that measure: reproduce, bench."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from tyro.conf import UseAppendAction, arg

from wanderlust.cli.flags import one_of
from wanderlust.cli.paper import PaperAll, PaperList
from wanderlust.cli.reports import EXIT_BROKEN
from wanderlust.config import require_at_least
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
    out: Path = Path("runs/results")
    """Where the JSON and Markdown go."""
    set: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="KEY=VALUE")] = ()
    """Change one number of every row, e.g. --set env.normalise=false; may be repeated."""
    only: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="METHOD")] = ()
    """Only the row of this method, e.g. --only lsd; may be repeated."""

    def run(self, console: Console) -> int:
        from wanderlust_experiments import point_goals

        require_at_least(1, "--seeds", self.seeds)
        result, text = point_goals.reproduce(self.out, self.work, self.seeds, self.set, self.only)
        console.print(text)
        console.print(f"written: {self.out / 'point_goals.json'}, {self.out / 'point_goals.md'}")
        console.print(f"this command took {result['this_command_seconds'] / 60:.1f} min")
        return 0


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What comparisons of methods have in common."""

    env: str = "ant"
    """The environment."""
    recipe: str = "laptop"
    """Whose numbers: laptop (CPU cores), fast (a GPU), or paper for the published setting."""
    seeds: int = 3
    """Seeds per row, trained in one program."""
    workers: Annotated[int, arg(metavar="N")] = 1
    """Rows that are trained at a time, each in a process with its share of the cores."""
    budget_steps: Annotated[int | None, arg(metavar="N")] = None
    """Environment steps per seed and row (rounded up to whole epochs); by default the recipe's for LSD."""
    out: Path = Path("runs/results")
    """Where JSON, Markdown and figures go."""
    set: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="KEY=VALUE")] = ()
    """Change one number of every row, e.g. --set sac.discount=0.99; may be repeated."""

    def options(self) -> dict[str, Any]:
        """The arguments of `reproduce`."""
        require_at_least(1, "--workers", self.workers)
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {{"set": "changes", "all": "everything"}.get(name, name): value for name, value in given.items()}


@dataclasses.dataclass(frozen=True)
class AblationStudy(Comparison):
    """Coverage of LSD with each component of its reward replaced: the ablation study of the appendix.

    Stopped and called again, it continues where it was. For example:
      wanderlust reproduce ablation --budget-steps 5000000      LSD, and six cells that differ from it in one component
      wanderlust reproduce ablation --recipe fast --all         all 24, on a GPU
      wanderlust reproduce ablation --env point --only inner-product-step-free --only normal-next-state-spectral
    """

    only: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="CELL")] = ()
    """Only this cell, FORM-STATES-CONSTRAINT, e.g. --only inner-product-step-free; may be repeated."""
    all: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """All 24 cells."""
    work: Path = Path("runs/ablation")
    """Where the runs go; finished ones are reused, unfinished ones resumed."""

    def run(self, console: Console) -> int:
        from wanderlust_experiments import ablation

        return _show(console, *ablation.reproduce(**self.options()))


@dataclasses.dataclass(frozen=True)
class CoverageStudy(Comparison):
    """Coverage, state difference and trajectories of every method, with equal steps and updates: figures 2 and 3.

    Stopped and called again, it continues where it was. For example:
      wanderlust reproduce coverage --recipe fast               every method and variant on Ant, on a GPU
      wanderlust reproduce coverage --env point --only lsd --only diayn-xyo --only random
    """

    only: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="NAME")] = ()
    """Only this row, a method with an optional suffix -xy, -o or -xyo, or random (uniform actions); may be repeated."""
    skills: Annotated[int | None, arg(metavar="D")] = None
    """Continuous skills of this many dimensions (the default, with 2)."""
    discrete: Annotated[int | None, arg(metavar="N")] = None
    """This many discrete skills instead: lsd, dads, diayn, vic, edl, metra, csd, random; or what --only says."""
    equal: Literal["updates", "steps"] = "updates"
    """What all rows have alike: environment steps with LSD's gradient steps, batches and widths (updates), or
    environment steps alone, with each method's own schedule and widths (steps), in files of their own."""
    work: Path = Path("runs/coverage")
    """Where the runs go; finished ones are reused, unfinished ones resumed."""

    def run(self, console: Console) -> int:
        from wanderlust_experiments import coverage

        return _show(console, *coverage.reproduce(**self.options()))


@dataclasses.dataclass(frozen=True)
class FetchStudy(Comparison):
    """Where skills take the object of the Fetch worlds: trajectories, coverage and lifts, with and without MUSIC.

    Stopped and called again, it continues where it was. For example:
      wanderlust reproduce fetch                                all nine rows on FetchPush
      wanderlust reproduce fetch --env fetch-slide --seeds 1 --only lsd --only lsd+music --only untouched
    """

    env: str = "fetch-push"
    """The environment: fetch-push, fetch-slide or fetch-pick-and-place."""
    seeds: int = 4
    """Seeds per row, each a training of its own."""
    only: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="ROW")] = ()
    """Only this row: a method, METHOD+music, random (uniform actions) or untouched (a hand at rest); may be
    repeated."""
    work: Path = Path("runs/fetch")
    """Where the runs go; finished ones are reused, unfinished ones resumed."""
    out: Path = Path("runs/results/fetch")
    """Where JSON, Markdown and figures go."""

    def run(self, console: Console) -> int:
        from wanderlust_experiments import fetch

        return _show(console, *fetch.reproduce(**self.options()))


@dataclasses.dataclass(frozen=True)
class FetchGoalsStudy:
    """Goal tasks of the Fetch worlds, over the skills that `reproduce fetch` has trained: SAC, zero-shot, chance.

    A controller for each seed of the skills; they go into RUN/downstream. Runs may be pruned. Stopped and called again,
    it continues where it was. For example:
      wanderlust reproduce fetch-goals                          the skills of every run under runs/fetch/fetch-push
      wanderlust reproduce fetch-goals --env fetch-slide --only lsd --only lsd+music --epochs 100
      wanderlust reproduce fetch-goals --recipe paper           the appendix's numbers: hours for each row
    """

    env: str = "fetch-push"
    """The environment: fetch-push, fetch-slide or fetch-pick-and-place; its task is ENV-goal."""
    recipe: str = "laptop"
    """Numbers of the controllers: laptop (CPU cores), fast (a GPU), or paper."""
    only: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="ROW")] = ()
    """Only the skills of this row, e.g. --only lsd+music; may be repeated. By default every run that is there."""
    seeds: Annotated[int | None, arg(metavar="N")] = None
    """Seeds of the skills, counted from the first, each with a controller of its own; by default all."""
    epochs: Annotated[int | None, arg(metavar="N")] = None
    """Training epochs of 16 episodes; by default the recipe's, which are 300 for laptop and 500 for paper."""
    hold: Annotated[int | None, arg(metavar="K")] = None
    """Control steps that a skill is held; by default 10."""
    work: Path = Path("runs/fetch")
    """Where the runs of the skills are, WORK/ENV/ROW."""
    out: Path = Path("runs/results/fetch")
    """Where JSON, Markdown and the figure go."""

    def run(self, console: Console) -> int:
        from wanderlust_experiments import fetch_goals

        for name in ("seeds", "epochs", "hold"):
            if getattr(self, name) is not None:
                require_at_least(1, f"--{name}", getattr(self, name))
        return _show(console, *fetch_goals.reproduce(**dataclasses.asdict(self)))


def _show(console: Console, result: dict[str, Any], text: str, files: tuple[Path, ...]) -> int:
    """Print the table of a comparison, and where it is."""
    console.print(text)
    console.print(f"written: {', '.join(map(str, files))}")
    return EXIT_BROKEN if result["failed"] else 0


ITEMS: dict[str, Any] = {
    "list": PaperList,
    "all": PaperAll,
    "point-goals": PointGoals,
    "ablation": AblationStudy,
    "coverage": CoverageStudy,
    "fetch": FetchStudy,
    "fetch-goals": FetchGoalsStudy,
}
Item: Any = one_of(ITEMS, prefix_name=False)


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Reproduce a table or figure of the paper, with its numbers beside ours where it gives them.

    For example:
      wanderlust reproduce list             all of the paper: commands, what is measured here, whether it agrees, hours
      wanderlust reproduce point-goals      both PointEnv tables, eight seeds, under 20 minutes on two cores
      wanderlust reproduce ablation --help
      wanderlust reproduce coverage --help
      wanderlust reproduce fetch --help
      wanderlust reproduce fetch-goals      goal tasks over the skills that fetch has trained
    """

    item: tyro.conf.OmitArgPrefixes[Item]

    def run(self, console: Console) -> int:
        code: int = self.item.run(console)
        return code


@dataclasses.dataclass(frozen=True)
class Bench:
    """Measure how fast this machine steps environments and learns, beside other libraries where they are installed.

    For example:
      wanderlust bench                                      about two minutes on two cores
      wanderlust bench --only physics --worlds 64 --threads 2 --seconds 10
      wanderlust bench --env humanoid --engines c warp
    """

    env: str = "ant"
    """The environment: ant, half-cheetah, humanoid, fetch-push, fetch-slide or fetch-pick-and-place."""
    engines: Annotated[tuple[Literal["c", "warp"], ...], arg(metavar="ENGINE ...")] = ()
    """The engines to measure; by default c, and warp where there is a GPU."""
    worlds: Annotated[tuple[int, ...], arg(metavar="N ...")] = ()
    """Environments side by side; by default 16, 64 and 256 for c, and 1,024, 4,096 and 16,384 for warp."""
    threads: Annotated[tuple[int, ...], arg(metavar="N ...")] = ()
    """Threads of c and EnvPool; by default 1 and as many as there are cores."""
    seconds: Annotated[float, arg(metavar="S")] = 2.0
    """How long each thing is measured."""
    only: Literal["physics", "updates", "all"] = "all"
    """Only environment steps (physics), or only gradient steps (updates)."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """Where the JSON goes; by default runs/results/bench_<device>.json, with a number if that is there already. Before
    all is measured it is FILE.partial.json."""
    replace: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Replace the file if it is there."""

    def run(self, console: Console) -> int:
        from wanderlust.runs.files import write_json
        from wanderlust.runs.folders import free_name
        from wanderlust_experiments.bench import speed

        if self.out is not None and self.out.is_dir():
            raise UserError(f"--out is {self.out}, a folder; name a file, e.g. {self.out / 'bench.json'}")

        if self.out is not None and self.out.exists() and not self.replace:
            raise UserError(f"{self.out} is there already; choose another --out, or --replace it")
        chosen: list[Path] = []

        def place(result: dict[str, Any]) -> Path:
            if not chosen:
                usual = self.out or speed.default_path(result)
                chosen.append(usual if self.out or self.replace else free_name(usual))
            return chosen[0]

        def keep(result: dict[str, Any]) -> None:
            path = place(result)
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
            None if self.only == "all" else self.only,
            keep=keep,
        )
        console.print(speed.table(result), soft_wrap=False)
        for name, why in result["missing"].items():
            console.print(f"{name}: {why}")
        console.print(f"written: {place(result)}")
        return 0
