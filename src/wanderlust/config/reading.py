"""Configurations as JSON, in and out. Unknown keys and wrong types are errors."""

import dataclasses
import functools
import json
import math
import types
import typing
from typing import Any, Literal, TypeVar, cast

from wanderlust.config.bounds import check_bound
from wanderlust.config.run import EnvConfig, MethodConfig, RunConfig
from wanderlust.errors import UserError, require
from wanderlust.registry import METHODS, WORLDS, Registry

T = TypeVar("T")


def to_json(config: Any) -> str:
    """A configuration as JSON text."""
    return json.dumps(dataclasses.asdict(config), indent=2) + "\n"


def from_json(kind: type[T], text: str, where: str) -> T:
    """Read a configuration of type `kind`; `where` names the source in error messages."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{where} is not valid JSON: {error.msg} at line {error.lineno}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{where} is not a configuration: its nesting or a number is too large") from None
    return build(kind, data, where)


def parsed(change: str) -> tuple[str, Any]:
    """The name and the value of a change: JSON, or a bare word."""
    path, equals, text = change.partition("=")
    require(bool(equals), f"--set {change} has no value; write --set name=value, e.g. --set sac.discount=0.995")
    try:
        return path, json.loads(text)
    except (ValueError, RecursionError):
        return path, text


def with_changes(config: T, changes: tuple[str, ...]) -> T:
    """A copy with some fields changed, e.g. ``sac.discount=0.995``; values are JSON, or bare words for strings.

    An object changes the fields that it names: ``sac={"discount":0.995}`` is the same.
    """
    before = flat(dataclasses.asdict(config))  # type: ignore[call-overload]
    data = dataclasses.asdict(config)  # type: ignore[call-overload]
    for change in changes:
        path, value = parsed(change)
        *sections, field = path.split(".")
        node: Any = data
        for section in sections:
            if not isinstance(node.get(section), dict):
                node[section] = {}  # which `build` refuses
            node = node[section]
        node[field] = _merged(node.get(field), value)
    made = build(type(config), data, f"--set {' '.join(changes)}") if changes else config
    for path, value in flat(data).items():
        if path.endswith(".name") and before.get(path, None if path == "bonus.name" else value) != value:
            section = path.removesuffix(".name")
            flag = {"env": "name it as the ENV", "method": f"use --method {value}", "bonus": f"use --with {value}"}
            advice = flag.get(section, "choose another --method")
            numbers = f"keep the numbers of {before[path]}" if path in before else "have no numbers of a recipe"
            raise UserError(f"--set {path}={value} would {numbers}; {advice} instead")
    return made


def check_changes(kind: Any, changes: tuple[str, ...]) -> None:
    """Refuse what a change to any configuration of a kind cannot be: what is there need not be known for it.

    Sections whose class a name decides, such as `method`, are left to `with_changes`.
    """
    for change in changes:
        path, value = parsed(change)
        *sections, field = path.split(".")
        owner = kind
        for section in sections:
            owner = typing.get_type_hints(owner).get(section) if dataclasses.is_dataclass(owner) else None
        hints = typing.get_type_hints(owner) if dataclasses.is_dataclass(owner) and owner not in _REGISTRIES else {}
        if field in hints and not dataclasses.is_dataclass(hints[field]):
            where = f"--set {' '.join(changes)}"
            try:
                check_bound(
                    owner, field, build(hints[field], value, where, path), f"{'.'.join(sections)}." * bool(sections)
                )
            except UserError as error:
                said = str(error)
                raise UserError(said if said.startswith(where) else f"{where}: {said}") from None


def _merged(before: Any, value: Any) -> Any:
    """A value, or for an object what was there with the fields that it names changed."""
    if not (isinstance(before, dict) and isinstance(value, dict)):
        return value
    return {**before, **{name: _merged(before.get(name), inner) for name, inner in value.items()}}


NOT_OF_RECIPES = ("recipe", "seed", "seeds", "engine", "driver", "log_every", "look_every", "checkpoint_every")
"""Fields that do not decide what is learned from the same experience."""
NO_RECIPE = "custom"
LABELLED = 6
"""Fields that the label of a changed recipe names."""


def labelled(config: RunConfig, basis: RunConfig) -> RunConfig:
    """The same, with a recipe that says what differs from it: ``laptop, changed: sac.discount``."""
    recipe, _, earlier = basis.recipe.partition(CHANGED)
    ours, theirs = (flat(dataclasses.asdict(one)) for one in (config, basis))
    now = [name for name in ours if name not in NOT_OF_RECIPES and ours[name] != theirs.get(name)]
    if not now or config.recipe != basis.recipe or recipe == NO_RECIPE:
        return config
    names = list(dict.fromkeys([*(earlier.split(", ") if earlier else []), *now]))
    more = [f"and {len(names) - LABELLED} more"] if len(names) > LABELLED else []
    return dataclasses.replace(config, recipe=f"{recipe}{CHANGED}{', '.join([*names[:LABELLED], *more])}")


CHANGED = ", changed: "


def flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The fields of a configuration, given as a dictionary, by their dotted names."""
    found = {}
    for key, value in config.items():
        found.update(flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value})
    return found


_REGISTRIES: dict[Any, Registry] = {EnvConfig: WORLDS, MethodConfig: METHODS}
"""Configurations whose class the field `name` picks."""


def _registered(kind: Any, data: Any, where: str, spot: str) -> Any:
    """The configuration class of the environment or method that the field `name` picks."""
    require(isinstance(data, dict), f"{where}: {spot} must be an object with named fields, not {data!r}")
    require("name" in data, f"{where}: missing key {spot}.name")
    require(isinstance(data["name"], str), f"{where}: {spot}.name is {data['name']!r}; it must be of type str")
    try:
        return _REGISTRIES[kind].get_for_file(data["name"]).Config
    except UserError as error:
        raise UserError(f"{where}: {spot}.name: {error}") from None


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _field_names(kind: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()


def build(kind: Any, data: Any, where: str, path: str = "") -> Any:
    """Turn parsed JSON into `kind`, checking every key and type on the way."""
    spot = path or "the top level"
    if isinstance(kind, types.UnionType):  # something, or nothing; or one of several classes
        members = typing.get_args(kind)
        if data is None and types.NoneType in members:
            return None
        kinds = [one for one in members if one is not types.NoneType]
        kind = next((one for one in kinds if isinstance(data, dict) and set(data) <= _field_names(one)), kinds[0])
    if kind in _REGISTRIES:
        kind = _registered(kind, data, where, spot)
    if dataclasses.is_dataclass(kind):
        require(isinstance(data, dict), f"{where}: {spot} must be an object with named fields, not {data!r}")
        hints = _hints(cast(Any, kind))
        fields = {f.name: f for f in dataclasses.fields(kind)}
        for key in data:
            name = f"{path}.{key}" if path else key
            require(key in fields, f"{where}: there is no field {name}; known here: {', '.join(fields)}")
        for name, field in fields.items():
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            require(name in data or not required, f"{where}: missing key {f'{path}.{name}' if path else name}")
        values = {k: build(hints[k], v, where, f"{path}.{k}" if path else k) for k, v in data.items()}
        try:
            return kind(**values)  # type: ignore[operator]
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        require(data in args, f"{where}: {spot} is {data!r}; it must be one of {', '.join(map(repr, args))}")
        return data
    if origin is tuple:
        require(isinstance(data, list | tuple), f"{where}: {spot} is {data!r}; it must be a list, such as [128, 128]")
        return tuple(build(args[0], v, where, f"{path}[{i}]") for i, v in enumerate(data))
    if kind in (int, float) and isinstance(data, int) and not isinstance(data, bool):
        shown = data if abs(data) < 10**30 else "out of range"
        require(abs(data) < 2**31, f"{where}: {spot} is {shown}; it must be below 2^31")
        return kind(data)
    if kind is float and isinstance(data, float):
        require(math.isfinite(data), f"{where}: {spot} is {data}; it must be a finite number")
    ok = isinstance(data, kind) and not (isinstance(data, bool) and kind is not bool)
    require(ok, f"{where}: {spot} is {data!r}; it must be of type {getattr(kind, '__name__', kind)}")
    return data
