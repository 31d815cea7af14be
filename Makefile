# Every target does its own set-up: a virtual environment in .venv, filled from requirements/*.txt and with warpgauge
# itself, by uv where it is installed and by pip where not. Nothing else has to be installed first but Python 3.11+.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SYSTEM_STAMP := $(VENV)/.installed-system
PAGE_STAMP := node_modules/.installed
AUDIT_STAMP := $(VENV)-audit/.installed
INTEGRATIONS := $(VENV)-integrations
INTEGRATIONS_STAMP := $(INTEGRATIONS)/.installed
ALL    := $(VENV)-all
ALL_STAMP := $(ALL)/.installed
INTEGRATIONS_DEBIAN := xvfb libgl1-mesa-dri libegl1 libopengl0 libxkbcommon-x11-0 libxcb-cursor0 libxcb-icccm4 libxcb-keysyms1 libxcb-shape0 libdbus-1-3
# With hashes where they fit the lock; python requirements/lock.py renews them.
DEV_LOCK := $(shell $(PYTHON) requirements/lock.py --check >/dev/null 2>&1 && echo requirements/dev.hashes.txt || echo requirements/dev.txt)
SOURCES := $(shell find src -name '*.py' 2>/dev/null)

# uv is quicker; both read the same lock files.
ifneq ($(shell command -v uv 2>/dev/null),)
  INSTALL := uv pip install --quiet --python $(BIN)/python
  INTEGRATIONS_INSTALL := uv pip install --quiet --python $(INTEGRATIONS)/bin/python
  ALL_INSTALL := uv pip install --quiet --python $(ALL)/bin/python
  AGAIN := --reinstall
else
  INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
  INTEGRATIONS_INSTALL := $(INTEGRATIONS)/bin/python -m pip install --quiet --disable-pip-version-check
  ALL_INSTALL := $(ALL)/bin/python -m pip install --quiet --disable-pip-version-check
  AGAIN := --force-reinstall
endif

.DEFAULT_GOAL := help
.PHONY: help demo test integrations notebooks compat installs lint bench audit workflows dist sbom stress docs clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "warpgauge needs Python 3.11 or newer: call make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# Installed as a wheel, not as a link to the sources: what is tested is what a user gets.
$(STAMP): $(BIN)/python requirements/dev.txt pyproject.toml $(SOURCES)
	@echo "setting up $(VENV) (the first time takes a few minutes)"
	@[ $(DEV_LOCK) != requirements/dev.txt ] || echo "installing without hashes: they do not fit the lock (python requirements/lock.py)"
	$(INSTALL) -r $(DEV_LOCK)
	$(INSTALL) --no-deps --no-build-isolation $(AGAIN) .
	@touch $@

# Browser, Node.js and PostgreSQL for the tests: Debian's packages, by name, where they are missing and can be installed.
# Elsewhere the tests that need them skip with a reason, or fail where CI=true.
$(SYSTEM_STAMP): $(STAMP)
	@if command -v chromium >/dev/null && command -v node >/dev/null && command -v npm >/dev/null && ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  echo "installing Debian packages for the tests of the page and of the database"; \
	  apt-get update -qq; \
	  command -v chromium >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; \
	  command -v npm >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq nodejs npm >/dev/null; \
	  ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null; \
	else echo "chromium, Node.js or PostgreSQL is missing and cannot be installed here (Debian: apt-get install chromium nodejs npm postgresql)"; fi
	@touch $@

# The one development tool of the page, at the version that package.json pins.
$(PAGE_STAMP): package.json $(SYSTEM_STAMP)
	@if command -v npm >/dev/null; then npm install --no-package-lock --no-audit --no-fund --silent && touch $@; \
	elif [ "$$CI" = true ]; then echo "npm is missing, so the page cannot be checked"; exit 1; \
	else mkdir -p node_modules && touch $@; fi

demo: $(STAMP)  ## the main job end to end on an embedded image: DIM=2 (default) or DIM=3
	$(BIN)/warpgauge demo --dim $(or $(DIM),2) --out demo-output

lint: $(STAMP) $(PAGE_STAMP)  ## ruff, strict types of Python and of the page, import rules, bandit
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config pyproject.toml
	$(BIN)/bandit -q -c pyproject.toml -r src paper
	@if [ -x node_modules/.bin/tsc ]; then node_modules/.bin/tsc -p src/warpgauge/web/static; \
	else echo "the page's types were not checked: TypeScript is not installed"; fi

# Tests run side by side, one process per core.
test: lint  ## lint, then all tests
	@if command -v node >/dev/null; then node --test tests/web/page/*.test.js; \
	elif [ "$$CI" = true ]; then echo "Node.js is missing, so the page's geometry cannot be tested"; exit 1; fi
	$(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST_ARGS)

# napari with Qt, SpatialData, torch, ANTs, ITK with elastix and MLflow: 5 GB that no other test needs, in an environment of their own. napari draws
# by OpenGL, so a virtual screen and a software renderer are needed: Debian's xvfb, installed by name where that is possible.
$(INTEGRATIONS_STAMP): requirements/integrations.txt pyproject.toml $(SOURCES)
	@echo "setting up $(INTEGRATIONS) (the first time takes a few minutes)"
	@test -x $(INTEGRATIONS)/bin/python || $(PYTHON) -m venv $(INTEGRATIONS)
	@if command -v xvfb-run >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  echo "installing Debian packages for napari's tests"; apt-get update -qq; \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(INTEGRATIONS_DEBIAN) >/dev/null; \
	else echo "xvfb-run is missing and cannot be installed here (Debian: apt-get install $(INTEGRATIONS_DEBIAN))"; exit 1; fi
	@# The lock is complete, so nothing has to be resolved; torch brings what its build for this system needs.
	$(INTEGRATIONS_INSTALL) --no-deps -r requirements/integrations.txt
	$(INTEGRATIONS_INSTALL) $$(grep "^torch==" requirements/integrations.txt) hatchling
	$(INTEGRATIONS_INSTALL) --no-deps --no-build-isolation $(AGAIN) .
	@touch $@

# What a new user has: the extra `all` and nothing else, at the versions of the lock. Always made anew: nothing may be left over.
$(ALL_STAMP): requirements/dev.txt pyproject.toml $(SOURCES)
	@echo "setting up $(ALL)"
	@$(PYTHON) -m venv --clear $(ALL)
	$(ALL_INSTALL) --constraint requirements/dev.txt ".[all]"
	@touch $@

notebooks: $(ALL_STAMP)  ## run the notebooks of the documentation with what `pip install ".[all]"` gives
	XDG_STATE_HOME=$(CURDIR)/$(ALL)/state $(ALL)/bin/jupyter execute docs/notebooks/*.ipynb
	$(ALL_INSTALL) jupyterlab
	@# The annotator within a cell of JupyterLab, in Chromium; the browser is driven from the environment of the tests.
	@test ! -x $(BIN)/python || WARPGAUGE_JUPYTER=$(CURDIR)/$(ALL)/bin/jupyter $(BIN)/python -m pytest -q tests/web/test_notebook_page.py

integrations: $(INTEGRATIONS_STAMP) notebooks  ## tests against napari with Qt, SpatialData, torch, ANTs, ITK, elastix, MLflow, in their own environment
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 xvfb-run -a $(INTEGRATIONS)/bin/python -m pytest --confcutdir tests/integrations \
	  -W default --disable-warnings -p no:cacheprovider tests/integrations tests/io/test_transforms_memory.py \
	  tests/io/test_transforms_itk.py::test_mat_files_and_lists_map_as_antspy \
	  tests/io/test_transforms_itk.py::test_linear_kinds_map_as_itk \
	  tests/io/test_transforms_itk.py::test_thin_plate_splines_have_the_source_as_parameters \
	  tests/io/test_transforms_elastix.py::test_every_kind_maps_as_transformix \
	  tests/io/test_landmarks_frames.py::test_transformix_reads_our_files_as_we_mean_them \
	  tests/registration/test_registration.py::test_elastix_recovers_a_known_shift_fixed_to_moving \
	  || { echo "make integrations failed: the tests above, or setting up $(INTEGRATIONS) (make clean removes it)"; exit 1; }

compat:  ## lowest and newest versions of the dependencies, on Python 3.11 to 3.14 as far as they can be had
	$(PYTHON) requirements/compat.py

installs:  ## wheel and source distribution by pip, uv, pipx and uvx from a file
	$(PYTHON) requirements/installs.py

bench: $(STAMP)  ## every figure as a ratio against its bound, in this run, to bench-output/bench.json
	MALLOC_TRIM_THRESHOLD_=1000000000 MALLOC_MMAP_THRESHOLD_=1000000000 PYTHONPATH=$(CURDIR) $(BIN)/python benchmarks/run.py

# The auditing tools have an environment of their own: they are no part of what is audited.
$(AUDIT_STAMP): requirements/audit.hashes.txt
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/audit.hashes.txt
	@touch $@

audit: $(AUDIT_STAMP)  ## known advisories of all locked versions, where an index of them can be reached
	@$(VENV)-audit/bin/pip-audit --no-deps --disable-pip -r requirements/dev.txt >audit-output.txt 2>&1; code=$$?; \
	cat audit-output.txt; \
	left=$$(grep -c 'could not be audited' audit-output.txt); \
	if [ $$left != 0 ] || { [ $$code != 0 ] && ! grep -q 'Found [0-9]* known' audit-output.txt; }; then \
	  echo "NOT AUDITED ($$left packages): the index of advisories cannot be reached from here; run make audit where it can"; fi; \
	rm -f audit-output.txt; exit $$code

workflows: $(AUDIT_STAMP)  ## zizmor on the workflows: what they run is fixed, and none has more rights than it needs
	$(VENV)-audit/bin/zizmor --offline --config .github/zizmor.yml .github/workflows

dist: $(STAMP)  ## wheel and source distribution to dist/, by the locked build tools
	$(BIN)/python -m build --no-isolation --outdir dist .

sbom: $(STAMP) $(AUDIT_STAMP)  ## CycloneDX list of everything installed, to dist/warpgauge.cdx.json
	mkdir -p dist
	$(VENV)-audit/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
	  --of JSON -o dist/warpgauge.cdx.json $(BIN)/python
	@echo "the bill of materials is at dist/warpgauge.cdx.json"

stress: $(STAMP)  ## 20,000 mutated files and 500 hostile projects; SEED=n changes the files
	PYTHONPATH=tests $(BIN)/python benchmarks/fuzz.py --seed $(or $(SEED),0)

docs: $(STAMP)  ## build docs/ to docs-output/; a warning is an error
	$(BIN)/sphinx-build -q -W --keep-going -E -b html docs docs-output
	@echo "the documentation is at docs-output/index.html"

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(VENV)-audit $(INTEGRATIONS) $(ALL) node_modules demo-output bench-output docs-output build dist
