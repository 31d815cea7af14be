# Every target does its own set-up: a virtual environment in .venv, filled from requirements/dev.txt and with warpgauge
# itself, by uv where it is installed and by pip where not. Nothing else has to be installed first but Python 3.11+.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEMO_STAMP = $(VENV)/.installed-demo-$(DIM)
SYSTEM_STAMP := $(VENV)/.installed-system
PAGE_STAMP := node_modules/.installed
INTEGRATIONS := $(VENV)-integrations
INTEGRATIONS_STAMP := $(INTEGRATIONS)/.installed
SOURCES := $(shell find src -name '*.py' 2>/dev/null)
DIM ?= 2
# What the demonstration needs; the brain in 3D is a file of nilearn.
DEMO_2 := images,saliency,registration,report
DEMO_3 := demo

# Install into an environment, as in $(call INSTALL,$(VENV)) -r FILE. uv is quicker; both read the same lock.
ifneq ($(shell command -v uv 2>/dev/null),)
  INSTALL = uv pip install --quiet --python $(1)/bin/python
  AGAIN := --reinstall
else
  INSTALL = $(1)/bin/python -m pip install --quiet --disable-pip-version-check
  AGAIN := --force-reinstall
endif
# The versions of the lock without their hashes, as a constraint.
PINS = sed -n 's/^\([^ \#]*==[^ ]*\).*/\1/p' requirements/dev.txt

.DEFAULT_GOAL := help
.PHONY: help demo test integrations lint bench dist stress mutants docs clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "warpgauge needs Python 3.11 or newer: call make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# Installed as a wheel, not as a link to the sources: what is tested is what a user gets.
$(STAMP): $(BIN)/python requirements/dev.txt pyproject.toml $(SOURCES)
	@echo "setting up $(VENV) (the first time takes a few minutes)"
	$(call INSTALL,$(VENV)) -r requirements/dev.txt
	$(call INSTALL,$(VENV)) --no-deps --no-build-isolation $(AGAIN) .
	@touch $@

$(DEMO_STAMP): $(BIN)/python requirements/dev.txt pyproject.toml $(SOURCES)
	@echo "setting up $(VENV) for the demonstration"
	@$(PINS) >$(VENV)/pins.txt
	PIP_NO_COMPILE=1 $(call INSTALL,$(VENV)) --constraint $(VENV)/pins.txt ".[$(DEMO_$(DIM))]"
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

# What was set up for the tests can show the demonstration, too.
demo: $(if $(wildcard $(STAMP)),$(STAMP),$(DEMO_STAMP))  ## the main job end to end on an embedded image: DIM=2 (default) or DIM=3
	$(BIN)/warpgauge demo --dim $(DIM) --out demo-output

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

# torch, ANTs, ITK with elastix: 5 GB that no other test needs, in an environment of their own.
$(INTEGRATIONS_STAMP): requirements/integrations.txt pyproject.toml $(SOURCES)
	@echo "setting up $(INTEGRATIONS) (the first time takes a few minutes)"
	@test -x $(INTEGRATIONS)/bin/python || $(PYTHON) -m venv $(INTEGRATIONS)
	@# The lock is complete, so nothing has to be resolved; torch brings what its build for this system needs.
	$(call INSTALL,$(INTEGRATIONS)) --no-deps -r requirements/integrations.txt
	$(call INSTALL,$(INTEGRATIONS)) $$(grep "^torch==" requirements/integrations.txt) hatchling
	$(call INSTALL,$(INTEGRATIONS)) --no-deps --no-build-isolation $(AGAIN) .
	@touch $@

integrations: $(INTEGRATIONS_STAMP)  ## tests against torch, ANTs, ITK, elastix, in their own environment
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(INTEGRATIONS)/bin/python -m pytest --confcutdir tests/integrations \
	  -W default --disable-warnings -p no:cacheprovider tests/integrations tests/io/test_transforms_memory.py \
	  tests/io/test_transforms_itk.py::test_mat_files_and_lists_map_as_antspy \
	  tests/io/test_transforms_itk.py::test_linear_kinds_map_as_itk \
	  tests/io/test_transforms_itk.py::test_thin_plate_splines_have_the_source_as_parameters \
	  tests/io/test_transforms_elastix.py::test_every_kind_maps_as_transformix \
	  tests/io/test_landmarks_frames.py::test_transformix_reads_our_files_as_we_mean_them \
	  tests/registration/test_registration.py::test_elastix_recovers_a_known_shift_fixed_to_moving \
	  || { echo "make integrations failed: the tests above, or setting up $(INTEGRATIONS) (make clean removes it)"; exit 1; }

bench: $(STAMP)  ## every figure as a ratio against its bound, in this run, to bench-output/bench.json
	MALLOC_TRIM_THRESHOLD_=1000000000 MALLOC_MMAP_THRESHOLD_=1000000000 PYTHONPATH=$(CURDIR) $(BIN)/python benchmarks/run.py

dist: $(STAMP)  ## wheel and source distribution to dist/, by the locked build tools
	$(BIN)/python -m build --no-isolation --outdir dist .

stress: $(STAMP)  ## 20,000 mutated files and 500 hostile projects, others in each run; SEED=n repeats one
	PYTHONPATH=tests $(BIN)/python benchmarks/fuzz.py $(if $(SEED),--seed $(SEED))

mutants: $(STAMP)  ## defects put in one at a time (tests/mutants.toml): each has to be found by its tests; ONLY=words
	$(BIN)/python tests/mutants.py $(ONLY)

docs: $(STAMP)  ## build docs/ to docs-output/; a warning is an error
	$(BIN)/sphinx-build -q -W --keep-going -E -b html docs docs-output
	@echo "the documentation is at docs-output/index.html"

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(INTEGRATIONS) node_modules demo-output bench-output docs-output build dist
