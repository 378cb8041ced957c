# SPDX-License-Identifier: Apache-2.0
"""What runs inside the pods, with the standard library alone.

    server container ── Unix socket ── agent ─┐
    server container ── Unix socket ── agent ─┤ TLS
                                              ├── hub ── Unix socket ── relay ── exec ── the job of the sweep
    client container ── Unix socket ──────────┘

Servers and tools have a container each, whose CPU is what is measured; agents and hub watch from beside them.
"""
