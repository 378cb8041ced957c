#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Set up what a sweep needs: the system's packages that are missing, and the pinned Python packages in .venv.
#   envs/setup.sh [EXTRA…]
# An extra is what envs/SYSTEM-EXTRA.txt and envs/requirements-EXTRA.txt list, for the targets that need more. "all" is
# all of them but "docs", of the documentation site, and "test", which is all and what tests, linters and benchmarks need.
# Those that are there stay. The system is debian or alma9, which has not every extra.
set -euo pipefail
cd -P "$(dirname "$0")/.."

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

# Snakemake starts jobs by the path of .venv without quoting it, and reads braces in paths as wildcards.
case $PWD in
*[][[:space:]\'\"\\\`\$\;\&\|\(\)\<\>{}*?!#~:]*)
  fail "given the folder $PWD, allowed: one without blanks, quotes, brackets and the signs \$ ; & | < > * ? ! # ~ : \\ in its path, as Snakemake does not quote it. Move the checkout; results may be anywhere: snakemake --config results=FOLDER"
  ;;
esac

# The interpreter, that of a .venv for the .venv's, with its version; nothing if it does not run.
interpreter() {
  "$1" -c 'import os, sys; print(os.path.realpath(sys._base_executable), "%d.%d" % sys.version_info[:2])' 2>/dev/null || true
}

# By what packages of the family are called and made: AlmaLinux 9, Rocky 9, CentOS Stream 9.
case $(rpm --eval '%{?rhel}' 2>/dev/null || true) in
9) system=alma9 ;;
*) system=debian ;;
esac

there() {
  case $system in
  alma9) rpm --query --quiet --whatprovides "$1" ;;
  debian) [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ] ;;
  esac
}

install_packages() {
  case $system in
  alma9)
    dnf install --assumeyes --quiet epel-release || fail "dnf install epel-release failed; see its message above"
    # Some of what EPEL's packages need is in the repository CRB, which is off unless asked for.
    dnf install --assumeyes --quiet --setopt=install_weak_deps=False --enablerepo=crb "$@" ||
      fail "dnf install failed; see its message above"
    ;;
  debian)
    export DEBIAN_FRONTEND=noninteractive
    # Packages of servers start them when installed; here every server is started by a deployment, in its own namespace.
    if [ ! -e /usr/sbin/policy-rc.d ]; then
      printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
      chmod 755 /usr/sbin/policy-rc.d
      trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    apt-get update -qq || fail "apt-get update failed; see its message above"
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null || fail "apt-get install failed; see its message above"
    ;;
  esac
}

recent() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# What .venv contains: the extras, and, once it is whole, the digest of the lists.
marker=.venv/.installed
extras='' lists=''
[ ! -e "$marker" ] || { read -r extras && read -r lists; } <"$marker" || true

known=$(
  for extra in $(basename --multiple --suffix=.txt envs/*-*.txt | cut -d- -f2 | sort -u); do
    [ -e "envs/debian-$extra.txt" ] && [ ! -e "envs/$system-$extra.txt" ] || echo "$extra"
  done
)
wanted=$(
  for extra in $extras "$@"; do
    case $extra in
    all) grep -vxE 'docs|test' <<<"$known" ;;
    *)
      grep -x -- "$extra" <<<"$known" || fail "given the extra $extra, allowed on $system: all, ${known//$'\n'/, }"
      [ "$extra" != test ] || echo "$known"
      ;;
    esac
  done | sort -u | xargs
)
now=$(cat envs/*.txt envs/setup.sh envs/byte_code.py pyproject.toml | sha256sum)
# A .venv that another command made is used. One of a checkout that was moved or copied is not: its programs name the
# folder that they were made in.
made_in=$(sed -nE "s/^ *(export )?VIRTUAL_ENV=[\"']?([^\"'\$]+)[\"']?\$/\2/p;T;q" .venv/bin/activate 2>/dev/null || true)
base=''
! recent .venv/bin/python || base=$(interpreter .venv/bin/python)
python=${PYTHON:-${base% *}}
[ -n "$python" ] || python=python3
reused=''
if [ "$made_in" -ef .venv ] && [ "$base" ] && [ "$base" = "$(interpreter "$python")" ]; then
  reused=yes
fi
# `pip install .` replaces the installation of the checkout by a copy.
if [ "$reused" ] && [ "$extras" = "$wanted" ] && [ "$lists" = "$now" ] &&
  compgen -G '.venv/lib/python3*/site-packages/__editable__*tpcsweep*' >/dev/null; then
  echo "setup: nothing is missing; activate with  . .venv/bin/activate"
  exit
fi

packages=("envs/$system.txt") requirements=(-r envs/requirements.txt)
for extra in $wanted; do
  [ ! -e "envs/$system-$extra.txt" ] || packages+=("envs/$system-$extra.txt")
  [ ! -e "envs/requirements-$extra.txt" ] || requirements+=(-r "envs/requirements-$extra.txt")
done

missing=()
while read -r package; do
  there "$package" || missing+=("$package")
done < <(grep -hv '^#' "${packages[@]}")

if [ ${#missing[@]} -gt 0 ]; then
  manager=apt-get
  [ $system = debian ] || manager=dnf
  command -v $manager >/dev/null || fail "these packages of $system are missing, and there is no $manager to install them: ${missing[*]}"
  [ "$(id -u)" = 0 ] || fail "these packages of $system are missing: ${missing[*]}. Run this as root once, or have root do it: $manager install ${missing[*]}"
  echo "setup: installing ${missing[*]}"
  install_packages "${missing[@]}"
fi

# The system's own is 3.9 on EL 9, which has others beside it.
[ -n "${PYTHON:-}" ] || recent "$python" || ! recent python3.11 || python=python3.11
recent "$python" || fail "$python is $("$python" --version 2>&1); Python 3.11 or later is needed (PYTHON=… chooses another)"
if [ ! "$reused" ]; then
  found=$(interpreter "$python")
  [ ! -e .venv ] || echo "setup: replacing .venv: it was made in ${made_in:-another folder} with ${base:-another Python}"
  rm -rf .venv
  echo "setup: making .venv with Python ${found##* }"
  "${found% *}" -m venv .venv
fi
echo "$wanted" >"$marker"

.venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/installer.txt
# uv asks where pip is told to ask.
told=$(.venv/bin/python -m pip config list)
index=$(sed -nE "s/^[^.]+\.index-url='(.*)'$/\1/p;T;q" <<<"$told")
certificates=$(sed -nE "s/^[^.]+\.cert='(.*)'$/\1/p;T;q" <<<"$told")
[ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
[ -z "$certificates" ] || export SSL_CERT_FILE="${SSL_CERT_FILE:-$certificates}"
install=(.venv/bin/uv pip install --quiet --python .venv/bin/python)
# Several small installs would each resolve again; hashes make what is installed what was reviewed.
echo "setup: installing the pinned Python packages${wanted:+, with the extras $wanted}: about a minute without a cache"
"${install[@]}" --require-hashes "${requirements[@]}"
"${install[@]}" --no-deps --no-build-isolation --editable .
if grep -qw test <<<"$wanted"; then
  .venv/bin/uv venv --quiet --clear --python .venv/bin/python .venv/validator
  .venv/bin/uv pip install --quiet --python .venv/validator/bin/python --require-hashes -r envs/validator.txt
fi
echo "setup: compiling Python files, so that jobs start faster: about half a minute"
.venv/bin/python envs/byte_code.py
echo "$now" >>"$marker"
echo "setup: done; activate with  . .venv/bin/activate"
