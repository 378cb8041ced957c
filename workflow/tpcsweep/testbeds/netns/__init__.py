# SPDX-License-Identifier: Apache-2.0
"""The netns testbed: real servers and tools in network namespaces of one Linux machine."""
