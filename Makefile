# Everything runs in .venv, made from the hashed lock files; only Python, make and a package index are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCKS := requirements/build.txt requirements/all.txt
# One lock for all Pythons and platforms, with hashes and without any index address.
RESOLVE := $(VENV)-lock/bin/uv pip compile -q --universal --python-version 3.10 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-annotate --no-header
# Python=MLflow; warnings of versions that are not locked are no failures.
MATRIX ?= 3.10=3.10.1 3.10=3.17.2 3.13=3.10.1 3.13=3.17.2
# MLflow 3.10 serves with no newer Starlette, and does not say so.
MATRIX_LIMITS = $$(case $$mlflow in (3.10.*) echo "starlette<1";; esac)
MATRIX_TESTS := tests/core tests/flavor tests/steps/test_predict_file.py
FLAVORS_TESTS := tests/flavor/test_networks.py tests/flavor/test_spark.py
export MLFLOW_DISABLE_TELEMETRY := true
export DO_NOT_TRACK := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
.DEFAULT_GOAL := help
.PHONY: help demo test check bench matrix pythons flavors docs lock clean

help:  ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/installed  ## The main job on 336,776 real flights, month by month (about 3 minutes, in .demo/)
	$(BIN)/python -m examples.flights

test: $(VENV)/installed  ## All tests but the version matrix and the long simulations
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(VENV)/installed  ## ruff, ruff format, mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/installed  ## Speed and memory beside peers, and the long simulations (an hour); writes docs/
	$(BIN)/python -m tests.bench
	$(BIN)/python -m tests.bench.families
	$(BIN)/python -m tests.bench.coverage
	$(BIN)/python -m tests.bench.flavor
	$(BIN)/python -m tests.bench.guard
	$(BIN)/python -m tests.bench.gate

matrix:  ## Flavor and core tests on the oldest and newest MLflow and Python, in fresh environments (the network)
	@ran=0; for pair in $(MATRIX); do \
	  python=$${pair%%=*}; mlflow=$${pair##*=}; home=.venv-$$python-mlflow-$$mlflow; \
	  if ! python$$python -c '' 2>/dev/null; then echo "== Python $$python is not on PATH, left out"; continue; fi; \
	  echo "== Python $$python, MLflow $$mlflow, in $$home"; \
	  rm -rf $$home && python$$python -m venv $$home && $$home/bin/python -m pip install -q -U "pip>=25.1" \
	  && $$home/bin/python -m pip install -q --group test -e . "mlflow==$$mlflow" $(MATRIX_LIMITS) \
	  && $$home/bin/python -m pytest -q -W default $(PYTEST_ARGS) $(MATRIX_TESTS) || exit 1; ran=1; \
	done; test $$ran = 1 || { echo "none of the Pythons of MATRIX is on PATH"; exit 1; }

flavors:  ## PyTorch, Keras and Spark ML as base models, in a fresh environment (the network; Spark needs Java)
	rm -rf .venv-flavors && $(PYTHON) -m venv .venv-flavors && .venv-flavors/bin/python -m pip install -q -U "pip>=25.1"
	.venv-flavors/bin/python -m pip install -q --group test -e ".[spark]" torch keras
	.venv-flavors/bin/python -m pytest -q -W default $(PYTEST_ARGS) $(FLAVORS_TESTS)

pythons:  ## All tests with the locked versions on every supported Python found on PATH
	@for version in 3.10 3.11 3.12 3.13; do \
	  if python$$version -c '' 2>/dev/null; then \
	    echo "== Python $$version"; $(MAKE) test PYTHON=python$$version VENV=.venv-$$version || exit 1; \
	  else echo "== Python $$version is not on PATH, left out"; fi; \
	done

docs: $(VENV)/installed  ## Run every code block of README and docs
	$(BIN)/python -m pytest README.md docs

lock:  ## Resolve the lock files anew (needs the network)
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install -q uv
	$(RESOLVE) --group build -o requirements/build.txt
	$(RESOLVE) pyproject.toml --extra airflow --extra demo --group test --group check -o requirements/all.txt
	rm -rf $(VENV)-lock

clean:  ## Remove .venv, .demo and caches
	rm -rf .venv .venv-* .demo .paper .pytest_cache .mypy_cache .ruff_cache

$(VENV)/installed: pyproject.toml $(LOCKS)
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "mlflow-calib needs Python 3.10 to 3.13; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "python's venv module is missing; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "Installing about 200 packages into $(VENV), one to three minutes ..."
	@$(BIN)/python -m pip install -q --require-hashes --no-deps -r requirements/build.txt
	@$(BIN)/python -m pip install -q --require-hashes --no-deps --no-build-isolation -r requirements/all.txt
	@$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	@touch $@
