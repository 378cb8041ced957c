# make sweep     set up what is needed, run the configured sweep, print where its report is
# make test      set everything up, run every test, those on a real Kubernetes too: it is compiled the first time
# make test-fast     those that need no servers, in a minute or two
# make test-machine  all but those on Kubernetes
# make test-cluster  those on Kubernetes
# make coverage  which lines the tests in test-machine run
# make setup     set up what a sweep needs; EXTRAS="kubernetes models" (or all) what other targets need, too
# make cluster   a Kubernetes cluster on this machine, until Ctrl-C
# make lint      formatters, linters, types, which package may import which
# make docs      the picture and the table of docs/architecture.md
# make lock      pin the Python requirements again
SHELL := /bin/bash
BIN := .venv/bin

define REPORT
import pathlib, yaml, tpcsweep.configuration.loading as c
report = c.load(yaml.safe_load(open("config/config.yaml")), pathlib.Path()).folder / "report.html"
print(report if report.exists() else "")
endef
export REPORT

.PHONY: sweep test test-fast test-real test-machine test-cluster coverage cluster setup setup-test docs lint lock
.DELETE_ON_ERROR:

sweep: setup
	@$(BIN)/snakemake; ended=$$?; $(BIN)/python -c "$$REPORT"; exit $$ended

# It is looked whether all is there, for this checkout, this interpreter and these lists; mostly that is all.
setup:
	@envs/setup.sh $(EXTRAS)

setup-test:
	@envs/setup.sh test $(EXTRAS)

# Most of the time both wait: for servers, nodes and files.
test: setup-test
	$(MAKE) --jobs=2 test-machine test-cluster

test-machine: setup-test
	$(MAKE) test-fast
	$(MAKE) test-real

test-fast: setup-test
	$(BIN)/python -m pytest tests/unit --numprocesses=$$(nproc) --maxprocesses=8 --dist=worksteal

test-real: setup-test
	$(BIN)/python -m pytest tests/real --durations=15 --durations-min=5

# What is compiled is behind everything else in the queue for the CPUs.
test-cluster: setup-test
	$(BIN)/python -m tests.cluster.local.build
	$(BIN)/python -m pytest tests/cluster --numprocesses=2 --dist=loadfile --durations=15 --durations-min=5

coverage: setup-test
	$(BIN)/python -m pytest tests/unit tests/real --cov=tpcsweep --cov-report=term

cluster: setup-test
	$(BIN)/python -m tests.cluster.local up

docs: setup-test
	$(BIN)/python docs/architecture.py

lint: setup-test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/snakemake --lint

# Each is held to the versions of those before it, so that all may be installed together.
lock: setup
	for list in installer requirements requirements-kubernetes requirements-models requirements-parquet requirements-test; do \
	  $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.11 --no-header \
	    envs/$$list.in --output-file envs/$$list.txt || exit; \
	done
