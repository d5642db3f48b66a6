"""Traces that are read in blocks have the events of the whole text, wherever its parts and blocks end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from etq.errors import FormatError
from etq.ingest.trace import blocks
from etq.ingest.trace.blocks import Blocks, BrokenError
from etq.ingest.trace.scanner import Trace
from etq.ingest.trace.text import Text, lists_at

# Texts of what the reader searches for.
TEXTS = st.lists(
    st.sampled_from(['"', "\\", "}, {", "}]", "[{", '"traceEvents": [', ",", "a", "é", "\U0001f600", "\n"])
)
VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | TEXTS.map("".join),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS.map("".join), inner, max_size=3),
    max_leaves=12,
)
EVENTS = st.lists(VALUES | st.fixed_dictionaries({"name": VALUES, "args": VALUES}), max_size=8)
MEMBERS = st.dictionaries(TEXTS.map("".join), VALUES, max_size=3)
STYLES = st.fixed_dictionaries({"ensure_ascii": st.booleans(), "indent": st.sampled_from([None, 1])})
SIZES = st.tuples(st.integers(1, 40), st.integers(1, 60), st.integers(1, 90))


def parts_of(text: bytes, size: int) -> Iterator[bytes]:
    return (text[at : at + size] for at in range(0, len(text), size))


def read(text: bytes, sizes: tuple[int, int, int]) -> list[bytes]:
    """Return the JSON of the events of a text that comes in parts, read twice."""
    part, block, chunk = sizes
    found: list[bytes] = []

    def take(first: int, content: bytes) -> int:
        events = msgspec.json.decode(content, type=list[msgspec.Raw])
        assert first == len(found)
        found.extend(map(bytes, events))
        return len(events)

    with patch.multiple(blocks, _BLOCK=block, _CHUNK=chunk, other_file=lambda _: None):
        reading = Blocks(parts_of(text, part), "made", take)
        reading.read()
    again = [*lists_at(parts_of(text, part), reading.begins, reading.ends)]
    assert [bytes(raw) for each in again for raw in msgspec.json.decode(each, type=list[msgspec.Raw])] == found
    assert [len(msgspec.json.decode(each, type=list[msgspec.Raw])) for each in again] == [*reading.sizes]
    some = reading.begins[1::3], reading.ends[1::3]
    assert [*lists_at(parts_of(text, part), *some)] == [*Text(text, "made").lists(*some)] == again[1::3]
    return found


@pytest.mark.long
@given(EVENTS, MEMBERS, MEMBERS, STYLES, SIZES, st.booleans())
@example([{"a": "}, {"}] * 9, {"x": {"traceEvents": [1]}}, {"parts": [{}, {}]}, {}, (7, 5, 3), False)
def test_the_events_are_those_of_the_whole_text(
    events: list[Any], before: dict[str, Any], after: dict[str, Any], style: Any, sizes: Any, is_list: bool
) -> None:
    content = events if is_list else {**before, "traceEvents": events, **after}
    assert [*map(json.loads, read(json.dumps(content, **style).encode(), sizes))] == events


@pytest.mark.long
@given(EVENTS, MEMBERS, st.data(), SIZES)
def test_what_is_damaged_is_refused_exactly_if_it_is_no_json(
    events: list[Any], members: dict[str, Any], data: st.DataObject, sizes: Any
) -> None:
    """The oracle is the decoder of the whole text."""
    text = json.dumps({"a": members, "traceEvents": events, "b": members}).encode()
    at = data.draw(st.integers(1, len(text)))
    written = data.draw(st.sampled_from([b"", b'"', b"\\", b"}", b"]", b"[", b",", b"NaN", b"\xff", b"traceEvents"]))
    damaged = text[:at] + written + text[data.draw(st.integers(at, min(at + 3, len(text)))) :]
    try:
        whole = [*map(bytes, msgspec.json.decode(damaged, type=Trace).traceEvents)]
    except msgspec.DecodeError:
        whole = None
    try:
        found = read(damaged, sizes)
    except BrokenError:
        found = None
    except FormatError as error:
        assert "several lists" in str(error) and damaged.count(b"traceEvents") > 1
        return
    assert found == whole


@pytest.mark.parametrize("text", ['{"a": [%s], "traceEvents": [{}]}', '{"traceEvents": [{}, {"a": [%s]}, {}]}'])
@pytest.mark.parametrize(("count", "is_read"), [(400, True), (600, False)])
def test_a_value_is_refused_from_its_limit_on(text: str, count: int, is_read: bool) -> None:
    written = text.replace("%s", ",".join(["1"] * count)).encode()
    with (
        patch.object(blocks, "LARGEST_VALUE", 1000),
        nullcontext() if is_read else pytest.raises(FormatError, match="a value of more than 1,000 bytes"),
    ):
        assert read(written, (90, 40, 64))
