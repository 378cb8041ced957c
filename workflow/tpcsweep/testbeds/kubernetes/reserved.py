# SPDX-License-Identifier: Apache-2.0
"""Check the pod templates of a testbed by Kubernetes' schema, and refuse fields that tpcsweep sets itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kubernetes.client import V1PodTemplateSpec

from tpcsweep.configuration import templates
from tpcsweep.configuration.kubernetes import Kubernetes
from tpcsweep.configuration.placements import CPU, SERVERS, Role, Side, configured_servers
from tpcsweep.configuration.problems import ConfigurationError, Fault, Problem, key, quoted, validated
from tpcsweep.configuration.templates import Tree
from tpcsweep.testbeds.kubernetes.metadata import MANAGED
from tpcsweep.testbeds.kubernetes.objects import NETWORKS, PACKAGE
from tpcsweep.testbeds.kubernetes.pod import places

OWN_PREFIX = "tpcsweep/"
OF_POD: Mapping[str, str] = {
    "nodeName": "the scheduler keeps deployments apart; choose by nodeSelector: {kubernetes.io/hostname: …}",
    "restartPolicy": "a server that restarts during a cell would not be noticed",
    "activeDeadlineSeconds": "time_limit of the testbed says how long pods may run",
    "hostNetwork": "set host_network of the testbed, which also assigns ports to servers",
    "hostPID": "CPU is counted by the processes of each container",
    "shareProcessNamespace": "CPU is counted by the processes of each container",
    "automountServiceAccountToken": "pods of a deployment ask no API server",
}
"""Fields of a pod's specification that tpcsweep sets, with the reason."""
OF_CONTAINER: Mapping[str, str] = {
    "command": "tpcsweep starts its own programs in it",
    "args": "tpcsweep starts its own programs in it",
    "image": "image and server_image of the testbed are checked and recorded",
}
SYSCTLS = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_congestion_control")
VOLUMES = (PACKAGE, "state", "credentials", "configuration", "files")
FOLDERS = ("/tmp", *map(str, (places.STATE, places.FILES, places.PACKAGE.parent)))  # noqa: S108


def problems(settings: Kubernetes) -> list[Problem]:
    """Return the problems of a testbed's templates, each with its key."""
    return [problem for place, role in _roles(settings) for problem in _of_role(settings, place, role)]


def _roles(settings: Kubernetes) -> Iterator[tuple[tuple[str | int, ...], Role]]:
    """Yield all roles of a testbed and of its pairs, with their places in the file."""
    sides = ("source", "destination")
    holders: list[tuple[tuple[str | int, ...], Any, tuple[str, ...]]]
    holders = [((), settings, ("server", "agent", "client", *sides))]
    for index, pair in enumerate(settings.paths.declared):
        holders.append((("paths", *settings.paths.place(index)), pair, ("client", *sides)))
    for place, holder, names in holders:
        for name in names:
            role = getattr(holder, name)
            yield (*place, name), role
            if isinstance(role, Side):
                yield from (((*place, name, *at), server) for at, server in configured_servers(role))


def _of_role(settings: Kubernetes, place: tuple[str | int, ...], role: Role) -> Iterator[Problem]:
    template = templates.pruned(role.podTemplate)
    where = (*place, "podTemplate")
    spec = template.get("spec", {})
    content = {**template, "spec": {"containers": [], **spec}} if isinstance(spec, dict) else template
    try:
        known = validated(V1PodTemplateSpec, content)
    except ConfigurationError as error:
        yield from (replace(each, key=f"{key(where)}.{each.key}") for each in error.problems)
        return
    if pythons := list(_unknown(content, known.model_dump(mode="json", by_alias=True, exclude_none=True))):
        for at, name in pythons:
            yield Problem(key((*where, *at)), "an unknown key", f"{name}, as Kubernetes writes it")
        return
    origin = "redirector" not in place
    for at, value, why in _reserved(template, role.containers, settings, origin=origin):
        yield Problem(key((*where, *at)), value, f"nothing: {why}")


def _unknown(content: Any, known: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield fields that have the names of Python's client, such as node_selector, with Kubernetes' names."""
    if isinstance(content, list):
        for index, (item, its) in enumerate(zip(content, known, strict=True)):
            yield from (((index, *place), name) for place, name in _unknown(item, its))
    elif isinstance(content, dict):
        for name, value in content.items():
            if name in known:
                yield from (((name, *place), right) for place, right in _unknown(value, known[name]))
            else:
                first, *others = name.split("_")
                yield (name,), first + "".join(map(str.capitalize, others))


def _reserved(
    template: Tree, known: tuple[str, str], settings: Kubernetes, *, origin: bool
) -> Iterator[Fault]:
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    for name in metadata.keys() - {"labels", "annotations"}:
        yield (
            ("metadata", name),
            quoted(metadata[name]),
            "a Job makes the pod; labels and annotations may be given",
        )
    for kind in ("labels", "annotations"):
        for name, value in metadata.get(kind, {}).items():
            if name.startswith(OWN_PREFIX) or name in MANAGED:
                yield ("metadata", kind, name), quoted(value), "tpcsweep finds and removes deployments by it"
            if name == NETWORKS and settings.paths.kind == "networks":
                yield ("metadata", kind, name), quoted(value), "set network of the side or of the client"
    yield from ((("spec", name), quoted(spec[name]), why) for name, why in OF_POD.items() if name in spec)
    for index, sysctl in enumerate(spec.get("securityContext", {}).get("sysctls", [])):
        if sysctl["name"] in SYSCTLS:
            why = "set tcp_buffer or congestion_control of the sweep instead"
            yield ("spec", "securityContext", "sysctls", index), sysctl["name"], why
    for index, volume in enumerate(spec.get("volumes", [])):
        if volume["name"] in VOLUMES:
            yield (
                ("spec", "volumes", index),
                volume["name"],
                "it is a volume of tpcsweep's; choose another name",
            )
    for index, each in enumerate(spec.get("containers", [])):
        place = ("spec", "containers", index)
        if each["name"] not in known:
            why = (
                f"a pod has only the containers {' and '.join(known)}; write others as initContainers, "
                "with restartPolicy: Always"
            )
            yield (*place, "name"), each["name"], why
            continue
        yield from (((*place, *at), value, why) for at, value, why in _container(each, origin=origin))


def _container(each: Tree, *, origin: bool) -> Iterator[Fault]:
    yield from (((name,), quoted(each[name]), why) for name, why in OF_CONTAINER.items() if name in each)
    limits = each.get("resources", {}).get("limits", {})
    if origin and each["name"] == SERVERS and CPU in limits:
        why = "the sweep sets it to cores / origins"
        yield ("resources", "limits", CPU), limits[CPU], why
    for index, variable in enumerate(each.get("env", [])):
        if variable["name"] == "PYTHONPATH":
            yield ("env", index), "PYTHONPATH", "tpcsweep sets it"
    for index, mount in enumerate(each.get("volumeMounts", [])):
        if any(f"{mount['mountPath']}/".startswith(f"{folder}/") for folder in FOLDERS):
            yield ("volumeMounts", index), mount["mountPath"], "tpcsweep has its files there"
