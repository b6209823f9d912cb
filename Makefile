# The commands of this project; `make help` lists them. All except `help` and `clean` set up .venv first.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(VENV)/bin/python -m pytest -n 3 --dist worksteal
READY := $(VENV)/.ready
TORCH ?= torch==2.13.0
FAIRSEQ := fairseq==0.12.2
PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11,$(shell $(p) -c 'import sys; print("$(p)") if (3, 11) <= sys.version_info < (3, 14) else None' 2>/dev/null)) none)
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench torture reproduce-tables clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: $(READY)  ## make .venv with everything in it (PYTHON=... TORCH=... choose other versions)

ifneq ($(filter command,$(origin TORCH) $(origin PYTHON)),)
.PHONY: $(READY)  # another version is wanted
NEW := yes
else ifeq ($(wildcard $(READY)),)
NEW := yes
endif
$(READY): pyproject.toml
ifdef NEW
	@bash scripts/check_machine.sh "$(PYTHON)"
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q '$(TORCH)'
endif
	$(BIN)/python -m pip install -q -e '.[dev]'
	$(BIN)/python -m pip install -q --no-deps $(FAIRSEQ)
	@touch $@

demo: $(READY)  ## train four small models on the CPU; show scores and curves
	$(BIN)/python scripts/demo.py

test: $(READY)  ## run all tests except the slow ones
	$(PYTEST) -m "not slow"

check: $(READY)  ## run lint, type checks and all tests, as CI does (twice as long as test; TESTS=... selects)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) --durations 15 $(TESTS)

bench: $(READY)  ## compare training speed with stock fairseq and a bare loop (ARGS=...)
	$(BIN)/python -m benchmarks --json results/bench/$(if $(wildcard /dev/nvidia0),gpu,cpu).json $(ARGS)

torture: $(READY)  ## kill processes of a sweep 50 times at random; compare the records (SEED=N)
	TORTURE_SEED=$(or $(SEED),$$RANDOM) TORTURE_KILLS=50 $(BIN)/python -m pytest -s tests/e2e/test_torture.py

reproduce-tables: $(READY)  ## rebuild tables, figures, page and README's verdicts from the records
	$(BIN)/ln-repro report

clean:  ## remove what can be rebuilt; runs/ and data/ stay
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache dist build
	find ln_repro benchmarks scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +
