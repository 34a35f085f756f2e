# `make` lists the targets. `make demo` and `make test` set up what they need by themselves.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCKED_EXTRAS := analysis dev
WORKERS ?= 2

.PHONY: help setup debian demo test test-all bench lint lock figures clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: debian $(VENV)/.project ## Debian packages and the Python environment; quick when they are there

demo: setup ## the main job: simulate a network, order it live, print what each byte bought
	@$(BIN)/basestation demo

test: setup lint ## lint, then the fast tests
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

test-all: setup lint ## lint, then every test, the slow ones with more examples
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n $(WORKERS)

bench: setup ## how fast the simulator, the kernels and the decoders are
	@$(BIN)/python -m tests.bench

lint: setup ## ruff and strict mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

figures: setup ## draw the figures of docs/ again
	$(BIN)/basestation figures --out docs/figures

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) .lock-venv build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The lock holds versions and hashes; where packages come from is each machine's own setting.
lock: debian ## resolve requirements.lock again from pyproject.toml
	$(PYTHON) -m venv .lock-venv
	.lock-venv/bin/pip install -q uv
	.lock-venv/bin/uv pip compile --quiet --universal --python-version 3.11 --upgrade --generate-hashes \
	    --no-header --no-emit-index-url --no-emit-find-links --fork-strategy fewest \
	    $(addprefix --extra ,$(LOCKED_EXTRAS)) --output-file requirements.lock pyproject.toml

debian:
	@PYTHON="$(PYTHON)" tools/debian-packages.sh

# The stamp holds the folder: an environment that was moved, whose Python is gone, or that was interrupted while
# it was made, is made anew.
ifneq ($(shell cat $(VENV)/.made 2>/dev/null && $(BIN)/python -c pass 2>&1),$(CURDIR))
.PHONY: $(VENV)/.made
endif
$(VENV)/.made: | debian
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Causeway needs Python 3.11 or later; set PYTHON=... (now: $(PYTHON))" >&2; exit 1; }
	"$(PYTHON)" -m venv --clear $(VENV)
	@echo "$(CURDIR)" > $@

$(VENV)/.locked: requirements.lock $(VENV)/.made
	$(BIN)/pip install -q --no-deps --require-hashes --only-binary :all: -r requirements.lock
	@touch $@

# setuptools comes with the lock, so this step fetches nothing.
$(VENV)/.project: pyproject.toml basestation/__init__.py $(VENV)/.locked
	$(BIN)/pip install -q --no-deps --no-build-isolation --no-index -e .
	@touch $@
