# SPDX-License-Identifier: Apache-2.0
"""Kubernetes pod templates, merged as `kubectl patch` does. Pure."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

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
APPENDED = ("tolerations",)  # lists without a merge key whose items are appended

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


def template_field(template: Any, *place: str) -> Any:
    for name in place:
        template = template.get(name) if isinstance(template, Mapping) else None
    return template


def node_selector(template: Tree) -> dict[str, str]:
    selector = template_field(template, "spec", "nodeSelector")
    return dict(selector) if isinstance(selector, Mapping) else {}


def containers(template: Tree) -> list[Mapping[str, Any]]:
    containers = template_field(template, "spec", "containers")
    return [each for each in containers if isinstance(each, Mapping)] if isinstance(containers, list) else []


def resources(template: Tree, of: str, kind: str) -> dict[str, Any]:
    named = (each for each in containers(template) if each.get("name") == of)
    values = template_field(next(named, None), "resources", kind)
    return dict(values) if isinstance(values, Mapping) else {}


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
