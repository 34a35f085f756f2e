# `make` lists the targets. `make demo`, `make test` and `make check` set up what they need by themselves.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCKED_EXTRAS := analysis connect firmware metrics mqtt security spark web dev
# Of pytest: some tests wait for real time, in which two cores have room for a third.
WORKERS ?= 3

# PlatformIO, unless PIO=... names another one, comes with the environment. The firmware needs nothing else of it.
ifeq ($(origin PIO),undefined)
PIO := $(BIN)/pio
PIO_READY := debian $(VENV)/.firmware
else
PIO_READY := debian
endif
# Nor does it need all of the Debian packages.
ifeq ($(filter-out firmware firmware-test flash,$(or $(MAKECMDGOALS),help)),)
DEBIAN_FOR := firmware
endif
export PLATFORMIO_SETTING_ENABLE_TELEMETRY := no
export PLATFORMIO_DISABLE_UPGRADE_CHECK := true
# Tests start our programs hundreds of times: each start would compile them anew.
unexport PYTHONDONTWRITEBYTECODE
# What the images and their tests are made from.
FIRMWARE := platformio.ini $(wildcard examples/*.toml packet_formats/*.py) \
    $(shell find firmware -type f -not -name '*.pyc' -not -name '*.md')

.PHONY: help setup debian demo test check test-all bench soak lint lock figures tables delivery gateways package clean
.PHONY: firmware firmware-test firmware-check firmware-report firmware-tested images-if-able prepared flash

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: debian $(VENV)/.project ## Debian packages and the Python environment; quick when they are there

demo: setup ## the firmware on emulated motes, ordered live; then how much order each byte gained
	@$(BIN)/basestation demo

PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

# The two keep one core busy each.
prepared: setup
	@$(MAKE) --no-print-directory --jobs=2 --output-sync images-if-able $(VENV)/.kernels

# numba's compiler takes a minute, and keeps what it made. Without this each process of pytest would do the same.
$(VENV)/.kernels: $(wildcard basestation/causality/kernels/*.py basestation/simulator/engine.py basestation/simulator/world.py) $(VENV)/.locked | $(VENV)/.project
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	$(BIN)/basestation simulate --messages 100 --scheme shlc --trace "$$folder/trace" > /dev/null && \
	$(BIN)/basestation analyse continuum "$$folder/trace" --tolerate 5 --no-spark --workers 1 > /dev/null
	@touch $@

test: prepared ## the fast tests: all packages, images, an emulated network, Spark, the page in a browser
	$(PYTEST) -m "not wide and not slow"

check: prepared ## lint, strict types, cppcheck; then the wide tests: all layouts and boards, kills, parity
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint firmware-tested
	$(PYTEST) -m "wide and not slow"

test-all: prepared ## every test, the slow ones too, and property tests with 1,000 examples: for the night
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint firmware-tested
	HYPOTHESIS_PROFILE=thorough $(PYTEST)

firmware: $(PIO_READY) ## the four images, in .pio/build; CAUSEWAY_DEPLOYMENT=my.toml builds for another deployment
	$(PIO) run

firmware-test: $(PIO_READY) ## the firmware's unit tests on this machine and on an emulated ATmega128
	$(PIO) test -e native -e micaz_sim

firmware-check: debian ## cppcheck over the firmware, and the format of all C
	PYTHON="$(PYTHON)" firmware/scripts/check.sh
	firmware/scripts/format.sh

firmware-report: setup firmware ## flash, RAM, stack, cycles, bytes, battery: printed, and written into docs/figures/firmware.md
	@$(BIN)/python -m tools.firmware_report --write

# Done again only when something changed. Without the compiler both are left out; in CI that is a failure.
images-if-able: setup
	+@$(call if_able,.pio/.images)

firmware-tested: setup
	+@$(call if_able,.pio/.tested)

if_able = if command -v avr-gcc >/dev/null; then $(MAKE) --no-print-directory $(1); \
    else echo 'avr-gcc is not on this machine: the firmware is left out.' >&2; [ "$${CI:-}" != true ]; fi

.pio/.images: $(FIRMWARE) | $(VENV)/.project
	$(PIO) run --silent
	@touch $@

FIRMWARE_TESTS := $(wildcard firmware/test/test_*/.)
.pio/.tested: $(FIRMWARE) | $(VENV)/.project .pio/.images
	$(if $(FIRMWARE_TESTS),$(PIO) test -e native $(if $(shell command -v simavr),-e micaz_sim))
	@mkdir -p .pio && touch $@

# make flash IDS=0-9 PORT=/dev/ttyUSB0 [ENV=micaz] [PROGRAMMER=mib510]
flash: ENV ?= micaz
flash: PROGRAMMER ?= mib510
flash: $(PIO_READY) ## build, then program motes one after another: IDS=0-9 PORT=/dev/ttyUSB0 (docs/guide/flashing.md)
	@[ -n "$(IDS)" ] && [ -n "$(PORT)" ] || { echo 'Say whom and where: make flash IDS=0-9 PORT=/dev/ttyUSB0 (docs/guide/flashing.md)' >&2; exit 2; }
	$(PIO) run -e $(ENV)
	"$(PYTHON)" firmware/scripts/flash.py -e $(ENV) --ids "$(IDS)" --port "$(PORT)" --programmer $(PROGRAMMER)

# Each search goes on where it ended: MINUTES is for each of them.
MINUTES ?= 10
soak: setup ## search for faults, six searches of MINUTES=10 each; into docs/figures/soak.md
	$(BIN)/python -m tests.soak --minutes $(MINUTES)

bench: setup ## how fast each part is, as ratios measured side by side in one run
	@$(BIN)/python -m tests.bench

lint: setup firmware-check ## ruff, strict mypy, and cppcheck and clang-format over the firmware
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy firmware/scripts tools examples

figures: setup ## draw the figures of docs/ again
	$(BIN)/python -m tools.figures docs/figures
	$(BIN)/python -m tools.screenshot docs/figures/screen.svg
	$(BIN)/python -m tools.page_pictures docs/figures

package: setup ## for a cluster, in dist: our packages for --py-files, and an environment for --archives
	@$(BIN)/python -m tools.cluster_package

# Names of tables: python -m tools.tables --help
tables: setup ## measured tables of docs/ again, hours in all; ONLY="power ledger" chooses some
	$(BIN)/python -m tools.tables --write $(ONLY)

delivery gateways: setup
	$(BIN)/python -m tools.tables --write $@

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) .lock-venv .pio .pio-core compile_commands.json build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The lock holds versions and hashes; where packages come from is each machine's own setting.
lock: debian ## resolve requirements.lock again from pyproject.toml
	$(PYTHON) -m venv .lock-venv
	.lock-venv/bin/pip install -q uv
	.lock-venv/bin/uv pip compile --quiet --universal --python-version 3.11 --upgrade --generate-hashes \
	    --no-header --no-emit-index-url --no-emit-find-links --no-emit-package pip --fork-strategy fewest \
	    $(addprefix --extra ,$(LOCKED_EXTRAS)) --output-file requirements.lock pyproject.toml

debian:
	@PYTHON="$(PYTHON)" tools/debian-packages.sh $(DEBIAN_FOR)

# The stamp holds the folder: an environment that was moved, whose Python is gone, or that was interrupted while
# it was made, is made anew.
ifneq ($(shell cat $(VENV)/.made 2>/dev/null && $(BIN)/python -c pass 2>&1),$(CURDIR))
.PHONY: $(VENV)/.made
endif
$(VENV)/.made: | debian
	@"$(PYTHON)" -c 'import sys; sys.version_info < (3, 11) and sys.exit( \
	    "Causeway needs Python 3.11 or later; set PYTHON=... (now: " + sys.executable + ")")'
	"$(PYTHON)" -m venv --clear $(VENV)
	@echo "$(CURDIR)" > $@

# PlatformIO and what it needs: a third of the packages and little of their weight.
$(VENV)/.firmware: requirements.lock pyproject.toml tools/locked_subset.py $(VENV)/.made
	@$(BIN)/python tools/locked_subset.py firmware > $(VENV)/firmware.txt
	@echo 'Installing PlatformIO by requirements.lock: the first time only.' >&2
	$(PIP_LOCKED) --only-binary :all: -r $(VENV)/firmware.txt
	@touch $@

# pip uses one core, so two of them install half of the wheels each. PySpark alone comes as source; setuptools, which
# builds it, is among the wheels.
PIP_LOCKED := $(BIN)/pip install -q --no-deps --require-hashes
$(VENV)/.locked: requirements.lock $(VENV)/.made | $(VENV)/.firmware
	@awk '/^[a-z]/ { name = /^pyspark==/ ? "spark" : "half" (++count % 2) } \
	    { print > ("$(VENV)/" name ".txt") }' requirements.lock
	@echo 'Installing the Python packages of requirements.lock: some minutes, the first time only.' >&2
	@$(MAKE) --no-print-directory --jobs=2 --output-sync $(VENV)/half0.installed $(VENV)/half1.installed
	$(PIP_LOCKED) --no-build-isolation -r $(VENV)/spark.txt
	@touch $@

$(VENV)/half%.installed: requirements.lock
	$(PIP_LOCKED) --only-binary :all: -r $(VENV)/half$*.txt
	@touch $@

# setuptools comes with the lock, so this step fetches nothing.
$(VENV)/.project: pyproject.toml basestation/__init__.py $(VENV)/.locked
	$(BIN)/pip install -q --no-deps --no-build-isolation --no-index -e .
	@touch $@
