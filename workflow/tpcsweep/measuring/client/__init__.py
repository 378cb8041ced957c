# SPDX-License-Identifier: Apache-2.0
"""Client: a process that keeps the streams of a cell active with a tool, and the handle of one."""
