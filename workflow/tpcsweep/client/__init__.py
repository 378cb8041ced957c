# SPDX-License-Identifier: Apache-2.0
"""The client: keeps the streams of a cell active with a tool, in a process of its own."""
