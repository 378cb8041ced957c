#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# init of a user-mode-linux whose root is the host's by hostfs. What it writes to is mounted anew (/run);
# anything else would be written to the host.
# From the kernel's command line: RUN_SCRIPT runs with bash, RUN_OUT gets its output, RUN_CODE its exit code.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
exec 3>"$RUN_OUT" 4>"$RUN_CODE" 5<"$RUN_SCRIPT"
mount -t tmpfs tmpfs /run
mkdir /run/netns
echo localhost >/proc/sys/kernel/hostname # servers look their own name up
ip link set lo up
bash /proc/self/fd/5 >&3 2>&1
echo $? >&4
exec 3>&- 4>&-
sync
echo o >/proc/sysrq-trigger
sleep 5
