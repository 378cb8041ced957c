# SPDX-License-Identifier: Apache-2.0
"""Names, labels and owners of a deployment's objects."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
from kubernetes.client import V1Job, V1ObjectMeta, V1OwnerReference, V1Pod

from tpcsweep.deploying.linux.namespaces import boot_id
from tpcsweep.testbeds.kubernetes.settings import Kubernetes

PYTHON = "/usr/bin/python3"  # the interpreter in pods
POD = "tpcsweep.testbeds.kubernetes.pod"  # the package of programs that run in pods
DEPLOYMENT = "tpcsweep/deployment"  # the label with a deployment's identifier
ROLE = "tpcsweep/role"
SIDE = "tpcsweep/side"
MANAGED = {"app.kubernetes.io/name": "tpcsweep", "app.kubernetes.io/managed-by": "tpcsweep"}
"""Labels of all objects of all deployments."""
SELECTOR = "app.kubernetes.io/managed-by=tpcsweep"
SWEEP = "tpcsweep/sweep"
CELLS = "tpcsweep/cells"
OWNER = "tpcsweep/owner"  # annotations of every object: who made it, and for which cells
PROCESS = "tpcsweep/process"
"""The annotation with the process that made an object: boot, PID namespace and PID."""
GROUP = "tpcsweep/group"
"""The label of pods that share nodes with no pod of another deployment of the same value, in any namespace."""
NODES = "tpcsweep/nodes"
"""The annotation of a client's Job with the choices of nodes of its deployment, one a line."""


@dataclass(frozen=True)
class Naming:
    """A deployment as its objects name it."""

    identifier: str
    sweep: str
    deployment: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """The testbed's labels of all objects."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The testbed's annotations of all objects."""

    @classmethod
    def new(cls, sweep: str, deployment: str, settings: Kubernetes) -> Naming:
        given = settings.metadata
        group = {GROUP: settings.exclusive_group} if settings.exclusive_group else {}
        identifier = secrets.token_hex(5)
        return cls(identifier, sweep, deployment, {**given.labels, **group}, given.annotations)

    def renewed(self) -> Naming:
        """Return the naming of another attempt at the same deployment."""
        return replace(self, identifier=secrets.token_hex(5))

    @property
    def prefix(self) -> str:
        """The name of the client's Job, which begins all other names."""
        return f"tpc-{self.identifier}"

    def meta(
        self,
        name: str,
        owner: V1Job | None = None,
        role: str | None = None,
        side: str | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> V1ObjectMeta:
        """Return the metadata of an object that the cluster deletes with the Job `owner`."""
        labels = {**self.labels, **MANAGED, DEPLOYMENT: self.identifier, ROLE: role, SIDE: side}
        return V1ObjectMeta(
            name=name,
            labels={key: value for key, value in labels.items() if value is not None},
            annotations={
                **self.annotations,
                SWEEP: self.sweep,
                CELLS: self.deployment,
                OWNER: f"{psutil.Process().username()}@{socket.gethostname()} pid {os.getpid()}",
                PROCESS: f"{_pid_namespace()}/{os.getpid()}",
                **(annotations or {}),
            },
            owner_references=[reference(owner)] if owner else None,
        )


def reference(owner: V1Job) -> V1OwnerReference:
    uid = object_metadata(owner).uid or ""
    return V1OwnerReference(api_version="batch/v1", kind="Job", name=object_name(owner), uid=uid)


def selector(identifier: str) -> str:
    return f"{DEPLOYMENT}={identifier}"


def deployment_text(item: Any) -> str:
    """Describe a deployment by the annotations of any of its objects."""
    notes = object_metadata(item).annotations or {}
    cells, sweep = notes.get(CELLS) or "the only deployment", notes.get(SWEEP) or "(unknown)"
    return f"{deployment_identifier(item)}: {cells} of sweep {sweep} by {notes.get(OWNER) or '(unknown)'}"


def owner_ended(item: Any) -> bool:
    """Return whether the process that made an object ran on this machine and has ended."""
    place, _, pid = (object_metadata(item).annotations or {}).get(PROCESS, "").rpartition("/")
    return place == _pid_namespace() and not psutil.pid_exists(int(pid))


def _pid_namespace() -> str:
    return f"{boot_id()}/{Path('/proc/self/ns/pid').stat().st_ino}"


def object_metadata(item: Any) -> V1ObjectMeta:
    return item.metadata or V1ObjectMeta()


def object_name(item: Any) -> str:
    return object_metadata(item).name or ""


def deployment_identifier(item: Any) -> str:
    return (object_metadata(item).labels or {}).get(DEPLOYMENT, "")


def node_name(pod: V1Pod) -> str:
    return (pod.spec and pod.spec.node_name) or ""
