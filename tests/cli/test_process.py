"""A command as a process: stopped by others than the keyboard, and without anybody who reads what it prints."""

import io
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from helpers import tiny_config
from trained import copy_of, start_python, trained
from wanderlust import cli
from wanderlust.cli.process import LastingStream, ended_at_once
from wanderlust.config import to_json
from wanderlust.runs.run import Run
from wanderlust.train import loop, stages, stopping


def press(number: int, after: float) -> None:
    threading.Timer(after, os.kill, [os.getpid(), number]).start()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_signal_that_asks_to_stop_leaves_a_checkpoint(tmp_path, monkeypatch, number):
    run = stages.start(tiny_config(epochs=50), tmp_path / "run")
    real = loop._show

    def show(*given):
        if given[1]["epoch"] == 4:
            os.kill(os.getpid(), number)
        real(*given)

    monkeypatch.setattr(loop, "_show", show)
    outcome = loop.run_training(run, quiet=True)
    assert (outcome.reason, max(run.checkpoints())) == ("interrupted", outcome.epoch)
    assert 4 < outcome.epoch < 10
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_before_training_begins_it_stops_at_once(tmp_path, monkeypatch):
    run = stages.start(tiny_config(), tmp_path / "run")

    def compiling(*_):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
        pytest.fail("it went on")

    monkeypatch.setattr(loop, "_prepare", compiling)
    with pytest.raises(KeyboardInterrupt):
        loop.run_training(run, quiet=True)


def test_while_modules_are_imported_the_process_ends_on_the_spot(monkeypatch, capfd):
    class EndedError(BaseException):
        pass

    def ended(code):
        raise EndedError(code)

    monkeypatch.setattr(os, "_exit", ended)
    with pytest.raises(EndedError, match="130"), ended_at_once():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    assert capfd.readouterr().err == "wanderlust: stopped\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_compiled_code_that_does_not_listen_is_not_waited_for(tmp_path):
    """A thread hears of the signal; it ends the process, if it is a command's."""
    program = """
import hashlib, os, signal, sys, threading
from wanderlust.train import stopping
stopping.may_end_process()
with stopping.stop_signals() as stop:
    stop.at_once = sys.argv[1] == "now"
    for k in range(1 if stop.at_once else 2):
        threading.Timer(0.2 + 0.3 * k, os.kill, [os.getpid(), signal.SIGINT]).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # compiled code that does not come back, and lets threads run
"""
    for how in ("now", "later"):
        began = time.monotonic()
        process = start_python("-c", program, how, cwd=tmp_path)
        _, err = process.communicate(timeout=60)
        assert process.returncode == stopping.EXIT_INTERRUPTED, err
        assert err.endswith(stopping.NOW)
        assert (stopping.SOON in err) == (how == "later")
        assert time.monotonic() - began < 50


# --- output that goes away ------------------------------------------------------------------------------------------


class Gone(io.StringIO):
    """A stream that breaks after some writes."""

    def __init__(self, error: OSError, writes: int = 0) -> None:
        super().__init__()
        self.error, self.left = error, writes

    def write(self, text):
        if self.left <= 0:
            raise self.error
        self.left -= 1
        return super().write(text)


def test_a_run_trains_to_its_end_without_anybody_who_listens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.json").write_text(to_json(tiny_config()))
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, Gone(BrokenPipeError(32, "Broken pipe"), writes=1))
    with pytest.raises(SystemExit) as stop:
        cli.main(["discover", "--config", "tiny.json", "--out", "run"])
    assert stop.value.code == 0
    run = Run.open("run")
    assert max(run.checkpoints()) == 4
    assert (run.evaluation / "evaluation.json").exists()


def test_a_full_device_as_output_is_said_and_nothing_else_is_lost(tmp_path):
    """Through the shell, as a new user would."""
    script = (
        f"{sys.executable} -m wanderlust list > /dev/full; echo $?; "
        f"{sys.executable} -m wanderlust list | true; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["1", "0"]
    assert done.stderr == "wanderlust: not everything could be printed: [Errno 28] No space left on device\n"


def test_what_cannot_be_encoded_is_written_as_an_escape():
    under = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    LastingStream(under, []).write("a \udcff ü\n")
    under.flush()
    assert under.buffer.getvalue() == b"a \\udcff \\xfc\n"


# --- what is there already ------------------------------------------------------------------------------------------


def test_a_finished_run_says_so_and_keeps_its_evaluation(tmp_path, command_line, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = copy_of(trained(), tmp_path / "run")
    before = (run.evaluation / "evaluation.json").read_bytes()
    code, out, _ = command_line("discover", "--resume", "run")
    assert code == 0
    assert "run is finished already, and evaluated" in out
    assert "evaluate run" in out
    assert (run.evaluation / "evaluation.json").read_bytes() == before
