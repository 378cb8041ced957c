#!/usr/bin/env bash
# Set up everything a sweep needs: the Debian packages that are missing, and the pinned Python packages in .venv.
#   envs/setup.sh [test]     with "test": also what tests, linters and benchmarks need
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
lists=(envs/debian.txt) requirements=(-r envs/requirements.txt)
if [ "${1:-}" = test ]; then
  lists+=(envs/debian-test.txt) requirements+=(-r envs/requirements-dev.txt)
fi

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

missing=()
while read -r package; do
  state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done < <(grep -hv '^#' "${lists[@]}")

if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || fail "these Debian packages are missing, and there is no apt-get to install them: ${missing[*]}"
  [ "$(id -u)" = 0 ] || fail "these Debian packages are missing: ${missing[*]}. Run this as root, or: apt-get install ${missing[*]}"
  echo "setup: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  # Packages of servers start them when installed; here every server is started by a deployment, in its own namespace.
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  apt-get update -qq || fail "apt-get update failed; see its message above"
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || fail "apt-get install failed; see its message above"
fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$python is $("$python" --version 2>&1); Python 3.11 or later is needed (PYTHON=… chooses another)"
[ -x .venv/bin/python ] || "$python" -m venv .venv
# Several small installs would each resolve again; hashes make what is installed what was reviewed.
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes "${requirements[@]}"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
# Every job starts a Python: without byte code that costs seconds of CPU each.
.venv/bin/python -m compileall -q -j 0 .venv/lib workflow/tpcsweep >/dev/null || true
touch .venv/.complete
[ "${1:-}" = test ] && touch .venv/.complete-test
echo "setup: done; activate with  . .venv/bin/activate"
