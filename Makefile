# SPDX-License-Identifier: Apache-2.0
SHELL := /bin/bash
BIN := .venv/bin
# Another Debian than this machine's, for test-on.
SUITE := trixie
# Files of each kind for the fuzzer.
INPUTS := 4000
# The length of a campaign. ITERATIONS=60 counts iterations instead.
MINUTES := 30
ITERATIONS :=
# The same seed makes the same choices, in the fuzzer and in a campaign.
SEED := 0
SIDE_BY_SIDE := --numprocesses=$$(nproc) --maxprocesses=8

.PHONY: sweep help setup setup-test test test-all test-fast test-programs test-real test-real-on test-undeployed test-machine test-on test-cluster compiled campaign campaign-cluster coverage cluster docs docs-site fuzz lint lock
.DELETE_ON_ERROR:

sweep: setup ## set up, run the configured sweep, make Snakemake's report
	@$(BIN)/snakemake && $(BIN)/snakemake --report results/report.html && echo "report: $(CURDIR)/results/report.html"

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# The script first checks whether this checkout, interpreter and requirements are installed already.
setup: ## set up everything for a sweep; EXTRAS="parquet zarr" (or all) adds extras
	@envs/setup.sh $(EXTRAS)

setup-test: ## set up everything for tests and linters, with every extra
	@envs/setup.sh test $(EXTRAS)

# Side by side: on clusters and with real servers much is waited for, and the others compute meanwhile.
test: setup-test ## all tests: test-cluster, whose programs are compiled the first time, test-real and test-undeployed
	$(MAKE) --jobs=3 test-cluster test-real test-undeployed

test-all: setup-test ## all tests, and test-on after test-real, because both deploy on this machine
	$(MAKE) --jobs=3 test-cluster test-real-on test-undeployed

test-real-on: setup-test ## test-real, then test-on
	$(MAKE) test-real
	$(MAKE) test-on

compiled: setup-test ## the programs of a cluster; the second time there is nothing to be done
	nice -n 5 $(BIN)/python -m tests.cluster.local.build

test-machine: setup-test ## all tests but those on Kubernetes
	$(MAKE) --jobs=2 test-real test-undeployed

# Real servers have times to keep, and the tests on clusters wait for the compiler: both go first.
test-undeployed: setup-test ## test-fast, then test-programs
	nice -n 10 $(MAKE) test-fast
	nice -n 5 $(MAKE) test-programs

test-fast: setup-test ## the tests of functions, in four minutes
	$(BIN)/python -m pytest tests/unit $(SIDE_BY_SIDE) --dist=worksteal

test-programs: setup-test ## the tests of whole Snakemakes, notebooks, studies and pages, where nothing is deployed
	$(BIN)/python -m pytest tests/programs $(SIDE_BY_SIDE) --dist=worksteal

test-real: setup-test ## the tests with real servers, paths and kernels; needs root
	$(BIN)/python -m pytest tests/real --numprocesses=3 --dist=loadscope --durations=15 --durations-min=5

test-on: setup-test ## set-up, a sweep and a part of the tests on a bare Debian, SUITE=trixie; needs root
	tests/debian/on.sh $(SUITE) tests/debian/fresh.sh

test-cluster: compiled ## the tests on Kubernetes; needs root and Go
	$(BIN)/python -m pytest tests/cluster --numprocesses=2 --dist=loadfile --no-loadscope-reorder --durations=15 --durations-min=5

campaign: setup-test ## inject random faults into a sweep, MINUTES=30 or ITERATIONS=60, SEED=0, and count losses; needs root
	$(BIN)/python -m tests.real.campaign --seed $(SEED) $(if $(ITERATIONS),--iterations $(ITERATIONS),--minutes $(MINUTES))

campaign-cluster: compiled ## the campaign on Kubernetes, MINUTES=30 or ITERATIONS=60, SEED=0; needs root and Go
	$(BIN)/python -m tests.cluster.campaign --seed $(SEED) $(if $(ITERATIONS),--iterations $(ITERATIONS),--minutes $(MINUTES))

coverage: setup-test ## which lines the tests in test-machine run
	$(BIN)/python -m pytest tests/unit tests/programs tests/real --cov=tpcsweep --cov-report=term

# Check programs first, because set-up takes minutes.
cluster: ## a Kubernetes cluster on this machine, until Ctrl-C: docs/kubernetes.md; needs root and Go
	@tests/cluster/local/needs.sh
	$(MAKE) setup-test
	$(BIN)/python -m tests.cluster.local up --folder .cluster

fuzz: setup-test ## thousands of files that people may have written wrongly; INPUTS=4000 SEED=0
	FUZZ_INPUTS=$(INPUTS) $(BIN)/python -m pytest tests/unit/test_yaml_file.py -k refused_or_planned --hypothesis-seed $(SEED)

docs: setup-test ## write examples/surface.html, the parts of pages and the schemas that follow from the code
	$(BIN)/python docs/example.py
	$(BIN)/python docs/architecture.py
	$(BIN)/python docs/claims.py
	$(BIN)/python docs/commands.py
	$(BIN)/python docs/schemas.py
	$(BIN)/python docs/tools.py

# Fails on broken links and unreadable docstrings.
docs-site: setup-test ## the documentation as a site that needs no network: build/site/index.html
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -c docs . build/site

lint: setup-test ## formatters, linters, types, import contracts, language
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/snakefmt --check Snakefile workflow studies
	$(BIN)/snakemake --lint
	$(BIN)/python docs/prose.py
	if command -v npm >/dev/null; then tests/npm/check.sh; fi

# Each list uses the versions of the lists before it, so that all may be installed together, except the validator's.
lock: setup ## pin the Python requirements again
	held=(); \
	for list in installer requirements requirements-{history,parquet,crate,zarr,slurm,test,docs}; do \
	  parts=(); [ $$list != requirements ] || parts=(envs/requirements-{figures,kubernetes,measure,models,notebooks}.in); \
	  $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.11 --no-header \
	    "$${held[@]}" envs/$$list.in "$${parts[@]}" --output-file envs/$$list.txt || exit; \
	  held+=(--constraint envs/$$list.txt); \
	done; \
	$(BIN)/uv pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.11 --no-header \
	  envs/validator.in --output-file envs/validator.txt
	lists=$$(cat envs/requirements{,-crate,-history,-parquet,-zarr}.txt | sha256sum | cut -d" " -f1); \
	sed -i "s/^# sha256 .*/# sha256 $$lists/" envs/tpcsweep.post-deploy.sh
