# `make gate` and `make test` do everything on a fresh machine: they set up .venv first.
VENV ?= .venv
PYTHON ?= python3
TORCH ?= torch==2.14.1 torchvision==0.29.1
BIN := $(VENV)/bin
PYTEST_ARGS ?=

.PHONY: gate test lint format setup bench bench-gate bench-aa bench-harness bench-startup bench-count bench-cost bench-estimator bench-place test-gpu clean

gate: $(VENV)/.ready ## the whole gate on an example pull request, on the CPU
	$(BIN)/python examples/gate.py

test: lint ## linters, types, import contract, all tests
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "perfgate needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet --editable '.[dev,nvml]'
	@touch $@

bench: bench-gate bench-harness bench-startup bench-cost bench-estimator bench-place bench-count bench-aa ## all benchmarks; each prints a table

bench-gate: $(VENV)/.ready ## false alarms and power of the decision rule, next to other tools' rules
	$(BIN)/python -m benchmarks.gate_rules $(BENCH_ARGS)

bench-aa: $(VENV)/.ready ## real A/A gates and detections on this machine under load (about half an hour)
	$(BIN)/python -m benchmarks.real_gates $(BENCH_ARGS)

bench-harness: $(VENV)/.ready ## step time inside perfgate against a bare loop
	$(BIN)/python -m benchmarks.harness_bias $(BENCH_ARGS)

bench-startup: $(VENV)/.ready ## start of the command line, memory of the parent
	$(BIN)/python -m benchmarks.startup $(BENCH_ARGS)

bench-count: $(VENV)/.ready ## counts against published figures, other counters, timm, transformers and ONNX (about two hours)
	$(BIN)/python -m benchmarks.counting $(BENCH_ARGS)

bench-cost: $(VENV)/.ready ## Pareto sets, fleets and their speed, the catalogue, rankings against measurements (some minutes)
	$(BIN)/python -m benchmarks.cost $(BENCH_ARGS)

bench-estimator: $(VENV)/.ready ## the estimator against public measurements, allocation against exhaustive search (about half an hour)
	$(BIN)/python -m benchmarks.estimator $(BENCH_ARGS)

bench-place: $(VENV)/.ready ## placement on published workloads, on random small ones, and its speed (about an hour)
	$(BIN)/python -m benchmarks.place $(BENCH_ARGS)

test-gpu: $(VENV)/.ready ## tests that need a CUDA device
	$(BIN)/python -m pytest -m gpu tests/gpu $(PYTEST_ARGS)

clean:
	rm -rf $(VENV) gate-example perfgate-out .cache .perfgate
