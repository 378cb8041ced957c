# SPDX-License-Identifier: Apache-2.0
"""Result of a cell: one type from measuring through cell files and retries to the dataset.

Figures, samples and transfers are columns by the names in variables.toml, so that a new one is an entry there. JSON has
the keys of `CellResult.to_json`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, NamedTuple, Self, TypedDict, cast

from tpcsweep.data.flags import FLAGS
from tpcsweep.data.variables import NOT_MEASURED, SUMMARY

Status = Literal["ok", "failed"]
Number = float | int | None
Columns = Mapping[str, Sequence[Any]]
"""Lists of equal length by name, null for unknown values."""


class _Figure:
    """A figure of a summary under its name in variables.toml; None if unknown."""

    def __set_name__(self, _: type, name: str) -> None:
        if name not in SUMMARY:
            raise TypeError(f"variables.toml has no figure {name}")
        self._name = name

    def __get__(self, summary: "Summary", _: type) -> Number:
        return summary.figures.get(self._name)


@dataclass(frozen=True)
class Summary:
    """Figures of a cell by the names of `data.variables.SUMMARY`. Those that code refers to are attributes."""

    figures: Mapping[str, Number]

    throughput = _Figure()
    throughput_low = _Figure()
    throughput_high = _Figure()
    throughput_freedom = _Figure()
    throughput_average = _Figure()
    wire_throughput = _Figure()
    duration = _Figure()
    warmup = _Figure()
    length_files = _Figure()
    transfers = _Figure()
    transfers_failed = _Figure()
    waited_share = _Figure()
    xrootd_share = _Figure()
    machine_cpu = _Figure()
    machine_used = _Figure()
    machine_others = _Figure()
    machine_steal = _Figure()
    machine_slowed = _Figure()
    machine_work = _Figure()


class Limit(NamedTuple):
    """Limit of a cell's throughput. The evidence is in the summary: shares of the time, and used shares."""

    binding: str  # key of `data.variables.LIMITS`
    second: str = ""  # another limit with nearly the same share of the time, or ""


class SimulationRecord(TypedDict, total=False):
    """Model behind simulated cells, as `testbeds.simulation` records it."""

    inputs: Sequence[str]  # claims whose values are parameters of the model
    assumptions: Mapping[str, str]  # claims that follow from assumptions, and why


NOT_RECORDED = "not_recorded"
"""Key of a host in the provenance that could not be asked; its value is the reason."""


class Provenance(TypedDict, total=False):
    """Place, time, hardware and software of a measurement; testbeds add records of their own."""

    started: str  # ISO 8601, UTC
    host: str
    kernel: str
    cpu: str
    commit: str
    order_seed: int  # the sweep's `seed` that repeats the order of deployments and cells
    software: Mapping[str, str]
    nodes: Mapping[str, str]  # node of each side, `source` and `destination`
    settings: Mapping[
        str, Mapping[str, str]
    ]  # the user's settings: value, commands, `verified`, `changed` if it differs, and `restored` (data.restorations)
    hosts: Mapping[str, Mapping[str, Any]]  # state of each host, by the keys of `measuring.host_state`
    receiving_hosts: Sequence[str]  # those that have an address of the destination's doors
    sending_hosts: Sequence[str]  # those whose kernels counted data to these doors
    one_machine: Sequence[Sequence[str]]  # groups of hosts of one machine; "local" is the measuring one
    simulation: SimulationRecord


@dataclass(frozen=True)
class OtherMeasurement:
    """A measurement of a cell that a retry replaced, or that did not replace an earlier one."""

    started: str
    status: Status
    flags: Sequence[str]
    throughput: Number
    throughput_low: Number
    throughput_high: Number
    throughput_freedom: Number
    machine_work: Number


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """Measurement of a cell, failed or not."""

    status: Status
    message: str = ""
    flags: Sequence[str] = ()  # keys of `data.flags.FLAGS`
    limit: Limit | None = None  # None in a failed cell
    summary: Summary
    samples: Columns
    """Time series: `time` in s since the cell's start and names of `variables.SAMPLES`; `ORIGIN_SAMPLES` are lists of
    columns."""
    transfers: Columns  # table of single transfers, by names of `data.variables.TRANSFERS`
    provenance: Provenance = field(default_factory=Provenance)
    others: Sequence[OtherMeasurement] = ()  # measurements of the cell that were not kept

    @property
    def attempts(self) -> int:
        """How often the cell was measured."""
        return len(self.others) + 1

    def as_other(self) -> OtherMeasurement:
        names = [each.name for each in fields(OtherMeasurement)][3:]
        figures = [self.summary.figures.get(name) for name in names]
        return OtherMeasurement(self.provenance["started"], self.status, self.flags, *figures)

    def to_json(self) -> dict[str, Any]:
        """Return the content of the cell's file after its specification and format."""
        binding, second = self.limit or (None, "")
        return {
            "status": self.status,
            "message": self.message,
            "flags": [*self.flags],
            "limit": binding,
            "limit_second": second,
            "summary": {**self.summary.figures, "attempts": self.attempts},
            "samples": self.samples,
            "transfers": self.transfers,
            "provenance": self.provenance,
            **({"others": [asdict(other) for other in self.others]} if self.others else {}),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the result in a cell file's content. Raises ValueError if a part is missing, unknown or no such."""
        if lacking := [name for name, kind in _KINDS.items() if not isinstance(content.get(name), kind)]:
            raise ValueError(f"without {' and '.join(lacking)} as cells have them")
        figures, flags = content["summary"], content["flags"]
        if unknown := {*figures} - SUMMARY.keys() | {*map(str, flags)} - FLAGS.keys():
            raise ValueError(f"with {' and '.join(sorted(unknown))}, which this version does not know")
        if content["status"] not in ("ok", "failed"):
            raise ValueError(f"with the status {content['status']!r}")
        limit, second = content.get("limit"), content.get("limit_second")
        return cls(
            status=content["status"],
            message=content["message"],
            flags=tuple(flags),
            limit=Limit(limit, second or "") if limit else None,
            summary=Summary(figures),
            samples=content["samples"],
            transfers=content["transfers"],
            provenance=cast(Provenance, content["provenance"]),
            others=tuple(OtherMeasurement(**other) for other in content.get("others", ())),
        )


_KINDS = {"status": str, "message": str, "flags": list, "summary": dict}
_KINDS |= {"samples": dict, "transfers": dict, "provenance": dict}
"""Required keys of a measured cell's file in addition to its specification."""


@dataclass(frozen=True)
class NotMeasured:
    """Content of the placeholder of a cell that could not be measured."""

    message: str  # the reason
    tried: str = ""  # ISO 8601, UTC

    def to_json(self) -> dict[str, Any]:
        return {"status": NOT_MEASURED, "message": self.message, "tried": self.tried}
