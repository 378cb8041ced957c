# SPDX-License-Identifier: Apache-2.0
"""Kubernetes pod templates, merged as `kubectl patch` does, and replacements of obsolete keys. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator

from tpcsweep.configuration.problems import Fault, quoted

MERGE_KEYS = {
    **dict.fromkeys(("containers", "initContainers", "volumes", "env", "imagePullSecrets"), "name"),
    **dict.fromkeys(("resourceClaims", "schedulingGates"), "name"),
    "hostAliases": "ip",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "sysctls": "name",
}
"""The key that identifies list items, by the list's name.

These are `x-kubernetes-patch-merge-key` in Kubernetes' OpenAPI, and `sysctls`, a list that Kubernetes
would replace.
"""
APPENDED = ("tolerations",)
"""Lists without a merge key whose items are appended."""

Tree = dict[str, Any]


def _with_quantities(content: Any) -> Any:
    """Convert quantities to text: YAML reads `cpu: 2` as a number, and Kubernetes accepts both."""
    if isinstance(content, list):
        return [_with_quantities(each) for each in content]
    if not isinstance(content, dict):
        return content
    converted = {name: _with_quantities(value) for name, value in content.items()}
    for kind in ("requests", "limits"):
        if isinstance(amounts := converted.get(kind), dict):
            converted[kind] = {
                name: str(amount) if type(amount) in (int, float) else amount
                for name, amount in amounts.items()
            }
    return converted


Template = Annotated[Tree, AfterValidator(_with_quantities)]
"""Fields to add to or replace in a Kubernetes PodTemplateSpec; null removes a field."""


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Tree:
    """Return `above` merged strategically over `below`. Null values remain; `pruned` removes them."""
    result = dict(below)
    for name, value in above.items():
        known = result.get(name)
        if isinstance(value, Mapping):
            result[name] = merged(known if isinstance(known, Mapping) else {}, value)
        elif isinstance(value, list) and isinstance(known, list) and name in MERGE_KEYS:
            result[name] = _by_key(known, value, MERGE_KEYS[name])
        elif isinstance(value, list) and isinstance(known, list) and name in APPENDED:
            result[name] = [*known, *(each for each in value if each not in known)]
        else:
            result[name] = value
    return result


def pruned(value: Any) -> Any:
    """Return a template without null values."""
    if isinstance(value, Mapping):
        return {name: pruned(each) for name, each in value.items() if each is not None}
    return [pruned(each) for each in value] if isinstance(value, list) else value


def pod_spec_field(template: Mapping[str, Any], name: str) -> Any:
    """Return a field of a template's pod specification, or None."""
    spec = template.get("spec")
    return spec.get(name) if isinstance(spec, Mapping) else None


def node_selector(template: Mapping[str, Any]) -> dict[str, str]:
    found = pod_spec_field(template, "nodeSelector")
    return dict(found) if isinstance(found, Mapping) else {}


def container(template: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a template's container by name, or an empty mapping."""
    return next((each for each in containers(template) if each.get("name") == name), {})


def containers(template: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = pod_spec_field(template, "containers")
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def resources(template: Mapping[str, Any], of: str, kind: str) -> dict[str, Any]:
    """Return a container's `requests` or `limits` in a template."""
    found = container(template, of).get("resources")
    values = found.get(kind) if isinstance(found, Mapping) else None
    return dict(values) if isinstance(values, Mapping) else {}


def without_resources(template: Tree, of: str, names: tuple[str, ...]) -> Tree:
    """Return a template in which a container has no requests and limits for the named resources."""
    if not container(template, of):
        return template
    others = {
        kind: {name: None if name in names else text for name, text in resources(template, of, kind).items()}
        for kind in ("requests", "limits")
    }
    return pruned(merged(template, {"spec": {"containers": [{"name": of, "resources": others}]}}))  # type: ignore[no-any-return]


def _by_key(below: list[Any], above: list[Any], key: str) -> list[Any]:
    result = list(below)
    for item in above:
        same = [
            index
            for index, known in enumerate(result)
            if isinstance(item, Mapping) and isinstance(known, Mapping) and known.get(key) == item.get(key)
        ]
        if same:
            result[same[0]] = merged(result[same[0]], item)
        else:
            result.append(item)
    return result


# Obsolete keys


def replaced(given: Mapping[str, Any], containers: tuple[str, str]) -> Iterator[Fault]:
    """Yield a fault for each obsolete key of a placement, with the lines that replace it.

    Args:
        given: The placement as read from the file.
        containers: The main container of its pods, and the container that monitors it.
    """
    for name, value in given.items():
        match name:
            case "node_selector" | "affinity" | "tolerations":
                written: Tree = {"spec": {_FIELDS.get(name, name): value}}
            case "annotations":
                written = {"metadata": {name: value}}
            case "resources" | "agent":
                of = containers[name == "agent"]
                written = {"spec": {"containers": [{"name": of, "resources": value}]}}
            case _:
                continue
        yield (name,), quoted(value), instead({"podTemplate": written})


def instead(lines: Mapping[str, Any]) -> str:
    """Return the replacement of a key for messages, as one line of YAML."""
    text = yaml.safe_dump(dict(lines), default_flow_style=True, width=10_000, sort_keys=False).strip()
    return f"in its place {text.removeprefix('{').removesuffix('}')}"


_FIELDS = {"node_selector": "nodeSelector"}
