"""Flags made from the configuration's dataclasses: `--sac.discount`, `--method.alternatives`, `--env.cone`.

A method and an environment have fields of their own: the flags are those of the method and the environment that the
command line names. Neither is imported until it is needed, so that `--help` alone does not wait for JAX.
"""

import dataclasses
import itertools
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict, Union

import docstring_parser
from tyro.conf import Positional, arg, subcommand

from wanderlust.catalogue import parse_method
from wanderlust.config import EnvConfig, MethodConfig, RunConfig, from_json
from wanderlust.registry import METHODS, WORLDS, Registry

COMPLETION = ("--tyro-print-completion", "--tyro-write-completion")
NOT_FLAGS = ("name", "recipe")
"""Fields that other words of the command line decide."""


def with_flags(command: Any, argv: Sequence[str]) -> Any:
    """A command whose field `changes` has a flag for every field of the configuration that `argv` is about."""
    flags: Any = Annotated[_flags(RunConfig, _own_fields(command, argv)), arg(name="")]
    made = dataclasses.make_dataclass(
        command.__name__, [("changes", flags, dataclasses.field(default_factory=dict))], bases=(command,), frozen=True
    )
    made.__doc__ = command.__doc__
    return made


def one_of(commands: Mapping[str, Any], prefix_name: bool = True) -> Any:
    """The type that a parser makes subcommands of."""
    members = (Annotated[kind, subcommand(name, prefix_name=prefix_name)] for name, kind in commands.items())
    return Union[tuple(members)]  # noqa: UP007


def flag_names(kind: Any, prefix: str = "--") -> Iterator[str]:
    """The flags of a command, or of a section of the configuration."""
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        inner = typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint
        if typing.is_typeddict(inner):
            yield from flag_names(inner, prefix if name == "changes" else f"{prefix}{name}.")
        elif Positional not in getattr(hint, "__metadata__", ()) and typing.get_origin(hint) is not typing.ClassVar:
            named = [extra.name for extra in getattr(hint, "__metadata__", ()) if getattr(extra, "name", None)]
            yield f"{prefix}{(named or [name])[0].replace('_', '-')}"


def _flags(kind: Any, own: dict[Any, tuple[Any, ...]]) -> Any:
    """A dictionary type with an optional key for every field of a configuration class, or of some of its subclasses."""
    keys: dict[str, Any] = {}
    for one in own.get(kind, (kind,)):
        hints, texts = typing.get_type_hints(one), _field_texts(one)
        for name in (field.name for field in dataclasses.fields(one) if field.name not in NOT_FLAGS):
            section = hints[name] if dataclasses.is_dataclass(hints[name]) else None
            if isinstance(hints[name], types.UnionType):  # something, or nothing
                some = next(hint for hint in typing.get_args(hints[name]) if hint is not types.NoneType)
                if not dataclasses.is_dataclass(some):
                    hints[name] = some
                elif name in own:  # a section that is there only if something names it
                    keys[name] = _flags(MethodConfig, {MethodConfig: own[name]})
                    continue
                else:
                    continue
            # the class of an earlier stage's method is not known here: it has the fields of every method
            short = f"--{name.replace('_', '-')}" if name in getattr(one, "short_flags", ()) else None
            made = (
                _flags(section, own if one is RunConfig else {})
                if section
                else _flag(hints[name], texts.get(name), short)
            )
            keys.setdefault(name, made)
    return TypedDict(f"{kind.__name__}Flags", keys, total=False)  # type: ignore[operator]


def _flag(hint: Any, text: str | None, short: str | None = None) -> Any:
    several = None
    if typing.get_origin(hint) is tuple:
        several = "NAME ..." if typing.get_args(hint)[0] is str else "N ..."
    aliases = [short] if short else None
    default = "(by default the recipe's)"
    return Annotated[hint, arg(help=text or "", metavar=several, help_behavior_hint=default, aliases=aliases)]


def _field_texts(kind: type) -> dict[str, str]:
    """The docstrings of a class's fields, inherited ones included."""
    ours = [one for one in reversed(kind.__mro__) if dataclasses.is_dataclass(one)]
    params = (param for one in ours for param in docstring_parser.parse_from_object(one).params)
    return {param.arg_name: " ".join((param.description or "").split()) for param in params}


# --- the method and the environment that a command line names ----------------------------------------------------


def _own_fields(command: Any, argv: Sequence[str]) -> dict[Any, tuple[Any, ...]]:
    """The configuration classes of method and environment; the general ones while nothing asks for more."""
    if argv[0] in COMPLETION:
        from wanderlust.methods import bonuses

        every = {EnvConfig: _configs(WORLDS, WORLDS.names()), MethodConfig: _configs(METHODS, METHODS.names())}
        return {**every, "bonus": _configs(METHODS, bonuses())}
    asks = not {"-h", "--help"}.isdisjoint(argv)
    plain = dict(zip(argv, [*argv[1:], ""], strict=True)) | dict(word.split("=", 1) for word in argv if "=" in word)
    if "--config" in plain and any(word.startswith(("--env.", "--method.", "--bonus.")) for word in argv):
        from wanderlust.runs.files import read_text

        config = from_json(RunConfig, read_text(Path(plain["--config"]), "the configuration"), plain["--config"])
        added = {} if config.bonus is None else {"bonus": (type(config.bonus),)}
        return {EnvConfig: (type(config.env),), MethodConfig: (type(config.method),), **added}
    own: dict[Any, tuple[Any, ...]] = {}
    method, env = plain.get("--method"), _named_env(command, argv)
    if any(word.startswith("--env.") for word in argv) or (env and (asks or WORLDS.is_family(env))):
        own[EnvConfig] = _configs(WORLDS, [env or command.env])
    if any(word.startswith("--method.") for word in argv) or (asks and method):
        own[MethodConfig] = _configs(METHODS, [parse_method(method or command.method)[0]])
    bonus = plain.get("--with")
    if bonus and (asks or any(word.startswith("--bonus.") for word in argv)):
        own["bonus"] = _configs(METHODS, [bonus])
    return own


def _named_env(command: Any, argv: Sequence[str]) -> str | None:
    """The word that names an environment: no flag, and no value of one that takes any text."""
    texts = {f"--{field.name}".replace("_", "-") for field in dataclasses.fields(command)} | {"--with"}
    pairs = itertools.pairwise(argv)
    words = (word for before, word in pairs if before.replace("_", "-") not in texts and not word.startswith("-"))
    return next((word for word in words if word in WORLDS), None)


def _configs(registry: Registry, names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(registry.get(name).Config for name in names)
