# SPDX-License-Identifier: Apache-2.0
"""The programs that run in pods, with the standard library alone.

    server container ── Unix socket ── agent ─┐
    server container ── Unix socket ── agent ─┤ TLS
                                              ├── hub ── Unix socket ── relay ── exec ── the job of the sweep
    client container ── Unix socket ──────────┘

Servers and tools have a container each, whose CPU is measured; agents and the hub watch from another one.
"""
