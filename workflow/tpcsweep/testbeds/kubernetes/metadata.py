# SPDX-License-Identifier: Apache-2.0
"""Names, labels and owners of a deployment's objects, and what an object says of itself. Pure."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psutil
from kubernetes.client import V1Job, V1ObjectMeta, V1OwnerReference, V1Pod

PYTHON = "/usr/bin/python3"
"""What runs it there."""
POD = "tpcsweep.testbeds.kubernetes.pod"
"""The package of what runs in pods."""
DEPLOYMENT = "tpcsweep/deployment"
"""The label whose value is a deployment's identifier."""
ROLE = "tpcsweep/role"
SIDE = "tpcsweep/side"
MANAGED = {"app.kubernetes.io/name": "tpcsweep", "app.kubernetes.io/managed-by": "tpcsweep"}
"""Labels of all objects of all deployments."""
SELECTOR = "app.kubernetes.io/managed-by=tpcsweep"
SWEEP = "tpcsweep/sweep"
CELLS = "tpcsweep/cells"
OWNER = "tpcsweep/owner"
"""Annotations of every object: whose it is."""


@dataclass(frozen=True)
class Naming:
    """Whose objects these are."""

    identifier: str
    sweep: str
    deployment: str

    @classmethod
    def new(cls, sweep: str, deployment: str) -> Naming:
        """With an identifier that no other deployment has: hundreds may be there at a time."""
        return cls(secrets.token_hex(5), sweep, deployment)

    @property
    def prefix(self) -> str:
        """What all names begin with, and that of the client's Job."""
        return f"tpc-{self.identifier}"

    def meta(
        self,
        name: str,
        owner: V1Job | None = None,
        role: str | None = None,
        side: str | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> V1ObjectMeta:
        """Metadata of an object: whose it is, and with which Job it goes; of a pod also `role` and `side`."""
        labels = {**MANAGED, DEPLOYMENT: self.identifier, ROLE: role, SIDE: side}
        return V1ObjectMeta(
            name=name,
            labels={key: value for key, value in labels.items() if value is not None},
            annotations={
                SWEEP: self.sweep,
                CELLS: self.deployment,
                OWNER: f"{psutil.Process().username()}@{socket.gethostname()} pid {os.getpid()}",
                **(annotations or {}),
            },
            owner_references=[reference(owner)] if owner else None,
        )


def reference(owner: V1Job) -> V1OwnerReference:
    """What an object has that is to go with this Job."""
    uid = meta_of(owner).uid or ""
    return V1OwnerReference(api_version="batch/v1", kind="Job", name=name_of(owner), uid=uid)


def selector(identifier: str) -> str:
    return f"{DEPLOYMENT}={identifier}"


def whose(identifier: str, notes: Mapping[str, str]) -> str:
    """Whose a deployment is, in words, by the annotations of any of its objects."""
    cells, sweep = notes.get(CELLS) or "the only deployment", notes.get(SWEEP) or "(unknown)"
    return f"{identifier}: {cells} of sweep {sweep} by {notes.get(OWNER) or '(unknown)'}"


def meta_of(item: Any) -> V1ObjectMeta:
    return item.metadata or V1ObjectMeta()


def name_of(item: Any) -> str:
    return meta_of(item).name or ""


def job_of(pod: V1Pod) -> str:
    """The name of the Job that has made a pod."""
    return next((each.name for each in meta_of(pod).owner_references or [] if each.kind == "Job"), "")


def deployment_of(item: Any) -> str:
    """The identifier of the deployment that an object belongs to."""
    return (meta_of(item).labels or {}).get(DEPLOYMENT, "")


def node_of(pod: V1Pod) -> str:
    return (pod.spec and pod.spec.node_name) or ""
