# SPDX-License-Identifier: Apache-2.0
"""Errors of running deployments: testbeds raise them, and the runner replaces the deployment. Standard library only."""


class BrokenError(Exception):
    """A part of a running deployment died or does not answer; the deployment must be replaced."""


class FaultError(BrokenError):
    """A part of a deployment on Kubernetes ended by itself, perhaps during its start."""
