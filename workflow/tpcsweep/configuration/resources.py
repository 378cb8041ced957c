# SPDX-License-Identifier: Apache-2.0
"""What containers request and are limited to, in Kubernetes' own words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from tpcsweep.configuration.parameters import Strict
from tpcsweep.configuration.problems import Fault, fault, refuse

CPU, MEMORY = "cpu", "memory"
OWN = (CPU, MEMORY, "ephemeral-storage")
"""What may be requested less of than it is limited to; of all else Kubernetes requests what is the limit."""
_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY = re.compile(r"(?P<number>[0-9]{1,18}(?:\.[0-9]{1,9})?)(?P<suffix>[KMGTPE]i|[numkMGTPE]?)")
_BINARY = "KMGTPE"
WITHIN = Decimal("1.2")
"""How many times the requests limits may be, where a cluster wants them near each other."""
LARGEST = 2**63 - 1
"""What Kubernetes can say of anything."""
ALLOWED = 'a quantity of Kubernetes above 0, such as 16, 250m or 10Gi (in quotes: "250m")'


def amount_of(text: str) -> Decimal:
    """Return the amount of a quantity of Kubernetes, in cores, bytes or pieces; 0 for another text.

    Exponents (1e3) are left out: YAML reads them as numbers, and nobody writes them.
    https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
    """
    parts = _QUANTITY.fullmatch(text)
    if not parts:
        return Decimal(0)
    number, suffix = Decimal(parts["number"]), parts["suffix"]
    if suffix.endswith("i"):
        return number * Decimal(1024) ** (_BINARY.index(suffix[0]) + 1)
    return number.scaleb(_SUFFIXES[suffix])


def _quantity(value: object) -> str:
    """A number of YAML or a text, as Kubernetes takes it."""
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if isinstance(text, str) and 0 < amount_of(text) <= LARGEST:
        return text
    raise fault(ALLOWED)


_SCHEMA = {"type": ["string", "number"]}
Amount = Annotated[str, BeforeValidator(_quantity), Field(json_schema_extra=_SCHEMA)]
"""A quantity as Kubernetes writes it."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?$")]
"""What there is a quantity of: cpu, memory, or the name of an extended resource."""


class Resources(Strict):
    """What a container requests and is limited to, key by key instead of what it has by itself."""

    requests: dict[Name, Amount] = Field(default_factory=dict)
    """requests, as in a container's specification"""
    limits: dict[Name, Amount] = Field(default_factory=dict)
    """limits, as in a container's specification"""

    @model_validator(mode="after")
    def _possible(self) -> Resources:
        refuse(Resources, self._faults())
        return self

    def _faults(self) -> Iterator[Fault]:
        for what, of in (("requests", self.requests), ("limits", self.limits)):
            for name, text in of.items():
                least, whole = Decimal("0.001"), "whole thousandths of a core"
                if name != CPU:
                    least, whole = Decimal(1), "a whole number"
                if amount_of(text) % least:
                    yield (what, name), text, whole
        for name, text in self.requests.items():
            if name not in OWN:
                allowed = f"nothing but {', '.join(OWN)}: of all else Kubernetes requests what is in limits"
                yield ("requests", name), text, allowed
            elif name in self.limits and amount_of(text) > amount_of(self.limits[name]):
                yield ("requests", name), text, f"at most {self.limits[name]}, its limit"

    def over(self, limits: Mapping[str, str], qos: str) -> dict[str, dict[str, str]]:
        """Give requests and limits of a container, over those that it has by itself. Pure.

        Args:
            limits: Of cpu and memory, where it has any; no less than what is requested.
            qos: Which of REQUESTS is requested unless something else is said.
        """
        own = {name: max(text, self.requests.get(name, text), key=amount_of) for name, text in limits.items()}
        limited = {**own, **self.limits}
        return {"limits": limited, "requests": {**REQUESTS[qos](limited), **self.requests}}


def near(limits: Mapping[str, str]) -> dict[str, str]:
    """Give the least that may be requested where limits must be within 20 % of it: of CPU and memory, rounded up."""
    requests = dict(limits)
    for name, (unit, suffix) in {CPU: (Decimal("0.001"), "m"), MEMORY: (Decimal(1), "")}.items():
        if name in limits:
            requests[name] = f"{math.ceil(amount_of(limits[name]) / unit / WITHIN)}{suffix}"
    return requests


def little(limits: Mapping[str, str]) -> dict[str, str]:
    """Give what is requested where that is to be little: of extended resources all, and never more than the limit."""
    small = {CPU: "10m", MEMORY: "32Mi"}
    requests = {name: min(text, limits.get(name, text), key=amount_of) for name, text in small.items()}
    return requests | {name: text for name, text in limits.items() if name not in OWN}


REQUESTS: Mapping[str, Callable[[Mapping[str, str]], dict[str, str]]] = MappingProxyType(
    {"guaranteed": dict, "near": near, "burstable": little}
)
"""What containers request of what they are limited to, by the testbed's `qos`."""
