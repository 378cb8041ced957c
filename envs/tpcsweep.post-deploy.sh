#!/usr/bin/env bash
# Snakemake runs this in the new environment, from the repository's root.
set -euo pipefail
python -m pip install --require-hashes -r envs/requirements.txt
python -m pip install --no-deps --no-build-isolation --editable .
