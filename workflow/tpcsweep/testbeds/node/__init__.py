# SPDX-License-Identifier: Apache-2.0
"""One node of a deployment, in namespaces or pods: start order, probes and counters."""
