#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Snakemake runs this in the new environment, from the repository's root. All rules have the one environment, and so
# those too that need an extra. It is made anew where this file changes, so that it says what the lists are:
# sha256 3230bbf114c4e94d7faa0a0eae473c9e276ccd673a221e5a302602959a598cd4
set -euo pipefail
python -m pip install --require-hashes -r envs/requirements.txt \
  -r envs/requirements-crate.txt -r envs/requirements-history.txt -r envs/requirements-parquet.txt \
  -r envs/requirements-zarr.txt
python -m pip install --no-deps --no-build-isolation --editable .
