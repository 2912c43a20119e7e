"""What is wrong with a request and can be said without JAX and MuJoCo: the command line answers at once."""

from pathlib import Path
from typing import Any, Literal, get_args

from wanderlust.catalogue import DEFAULT, check_recipe, parse_method
from wanderlust.config import (
    DriverName,
    EngineName,
    EnvConfig,
    RunConfig,
    SkillConfig,
    check_bound,
    check_changes,
    require,
    require_at_least,
    require_positive,
)
from wanderlust.errors import UserError, is_count
from wanderlust.registry import METHODS, WORLDS


def check_request(
    env: Any,
    method: Any,
    skills: Any = None,
    discrete: Any = None,
    seed: Any = None,
    seeds: Any = None,
    recipe: Any = DEFAULT,
    config: Path | None = None,
    set: Any = (),  # noqa: A002 - the name of the flag
    budget_steps: Any = None,
    driver: Any = None,
    engine: Any = None,
    bonus: Any = None,
) -> None:
    """Refuse what `wanderlust.api.configure` cannot make a configuration of, as far as names and numbers tell."""
    _check_kinds(env=env, method=method, recipe=recipe, bonus=bonus, driver=driver, engine=engine)
    for name, value in {"skills": skills, "discrete": discrete, "seed": seed, "seeds": seeds}.items():
        require(value is None or is_count(value), f"--{name} is {value!r}; it must be a whole number")
    listed = isinstance(set, list | tuple) and all(isinstance(change, str) for change in set)
    require(listed, f"changes are {set!r}; they must be a list of texts such as 'sac.discount=0.995'")
    if skills is not None and discrete is not None:
        raise UserError("--skills and --discrete exclude each other: choose continuous or discrete skills")
    if config is None:
        if isinstance(env, str):
            WORLDS.check(env)
        parse_method(method)
        check_recipe(recipe, env if isinstance(env, str) else env.config.name)
        if bonus is not None:
            METHODS.check(bonus)
    if skills is not None:
        SkillConfig("continuous", skills)
    if discrete is not None:
        SkillConfig("discrete", discrete)
    if seeds is not None:
        check_bound(RunConfig, "seeds", seeds)
    check_changes(RunConfig, set)
    if budget_steps is not None:
        require_at_least(1, "--budget-steps", budget_steps)


def _check_kinds(**given: Any) -> None:
    """Refuse what is no text, or names nothing there is."""
    for name, value in given.items():
        if name == "env" and isinstance(getattr(value, "config", None), EnvConfig):
            continue  # a world; what else there can be is said where it is looked at
        optional = name in ("bonus", "driver", "engine")
        require(isinstance(value, str) or (optional and value is None), f"{name} is {value!r}; it must be a name")
    for name, known in {"driver": get_args(DriverName), "engine": get_args(EngineName)}.items():
        ok = given[name] is None or given[name] in known
        require(ok, f"{name} is {given[name]!r}; it must be one of {', '.join(known)}")


def check_budget(seconds: float | None) -> None:
    """Refuse an impossible budget, before anything is made."""
    if seconds is not None:
        require_positive("--budget-seconds", seconds)


OnDivergence = Literal["stop", "rollback"]
ROLLBACKS = 3


def rollbacks_allowed(on_divergence: OnDivergence, rollbacks: int = ROLLBACKS) -> int:
    """How often a run may go back when it diverges."""
    known = get_args(OnDivergence)
    require(on_divergence in known, f"--on-divergence is {on_divergence!r}; it must be one of {', '.join(known)}")
    require_at_least(1, "--rollbacks", rollbacks)
    require(
        on_divergence == "rollback" or rollbacks == ROLLBACKS,
        "--rollbacks is for --on-divergence rollback; add that, or leave it out",
    )
    return rollbacks if on_divergence == "rollback" else 0
