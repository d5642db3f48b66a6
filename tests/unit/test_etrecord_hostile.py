"""Malicious and damaged ETRecords: nothing is executed, unpacked or stored."""

from __future__ import annotations

import io
import os
import pickle
import re
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from etq import FormatError
from etq.warehouse.warehouse import Warehouse
from tests.sampling import examples
from tests.unit.test_etrecord_reader import (
    EDGE,
    SECOND,
    SMALLEST,
    assert_nothing_is_stored,
    members_of,
    patched,
    record,
    refusal,
)
from tests.warehouses import empty_warehouse


def test_zip_bombs_are_refused_before_they_are_unpacked() -> None:
    size = 64 * 2**20
    name = "debug_handle_map"
    bomb = record({name: bytes(size)}, zipfile.ZIP_DEFLATED)
    # A member with a false size is unpacked only up to the size that it claims.
    hidden = patched(bomb, name, 24, struct.pack("<I", 16))
    stored = record({name: "{}"})
    huge = patched(stored, name, 20, struct.pack("<II", 2**30 + 1, 2**30 + 1))
    tracemalloc.start()
    try:
        messages = [refusal(data) for data in (bomb, hidden, huge)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert re.fullmatch(
        rf"at byte \d+: member {name} would unpack to 67,108,864 bytes from [\d,]+: refused", messages[0]
    )
    assert messages[1].endswith(f"member {name} is damaged: Bad CRC-32 for file '{name}'")
    assert messages[2] == f"{SECOND}member {name} would unpack to 1,073,741,825 bytes from 1,073,741,825: refused"
    assert peak < size / 16


class Payload:
    """Creates a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_pickles_are_never_run(warehouse: Warehouse, tmp_path: Path) -> None:
    target = tmp_path / "created"
    payload = pickle.dumps(Payload(target))
    pickle.loads(payload)
    assert target.is_dir(), "the payload works"
    target.rmdir()
    weights = io.BytesIO()
    with zipfile.ZipFile(weights, "w") as archive:
        archive.writestr("archive/data.pkl", payload)
    pickles = dict.fromkeys(("reference_outputs", "representative_inputs"), payload)
    replaced = {
        name: weights.getvalue() if name.endswith(("_state_dict", "_constants", "_example_inputs")) else content
        for name, content in members_of(SMALLEST).items()
    }
    found = warehouse.ingest_record(record({**replaced, **pickles}))
    assert found.is_complete and not target.exists()
    listed = warehouse.rows("SELECT kind, byte_size, count(*) FROM record_members GROUP BY ALL ORDER BY ALL")[1]
    assert ("pickle", len(payload), 2) in listed and ("weights", len(weights.getvalue()), 6) in listed


@examples(100, few=6)
@given(st.data())
def test_damaged_records_are_stored_whole_or_not_at_all(data: st.DataObject) -> None:
    members = members_of(SMALLEST)
    readable = [name for name in members if name in (EDGE, "exported_program") or name.endswith(("_map", "_id"))]
    is_zip_damaged = data.draw(st.booleans())
    name = data.draw(st.sampled_from(readable))
    damaged = bytearray(SMALLEST if is_zip_damaged else members[name])
    for _ in range(data.draw(st.integers(1, 4))):
        # The directory, the most delicate part, is at the end.
        last = len(damaged) - 1
        place = data.draw(st.integers(0, last) | st.integers(max(last - 1200, 0), last))
        damaged[place] = data.draw(st.integers(0, 255) | st.sampled_from(list(b'0-9e"{}[],:')))
    if data.draw(st.integers(0, 3)) == 0:
        del damaged[data.draw(st.integers(0, len(damaged))) :]
    with empty_warehouse() as warehouse:
        try:
            found = warehouse.ingest_record(
                bytes(damaged) if is_zip_damaged else record({**members, name: bytes(damaged)})
            )
        except FormatError as error:
            assert "\n" not in str(error)
            assert_nothing_is_stored(warehouse)
        else:
            assert found.is_new
            assert warehouse.rows("SELECT count(*) FROM records")[1] == [(1,)]
