# SPDX-License-Identifier: Apache-2.0
"""Whether hosts were as before after the deployments that changed their settings, by the records of cells; pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from tpcsweep.common.numbers import counted

Restoration = Literal["as before", "another state", "not compared", "failed"]
"""State of the hosts of a setting after its `restore`, by the output of `verify`."""
_WORDS: Mapping[str, str] = {
    "failed": "not restored, because restore failed",
    "another state": "left in another state than before, though restore did not fail",
    "not compared": "restored without an error; not compared with the state before, as verify is missing or failed",
    "": "not recorded; after a job that was killed, the next run or tpcsweep reap restores and reports it",
    "as before": "restored; verify printed the same as before the change",
}
"""Sentence on each restoration, worst first; "" for cells without a record."""


def restorations_text(records: Iterable[Mapping[str, str]]) -> str:
    """Describe how deployments left the hosts of a setting, by its record in each of their cells; "" without cells."""
    counts = Counter(record.get("restored", "") for record in records)
    texts = [(words, counts[known]) for known, words in _WORDS.items() if counts[known]]
    if len(texts) == 1:
        return texts[0][0]
    return "; ".join(f"after the deployments of {counted(count, 'cell')}: {words}" for words, count in texts)
