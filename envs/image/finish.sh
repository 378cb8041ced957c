# SPDX-License-Identifier: Apache-2.0

# Runs as root inside the image once its Debian packages are in.
set -eu
# A number that no machine gives to people, so that `runAsNonRoot` can check it. Its home is there, and not its own.
getent passwd tpcsweep >/dev/null || useradd --uid 10940 --user-group --no-log-init --no-create-home \
  --home-dir /home/tpcsweep --shell /bin/bash --comment tpcsweep tpcsweep
mkdir -p /home/tpcsweep
# What a build leaves and no pod reads; it would make the same packages into another layer each time.
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/ldconfig/* /var/cache/debconf/*-old
find /var/log -type f -delete
