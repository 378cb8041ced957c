# SPDX-License-Identifier: Apache-2.0
"""The last check of a testbed by this user, and the changes since then."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tpcsweep.common.files import state_folder, write_json
from tpcsweep.data.cell_files import utc_timestamp
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.testbeds.interface import Finding

Change = dict[str, str | None]
"""Subject, check, and status `before` and `now`; None for a check that was or is not made."""


def record_file(study: SweepStudy) -> Path:
    """Return the file of a testbed's last check, by the name and the place of its settings."""
    place = hashlib.sha256(str(Path(study.testbed_file).absolute()).encode()).hexdigest()[:12]
    return state_folder() / "checks" / f"{study.testbed_name}-{place}.json"


def read_record(file: Path) -> dict[str, Any]:
    """Return the time of the last check and its statuses by subject and check; {} if there is none."""
    try:
        content = json.loads(file.read_text())
        return {"checked": str(content["checked"]), "statuses": dict(content["statuses"])}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def changes(before: Mapping[str, str], found: Iterable[Finding], *, partial: bool) -> list[Change]:
    """Return the checks with another status than before, and unless the check was `partial`, new and missing ones."""
    now = statuses(found)
    names = [name for name in now if name in before] if partial else [*now, *(before.keys() - now)]
    return [
        {**dict(zip(("subject", "check"), name.split("\t"), strict=True)), "before": old, "now": new}
        for name in names
        for old, new in [(before.get(name), now.get(name))]
        if old != new
    ]


def statuses(found: Iterable[Finding]) -> dict[str, str]:
    return {f"{one.subject}\t{one.check}": one.status for one in found}


def keep_record(file: Path, before: Mapping[str, str], found: Iterable[Finding], *, partial: bool) -> None:
    """Write the statuses of a check; a `partial` one keeps those of the others. Errors of the system are ignored."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        merged = {**(before if partial else {}), **statuses(found)}
        write_json(file, {"checked": utc_timestamp(), "statuses": merged})
    except OSError:
        return
