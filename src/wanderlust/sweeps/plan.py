"""What a sweep is to train: methods x worlds x settings x seeds, each a run of its own, as TOML or a mapping."""

import dataclasses
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wanderlust.api import configure
from wanderlust.config import RunConfig, flat
from wanderlust.errors import UserError, did_you_mean, notice, require_path
from wanderlust.runs.files import read_text
from wanderlust.sweeps.standing import opened

NUMBER = (int, float)
WORDS: Mapping[str, tuple[Any, str]] = {
    "recipe": (str, 'the name of a recipe, e.g. "laptop"'),
    "with": (str, "the name of a method whose reward is added"),
    "skills": (int, "dimensions of continuous skills, e.g. 2"),
    "discrete": (int, "a number of discrete skills, e.g. 16"),
    "engine": (str, 'an engine: "auto", "jax", "c" or "warp"'),
    "budget_steps": (int, "environment steps of a run, e.g. 4_000_000"),
    "set": (dict, "a table of single numbers, e.g. { sac.discount = 0.99 }"),
}
"""What a sweep, and each of its settings, may say of a run, as `wanderlust discover` does."""
KEYS: Mapping[str, tuple[Any, str]] = {
    "methods": (list, "a list of methods, by the names that `wanderlust list` shows"),
    "worlds": (list, "a list of environments, by the names that `wanderlust list` shows"),
    "seeds": ((int, list), "a number of seeds, e.g. 3, or a list of them, e.g. [0, 1, 2]"),
    "settings": (dict, "a table of tables, each with a name, e.g. [settings.far]"),
    "out": (str, 'the folder of the runs, e.g. "runs/ant"'),
    "retries": (int, "how often a run that failed is tried again, e.g. 2"),
    "hours": (NUMBER, "hours for all of it, e.g. 12"),
    "hours_per_run": (NUMBER, "hours for each run, e.g. 1.5"),
    "cores_per_run": (int, "CPU cores of each run, e.g. 2"),
    "episodes": (int, "random skills per run behind its measures, e.g. 200"),
    **WORDS,
}
LARGEST = 2**20
"""Bytes of a grid."""
MOST_SEEDS = 10_000
POSITIVE = ("hours", "hours_per_run", "cores_per_run", "episodes")


class Combination(NamedTuple):
    """What the seeds of one row of the results have in common."""

    world: str
    method: str
    setting: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in self if part)


@dataclasses.dataclass(frozen=True)
class Item:
    """A run that is to be there in the end."""

    name: str
    combination: Combination
    config: RunConfig
    folder: Path


@dataclasses.dataclass(frozen=True)
class Plan:
    """All of a sweep."""

    out: Path
    items: tuple[Item, ...]
    grid: Mapping[str, Any]
    """As it was written."""
    retries: int = 1
    hours: float | None = None
    hours_per_run: float | None = None
    cores_per_run: int = 2
    episodes: int = 200

    @property
    def seconds_per_run(self) -> float | None:
        """The budget of a run."""
        return None if self.hours_per_run is None else 3600 * self.hours_per_run

    @property
    def needs_gpu(self) -> bool:
        """Whether its runs are for a GPU."""
        return any(item.config.engine == "warp" for item in self.items)

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules that methods and worlds of the user's own come from."""
        named = (name for item in self.items for name in item.combination[:2] if ":" in name)
        return tuple(dict.fromkeys(name.partition(":")[0] for name in named))


def read_plan(grid: Path | str | Mapping[str, Any], out: Path | str | None = None) -> Plan:
    """Read and check a sweep; every mistake in it is a line of its own."""
    if isinstance(grid, Mapping):
        where, words = "the sweep", dict(grid)
    else:
        require_path("the sweep", grid)
        path = Path(grid)
        where = str(path)
        try:
            words = tomllib.loads(read_text(path, "the sweep", LARGEST))
        except (ValueError, RecursionError) as error:  # a wrong date or number, nesting without end
            raise UserError(f"{where} is no valid TOML: {error}") from None
        words.setdefault("out", str(Path("runs") / path.stem))
    if out is not None:
        words["out"] = str(out)
    words = _whole(words)
    _refuse(where, [*_mistakes(words)])
    folder = Path(words["out"])
    items, wrong = _items(words, folder)
    _refuse(where, wrong)
    given = {key: words[key] for key in ("retries", "hours", "hours_per_run", "cores_per_run", "episodes")}
    return Plan(folder, items, words, **given)


def _refuse(where: str, mistakes: list[str]) -> None:
    """Refuse the last mistake, after a line for each of the others."""
    *others, last = dict.fromkeys(mistakes) or [""]
    for mistake in others:
        notice(f"{where}: {mistake}")
    if last:
        raise UserError(f"{where}: {last}")


# --- what may be written ------------------------------------------------------------------------------------------


def _whole(words: Mapping[str, Any]) -> dict[str, Any]:
    """With whole numbers where they are meant, also if they were written as 4e6."""
    ours = {name: setting for name, setting in words.items() if isinstance(setting, dict)}
    plain = {
        key: int(x) if isinstance(x, float) and x.is_integer() and KEYS.get(key, ("",))[0] is int else x
        for key, x in words.items()
    }
    settings = {name: _whole(one) if isinstance(one, dict) else one for name, one in ours.get("settings", {}).items()}
    return plain | ({"settings": settings} if "settings" in ours else {})


def _mistakes(words: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the keys and the types of their values; defaults are filled in."""
    defaults = {"seeds": 1, "settings": {}, "retries": 1, "cores_per_run": 2, "episodes": 200}
    yield from _wrong_keys(words, KEYS)
    for name, value in (defaults | {"hours": None, "hours_per_run": None}).items():
        words.setdefault(name, value)
    for name in ("methods", "worlds"):
        if not words.get(name):
            yield f"{name} is missing: {KEYS[name][1]}"
    if "out" not in words:
        yield f"out is missing: {KEYS['out'][1]}"
    for name in POSITIVE:
        if isinstance(words[name], NUMBER) and not words[name] > 0:
            yield f"{name} is {words[name]}; it must be positive"
    if isinstance(words["retries"], int) and words["retries"] < 0:
        yield f"retries is {words['retries']}; it must be at least 0"
    if isinstance(seeds := words["seeds"], int) and seeds < 1:
        yield f"seeds is {seeds}; it must be at least 1"
    if isinstance(seeds, int) and seeds > MOST_SEEDS:
        yield f"seeds is {seeds}; it can be {MOST_SEEDS:,} at most"
    for name, kind, what in (("methods", str, "names"), ("worlds", str, "names"), ("seeds", int, "whole numbers")):
        listed = words.get(name)
        if isinstance(listed, list):
            if not all(isinstance(one, kind) and not isinstance(one, bool) for one in listed):
                yield f"{name} is {listed!r}; it must be a list of {what}"
            elif len(set(listed)) < len(listed) or (name == "seeds" and not listed):
                yield f"{name} is {listed!r}; it must name each one once"
    settings = words["settings"] if isinstance(words["settings"], dict) else {}
    for name, setting in settings.items():
        if isinstance(setting, dict):
            yield from _wrong_keys(setting, WORDS, f"settings.{name}.")
        else:
            yield f"settings.{name} is {setting!r}; it must be a table, e.g. [settings.{name}]"
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
            yield f"settings.{name}: a name is letters, digits, hyphens and dots, since folders are called by it"


def _wrong_keys(words: Mapping[str, Any], known: Mapping[str, tuple[Any, str]], inside: str = "") -> Iterator[str]:
    for key, value in words.items():
        if key not in known:
            yield f"there is no key {inside}{key}{did_you_mean(key, known) or '; known: ' + ', '.join(known)}"
        elif value is not None and (not isinstance(value, known[key][0]) or isinstance(value, bool)):
            yield f"{inside}{key} is {value!r}; it must be {known[key][1]}"


# --- the runs -----------------------------------------------------------------------------------------------------


def _items(words: Mapping[str, Any], out: Path) -> tuple[tuple[Item, ...], list[str]]:
    """Every run, all combinations of the first seed first; and what cannot be."""
    seeds = list(range(words["seeds"])) if isinstance(words["seeds"], int) else words["seeds"]
    shared = {name: words[name] for name in WORDS if name in words}
    configs: dict[Combination, RunConfig] = {}
    refused: dict[str, Combination] = {}
    for world in words["worlds"]:
        for method in words["methods"]:
            for setting, own in (words["settings"] or {"": {}}).items():
                combination = Combination(world, method.lower() if ":" not in method else method, setting)
                try:
                    configs[combination] = _config(
                        combination, {**shared, **own}, (shared.get("set", {}), own.get("set", {}))
                    )
                except UserError as error:
                    refused.setdefault(str(error), combination)
    wrong = [f"{combination}: {error}" for error, combination in refused.items()]
    items = [_item(combination, config, seed, out) for seed in seeds for combination, config in configs.items()]
    names = [item.name for item in items]
    wrong += [f"two runs would be called {name}" for name in sorted({one for one in names if names.count(one) > 1})]
    for item in items:
        try:
            opened(item.folder, item.config, "another out, or move it away")
        except UserError as error:
            wrong.append(str(error))
    return tuple(items), wrong


def _config(combination: Combination, words: Mapping[str, Any], changes: tuple[Mapping[str, Any], ...]) -> RunConfig:
    merged = {key: value for table in changes for key, value in flat(dict(table)).items()}
    options = {name: words.get(name) for name in ("skills", "discrete", "engine", "budget_steps")}
    return configure(
        combination.world,
        combination.method,
        bonus=words.get("with"),
        recipe=words.get("recipe", "laptop"),
        seeds=1,
        set=tuple(f"{key}={json.dumps(value)}" for key, value in merged.items()),
        **options,
    )


def _item(combination: Combination, config: RunConfig, seed: int, out: Path) -> Item:
    parts = (*(part.rpartition(":")[2].lower() for part in combination if part), f"seed{seed}")
    name = "_".join(parts)
    return Item(name, combination, dataclasses.replace(config, seed=seed), out / name)
