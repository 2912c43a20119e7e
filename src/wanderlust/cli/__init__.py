"""The command line: `wanderlust discover`, `evaluate`, `reach`, `downstream` and so on, a class for each."""

import contextlib
import errno
import io
import itertools
import sys
from collections.abc import Sequence
from typing import Any

import tyro
from rich.console import Console

from wanderlust import __version__
from wanderlust.cli.comparisons import Compare, Report
from wanderlust.cli.doctor import Doctor
from wanderlust.cli.explore import Explore
from wanderlust.cli.flags import COMPLETION, flag_names, one_of, with_flags
from wanderlust.cli.goals import Downstream, ReachGoals
from wanderlust.cli.inspect import Inspect
from wanderlust.cli.numbers import NUMBERS
from wanderlust.cli.process import EXIT_INTERRUPTED, lasting_output, stoppable
from wanderlust.cli.reports import EXIT_BROKEN, EXIT_USER_ERROR
from wanderlust.cli.skills import Discover, Evaluate, Export, List, Prune, Publish, ReplayStep
from wanderlust.cli.studies import ITEMS, Bench, Reproduce
from wanderlust.cli.sweeps import Sweep
from wanderlust.cli.video import Video
from wanderlust.errors import LONGEST, UserError, did_you_mean, printable
from wanderlust.report.terminal import Terminal
from wanderlust.runs.entries import check_source

GROUPS: dict[str, dict[str, tuple[Any, str]]] = {
    "learn": {
        "discover": (Discover, "learn skills without a reward, measure and draw them"),
        "sweep": (Sweep, "methods x environments x seeds, on this machine or a cluster"),
        "inspect": (Inspect, "look a robot's model over before anything is learned with it"),
    },
    "look": {
        "evaluate": (Evaluate, "measure and draw a run again: did it learn?"),
        "explore": (Explore, "drive a body in the browser"),
        "video": (Video, "film skills"),
        "report": (Report, "one page of HTML about a run"),
        "compare": (Compare, "runs side by side"),
    },
    "use": {
        "reach": (ReachGoals, "send a body to goals, with no further training"),
        "downstream": (Downstream, "solve a task with skills"),
        "export": (Export, "skills as ONNX, for robots without JAX"),
        "publish": (Publish, "put skills into the zoo, with a model card"),
        "prune": (Prune, "a small copy of a run, to keep or to send"),
    },
    "check": {
        "list": (List, "environments, methods, recipes, tasks, trained skills"),
        "doctor": (Doctor, "what works on this machine; for bug reports"),
        "reproduce": (Reproduce, "tables and figures of the paper"),
        "bench": (Bench, "how fast this machine steps and learns"),
        "replay": (ReplayStep, "the step that broke the physics of a run"),
    },
}
COMMANDS: dict[str, Any] = {name: kind for group in GROUPS.values() for name, (kind, _) in group.items()}
ABOUT = "Unsupervised skill discovery for simulated bodies."
STARTS = """begin with:
  wanderlust discover               skills of a point on the plane, half a minute
  wanderlust explore                an Ant that has learned already
  wanderlust COMMAND --help         flags and examples of a command
  wanderlust --version
  wanderlust --tyro-write-completion bash FILE    completion (or zsh, fish, tcsh)"""


def _help() -> str:
    """All commands on one screen."""
    lines = ["usage: wanderlust COMMAND ...", "", ABOUT, ""]
    for title, group in GROUPS.items():
        lines += [f"{title}:", *(f"  {name:<12}{words}" for name, (_, words) in group.items())]
    return "\n".join([*lines, "", STARTS])


def _parse(argv: Sequence[str]) -> Any:
    """Parse the command line; a wrong one raises one line."""
    words, kind = _command(argv)
    commands = COMMANDS
    if words == ["discover"] or argv[0] in COMPLETION:
        commands = {**COMMANDS, "discover": with_flags(Discover, argv)}
        kind = commands["discover"]
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            made, unknown = tyro.cli(
                one_of(commands),
                prog="wanderlust",
                args=argv,
                description=ABOUT,
                config=(tyro.conf.DisallowNone,),
                return_unknown_args=True,
                registry=NUMBERS,
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UserError(f"{_message(complaint.getvalue())}; {_see(words)}") from None
    except (AssertionError, OSError) as problem:
        if argv[0] not in COMPLETION:
            raise
        raise UserError(f"no completion script: {problem}") from None
    if unknown:
        raise UserError(f"{_no_such(unknown, kind)}; {_see(words)}")
    return made


def _command(argv: Sequence[str]) -> tuple[list[str], Any]:
    """The words that name a command, and its class."""
    words: list[str] = []
    kind, choices = None, COMMANDS
    for word in itertools.takewhile(lambda word: not word.startswith("-"), argv):
        if not choices:
            break
        if word not in choices:
            advice = did_you_mean(word, choices) or f"; known: {', '.join(choices)}"
            raise UserError(f"there is no {' '.join([*words, word])}{advice}; {_see(words)}")
        words.append(word)
        kind = choices[word]
        choices = ITEMS if kind is Reproduce else {}
    return words, kind


def _see(words: Sequence[str]) -> str:
    return f"see {' '.join(('wanderlust', *words, '--help'))}"


def _message(box: str) -> str:
    """What the parser says in its box: the lines between the title and the next rule."""
    lines = [line.strip(" │") for line in box.splitlines()]

    def is_rule(line: str) -> bool:
        return bool(line) and set(line) <= set("─-╰╯")

    below = itertools.dropwhile(is_rule, lines[1:])
    said = " ".join(itertools.takewhile(lambda line: not is_rule(line), below))
    return " ".join((said or box).split()).rstrip(".")


def _no_such(words: Sequence[str], kind: Any) -> str:
    """Name the first unknown option, and those that may have been meant."""
    flag = next((word for word in words if word.startswith("-")), None)
    if flag is None:
        return f"too many words: {' '.join(words)}"
    flag = flag.partition("=")[0]
    known = list(flag_names(kind)) if kind else []
    section = flag.rpartition(".")[0]
    if section and (fields := [name for name in known if name.rpartition(".")[0] == section]):
        return f"there is no option {flag} here; there are {', '.join(fields)}"
    return f"there is no option {flag}{did_you_mean(flag, known)}"


OF_FILES = (
    errno.ENAMETOOLONG, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM, errno.ELOOP,
    errno.ENOTDIR, errno.EMFILE, errno.ENFILE,
)  # fmt: skip
"""Errors that a name, a disk or a permission makes, wherever they come from."""


def _place_of(error: Exception) -> str:
    """The file that an error is about, in front of what is wrong with it."""
    name = getattr(error, "filename", None)
    return f"cannot use {printable(str(name), 200)}: " if name else ""


def main(argv: list[str] | None = None) -> None:
    """Run a command; bad input ends in one line on stderr and exit code 2."""
    with lasting_output() as lost:
        try:
            with stoppable():
                console = Terminal()  # zoo:ant: is no ant
                code = _run((sys.argv[1:] if argv is None else argv) or ["--help"], console)
        except UserError as error:
            _complain(str(error))
            code = EXIT_USER_ERROR
        except (OSError, UnicodeEncodeError) as error:
            if isinstance(error, OSError) and error.errno not in OF_FILES:
                raise
            _complain(printable(f"{_place_of(error)}{getattr(error, 'strerror', None) or error}", LONGEST))
            code = EXIT_USER_ERROR
        except KeyboardInterrupt as stop:
            _complain(str(stop) if stop.args else "stopped")
            code = EXIT_INTERRUPTED
        sys.stdout.flush()
        if code == 0 and lost:
            _complain(f"not everything could be printed: {lost[0]}")
            code = EXIT_BROKEN
    sys.exit(code)


def _run(words: list[str], console: Console) -> int:
    if words == ["--version"]:
        console.print(f"wanderlust {__version__}")
        return 0
    if words in (["--help"], ["-h"]):
        console.print(_help())
        return 0
    made = _parse(words)
    for where in (*getattr(made, "runs", ()), *([made.run_folder] if hasattr(made, "run_folder") else [])):
        check_source(where)  # before what opens it is imported
    code: int = made.run(console)
    return code


def _complain(text: str) -> None:
    print(f"wanderlust: {text}", file=sys.stderr)
