"""A short form of `benchmarks/fuzz.py`: files changed at random are read, or refused in one line."""

import contextlib
import io
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import fuzz
import fuzz_readers

sys.path.pop(0)
from trained import copy_of, trained

INPUTS = 2000


def test_changed_files_are_read_or_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz_readers.document, "draw_all", fuzz_readers.document.draw_all)  # put back at the end
    monkeypatch.setenv("WANDERLUST_ZOO", "")
    kinds = fuzz_readers.readers(copy_of(trained(), tmp_path / "run"))
    with contextlib.redirect_stderr(io.StringIO()):
        tallies = fuzz.fuzz(INPUTS, 1, kinds)
    assert {name: dict(tally.wrong) for name, tally in tallies.items() if tally.wrong} == {}
    assert sum(tally.inputs for tally in tallies.values()) >= INPUTS - len(kinds)
    assert all(tally.results + tally.refusals == tally.inputs for tally in tallies.values())
    for name in ("configuration", "checkpoint", "zoo skills", "sweep grid", "MJCF model"):  # neither is the rule
        assert tallies[name].refusals > 0 and (tallies[name].results or tallies[name].inputs < 60), name
