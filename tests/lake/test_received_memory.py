"""A small lake of somebody else's doesn't unpack to gigabytes: commands refuse it in little memory, in one line."""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from etq.errors import FormatError, WarehouseError
from etq.ingest import memory
from etq.lake import changes, check
from etq.lake.reading import notes, tables
from etq.lake.writing.commits import delta_schema
from tests.lake.test_lake import FLEET, one_of

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system limits no process's memory")

# Prints the most memory that the process had; more addresses than this are refused it, so that the machine survives.
_CHILD = """
import atexit, re, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
atexit.register(lambda: print(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1], file=sys.stderr))
from etq.cli import main
main()
"""
# What any command on a lake takes, and some room.
_MOST = 600_000  # KiB


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("received") / "lake"
    one_of(FLEET[:1], lake)
    return lake


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "lake"))


def answer(*command: str | Path, most: int = _MOST) -> str:
    """The last line of a command that is refused, and takes at most so much memory."""
    arguments = [sys.executable, "-c", _CHILD, *map(str, command)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
    *_, line, peak = done.stderr.splitlines()
    assert done.returncode == 1 and int(peak) < most and len(line) < 400, done
    return line


def noted(lake: Path, table: str, file: Path, rows: int) -> None:
    """Have the lake note the rows and bytes of a file that was replaced."""
    last = max((lake / "captures/_delta_log").glob("*.json"))
    lines = [msgspec.json.decode(line) for line in last.read_bytes().splitlines()]
    for info in (line["commitInfo"] for line in lines if "commitInfo" in line):
        note = msgspec.json.decode(zlib.decompress(base64.b64decode(info["etq"])))
        note["files"][file.parent.name.removeprefix("load_id=")][table][file.name] = rows, file.stat().st_size
        info["etq"] = base64.b64encode(zlib.compress(msgspec.json.encode(note))).decode()
    last.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))


def test_a_gap_of_any_width_in_a_log_is_named(lake: Path) -> None:
    log = lake / "captures/_delta_log"
    (log / f"{10**14 - 1:020}.json").write_bytes(max(log.glob("*.json")).read_bytes())
    for command in ("check", "compact", "add"):
        line = answer("lake", command, lake, *([FLEET[1]] if command == "add" else []))
        assert line == f"Error: {lake}/captures: the log is damaged: version 2 is missing"


def test_events_of_which_there_is_no_memory_are_refused(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file may have any number of rows that follow each other; they are counted first."""
    [file] = (lake / "event_ticks").glob("load_id=*/*.parquet")
    parent = "CASE range WHEN 0 THEN 1 WHEN 1 THEN NULL ELSE range - 1 END"
    replaced = f"range AS event_index, 0 AS run_index, NULL AS parent_run_index, {parent} AS parent_index"
    with duckdb.connect() as connection:
        rows = f"(FROM read_parquet('{file}', hive_partitioning = false) LIMIT 1)"
        connection.execute(f"CREATE TABLE ticks AS FROM {rows}")
        connection.execute(f"INSERT INTO ticks BY NAME SELECT t.* REPLACE ({replaced}) FROM {rows} AS t, range(300000)")
        connection.execute("DELETE FROM ticks WHERE rowid = 0")
        connection.execute(f"COPY ticks TO '{file}' (FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd)")
    noted(lake, "event_ticks", file, 300_000)
    monkeypatch.setattr(memory, "available", lambda: 20_000_000)
    with pytest.raises(
        FormatError, match=f"^{file}: to check the 299,999 events of the capture .* take 24.0 MB of mem"
    ):
        check(lake)


def checkpoint_of(lake: Path) -> Path:
    deltalake = pytest.importorskip("deltalake")
    deltalake.DeltaTable(str(lake / "captures")).create_checkpoint()
    return next((lake / "captures/_delta_log").glob("*.checkpoint.parquet"))


def test_long_lists_of_a_checkpoint_are_refused(lake: Path) -> None:
    """Elements are counted before any is read."""
    path = checkpoint_of(lake)
    rows = parquet.read_table(path)
    number = 30_000_000
    texts = pa.array([""]).take(pa.array(np.zeros(number, np.int32)))
    offsets = pa.array([0, number, *[number] * (len(rows) - 1)], pa.int32())
    parquet.write_table(rows.append_column("lists", pa.ListArray.from_arrays(offsets, texts)), path)
    assert path.stat().st_size < 50_000
    line = answer("lake", "check", lake)
    assert line.startswith(f"Error: {path}: the log is damaged: to read the checkpoints of the lake would take 15.0")


def test_a_long_text_of_a_checkpoint_is_not_unpacked(lake: Path) -> None:
    path = checkpoint_of(lake)
    rows = parquet.read_table(path)
    text = pa.array(["x" * 2_000_000_000, *[None] * (len(rows) - 1)])
    parquet.write_table(rows.append_column("text", text), path, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 100_000
    line = answer("lake", "check", lake)
    assert line == f"Error: {path}: the log is damaged: to read its texts would take more than 1.6 GB of memory"


def with_texts(lake: Path, names: Sequence[str], text: str) -> Path:
    """Give a capture this text in these columns."""
    [file] = (lake / "captures").glob("load_id=*/*.parquet")
    rows = parquet.read_table(file, partitioning=None)
    for name in names:
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array([text]))
    parquet.write_table(rows, file, compression="zstd", use_dictionary=False, write_statistics=False)
    noted(lake, "captures", file, 1)
    return file


def test_long_texts_of_captures_are_not_unpacked(lake: Path) -> None:
    file = with_texts(lake, ["sha256", "name", "format", "uri", "time_scale"], "x" * 1_000_000_000)
    assert file.stat().st_size < 200_000
    line = answer("lake", "check", lake, most=1_700_000)
    assert line == f"Error: {file}: to check it would take more than 2.1 GB of memory; split the lake"
    for command in (("lake", "compact", lake), ("lake", "add", lake, FLEET[1])):
        line = answer(*command)
        assert line.startswith(
            f"Error: {lake}: to read captures would take 5.0 GB of memory, and at most 4.3 GB is take"
        )
    with pytest.raises(WarehouseError, match=f"^{lake}: to read captures would take 5.0 GB of memory"):
        changes(lake, 1)


def test_long_lists_are_not_read(lake: Path) -> None:
    """Of any table, in a column of any type: elements are counted before any is read."""
    [file] = (lake / "runs").glob("load_id=*/*.parquet")
    rows = parquet.read_table(file, partitioning=None).slice(0, 1)
    number = 150_000_000
    handles = pa.ListArray.from_arrays(pa.array([0, number], pa.int32()), pa.array(np.zeros(number, np.int32)))
    place = rows.schema.get_field_index("name")
    parquet.write_table(rows.set_column(place, "name", handles), file)
    noted(lake, "runs", file, 1)
    assert file.stat().st_size < 200_000
    line = answer("lake", "check", lake)
    assert line == f"Error: {file}: to check it would take more than 2.1 GB of memory; split the lake"


def test_a_sha256_that_is_none_is_a_fault(lake: Path) -> None:
    with_texts(lake, ["sha256"], "x" * 5000)
    [fault] = check(lake)
    assert fault.what.endswith("x has another's key") and len(fault.what) < 200


@pytest.mark.parametrize("is_checkpoint", [False, True])
def test_columns_of_others_in_a_log_are_refused(lake: Path, is_checkpoint: bool) -> None:
    """Before the library reads it, which makes statistics of each column for each file."""
    place = log = lake / "runs/_delta_log"
    if is_checkpoint:
        pytest.importorskip("deltalake").DeltaTable(str(lake / "runs")).create_checkpoint()
        [place] = log.glob("*.checkpoint.parquet")
        rows = parquet.read_table(place)
        table = [each and {**each, "schemaString": wide(each["schemaString"])} for each in rows["metaData"].to_pylist()]
        at = rows.schema.get_field_index("metaData")
        parquet.write_table(rows.set_column(at, "metaData", pa.array(table, rows.schema.field(at).type)), place)
    else:
        place = min(log.glob("*.json"))
        lines = [msgspec.json.decode(line) for line in place.read_bytes().splitlines()]
        for each in (line["metaData"] for line in lines if "metaData" in line):
            each["schemaString"] = wide(each["schemaString"])
            each["configuration"]["delta.dataSkippingNumIndexedCols"] = "-1"
        place.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    last = max(log.glob("*.json"))
    added = [
        {"path": f"load_id=ab-1/{each}.parquet", "partitionValues": {"load_id": "ab-1"}, "size": 1}
        | {"modificationTime": 1, "dataChange": True, "stats": '{"numRecords":1}'}
        for each in range(10_000)
    ]
    last.write_bytes(b"\n".join([last.read_bytes(), *(msgspec.json.encode({"add": each}) for each in added)]))
    for command in (("check", lake), ("compact", lake), ("restore", lake, "--version", "1")):
        line = answer("lake", *command)
        assert line == f"Error: {place}: the log is damaged: a schema has 4,014 columns; expected 14"


def wide(schema: str) -> str:
    """A schema of a table with 4,000 columns more."""
    found = msgspec.json.decode(schema)
    more = [{"name": f"c{each}", "type": "long", "nullable": True, "metadata": {}} for each in range(4000)]
    return msgspec.json.encode({**found, "fields": [*found["fields"], *more]}).decode()


@pytest.mark.parametrize(
    ("name", "type"), [("other", "long"), ("name", {"type": "struct", "fields": []}), ("name", "long")]
)
def test_a_column_that_etq_does_not_write_is_refused(name: str, type: object) -> None:
    fields = [{"name": name, "type": type, "nullable": True, "metadata": {}}]
    schema = msgspec.json.encode({"type": "struct", "fields": fields}).decode()
    with pytest.raises(
        ValueError, match=f"a schema has the column {name!r} with a name or type that etq doesn't write"
    ):
        notes.check_schema(schema, tables.column_types("runs"))


def test_a_schema_of_an_earlier_version_lacks_columns() -> None:
    for table in tables.tables_of(*tables.KINDS):
        schema = msgspec.json.decode(delta_schema(table).to_json())
        notes.check_schema(msgspec.json.encode(schema).decode(), tables.column_types(table))
        less = {**schema, "fields": schema["fields"][:-2]}
        notes.check_schema(msgspec.json.encode(less).decode(), tables.column_types(table))
