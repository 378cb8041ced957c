# SPDX-License-Identifier: Apache-2.0
"""Bytes and Gbit (10⁹ bit): the factors between them, each named once. Standard library alone, as pods use them."""

from __future__ import annotations

GBIT = 8e-9
"""Gbit of a byte; Gbit/s of a byte a second."""

GBIT_PER_MS = 8e-6
"""Gbit/s of a byte per ms."""

BYTES = 125e6
"""Bytes of a Gbit."""
