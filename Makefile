# make demo    set up, then the whole thing once on PointEnv: discover, evaluate, draw, follow goals
# make explore    set up, then drive an Ant from the zoo in your browser; RUN=... for other skills, PORT=... for another port
# make test    set up, then ruff, mypy, the tests, and sdist and wheel tried in an environment of their own
# make test-sb3    set up .venv-sb3 with Stable-Baselines3 (and PyTorch), then the tests and the example that need it
# make docs    build the documentation into build/site; warnings are errors
# make test-cluster    set up .venv-cluster with Ray, then the tests that need it: a machine is lost in the middle of a sweep
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := runs/demo-$(shell date +%Y%m%d-%H%M%S)

.PHONY: setup demo explore test lint types tests chromium opengl wheel docs test-sb3 test-cluster clean

setup: $(VENV)/.ready

$(VENV)/.ready: EXTRAS := dev
$(VENV)-sb3/.ready: EXTRAS := dev,sb3
$(VENV)-cluster/.ready: EXTRAS := dev,cluster
$(VENV)-docs/.ready: EXTRAS := dev,docs
PORT ?= 8080
EGL := libegl1 libegl-mesa0 libgl1-mesa-dri

# Some systems ship venv without ensurepip: then the pip that is there installs into the environment.
$(VENV)/.ready $(VENV)-sb3/.ready $(VENV)-cluster/.ready $(VENV)-docs/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("needs Python 3.11 or newer, e.g. make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo "setting up $(@D) (half a minute to a few, the first time)"
	@$(PYTHON) -m venv $(@D) >/dev/null 2>&1 || $(PYTHON) -m venv --clear --without-pip $(@D)
	@if $(@D)/bin/python -m pip --version >/dev/null 2>&1; then pip="$(@D)/bin/python -m pip"; \
	else pip="$(PYTHON) -m pip --python $(@D)/bin/python"; fi; \
	$$pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@

demo: setup
	$(BIN)/wanderlust discover point --out $(DEMO)
	$(BIN)/wanderlust reach $(DEMO) --goal 12 4 --goal -5 9 --goal -20 -15 --goal 0 0
	@echo "figures: $(DEMO)/evaluation and $(DEMO)/reach; try next: $(BIN)/wanderlust list, or README.md"
	@if [ -t 0 ] && [ -t 1 ]; then printf 'drive an Ant in your browser now? [y/N] '; read answer; \
	else answer=n; echo "drive an Ant in your browser: make explore"; fi; \
	case "$$answer" in [yY]*) $(MAKE) --no-print-directory explore;; esac

explore: setup
	@$(BIN)/wanderlust explore $(RUN) --port $(PORT) $(if $(DISPLAY)$(WAYLAND_DISPLAY)$(filter Darwin,$(shell uname)),--open)

test: lint types tests wheel

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

tests: setup chromium opengl
	$(BIN)/python -m pytest -n 2 --dist loadfile

# For the tests of the explorer. Where there is none and it cannot be had, they are skipped.
chromium:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  command -v $$name >/dev/null 2>&1 && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  echo "installing Chromium for the tests of the explorer"; \
	  { apt-get install --yes --quiet=2 --no-install-recommends chromium >/dev/null 2>&1 || \
	    { apt-get update --quiet=2 >/dev/null 2>&1 && \
	      apt-get install --yes --quiet=2 --no-install-recommends chromium >/dev/null 2>&1; }; } || \
	  echo "Chromium could not be installed: the tests marked browser are skipped"; \
	else echo "no Chromium here: the tests marked browser are skipped"; fi

# For the tests of films, which render without a screen. Where it is not there and cannot be had, they are skipped.
opengl:
	@if ls /usr/lib/*/libEGL_mesa.so.0 /usr/lib/*/libOSMesa.so.* >/dev/null 2>&1; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  echo "installing EGL for the tests of films"; \
	  { apt-get install --yes --quiet=2 --no-install-recommends $(EGL) >/dev/null 2>&1 || \
	    { apt-get update --quiet=2 >/dev/null 2>&1 && \
	      apt-get install --yes --quiet=2 --no-install-recommends $(EGL) >/dev/null 2>&1; }; } || \
	  echo "EGL could not be installed: tests that render are skipped"; \
	else echo "no EGL here: tests that render are skipped"; fi

# The sdist, and the wheel that is built from it, in a fresh environment that has the dependencies of $(VENV) and not
# this checkout.
wheel: setup
	@rm -rf build && mkdir -p build/source
	@$(BIN)/python -m hatchling build --target sdist --directory build >/dev/null
	@tar --extract --gzip --strip-components 1 --directory build/source --file build/*.tar.gz
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir build build/source
	@$(PYTHON) -m venv --without-pip build/venv
	@$(BIN)/python -m pip --python build/venv/bin/python install --quiet --disable-pip-version-check --no-deps build/*.whl
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$(build/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/dependencies.pth"
	@cd build && PATH="$$PWD/venv/bin:$$PATH" venv/bin/python ../tests/wheel_smoke.py

docs: $(VENV)-docs/.ready
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

test-sb3: $(VENV)-sb3/.ready
	$(VENV)-sb3/bin/python -c 'import stable_baselines3'
	$(VENV)-sb3/bin/python -m pytest -m sb3
	$(VENV)-sb3/bin/python examples/sb3_sac.py --steps 400 --episodes 20

test-cluster: $(VENV)-cluster/.ready
	$(VENV)-cluster/bin/python -c 'import ray'
	$(VENV)-cluster/bin/python -m pytest -m cluster

clean:
	rm -rf $(VENV) $(VENV)-sb3 $(VENV)-cluster $(VENV)-docs .pytest_cache .mypy_cache .ruff_cache
