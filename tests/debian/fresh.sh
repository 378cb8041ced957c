#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# What somebody does who begins on a fresh Debian, and the tests of what differs between releases of Debian: Python,
# which folds and fits the sweep, OpenSSL, tools, XRootD's words. `make test-on` runs it in a root of its own.
set -euxo pipefail
cd -P "$(dirname "$0")/../.."
make setup
.venv/bin/snakemake --config sweep=smoke
make setup-test
.venv/bin/python -m pytest tests/unit/test_{cgroups,client,setup,tools,xrootd}.py \
  --numprocesses="$(nproc)" --maxprocesses=8
.venv/bin/python -m pytest tests/real/test_tools.py --durations=15 --durations-min=5
