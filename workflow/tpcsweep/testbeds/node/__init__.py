# SPDX-License-Identifier: Apache-2.0
"""One node of a deployment: start order, probes and counters, in network namespaces and in pods alike."""
