"""Names that no file system takes, and text that steers a terminal: one line, whatever the command."""

import io

import pytest

from trained import trained
from wanderlust.report.terminal import Terminal

NAME = "x" * 300 + "\udcff\x1b[31m"
"""Too long, not to be encoded, and red."""


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", NAME],
        ["evaluate", f"zoo:{NAME}"],
        ["discover", "--resume", NAME],
        ["discover", "--config", NAME],
        ["discover", f"{NAME}.xml"],
        ["inspect", f"{NAME}.xml"],
        ["prune", "RUN", "--out", NAME],
        ["report", "RUN", "--quick", "--out", NAME],
        ["sweep", f"{NAME}.toml"],
        ["replay", NAME],
        ["export", NAME],
    ],
    ids=lambda words: " ".join(word.replace(NAME, "NAME") for word in words),
)
def test_a_name_that_no_file_system_takes_is_one_line(words, command_line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = command_line(*(trained().path if word == "RUN" else word for word in words))
    assert (code, err.count("\n")) == (2, 1), err
    assert err.startswith("wanderlust: ") and err[:-1].isprintable() and "\x1b" not in out
    assert not list(tmp_path.iterdir())


def test_a_terminal_is_steered_by_nobody_but_us():
    shown = io.StringIO()
    console = Terminal(file=shown, force_terminal=True, color_system="standard", width=80)
    console.print("a\x1b[31m red \x1b]0;title\x07\rb\x9b2J [bold]c :x:", style="green")
    written = shown.getvalue()
    assert written.startswith("\x1b[32ma [31m red  ]0;title") and written.endswith("[bold]c :x:\x1b[0m\n")
    assert written.count("\x1b") == 2 and not set(written) & set("\r\x07\x9b")
