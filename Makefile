# Every target does its own set-up: a virtual environment in .venv, filled from requirements/*.txt and with warpgauge
# itself, by uv where it is installed and by pip where not. Nothing else has to be installed first but Python 3.11+.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench
SYSTEM_STAMP := $(VENV)/.installed-system
PAGE_STAMP := node_modules/.installed
SOURCES := $(shell find src -name '*.py' 2>/dev/null)

# uv is quicker; both read the same lock files.
ifneq ($(shell command -v uv 2>/dev/null),)
  INSTALL := uv pip install --quiet --python $(BIN)/python
  AGAIN := --reinstall
else
  INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
  AGAIN := --force-reinstall
endif

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench docs clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "warpgauge needs Python 3.11 or newer: call make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# Installed as a wheel, not as a link to the sources: what is tested is what a user gets.
$(STAMP): $(BIN)/python requirements/dev.txt pyproject.toml $(SOURCES)
	@echo "setting up $(VENV) (the first time takes a few minutes)"
	$(INSTALL) -r requirements/dev.txt
	$(INSTALL) --no-deps --no-build-isolation $(AGAIN) .
	@touch $@

$(BENCH_STAMP): $(STAMP) requirements/bench.txt
	$(INSTALL) -r requirements/bench.txt
	@touch $@

# Browser and Node.js for the tests of the page: Debian's packages, by name, where they are missing and can be installed.
# Elsewhere the tests that need them skip with a reason, or fail where CI=true.
$(SYSTEM_STAMP): $(STAMP)
	@if command -v chromium >/dev/null && command -v node >/dev/null && command -v npm >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  echo "installing Debian packages for the page's tests"; \
	  apt-get update -qq; \
	  command -v chromium >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; \
	  command -v npm >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq nodejs npm >/dev/null; \
	else echo "chromium or Node.js is missing and cannot be installed here (Debian: apt-get install chromium nodejs npm)"; fi
	@touch $@

# The one development tool of the page, at the version that package.json pins.
$(PAGE_STAMP): package.json $(SYSTEM_STAMP)
	@if command -v npm >/dev/null; then npm install --no-package-lock --no-audit --no-fund --silent && touch $@; \
	elif [ "$$CI" = true ]; then echo "npm is missing, so the page cannot be checked"; exit 1; \
	else mkdir -p node_modules && touch $@; fi

demo: $(STAMP)  ## the main job end to end on an embedded image: DIM=2 (default) or DIM=3
	$(BIN)/warpgauge demo --dim $(or $(DIM),2) --out demo-output

lint: $(STAMP) $(PAGE_STAMP)  ## ruff, strict types of Python and of the page, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config pyproject.toml
	@if [ -x node_modules/.bin/tsc ]; then node_modules/.bin/tsc -p src/warpgauge/web/static; \
	else echo "the page's types were not checked: TypeScript is not installed"; fi

# One thread for linear algebra: the tests' matrices are small, and several BLAS threads on busy cores wait for each other.
test: lint  ## lint, then all tests
	@if command -v node >/dev/null; then node --test tests/web/page/*.test.js; \
	elif [ "$$CI" = true ]; then echo "Node.js is missing, so the page's geometry cannot be tested"; exit 1; fi
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_ARGS)

bench: $(BENCH_STAMP)  ## every figure as a ratio against its bound, in this run
	MALLOC_TRIM_THRESHOLD_=1000000000 MALLOC_MMAP_THRESHOLD_=1000000000 $(BIN)/python benchmarks/run.py

docs: $(STAMP)  ## build docs/ to docs-output/; a warning is an error
	$(BIN)/sphinx-build -q -W --keep-going -E -b html docs docs-output
	@echo "the documentation is at docs-output/index.html"

clean:  ## remove what the other targets made
	rm -rf $(VENV) node_modules demo-output bench-output docs-output build dist
