#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Check types and format of the pages' scripts, and that the libraries in the package are those of npm: `make lint` does
# it where npm exists. `check.sh format` writes the scripts in that format instead. `check.sh copy` copies the libraries
# of package.json into the package instead; then change libraries.toml.
set -euo pipefail
cd -P "$(dirname "$0")"
scripts=../../workflow/tpcsweep/pages/templates/scripts
library=../../workflow/tpcsweep/pages/library
npm ci --silent --no-audit --no-fund
[ "${1:-}" != copy ] || cp node_modules/d3/dist/d3.min.js node_modules/@observablehq/plot/dist/plot.umd.min.js $library
cmp node_modules/d3/dist/d3.min.js $library/d3.min.js
cmp node_modules/@observablehq/plot/dist/plot.umd.min.js $library/plot.umd.min.js
../../.venv/bin/python ../../docs/page_types.py >page_data.d.ts
npx tsc --project tsconfig.json
[ "${1:-}" != format ] && wanted=--check || wanted=--write
npx prettier --log-level warn --print-width 120 --arrow-parens avoid $wanted "$scripts/*.js" ../support/outsider.js
