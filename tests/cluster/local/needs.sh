#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# Say which Go a cluster of this machine needs and which is here; fail where there is none, or one that is too old.
# It needs nothing itself, so that it can be asked before anything is set up.
#   tests/cluster/local/needs.sh [FOLDER WITH A go.mod]
module=${1:-$(dirname "$0")/go}/go.mod
needed=$(sed -nE 's/^go ([0-9]+\.[0-9]+).*/\1/p' "$module")
kubernetes=$(sed -nE 's/.*k8s\.io\/kubernetes (v[0-9.]+)$/\1/p' "$module")
found=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) found=${found#go}
wanted="Kubernetes $kubernetes is compiled by Go $needed or later"

if [ -z "$found" ]; then
  echo "cluster: $wanted, and there is no \`go\` on the PATH; https://go.dev/dl has it" >&2
  exit 1
fi
echo "cluster: $wanted; here is $(command -v go), Go $found" >&2
if [ "$(printf '%s\n' "$needed" "$found" | sort -V | head -n 1)" != "$needed" ]; then
  echo "cluster: that is too old; https://go.dev/dl has newer ones" >&2
  exit 1
fi
if [ "$(id -u)" != 0 ]; then
  echo "cluster: nodes are network namespaces, which takes root" >&2
  exit 1
fi
