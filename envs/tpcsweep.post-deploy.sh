#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Snakemake runs this in the new environment, from the repository's root. All rules have the one environment, and so
# those too that need an extra. It is made anew where this file changes, so that it says what the lists are:
# sha256 2c0a7111344ba389e548c1c282003d6cd792540281d2afee581362b66c55074d
set -euo pipefail
python -m pip install --require-hashes -r envs/requirements.txt \
  -r envs/requirements-kubernetes.txt -r envs/requirements-models.txt -r envs/requirements-parquet.txt \
  -r envs/requirements-crate.txt -r envs/requirements-zarr.txt
python -m pip install --no-deps --no-build-isolation --editable .
