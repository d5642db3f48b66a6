"""What is damaged in a lake, was tampered with, or is not a lake, is refused."""

from __future__ import annotations

import base64
import sys
import time
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

import etq
from etq.errors import WarehouseError
from etq.ingest import memory
from etq.lake import check, compact, export
from etq.lake.reading import notes
from etq.version import SCHEMA_VERSION
from tests.lake.test_lake import FLEET, one_of


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(WarehouseError, match=r"a lake needs deltalake: pip install 'etq\[lake\]'"):
        one_of(FLEET[:1], tmp_path / "lake")


def test_damaged_lakes_are_reported(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    one_of(FLEET[:2], lake)
    [ticks] = (lake / "event_ticks").glob("load_id=*/*.parquet")
    [runs] = (lake / "runs").glob("load_id=*/*.parquet")
    whole = ticks.read_bytes()
    ticks.write_bytes(whole[: len(whole) // 2])
    runs.unlink()
    faults = {(fault.file, fault.what.split(":")[0]) for fault in check(lake)}
    assert faults == {(str(ticks), "damaged"), (str(runs), "missing")}
    with pytest.raises(WarehouseError, match=r"lake: .*"):
        etq.open(lake)
    [signatures] = (lake / "signatures").glob("load_id=*/*.parquet")
    ticks.write_bytes(signatures.read_bytes())
    assert any("has the columns" in fault.what for fault in check(lake))


def test_a_log_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for path in FLEET[:2]:
        one_of([path], lake)
    _, first, second = sorted((lake / "captures" / "_delta_log").glob("*.json"))
    whole = second.read_bytes()
    noted = whole.split(b'"etq":"')[1].split(b'"')[0]

    def noting(before: bytes, after: bytes) -> bytes:
        content = zlib.decompress(base64.b64decode(noted))
        assert before in content
        return whole.replace(noted, base64.b64encode(zlib.compress(content.replace(before, after))))

    for content, message in (
        (b"{", "json: the log is damaged: "),
        (noting(b'"schema":', b'"schema":9'), "made by a later version of etq"),
        (whole.replace(noted, b"{" + noted), "damaged"),
        (whole.replace(noted, noted[:-8]), "damaged"),
        (noting(b'"files":{', b'"files":['), "damaged"),
        (noting(b'.parquet"', b'/../x.parquet"'), "damaged: a file is called"),
        (noting(b'"runs":', b'"../runs":'), "damaged: a file is called"),
        (noting(b'"files":{"', b'"files":{"../'), "damaged: a file is called"),
    ):
        assert content != whole
        second.write_bytes(content)
        with pytest.raises(WarehouseError, match=message):
            etq.open(lake)
    for prefix in (b"../", b"/etc/"):
        second.write_bytes(whole.replace(b'"path":"load_id=', b'"path":"' + prefix + b"load_id="))
        with pytest.raises(WarehouseError, match="damaged: a file is called"):
            check(lake)
    second.write_bytes(whole)
    first.unlink()
    with pytest.raises(WarehouseError, match="lake/captures: the log is damaged: version 1 is missing$"):
        check(lake)


def named(note: str) -> bytes:
    """A commit with this text as its note."""
    return f'{{"commitInfo":{{"etq":"{note}"}}}}'.encode()


def packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()


@pytest.mark.parametrize("table", ["captures", "runs"])
def test_a_damaged_log_is_named_in_one_line(tmp_path: Path, table: str) -> None:
    """By whatever reads it; a commit that is empty, as after a power failure, isn't taken for one without rows."""
    lake = tmp_path / "lake"
    for path in FLEET[:2]:
        one_of([path], lake)
    log = lake / table / "_delta_log"
    last = max(log.glob("*.json"))
    whole = last.read_bytes()

    def refused(place: Path) -> None:
        for work in (lambda: check(lake), lambda: compact(lake), lambda: one_of(FLEET[2:3], lake)):
            with pytest.raises(WarehouseError) as caught:
                work()
            text = str(caught.value)
            assert text.startswith(f"{place}: the log is damaged: ") and "\\" not in text and len(text) < 400, text

    for content in (b"", b"\0" * len(whole), whole[: len(whole) // 2], b"\xff\xfe", b'{"commitInfo":' + b"[" * 10**5):
        last.write_bytes(content)
        refused(last)
    last.write_bytes(whole)
    deltalake = pytest.importorskip("deltalake")
    deltalake.DeltaTable(str(lake / table)).create_checkpoint()
    [checkpoint] = log.glob("*.checkpoint.parquet")
    made = checkpoint.read_bytes()
    for content in (made[: len(made) // 2], b"\0" * len(made), b"PAR1"):
        checkpoint.write_bytes(content)
        refused(checkpoint)


def test_a_log_without_bounds_is_refused(tmp_path: Path) -> None:
    """Before it is read, or unpacked."""
    lake = tmp_path / "lake"
    one_of(FLEET[:1], lake)
    log = lake / "captures/_delta_log"
    last = max(log.glob("*.json"))
    whole = last.read_bytes()
    for place in (last, log / "_last_checkpoint", log / f"{1:020}.checkpoint.parquet", log / f"{1:020}.crc"):
        before = place.read_bytes() if place.exists() else None
        with place.open("wb") as file:
            file.truncate(1 << 40)
        started = time.monotonic()
        for work in (lambda: etq.open(lake), lambda: check(lake), lambda: compact(lake)):
            with pytest.raises(
                WarehouseError, match=rf"^{place}: the log is damaged: has 1099511627776 bytes; from 1 to"
            ):
                work()
        assert time.monotonic() - started < 5
        place.unlink() if before is None else place.write_bytes(before)
    file_name = '{"runs":{"x.parquet":[1,1]}}'
    for note, message in (
        (
            packed(b'{"schema":%d,"dropped":["' % SCHEMA_VERSION + b"a" * (1 << 28) + b'"]}'),
            "a note is cut off, or has more than 128 MB",
        ),
        (packed(b'{"schema":%d,"files":' % SCHEMA_VERSION + b'{"a":' * 10**5), "the log is damaged: "),
        (
            packed(f'{{"schema":{SCHEMA_VERSION},"files":{{"ab-{"9" * 5000}":{file_name}}}}}'.encode()),
            "a file is called",
        ),
        *(
            (
                packed(b'{"schema":%d,"files":{"ab-1":{"runs":{"x.parquet":[1,%d]}}}}' % (SCHEMA_VERSION, rows)),
                "the log is damaged: ",
            )
            for rows in (-1, 2**63, 10**30)
        ),
        (
            packed(b'{"schema":%d,"dropped":[%s"a"]}' % (SCHEMA_VERSION, b'"a",' * (1 << 24))),
            "to read its note would take 1.3 GB",
        ),
    ):
        last.write_bytes(named(note))
        with pytest.raises(WarehouseError, match=f"^{last}: .*{message}"):
            etq.open(lake)
    last.write_bytes(whole)
    assert check(lake) == []


def test_events_that_contain_each_other_are_reported(tmp_path: Path) -> None:
    """Queries of a lake would not end on them."""
    from pyarrow import parquet

    lake = tmp_path / "lake"
    one_of(FLEET[:2], lake)
    [file] = (lake / "event_ticks").glob("load_id=*/*.parquet")
    rows = parquet.read_table(file).to_pylist()
    found = next(each for each in rows if each["parent_index"] is not None)
    above = next(
        each for each in rows
        if (each["capture_id"], each["run_index"], each["event_index"])
        == (found["capture_id"], found["run_index"], found["parent_index"])
    )  # fmt: skip
    above["parent_index"] = found["event_index"]
    parquet.write_table(pa.Table.from_pylist(rows, parquet.read_schema(file)), file)
    [fault] = check(lake)
    assert (fault.file, fault.what) == (str(file), f"events of the capture {found['capture_id']} contain each other")


@pytest.mark.parametrize("content", [b"", b"{", b'{"version":9}', b"[" * 10**5, b"\xff"], ids=repr)
def test_a_damaged_pointer_to_a_checkpoint_is_named(tmp_path: Path, content: bytes) -> None:
    lake = tmp_path / "lake"
    one_of(FLEET[:1], lake)
    last = lake / "captures/_delta_log/_last_checkpoint"
    last.write_bytes(content)
    try:
        opened = etq.open(lake)
    except WarehouseError as error:
        assert str(error).startswith(f"{last}: the log is damaged: ") and "\n" not in str(error)
    else:  # the library reads the log without it
        with opened:
            assert opened.rows("SELECT count(*) FROM captures")[1] == [(1,)]


def test_a_note_larger_than_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "lake"
    one_of(FLEET[:1], lake)
    last = max((lake / "captures/_delta_log").glob("*.json"))
    loads = b",".join(b'"%d":{}' % each for each in range(10**5))
    last.write_bytes(named(packed(b'{"schema":%d,"files":{%s}}' % (SCHEMA_VERSION, loads))))
    monkeypatch.setattr(memory, "available", lambda: 10**6)
    with pytest.raises(WarehouseError, match=f"^{last}: the log is damaged: to read its note would take [0-9.]+ MB"):
        etq.open(lake)


def test_no_note_is_written_that_would_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "lake"
    for path in FLEET[:3]:
        one_of([path], lake)
    monkeypatch.setattr(notes, "_LARGEST_NOTE", 1100)  # of three loads
    with pytest.raises(WarehouseError, match=f"can't note so many loads; put them together: etq lake compact {lake}"):
        one_of(FLEET[3:4], lake)
    compact(lake)
    assert one_of(FLEET[3:4], lake).new == 1


def test_a_lake_may_be_linked_to(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    one_of(FLEET[:1], lake)
    (tmp_path / "link").symlink_to(lake)
    with etq.open(tmp_path / "link") as opened:
        assert opened.rows("SELECT count(*) FROM runs")[1][0][0] > 0


def test_folders_that_are_not_lakes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/other").write_text("x")
    with etq.open() as warehouse:
        with pytest.raises(WarehouseError, match="a file; a lake is a folder"):
            export(tmp_path / "file", warehouse)
        with pytest.raises(WarehouseError, match="a folder with other things in it"):
            export(tmp_path / "folder", warehouse)
    for path in (tmp_path / "folder", tmp_path / "none"):
        with pytest.raises(WarehouseError, match="not a lake"):
            check(path)
    with pytest.raises(WarehouseError, match="a folder; a warehouse is a file, or a lake"):
        etq.open(tmp_path / "folder")
