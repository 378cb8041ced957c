#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# What somebody does who begins on a fresh Debian, and the tests of what differs between releases of Debian: Python,
# tools, XRootD's words, the user-mode kernel, the browser. `make test-on` runs it in a root of its own.
set -euxo pipefail
cd -P "$(dirname "$0")/../.."
make setup
.venv/bin/snakemake --config sweep=smoke
make test-fast
.venv/bin/python -m pytest tests/real/test_{tools,more_tools,netem_uml,report}.py --durations=15 --durations-min=5
