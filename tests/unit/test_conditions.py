# SPDX-License-Identifier: Apache-2.0
"""Conditions on rows: what they may have in them, which rows meet them, and that nothing of them is run."""

import contextlib
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.dataset.conditions import ConditionError, rows_meeting

ROWS = """tool,streams,rate (MB/s),state,from
curl,1,0.5,DONE,a
gfal copy,2,,LOST,b
curl,64,2e3,7,c
,,-1,DONE,d
"""
TABLE = pd.read_csv(io.StringIO(ROWS))


def rows(condition: str, table: pd.DataFrame = TABLE) -> list[int]:
    return np.flatnonzero(rows_meeting(table, condition)).tolist()


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        ("streams <= 2", [0, 1]),
        ("1 < streams < 100 and tool == 'curl'", [2]),
        ("not streams > 1", [0, 3]),  # a number that is missing is no larger
        ("streams in [1, 64.0]", [0, 2]),
        ("streams not in (1, 2)", [2, 3]),
        ("tool in ['curl', 'davix'] or streams == 2", [0, 1, 2]),
        ("tool == ''", [3]),
        ("state >= 'E'", [1]),
        ("`rate (MB/s)` > -2 and `rate (MB/s)` < +1e3", [0, 3]),
        ("`from` != 'b'", [0, 2, 3]),
        ("tool == state", []),
        ("'a`b`' == tool or tool == 'curl'", [0, 2]),
        (' (streams == 1\n or streams == 2) and tool == "gfal copy" ', [1]),
    ],
)
def test_rows_that_meet_a_condition(condition: str, met: list[int]) -> None:
    assert rows(condition) == met


def test_parquet_has_more_than_text() -> None:
    table = pd.DataFrame({"ok": [True, False, True], "code": pd.array([1, None, 3], dtype="Int64")})
    table["began"] = pd.to_datetime(["2020-01-01", "2020-06-01", None])
    table["site"] = pd.Categorical(["a", None, "b"])
    assert rows("ok", table) == [0, 2]
    assert rows("not ok or code == 3", table) == [1, 2]
    assert rows("code != 1", table) == [1, 2]
    assert rows("began >= '2020-02'", table) == [1]
    assert rows("site == ''", table) == [1]


@pytest.mark.parametrize(
    "condition",
    [
        "@pd.io.common.os.system('touch {owned}')",
        "__import__('os').system('touch {owned}') == 0",
        "streams == (lambda: 1)()",
        "tool == f'{streams}'",
        "streams + 1 > 2",
        "tool is None",
        "streams == True",
        "'url' in tool",
        "tool in [streams]",
        "streams in [1] == True",
        "",
        "streams == 1\0",
    ],
)
def test_what_is_more_than_comparisons_is_refused_and_not_run(condition: str, tmp_path: Path) -> None:
    with pytest.raises(ConditionError):
        rows(condition.replace("{owned}", f"{tmp_path}/owned"))
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("condition", "says"),
    {
        "streams == 'many'": r"numbers against text: the column streams and 'many'",
        "state > 1": r"text against numbers: the column state \(as in 'DONE'\) and 1",
        "tool in ['curl', 1]": r"text against numbers: the column tool \(as in 'curl'\) and 1",
        "stream == 1": "no column stream: streams[?] one of tool, streams",
        "streams": "the column streams has numbers and needs a comparison",
    }.items(),
)
def test_kinds_that_do_not_fit_are_named(condition: str, says: str) -> None:
    with pytest.raises(ConditionError, match=says):
        rows(condition)


@given(st.text(max_size=60) | st.text("tol streamin=<>!'\"`()[],and1.-", max_size=60))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    with contextlib.suppress(ConditionError):
        assert set(rows(text)) <= set(range(len(TABLE)))
