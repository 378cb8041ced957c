# SPDX-License-Identifier: Apache-2.0
"""What is raised where a deployment that was up, or was coming up, can no longer be used."""

from __future__ import annotations

BROKEN = "deployment_broken"
"""The flag of a cell that has left no usable deployment."""


class BrokenError(Exception):
    """Something of a deployment that was up has died, or does not answer: another deployment must take its place."""


class FaultError(BrokenError):
    """A part of a deployment has ended by itself; it may have been about to come up."""
