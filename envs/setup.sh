#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Set up what a sweep needs: the Debian packages that are missing, and the pinned Python packages in .venv.
#   envs/setup.sh [EXTRA…]
# An extra is what envs/debian-EXTRA.txt and envs/requirements-EXTRA.txt list, for the targets that need more. "all" is
# all of them but "docs", of the documentation site, and "test", which is all and what tests, linters and benchmarks need.
# Those that are there stay.
set -euo pipefail
cd -P "$(dirname "$0")/.."

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

# The interpreter itself, were it found in a .venv, with its version; nothing where it does not run.
interpreter() {
  "$1" -c 'import os, sys; print(os.path.realpath(sys.executable), "%d.%d" % sys.version_info[:2])' 2>/dev/null || true
}

# What .venv is: of which checkout and which interpreter, with which extras, and, once it is whole, of which lists.
marker=.venv/.set-up
checkout='' base='' extras='' lists=''
[ ! -e "$marker" ] || { read -r checkout && read -r base && read -r extras && read -r lists; } <"$marker" || true

known=$(basename --multiple --suffix=.txt envs/*-*.txt | cut -d- -f2 | sort -u)
wanted=$(
  for extra in $extras "$@"; do
    case $extra in
    all) grep -vxE 'docs|test' <<<"$known" ;;
    test) echo "$known" ;;
    *) grep -x -- "$extra" <<<"$known" || fail "given the extra $extra, allowed: all, ${known//$'\n'/, }" ;;
    esac
  done | sort -u | xargs
)
now=$(cat envs/*.txt envs/setup.sh envs/byte_code.py pyproject.toml | sha256sum)
python=${PYTHON:-${base% *}}
[ -n "${PYTHON:-}" ] || [ -x "$python" ] || python=python3
if [ "$checkout" = "$PWD" ] && [ "$base" = "$(interpreter "$python")" ] && [ "$extras" = "$wanted" ] && [ "$lists" = "$now" ]; then
  echo "setup: nothing is missing; activate with  . .venv/bin/activate"
  exit
fi

debian=(envs/debian.txt) requirements=(-r envs/requirements.txt)
for extra in $wanted; do
  [ ! -e "envs/debian-$extra.txt" ] || debian+=("envs/debian-$extra.txt")
  [ ! -e "envs/requirements-$extra.txt" ] || requirements+=(-r "envs/requirements-$extra.txt")
done

missing=()
while read -r package; do
  state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done < <(grep -hv '^#' "${debian[@]}")

if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || fail "these Debian packages are missing, and there is no apt-get to install them: ${missing[*]}"
  [ "$(id -u)" = 0 ] || fail "these Debian packages are missing: ${missing[*]}. Run this as root once, or have root do it: apt-get install ${missing[*]}"
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
found=$(interpreter "$python")
if [ "$checkout, $base" != "$PWD, $found" ]; then
  # Its programs name the folder that they were made in, and so does what is installed from the checkout.
  [ ! -e .venv ] || echo "setup: making .venv anew: it is of ${checkout:-another set-up} and ${base:-an unknown Python}"
  rm -rf .venv
  "${found% *}" -m venv .venv
fi
printf '%s\n' "$PWD" "$found" "$wanted" >"$marker"

.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/installer.txt
# uv asks where pip is told to ask.
told=$(.venv/bin/python -m pip config list)
index=$(sed -nE "s/^[^.]+\.index-url='(.*)'$/\1/p;T;q" <<<"$told")
certificates=$(sed -nE "s/^[^.]+\.cert='(.*)'$/\1/p;T;q" <<<"$told")
[ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
[ -z "$certificates" ] || export SSL_CERT_FILE="${SSL_CERT_FILE:-$certificates}"
install=(.venv/bin/uv pip install --quiet --python .venv/bin/python)
# Several small installs would each resolve again; hashes make what is installed what was reviewed.
"${install[@]}" --require-hashes "${requirements[@]}"
"${install[@]}" --no-deps --no-build-isolation --editable .
.venv/bin/python envs/byte_code.py
echo "$now" >>"$marker"
echo "setup: done; activate with  . .venv/bin/activate"
