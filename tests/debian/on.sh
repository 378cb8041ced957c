#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Run a command on a bare Debian of any release, in a copy of this checkout, as root:
#   tests/debian/on.sh SUITE COMMAND [ARGUMENT…]
# That Debian has what the README asks for and nothing else. It lies in memory, in namespaces of its own for mounts and
# processes, so that nothing of it stays, however this ends. The kernel, the network and the cgroups are the machine's.
# What is downloaded is kept below $TPCSWEEP_CACHE, else ~/.cache/tpcsweep.
set -euo pipefail
cd -P "$(dirname "$0")/../.."
packages=ca-certificates,git,make,python3

fail() {
  printf 'on.sh: %s\n' "$*" >&2
  exit 1
}

# The first process of the namespaces makes the root, enters it, and waits there for whatever the command leaves.
run() {
  umask 022
  root=/media # empty on every Debian
  mount -t tmpfs -o mode=755,size=75% tpcsweep "$root"
  if [ ! -e "$bare" ]; then
    echo "on.sh: making a bare $suite, once"
    TMPDIR=$root mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" "$suite" "$bare.part.tar.zst"
    mv "$bare.part.tar.zst" "$bare"
  fi
  # Not by a pipe: tar ends at the mark of the end, and what still writes what is behind it would fail.
  tar --extract --file="$bare" --directory="$root"

  # The commit that is checked out, and the files as they are: what git knows or would know.
  git clone --quiet --no-checkout --depth 1 "file://$PWD" "$root/root/tpcsweep"
  git ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' file; do [ ! -e "$file" ] && [ ! -L "$file" ] || printf '%s\0' "$file"; done |
    tar --create --null --files-from=- | tar --extract --no-same-owner --directory="$root/root/tpcsweep"
  git -C "$root/root/tpcsweep" reset --quiet

  # Downloads go the machine's way.
  apt-config dump | grep -E '^Acquire::(https?|Check-|Retries)' >"$root/etc/apt/apt.conf.d/99machine" || true
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt ~/.config/pip/pip.conf ~/.pip/pip.conf; do
    [ ! -e "$file" ] || { mkdir -p "$root${file%/*}" && cp --dereference --remove-destination "$file" "$root$file"; }
  done
  mkdir -p "$root/root/.cache/uv"
  mount --bind "$kept/archives" "$root/var/cache/apt/archives"
  mount --bind "$kept/uv" "$root/root/.cache/uv"

  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --rbind /sys "$root/sys"
  mount -t tmpfs -o mode=755 tpcsweep "$root/run"
  # Deployments are the machine's, wherever they are made: one lock, and each side's next run finds what the other left.
  for folder in lock netns tpcsweep; do
    mkdir -p "/run/$folder" "$root/run/$folder"
  done
  chmod 711 /run/tpcsweep
  mount --rbind /run/netns "$root/run/netns"
  mount --bind /run/tpcsweep "$root/run/tpcsweep"

  # Not by chroot alone: in one the kernel makes no user namespaces, which browsers and ordinary users' sweeps have.
  cd "$root"
  pivot_root . mnt
  unset "${!PYTHON@}" "${!LC_@}" "${!MAKE@}" MFLAGS VIRTUAL_ENV TPCSWEEP_CACHE
  export HOME=/root LANG=C.UTF-8 UV_LINK_MODE=copy PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  exec chroot . sh -c 'umount --lazy /mnt && cd ~/tpcsweep && "$@"' sh "$@"
}

suite=${1:-}
[ $# -ge 2 ] || fail 'given too little; say: tests/debian/on.sh SUITE COMMAND [ARGUMENT…], as in: tests/debian/on.sh trixie make sweep'
[ "$(id -u)" = 0 ] || fail 'mounts and namespaces need root'
for program in git mmdebstrap zstd; do
  command -v "$program" >/dev/null || fail "there is no $program; apt-get install $program"
done
shift
kept=$(realpath --canonicalize-missing "${TPCSWEEP_CACHE:-$HOME/.cache/tpcsweep}")/debian/$suite
bare=$kept/$packages.tar.zst
mkdir -p "$kept"/{archives,uv}
exec {lock}>"$kept/lock"
flock --nonblock "$lock" || { echo "on.sh: waiting for another run on $suite"; flock "$lock"; }

# A process group of its own, which is told what this is told, so that deployments are torn down in order. Killed, this
# takes all with it.
export -f run
export suite packages kept bare
set -m
setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child \
  bash -euo pipefail -c 'run "$@"' run "$@" </dev/null &
for signal in INT TERM HUP; do
  trap "kill -$signal -- -\$!" "$signal"
done
ended=0
while kill -0 $! 2>/dev/null; do
  wait $! && ended=0 || ended=$?
done
exit "$ended"
