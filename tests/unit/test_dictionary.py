"""Encoding is exact at sizes around those where the algorithm changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etq.ingest import dictionary
from etq.ingest.dictionary import encode_rows, encode_strings
from etq.ingest.flatbuffers.reader import Buffer, Spans
from tests.sampling import examples

I64 = st.integers(-(2**63), 2**63 - 1)
ANYTHING = st.text(max_size=20) | st.sampled_from(["", "a", "a\0", "a" * 300, "é" * 150, "b" * 13, "b" * 12])


def spans_of(texts: list[str | None]) -> tuple[Buffer, Spans]:
    blob, starts, counts = b"pad!", [], []
    for text in texts:
        encoded = (text or "").encode()
        starts.append(len(blob) if text is not None else 0)
        counts.append(len(encoded))
        blob += encoded
    present = np.array([text is not None for text in texts], np.bool_)
    return Buffer(blob, "test"), Spans(np.array(starts, np.int64), np.array(counts, np.int64), present)


@pytest.mark.parametrize("few", [0, 10**6], ids=["hashed by Arrow", "sorted by numpy"])
@examples(150)
@given(texts=st.lists(st.none() | ANYTHING, min_size=1, max_size=30))
def test_strings(few: int, texts: list[str | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dictionary, "FEW", few)
        codes, distinct = encode_strings(*spans_of(texts), "text")
    assert [distinct[code] for code in codes] == texts
    assert len(set(distinct)) == len(distinct)


@pytest.mark.parametrize("few", [0, 10**6], ids=["hashed by Arrow", "sorted by numpy"])
@examples(150)
@given(rows=st.lists(st.tuples(I64 | st.integers(0, 2), I64, I64 | st.just(5), st.integers(-1, 1)), max_size=30))
def test_rows(few: int, rows: list[tuple[int, ...]]) -> None:
    columns = [np.array([row[place] for row in rows], np.int64) for place in range(4)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dictionary, "FEW", few)
        codes, first = encode_rows(columns)
    assert [rows[first[code]] for code in codes] == rows
    assert len({rows[at] for at in first}) == len(first)
    assert all(rows.index(rows[at]) == at for at in first)
