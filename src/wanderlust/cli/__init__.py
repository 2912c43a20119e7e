"""The command line: `wanderlust discover`, `evaluate`, `reach`, `downstream` and so on, a class for each."""

import contextlib
import io
import os
import re
import sys
from typing import Annotated, Any

import tyro
from rich.console import Console
from tyro.conf import subcommand

from wanderlust.cli.goals import Downstream, Reach
from wanderlust.cli.reports import EXIT_INTERRUPTED, EXIT_USER_ERROR
from wanderlust.cli.skills import Discover, Evaluate, Export, List, Publish, Replay
from wanderlust.cli.studies import Bench, Reproduce
from wanderlust.errors import UserError

Command = (
    Annotated[Discover, subcommand("discover")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[Reach, subcommand("reach")]
    | Annotated[Downstream, subcommand("downstream")]
    | Annotated[Export, subcommand("export")]
    | Annotated[Publish, subcommand("publish")]
    | Annotated[Replay, subcommand("replay")]
    | Annotated[Reproduce, subcommand("reproduce")]
    | Annotated[Bench, subcommand("bench")]
    | Annotated[List, subcommand("list")]
)
COMMANDS = ("discover", "evaluate", "reach", "downstream", "export", "publish", "replay", "reproduce", "bench", "list")
ITEMS = ("point-goals", "ablation", "coverage")
"""Of `reproduce`."""


def _parse(argv: list[str]) -> Any:
    """Parse the command line; tyro's framed complaints become one line."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                Command,
                prog="wanderlust",
                args=argv,
                description="Unsupervised skill discovery for simulated bodies. Start with: wanderlust discover",
                config=(tyro.conf.DisallowNone,),
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UserError(_one_line(complaint.getvalue(), argv)) from None


def _one_line(complaint: str, argv: list[str]) -> str:
    words = " ".join(re.sub(r"[─│╭╮╰╯]+|-{4,}", " ", complaint).split())  # the frame; hyphens where all is ASCII
    words = re.split(r" Got errors:| Argument helptext:| For full helptext| \(required\)", words)[0]
    expected = r"no type matching (\S+) could be instantiated from \['(.*?)'\]"
    words = re.sub(expected, r"\2 is not of type \1", words)
    words = re.sub(r"(?<=Expected one of )\((.*?)\)", _choices, words)
    title = re.match(r"(Unrecognized options|Value error|Required options|Missing \w+|Invalid choice)\s+(?=\S)", words)
    words = words[title.end() :] if title else words
    words = re.sub(r" Perhaps you meant: (--\S+).*", r"; did you mean \1?", words)
    words = re.sub(r" (Available subcommands:)", r"; \1", words)
    command = argv[:1] if argv and argv[0] in COMMANDS else []
    command += [item for item in argv[1:2] if command == ["reproduce"] and item in ITEMS]
    return f"{words.rstrip('.?')}; see {' '.join(('wanderlust', *command, '--help'))}"


def _choices(found: re.Match[str]) -> str:
    """In a fixed order: of a flag that may be left out, tyro names a set, with the None that it would not take."""
    return ", ".join(sorted(set(re.findall(r"'(.*?)'", found[1])) - {"None"}))


def main(argv: list[str] | None = None) -> None:
    """Run a command; bad input ends in one line on stderr and exit code 2."""
    console = Console(highlight=False, markup=False, emoji=False)  # zoo:ant: is no picture of an ant
    try:
        command = _parse((sys.argv[1:] if argv is None else argv) or ["--help"])
        sys.exit(command.run(console))
    except UserError as error:
        print(f"wanderlust: {error}", file=sys.stderr)
        sys.exit(EXIT_USER_ERROR)
    except KeyboardInterrupt as stop:
        print(f"wanderlust: {stop if stop.args else 'stopped'}", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
