"""Rows of a comparison that are trained side by side."""

import pytest

from helpers import tiny_config
from wanderlust.sweeps import grid
from wanderlust.sweeps.local import Here
from wanderlust.sweeps.standing import opened, standing


def test_rows_trained_side_by_side_are_only_measured_afterwards(tmp_path, monkeypatch):
    """Side by side in processes is `test_sweep.py`'s; here what a process would do is done in this one."""
    places = []

    def place(logs, cores, workers):
        places.append((logs, workers))
        return Here(quiet=True)

    monkeypatch.setattr(grid, "Processes", place)
    configs = {"one": tiny_config(seeds=2), "two": tiny_config("diayn")}
    grid.train_side_by_side(configs, tmp_path, workers=2, quiet=True)
    assert places == [(tmp_path / "logs", 2)]
    monkeypatch.setattr(grid.stages, "train_run", lambda *_, **__: pytest.fail("it is trained already"))
    for name, config in configs.items():
        run = opened(tmp_path / name, config)
        assert standing(run).done
        grid.train_to_end(run, quiet=True)
        assert len(run.metrics()[-1]["reward"]) == config.seeds
