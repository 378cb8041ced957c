# SPDX-License-Identifier: Apache-2.0
"""Endpoints without servers: settings that are refused, the budget, and bytes as they are known from outside."""

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from tpcsweep.configuration.endpoints import Endpoints
from tpcsweep.configuration.sweep import Sweep, expand
from tpcsweep.testbeds.endpoints.site import Span, arrived, known_until

MIB = 1 << 20


def settings(url: str = "davs://a.example/x", **changes: Any) -> Endpoints:
    ends = {"source": {"urls": [url]}, "destination": {"urls": ["https://b.example:2880/y/"]}}
    pair = {"name": "a-b", **ends, **changes.pop("pair", {})}
    content = {"kind": "endpoints", "budget": {"bytes": MIB, "time": 60}, "max_streams": 4, "pairs": [pair]}
    return Endpoints.model_validate({**content, **changes})


def test_davs_is_https_and_a_folder_has_no_slash_at_its_end() -> None:
    pair = settings().pairs[0]
    assert (*pair.source.urls, *pair.destination.urls) == ("https://a.example/x", "https://b.example:2880/y")


@pytest.mark.parametrize("url", ["root://a.example/x", "file:///x", "davs://", "davs://a/x?authz=secret"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        settings(url)


@pytest.mark.parametrize("missing", ["budget", "max_streams"])
def test_nothing_runs_without_limits(missing: str) -> None:
    content = settings().model_dump(exclude={missing})
    with pytest.raises(ValidationError, match=missing):
        Endpoints.model_validate(content)


def test_the_most_bytes_follow_from_files_or_from_a_declared_bandwidth() -> None:
    def most(how: dict[str, Any], testbed: Endpoints) -> float:
        parameters = {"streams": [1, 3], "file_size": MIB, "pair": "a-b"}
        sweep = Sweep.model_validate({"parameters": parameters, "measurement": how, "retry_share": 0.5})
        return testbed.most_bytes(expand(sweep))

    # Two cells of 2 and 6 files, the larger once more, and the source file.
    assert most({"until": "files", "files": 2, "max_time": 60}, settings()) == 15 * MIB
    seconds = {"until": "seconds", "seconds": 10}
    assert most(seconds, settings()) == math.inf
    assert most(seconds, settings(pair={"bandwidth": 1})) == 3 * 10 * 125e6 + MIB


def test_bytes_of_files_are_spread_over_their_transfers() -> None:
    spans = [Span(0, 0.0, 2.0, 200), Span(1, 1.0, 3.0, 400), Span(0, 2.5, 3.5, 0)]
    assert arrived(np.array([-1.0, 0.0, 1.0, 2.0, 3.0, 9.0]), spans) == pytest.approx(
        [0, 0, 100, 400, 600, 600]
    )
    assert list(arrived(np.array([1.0]), [])) == [0]


def test_bytes_are_known_until_the_last_file_of_the_stream_that_is_furthest_behind() -> None:
    spans = [Span(0, 0.0, 2.0, 1), Span(1, 0.0, 3.0, 1), Span(0, 2.0, 5.0, 1)]
    assert known_until(spans, 2) == 3.0
    assert known_until(spans, 3) == -math.inf
