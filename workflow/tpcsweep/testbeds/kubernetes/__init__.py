# SPDX-License-Identifier: Apache-2.0
"""The kubernetes testbed: real servers and tools in pods of a cluster."""
