"""Attributes that say of a sweep what was measured, where, when and with what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from tpcsweep.dataset.labels import SIMULATED
from tpcsweep.dataset.summary import Summary


def about_sweep(spec: Mapping[str, Any], summary: Summary) -> dict[str, Any]:
    """Give the attributes of a summary that was folded from cells. spec: what their specifications share."""
    simulated = spec["testbed"]["kind"] == SIMULATED
    records = [orjson.loads(record) for record in summary.records]
    known = ~np.isnat(summary.started)
    started = summary.started[known]
    # Seconds that were simulated are not those that it took.
    lasted = np.nan_to_num(summary.figures["duration"][known]) * (not simulated)
    ended = started + lasted.astype("timedelta64[s]")
    software: dict[str, set[str]] = {}
    for record in records:
        for name, version in (record.get("software") or {}).items():
            software.setdefault(name, set()).add(str(version))
    what = "simulated" if simulated else "measured"
    return {
        "title": f"Throughput of XRootD HTTP third-party copies, {what}: sweep {spec['sweep']}",
        "Conventions": "CF-1.11",
        "source": f"tpcsweep, {what} on testbed {spec['testbed']['name']} ({spec['testbed']['kind']})",
        "sweep": spec["sweep"],
        "testbed": spec["testbed"]["name"],
        "testbed_kind": spec["testbed"]["kind"],
        **{f"measurement_{name}": v for name, v in spec["measurement"].items() if v is not None},
        "measured_from": _iso(started.min()),
        "measured_until": _iso(ended.max()),
        "software": ", ".join(f"{n} {' and '.join(sorted(v))}" for n, v in sorted(software.items())),
        **{
            name: ", ".join(sorted({str(record[name]) for record in records if record.get(name)}))
            for name in ("host", "kernel", "cpu", "commit")
        },
        **(_of_simulation(records) if simulated else {}),
    }


def _of_simulation(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Attributes that simulated datasets have besides."""
    known = [record["simulation"] for record in records]
    inputs = dict.fromkeys(claim for one in known for claim in one["inputs"])
    # Datasets of before there were any have none.
    assumed = {claim: why for one in known for claim, why in one.get("assumptions", {}).items()}
    return {
        "comment": "Simulated: computed from a model, not measured. throughput_low and throughput_high span "
        "random parameter sets within their stated ranges (variable provenance_record); docs/simulation.md.",
        "claims_used_as_inputs": " ".join(inputs),
        "claims_that_follow_from_assumptions": orjson.dumps(assumed).decode(),
    }


def _iso(moment: np.datetime64) -> str:
    return f"{np.datetime_as_string(moment, unit='s')}Z"
