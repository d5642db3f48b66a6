"""Runs that repeat the first run's bytes are decoded once, with the same tables as if decoded field by field."""

from __future__ import annotations

from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etq.errors import FormatError
from etq.ingest.etdump import repeated_runs
from etq.ingest.etdump.reader import read_etdump
from tests.conftest import CAPTURES
from tests.sampling import examples

NEVER = 1 << 60
DUMPS = sorted(CAPTURES.glob("*/*.etdp"))
CHANGED = (CAPTURES / "transformer" / "transformer.etdp").read_bytes()


def decoded(data: bytes, fewest_events: int) -> dict[str, pa.Table] | str:
    """The tables of a dump, or the error. Stretches of fewer events are decoded field by field."""
    with patch.object(repeated_runs, "FEWEST_EVENTS", fewest_events):
        batches: dict[str, list[pa.RecordBatch]] = {}
        try:
            for table, rows in read_etdump(data, "x"):
                batches.setdefault(table, []).append(rows)
        except FormatError as error:
            return str(error)
    return {table: pa.Table.from_batches(rows) for table, rows in batches.items()}


@pytest.mark.parametrize("name", ["mlp_wrap32", "demo_int", "cond_mixed", "multimethod_interleave"])
def test_real_captures_are_decoded_as_by_their_fields(name: str) -> None:
    (path,) = (each for each in DUMPS if each.stem == name)
    data = path.read_bytes()
    assert decoded(data, 1) == decoded(data, NEVER)


@examples(300)
@given(st.lists(st.tuples(st.integers(0, len(CHANGED) - 1), st.integers(0, 255)), max_size=3))
def test_changed_bytes_are_found_in_every_run(changes: list[tuple[int, int]]) -> None:
    data = bytearray(CHANGED)
    for at, value in changes:
        data[at] = value
    found, expected = decoded(bytes(data), 1), decoded(bytes(data), NEVER)
    if len(changes) > 1 and isinstance(expected, str):
        # If there are several damages, one of them is named.
        assert isinstance(found, str)
    else:
        assert found == expected
