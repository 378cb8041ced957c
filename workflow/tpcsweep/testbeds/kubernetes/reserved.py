# SPDX-License-Identifier: Apache-2.0
"""Check the pod templates of a testbed by Kubernetes' schema, and refuse fields that tpcsweep sets itself. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kubernetes.client import V1PodTemplateSpec
from pydantic import BaseModel

from tpcsweep.sweeps.parameters import parameters_by_sysctl
from tpcsweep.sweeps.problems import ConfigurationError, Problem, key, quoted, validated
from tpcsweep.testbeds.kubernetes import pod_templates
from tpcsweep.testbeds.kubernetes.metadata import MANAGED
from tpcsweep.testbeds.kubernetes.objects import ARCHIVE, KIND, NETWORKS
from tpcsweep.testbeds.kubernetes.placements import SERVERS, Role
from tpcsweep.testbeds.kubernetes.pod import pod_files
from tpcsweep.testbeds.kubernetes.settings import Kubernetes

OWN = "tpcsweep/"  # the prefix of names of tpcsweep's own labels and annotations
FOUND_BY = "tpcsweep finds and removes deployments by it"
LABELS = "|".join(map(re.escape, MANAGED))
VOLUMES = "|".join((ARCHIVE, "state", "files"))
FOLDERS = "|".join(("/tmp", *map(str, (pod_files.STATE, pod_files.FILES, pod_files.PACKAGE_FOLDER))))  # noqa: S108
SYSCTL = r"spec\.securityContext\.sysctls\[\d+\]\.name="
CONTAINER = r"spec\.containers\[\d+\]\."
FREE = r"\b(labels|annotations|nodeSelector|matchLabels|limits|requests|volumeAttributes|options)\."
"""Mappings whose keys are free, and may contain underscores."""
CHOOSE = "the scheduler keeps deployments apart; choose by nodeSelector: {kubernetes.io/hostname: …}"
RESERVED = {
    r"metadata\.(?!labels|annotations)\w+": "a Job makes the pod; labels and annotations may be given",
    rf"metadata\.\w+\.({OWN}.*|{LABELS})": FOUND_BY,
    r"spec\.nodeName": CHOOSE,
    r"spec\.restartPolicy": "a server that restarts during a cell would not be noticed",
    r"spec\.activeDeadlineSeconds": "time_limit of the testbed says how long pods may run",
    r"spec\.hostNetwork": "set host_network of the testbed, which also assigns ports to servers",
    r"spec\.(hostPID|shareProcessNamespace)": "CPU is counted by the processes of each container",
    r"spec\.automountServiceAccountToken": "pods of a deployment ask no API server",
    **{
        SYSCTL + re.escape(sysctl): f"set {parameter} of the sweep instead"
        for sysctl, parameter in parameters_by_sysctl(KIND).items()
    },
    rf"spec\.volumes\[\d+\]\.name=({VOLUMES})": "it is a volume of tpcsweep's; choose another name",
    rf"{CONTAINER}(command|args)": "tpcsweep starts its own programs in it",
    rf"{CONTAINER}image": "image and server_image of the testbed are checked and recorded",
    rf"{CONTAINER}env\[\d+\]\.name=PYTHONPATH": "tpcsweep sets it",
    rf"{CONTAINER}volumeMounts\[\d+\]\.mountPath=({FOLDERS})(/.*)?": "tpcsweep has its files there",
    rf"(?!.*{FREE})[^=]*_\w+": "it is a name of Python's client; write it as Kubernetes does, such as nodeSelector",
}
"""Fields that tpcsweep sets itself, as patterns of PLACE or PLACE=VALUE, and the reason."""


def problems(settings: Kubernetes) -> list[Problem]:
    found = [problem for place, role in _roles(settings) for problem in _of_role(settings, place, role)]
    for kind, given in settings.metadata:
        own = (name for name in given if name.startswith(OWN) or name in MANAGED)
        found += [
            Problem(key(("metadata", kind, name)), quoted(given[name]), f"nothing: {FOUND_BY}")
            for name in own
        ]
    return found


def _roles(value: Any, *place: str | int) -> Iterator[tuple[tuple[str | int, ...], Role]]:
    """Yield all roles of a testbed and of its pairs, with their places in the file."""
    if isinstance(value, Role):
        yield place, value
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _roles(getattr(value, name), *place, name)
    elif isinstance(value, tuple):
        for index, each in enumerate(value):
            yield from _roles(each, *place, index)


def _of_role(settings: Kubernetes, place: tuple[str | int, ...], role: Role) -> Iterator[Problem]:
    template = pod_templates.pruned(role.podTemplate)
    where = (*place, "podTemplate")
    spec = template.get("spec", {})
    content = {**template, "spec": {"containers": [], **spec}} if isinstance(spec, dict) else template
    try:
        validated(V1PodTemplateSpec, content)
    except ConfigurationError as error:
        yield from (replace(each, key=f"{key(where)}.{each.key}") for each in error.problems)
        return
    only = f"a pod has only the containers {' and '.join(role.containers)}; write others as initContainers"
    other = rf"{CONTAINER}name=(?!({'|'.join(role.containers)})$).*"
    rows = {**RESERVED, other: f"{only}, with restartPolicy: Always"}
    if settings.paths.kind == "networks":
        rows[rf"metadata\.annotations\.{re.escape(NETWORKS)}"] = "set network of the side or of the client"
    for index, each in enumerate(pod_templates.containers(template)):
        if each["name"] == SERVERS and "redirector" not in place:
            limit = rf"spec\.containers\[{index}\]\.resources\.limits\.cpu"
            rows[limit] = "the sweep sets it to cores / origins"
    for at, value in _fields(template):
        for row, why in rows.items():
            if re.fullmatch(f"({row})(=.*)?", f"{key(at)}={value}", re.DOTALL):
                yield Problem(key((*where, *at)), quoted(value), f"nothing: {why}")


def _fields(tree: Any, *place: str | int) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    yield place, tree
    items = tree.items() if isinstance(tree, Mapping) else enumerate(tree) if isinstance(tree, list) else ()
    for name, value in items:
        yield from _fields(value, *place, name)
