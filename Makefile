# make sweep     set everything up, run the configured sweep, print where its report is
# make test      set everything up, run every test, those on a real Kubernetes too: it is compiled the first time
# make test-fast     those that need no servers, in a minute or two
# make test-machine  all but those on Kubernetes
# make test-cluster  those on Kubernetes
# make coverage  which lines the tests in test-machine run
# make setup     set everything up
# make cluster   a Kubernetes cluster on this machine, until Ctrl-C
# make lint      formatters, linters, types
# make lock      pin the Python requirements again
SHELL := /bin/bash
BIN := .venv/bin
SET_UP := $(wildcard envs/*.txt) envs/setup.sh pyproject.toml

define REPORT
import pathlib, yaml, tpcsweep.configuration as c
print(c.load(yaml.safe_load(open("config/config.yaml")), pathlib.Path()).folder / "report.html")
endef
export REPORT

.PHONY: sweep test test-fast test-real test-machine test-cluster coverage cluster setup lint lock
.DELETE_ON_ERROR:

sweep: .venv/.complete
	$(BIN)/snakemake
	@$(BIN)/python -c "$$REPORT"

setup: .venv/.complete

# Most of the time both wait: for servers, nodes and files.
test: .venv/.complete-test
	$(MAKE) --jobs=2 test-machine test-cluster

test-machine: .venv/.complete-test
	$(MAKE) test-fast
	$(MAKE) test-real

test-fast: .venv/.complete-test
	$(BIN)/python -m pytest tests/unit --numprocesses=$$(nproc) --maxprocesses=8 --dist=worksteal

test-real: .venv/.complete-test
	$(BIN)/python -m pytest tests/real --durations=15 --durations-min=5

# What is compiled is behind everything else in the queue for the CPUs.
test-cluster: .venv/.complete-test
	$(BIN)/python -m tests.cluster.local.build
	$(BIN)/python -m pytest tests/cluster --numprocesses=2 --dist=loadfile --durations=15 --durations-min=5

coverage: .venv/.complete-test
	$(BIN)/python -m pytest tests/unit tests/real --cov=tpcsweep --cov-report=term

cluster: .venv/.complete-test
	$(BIN)/python -m tests.cluster.local up

lint: .venv/.complete-test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/snakemake --lint

lock: .venv/.complete-test
	$(BIN)/uv pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.11 --no-header envs/requirements.in --output-file envs/requirements.txt
	$(BIN)/uv pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.11 --no-header envs/requirements-dev.in --output-file envs/requirements-dev.txt

.venv/.complete: $(SET_UP)
	envs/setup.sh

.venv/.complete-test: $(SET_UP)
	envs/setup.sh test
