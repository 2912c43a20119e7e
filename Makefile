# make demo   set up and run the whole thing once on PointEnv     make test   lint, types, tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := runs/demo-$(shell date +%Y%m%d-%H%M%S)

.PHONY: setup demo test lint types tests clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/wanderlust discover point --out $(DEMO)
	$(BIN)/wanderlust reach $(DEMO) --goal 12 4 --goal -5 9 --goal -20 -15 --goal 0 0

test: lint types tests

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

tests: setup
	$(BIN)/python -m pytest

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
