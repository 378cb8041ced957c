#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Snakemake runs this in the new environment, from the repository's root. All rules have the one environment, and so
# those too that need an extra. It is made anew where this file changes, so that it says what the lists are:
# sha256 226a907114af43dba2ed6b9ee4c1dcade6a6e0da90288e1c75a4d3b82c125fea
set -euo pipefail
[ -f envs/requirements.txt ] || {
  echo "$PWD/envs/requirements.txt is missing: run snakemake in a checkout of tpcsweep, and not as a module" >&2
  exit 1
}
python -m pip install --require-hashes -r envs/requirements.txt \
  -r envs/requirements-crate.txt -r envs/requirements-history.txt -r envs/requirements-parquet.txt \
  -r envs/requirements-zarr.txt
python -m pip install --no-deps --no-build-isolation --editable .
