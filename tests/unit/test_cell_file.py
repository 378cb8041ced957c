# SPDX-License-Identifier: Apache-2.0
"""What tells a whole cell file from one that was cut, changed or never one."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.results import DamagedError, content_of, text_of

NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.none() | st.booleans() | NUMBERS | st.text(max_size=5)
VALUES = PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(st.text(max_size=3), PLAIN, max_size=2)
KEYS = st.text(max_size=9).filter(lambda key: key not in ("spec", "checksum"))
CONTENTS = st.builds(
    lambda spec, others: {"spec": spec, **others},
    st.dictionaries(st.text(max_size=3), VALUES, max_size=2),
    st.dictionaries(KEYS, VALUES, max_size=2),
)


@given(CONTENTS)
def test_what_is_written_is_read_however_it_is_laid_out_since(content: dict[str, Any]) -> None:
    text = text_of(content)
    assert content_of(text) == content
    assert text.startswith(b'{"spec":')
    assert content_of(json.dumps(json.loads(text), indent=2).encode()) == content


@given(CONTENTS, st.data())
def test_what_was_cut_or_changed_is_damaged(content: dict[str, Any], data: st.DataObject) -> None:
    text = bytearray(text_of(content))
    with pytest.raises(DamagedError, match="not JSON"):
        content_of(bytes(text[: data.draw(st.integers(0, len(text) - 1))]))
    text[data.draw(st.integers(0, text.rindex(b',"checksum":') - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(DamagedError):
        assert content_of(bytes(text)) == content


@given(CONTENTS, CONTENTS)
def test_what_was_edited_is_damaged(content: dict[str, Any], other: dict[str, Any]) -> None:
    checksum = json.loads(text_of(content))["checksum"]
    edited = json.dumps({**other, "checksum": checksum}).encode()
    if text_of(content) == text_of(other):
        assert content_of(edited) == content
    else:
        with pytest.raises(DamagedError, match="changed after it was written"):
            content_of(edited)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"null", b'{"status": "ok"}', b'{"spec": []}', b'{"spec": {}, "x": NaN}']
)
def test_what_is_no_cell_is_damaged_and_a_cell_needs_no_checksum(text: bytes) -> None:
    with pytest.raises(DamagedError):
        content_of(text)
    assert content_of(b'{"spec": {}, "status": "ok"}') == {"spec": {}, "status": "ok"}  # as earlier ones
