# Every target does its own set-up: a virtual environment in .venv, filled from requirements/*.txt and with warpgauge
# itself, by uv where it is installed and by pip where not. Nothing else has to be installed first but Python 3.11+.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench
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
.PHONY: help demo test lint types imports bench docs clean

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

demo: $(STAMP)  ## the main job end to end on an embedded image: DIM=2 (default) or DIM=3
	$(BIN)/warpgauge demo --dim $(or $(DIM),2) --out demo-output

lint: $(STAMP)  ## ruff, strict types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config pyproject.toml

test: lint  ## lint, then all tests
	$(BIN)/python -m pytest $(PYTEST_ARGS)

bench: $(BENCH_STAMP)  ## every figure as a ratio against its bound, in this run
	MALLOC_TRIM_THRESHOLD_=1000000000 MALLOC_MMAP_THRESHOLD_=1000000000 $(BIN)/python benchmarks/run.py

clean:  ## remove what the other targets made
	rm -rf $(VENV) demo-output bench-output build dist
