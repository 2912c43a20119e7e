"""The generated parts of the reference, put where a page says `<!-- generated: NAME -->`."""

import contextlib
import dataclasses
import functools
import inspect
import io
import json
import os
import re
import typing
from collections.abc import Callable, Iterator
from typing import Any

import docstring_parser

import wanderlust
from wanderlust import cli
from wanderlust.config import RunConfig, SacConfig, ScheduleConfig, SkillConfig, to_json
from wanderlust.recipes import get_recipe, usual_skills
from wanderlust.registry import METHODS, WORLDS

PLACE = re.compile(r"^<!-- generated: ([\w-]+) -->$", re.M)
PRIVATE = ("_", "tree_")


def filled_in(markdown: str) -> str:
    """A page with its generated parts."""
    return PLACE.sub(lambda match: PARTS[match[1]](), markdown)


@functools.cache
def commands() -> str:
    """Every command's help, as the terminal shows it."""
    shown = (f"## {name}\n\n```text\n{_help(name)}\n```" for name in cli.COMMANDS)
    return '<div class="help" markdown>\n\n' + "\n\n".join(shown) + "\n\n</div>"


def _help(*words: str) -> str:
    shown = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
            cli.main([*words, "--help"])
    finally:
        if before is None:
            os.environ.pop("COLUMNS")
        else:
            os.environ["COLUMNS"] = before
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue()).strip("\n")


@functools.cache
def fields() -> str:
    """The fields of a run's configuration, section by section."""
    sections = [("", RunConfig), ("skills", SkillConfig), ("sac", SacConfig), ("schedule", ScheduleConfig)]
    worlds = [(f"env of {name}", _config(WORLDS, name)) for name in WORLDS.names()]
    methods = [(f"method of {name}", _config(METHODS, name)) for name in METHODS.names()]
    return "\n\n".join(_table(name, kind) for name, kind in (*sections, *worlds, *methods))


def _config(registry: Any, name: str) -> Any:
    return registry.get(name).Config


def _table(name: str, kind: Any) -> str:
    texts = {param.arg_name: param.description or "" for param in docstring_parser.parse_from_object(kind).params}
    hints = typing.get_type_hints(kind)
    rows = [
        f"| `{field.name}` | {_type(hints[field.name])} | {_default(field)} | {_line(texts.get(field.name, ''))} |"
        for field in dataclasses.fields(kind)
        if not dataclasses.is_dataclass(hints[field.name]) and field.name not in ("env", "method", "bonus", "first")
    ]
    about = _line((inspect.getdoc(kind) or "").partition("\n\n")[0])
    head = "| field | takes | default | meaning |\n|---|---|---|---|"
    return f"### {f'`{name}`' if name else 'Top level'}\n\n{about}\n\n{head}\n" + "\n".join(rows)


def _type(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return ", ".join(f'`"{choice}"`' for choice in typing.get_args(hint))
    plain = {int: "whole number", float: "number", bool: "true or false", str: "text"}
    return plain.get(hint, str(hint).replace("typing.", "").replace("|", "or"))


def _default(field: "dataclasses.Field[Any]") -> str:
    made = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    if made is dataclasses.MISSING:
        return "the recipe's"
    return f"`{list(made) if isinstance(made, tuple) else made!r}`" if len(str(made)) < 40 else "see the source"


def _line(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


@functools.cache
def recipes() -> str:
    """The numbers of every recipe for LSD, world by world."""
    return "\n\n".join(_recipe(world) for world in ("point", "ant", "half-cheetah", "humanoid"))


def _recipe(world: str) -> str:
    names = ("paper", "fast", "laptop") if world != "point" else ("paper", "laptop")
    columns = [_flat(json.loads(to_json(get_recipe(name, world, "lsd", usual_skills("lsd"), None)))) for name in names]
    rows = [
        f"| `{key}` | " + " | ".join(f"`{column.get(key, '')}`" for column in columns) + " |"
        for key in columns[0]
        if key.startswith(("sac.", "schedule.", "method.")) or key in ("engine", "precision")
    ]
    head = f"| field | {' | '.join(f'`{name}`' for name in names)} |\n|---|{'---|' * len(names)}"
    return f"### `{world}`\n\n{head}\n" + "\n".join(rows)


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat.update(_flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value})
    return flat


@functools.cache
def names() -> str:
    """The public names of the package."""
    public = {name: getattr(wanderlust, name) for name in wanderlust.__all__ if not name.startswith("_")}
    return "\n\n".join(_documented(f"wanderlust.{name}", thing) for name, thing in sorted(public.items()))


def _documented(name: str, thing: Any, level: int = 2) -> str:
    parsed = docstring_parser.parse(inspect.getdoc(thing) or "")
    about = "\n\n".join(_paragraph(text) for text in (parsed.short_description, parsed.long_description) if text)
    parts = [f"{'#' * level} `{name}`", f"```text\n{_signature(name, thing)}\n```", about]
    if parsed.params:
        parts.append(
            "\n".join(f"- **`{param.arg_name}`**: {_line(param.description or '')}" for param in parsed.params)
        )
    if parsed.returns and parsed.returns.description:
        parts.append(f"*Returns* {_line(parsed.returns.description)}")
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        parts.extend(_documented(f"{name.rpartition('.')[2]}.{one}", member, level + 1) for one, member in _own(thing))
    return "\n\n".join(part for part in parts if part)


def _own(thing: Any) -> Iterator[tuple[str, Any]]:
    """What a class of ours documents itself."""
    for name, member in vars(thing).items():
        plain = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if not name.startswith(PRIVATE) and callable(plain) and inspect.getdoc(plain):
            yield name, member


def _signature(name: str, thing: Any) -> str:
    if isinstance(thing, property):
        return name.rpartition(".")[2]
    try:
        made = inspect.signature(getattr(thing, "__func__", thing))
    except (TypeError, ValueError):
        return name
    given = [str(param) for param in made.parameters.values() if param.name not in ("self", "cls")]
    short = name.rpartition(".")[2]
    line = f"{short}({', '.join(given)})"
    return line if len(line) < 90 else f"{short}(\n" + "".join(f"    {one},\n" for one in given) + ")"


def _paragraph(text: str) -> str:
    return text.replace("``", "`")


PARTS: dict[str, Callable[[], str]] = {"commands": commands, "fields": fields, "recipes": recipes, "names": names}
