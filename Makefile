# make demo    set up, then the whole thing once on PointEnv: discover, evaluate, draw, follow goals
# make test    set up, then ruff, mypy and the tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := runs/demo-$(shell date +%Y%m%d-%H%M%S)

.PHONY: setup demo test lint types tests clean

setup: $(VENV)/.ready

# Some systems ship venv without ensurepip: then the pip that is there installs into the environment.
$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("needs Python 3.11 or newer, e.g. make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo "setting up $(VENV) (half a minute to a few, the first time)"
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || $(PYTHON) -m venv --clear --without-pip $(VENV)
	@if $(BIN)/python -m pip --version >/dev/null 2>&1; then pip="$(BIN)/python -m pip"; \
	else pip="$(PYTHON) -m pip --python $(BIN)/python"; fi; \
	$$pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: setup
	$(BIN)/wanderlust discover point --out $(DEMO)
	$(BIN)/wanderlust reach $(DEMO) --goal 12 4 --goal -5 9 --goal -20 -15 --goal 0 0
	@echo "figures: $(DEMO)/evaluation and $(DEMO)/reach; try next: $(BIN)/wanderlust list, or README.md"

test: lint types tests

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

tests: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
