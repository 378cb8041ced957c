#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# init of a user-mode-linux whose root is the host's file system (hostfs). Written paths are mounted separately (/run),
# because other writes would reach the host.
# Parameters of the kernel's command line: RUN_SCRIPT, a script for bash; RUN_OUT, file for its output; RUN_CODE, file
# for its exit code.
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
