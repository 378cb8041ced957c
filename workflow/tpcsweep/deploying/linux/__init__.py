# SPDX-License-Identifier: Apache-2.0
"""Linux kernel interfaces: namespaces, cgroups, sockets, counters and signals."""
