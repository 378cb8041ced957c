# SPDX-License-Identifier: Apache-2.0
"""The Linux kernel: namespaces, cgroups, sockets, counters, commands and signals."""
