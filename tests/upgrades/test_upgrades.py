"""Warehouses of each released schema open, and answer as if today's etq had made them."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import etq
from etq import catalog
from etq.database.connection import SETTINGS
from etq.errors import WarehouseError
from etq.maintenance.upgrading import upgrade_open
from etq.version import SCHEMA_VERSION
from etq.warehouse.warehouse import Warehouse
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.sharing.locks import can_write
from tests.upgrades.make_warehouse import PRUNED, fill

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
EARLIER = sorted(FOLDER.glob("schema_*.duckdb.gz"))
# What differs between two makings of a warehouse: times, and where files are.
OF_A_MAKING = {"ingested_at", "uri", "created_at"}
# In a finding about pruned events.
MOMENT = re.compile(r"\d{4}-\d\d-\d\d [\d:]+ UTC")
# What earlier versions didn't read of files, and what is computed of it.
NOT_READ: dict[int, set[str]] = {4: {"graph_outputs", "signature_outputs"}}


def unpacked(packed: Path, folder: Path) -> Path:
    path = folder / "lab.duckdb"
    with gzip.open(packed) as file, path.open("wb") as made:
        shutil.copyfileobj(file, made)
    return path


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    return unpacked(EARLIER[0], tmp_path)


@pytest.fixture(scope="module")
def made_today(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("today") / "lab.duckdb"
    with etq.open(path) as warehouse:
        fill(warehouse, CAPTURES)
    return path


def rows(warehouse: Warehouse, table: catalog.SqlObject) -> list[Any]:
    columns = ", ".join(f't."{each.name}"' for each in table.columns if each.name not in OF_A_MAKING)
    found = warehouse.rows(f"SELECT {columns} FROM {table.name} AS t ORDER BY ALL")[1]
    return [tuple(MOMENT.sub("", value) if isinstance(value, str) else value for value in row) for row in found]


def definitions(warehouse: Warehouse) -> list[Any]:
    return warehouse.connection.execute("""
        SELECT table_name AS name, sql, comment FROM duckdb_tables() WHERE table_name <> 'notes'
        UNION ALL SELECT view_name, sql, comment FROM duckdb_views() WHERE NOT internal
        UNION ALL SELECT table_name || '.' || column_name, data_type, comment FROM duckdb_columns()
        WHERE NOT internal AND table_name <> 'notes'
        UNION ALL SELECT function_name, macro_definition, comment FROM duckdb_functions() WHERE NOT internal
        ORDER BY ALL
    """).fetchall()


@pytest.mark.parametrize("packed", EARLIER, ids=lambda path: path.name.split(".")[0])
def test_an_upgraded_warehouse_is_as_one_made_today(packed: Path, made_today: Path, tmp_path: Path) -> None:
    path = unpacked(packed, tmp_path)
    version = int(re.sub(r"\D", "", packed.name))
    before = path.read_bytes()
    copy = etq.upgrade(path)
    assert copy == tmp_path / f"lab.duckdb.schema-{version}" and copy.read_bytes() == before
    assert etq.upgrade(path) is None
    with etq.open(path, read_only=True) as upgraded, etq.open(made_today, read_only=True) as today:
        assert definitions(upgraded) == definitions(today)
        for table in catalog.tables():
            if table.name not in {"warehouse"} | NOT_READ.get(version, set()):
                assert rows(upgraded, table) == rows(today, table), table.name
        assert upgraded.rows("FROM notes")[1] == [(1, "kept")]
        assert upgraded.rows("SELECT schema_version FROM warehouse")[1] == [(SCHEMA_VERSION,)]
        compared = "SELECT op, base, new FROM compare_ops('mlp', $name)"
        assert upgraded.rows(compared, name=PRUNED)[1] == today.rows(compared, name=PRUNED)[1] != []


def test_writing_upgrades_and_reading_names_the_command(earlier: Path) -> None:
    with pytest.raises(WarehouseError, match=rf"schema 4; this is .*; upgrade it: etq upgrade {earlier}$"):
        etq.open(earlier, read_only=True)
    done = run_etq("label", "mlp", "device=a", "--db", str(earlier))
    copy = f"{earlier}.schema-4"
    assert f"Note: {earlier}: upgraded to this version of etq; {copy} is the file from before" in done.stderr
    assert Path(copy).exists()
    with etq.open(earlier, read_only=True) as warehouse:
        assert warehouse.rows("SELECT value FROM labels WHERE key = 'device'")[1] == [("a",)]


def test_the_command(earlier: Path) -> None:
    done = run_etq("upgrade", str(earlier), "--no-backup")
    assert done.exit_code == 0 and done.stderr == f"{earlier}: of schema {SCHEMA_VERSION} now\n"
    assert [each.name for each in earlier.parent.iterdir()] == ["lab.duckdb"]
    assert run_etq("upgrade", str(earlier.with_name("none.duckdb"))).exit_code == 1
    assert not earlier.with_name("none.duckdb").exists()


def test_the_copy_replaces_no_file(earlier: Path) -> None:
    before = earlier.read_bytes()
    Path(f"{earlier}.schema-4").write_text("mine")
    assert etq.upgrade(earlier) == Path(f"{earlier}.schema-4-2")
    assert Path(f"{earlier}.schema-4").read_text() == "mine" and Path(f"{earlier}.schema-4-2").read_bytes() == before


def test_no_other_process_can_write_to_the_upgraded_file(earlier: Path) -> None:
    with etq.open(earlier):
        assert not can_write(earlier)
    assert can_write(earlier)


KILLED = """
import os, sys
import etq
from etq.maintenance import upgrading
upgrading.fill_rollups = lambda *arguments: os._exit(9)
etq.upgrade(sys.argv[1])
"""


def test_a_killed_upgrade_leaves_the_old_warehouse(earlier: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(earlier)], cwd=ROOT, check=False)
    assert done.returncode == 9
    with duckdb.connect(str(earlier), read_only=True) as plain:
        assert plain.execute("SELECT schema_version FROM warehouse").fetchall() == [(4,)]
        assert not plain.execute("FROM duckdb_tables() WHERE table_name = 'graph_outputs'").fetchall()
    [left] = earlier.parent.glob(".etq-*")
    os.utime(left, (0, 0))  # a young folder may be of a process that is just making it
    assert etq.upgrade(earlier) == Path(f"{earlier}.schema-4")
    assert {each.name for each in earlier.parent.iterdir()} == {"lab.duckdb", "lab.duckdb.schema-4"}
    with etq.open(earlier, read_only=True) as warehouse:
        assert warehouse.rows("SELECT count(*) FROM captures")[1] == [(8,)]


TRACE = "SELECT capture_id FROM captures WHERE name = 'rank0'"
CHANGED = {
    "a table is missing": ("DROP TABLE labels", "the table 'labels' is missing"),
    "a view for a table": (
        "ALTER TABLE labels RENAME TO kept; CREATE VIEW labels AS SELECT 1 AS capture_id, content AS key, '' AS value "
        "FROM read_text('/etc/hostname')",
        "the table 'labels' is missing",
    ),
    "another column": ("ALTER TABLE labels ADD COLUMN more INTEGER DEFAULT 1", "the table 'labels' has other columns"),
    "a new table's name": ("CREATE TABLE graph_outputs (note VARCHAR)", "has the table 'graph_outputs', a name that"),
    "a built-in function's name": ("CREATE MACRO abs(x) AS 1", "has the macro 'abs', which replaces DuckDB's"),
    "a new table's name, for a view": (
        "CREATE VIEW Graph_Outputs AS SELECT 1 AS a",
        "has the view 'Graph_Outputs', a name",
    ),
    "a new table's name, for a macro": (
        "CREATE MACRO graph_outputs() AS TABLE SELECT 1 AS a",
        "has the table macro 'graph_outputs', a name",
    ),
    "a table's name, for a macro": ("CREATE MACRO captures(a) AS 1", "has the macro 'captures', a name that"),
    "a macro's name, for a macro of values": (
        "CREATE MACRO op_totals(a) AS 1",
        "has the macro 'op_totals', a name that",
    ),
    "a circle": (
        "UPDATE event_ticks SET parent_index = event_index WHERE capture_id = 1",
        "events of the capture 1 contain each other",
    ),
    "several events of a place": (
        f"INSERT INTO event_ticks SELECT e.* REPLACE (e.run_index + 1000 AS run_index) FROM event_ticks AS e "
        f"WHERE e.capture_id = ({TRACE}) AND e.event_index = "
        f"(SELECT min(i.event_index) FROM event_ticks AS i WHERE i.capture_id = ({TRACE}))",
        "several events are of the same place in the file",
    ),
    "an event without a thread": (
        f"UPDATE trace_events SET thread_index = 2147483647 WHERE capture_id = ({TRACE})",
        "an event is in no thread",
    ),
    "an event without a signature": (
        f"UPDATE event_ticks SET signature_index = signature_index + 1000000 WHERE capture_id = ({TRACE})",
        "an event has no signature",
    ),
    "signatures with gaps": (
        f"UPDATE signatures SET signature_index = signature_index * 1000 WHERE capture_id = ({TRACE})",
        "its signatures are not numbered from 0",
    ),
}


@pytest.mark.parametrize("what", CHANGED)
def test_what_is_not_as_that_version_made_it_is_refused(earlier: Path, what: str) -> None:
    statements, message = CHANGED[what]
    with duckdb.connect(str(earlier)) as plain:
        plain.execute(statements)
    before = earlier.read_bytes()
    with pytest.raises(WarehouseError, match=f"^{earlier}: .*{message}"):
        etq.open(earlier)
    assert earlier.read_bytes() == before and [each.name for each in earlier.parent.iterdir()] == ["lab.duckdb"]


# An event, and the two of its launch, each of which names the other's place as that of its parent, but in its own run.
OTHER_RUNS = [
    ("kernel", "unheard_of", 0, 1, None, 100, 7),
    ("cuda_runtime", "cudaLaunchKernel", 0, 2, 3, 10, 7),
    ("cpu_op", "nccl:all_reduce", 1, 3, 2, 5, None),
]


def test_a_parent_is_in_the_run_that_is_named(earlier: Path) -> None:
    with duckdb.connect(str(earlier)) as plain:
        [(capture,)] = plain.execute(TRACE).fetchall()
        for table in ("event_ticks", "trace_events", "signatures"):
            plain.execute(f"CREATE TEMP TABLE one AS FROM {table} WHERE capture_id = {capture} LIMIT 1")
            plain.execute(f"DELETE FROM {table} WHERE capture_id = {capture}")
            for index, (category, name, run, event, parent, start, correlation) in enumerate(OTHER_RUNS):
                given: dict[str, Any] = {
                    "signatures": {"signature_index": index, "category": category, "name": name},
                    "event_ticks": {
                        **{"run_index": run, "event_index": event, "signature_index": index, "parent_index": parent},
                        **{"parent_run_index": None, "start_ticks": start, "elapsed_ticks": 10},
                    },
                    "trace_events": {"run_index": run, "event_index": event, "correlation_id": correlation},
                }
                values = given[table]
                replaced = ", ".join(f"${column} AS {column}" for column in values)
                plain.execute(f"INSERT INTO {table} SELECT * REPLACE ({replaced}) FROM one", values)
            plain.execute("DROP TABLE one")
    command = [sys.executable, "-m", "etq", "upgrade", str(earlier), "--no-backup"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, f"{earlier}: of schema {SCHEMA_VERSION} now\n")


def test_a_name_of_etq_is_refused_when_views_are_replaced(tmp_path: Path) -> None:
    """In a file of today's schema, which another version of etq wrote; it is not noted as one that was compared."""
    path = tmp_path / "lab.duckdb"
    etq.open(path).close()
    with duckdb.connect(str(path)) as plain:
        plain.execute("CREATE MACRO op_totals(a) AS 1; UPDATE warehouse SET sql_sha256 = 'another'")
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(
            WarehouseError, match=f"^{path}: has the macro 'op_totals', a name that this version of etq"
        ):
            etq.open(path)
    assert path.read_bytes() == before


class FillingDisk:
    """A connection, on a disk that is full when the log is written into the file."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection, self._checkpoints = connection, 0

    def execute(self, query: str, *given: Any) -> duckdb.DuckDBPyConnection:
        self._checkpoints += query == "CHECKPOINT"
        if self._checkpoints == 2:
            raise duckdb.IOException('IO Error: Could not write file "lab.duckdb": No space left on device')
        return self._connection.execute(query, *given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_a_disk_that_fills_up_after_the_upgrade_is_not_said_to_have_undone_it(earlier: Path) -> None:
    with duckdb.connect(str(earlier), config=dict(SETTINGS)) as connection:
        match = (
            rf"was upgraded, but the disk is full: .*keep both files, .*; {earlier}.schema-4 is the file from before"
        )
        with pytest.raises(WarehouseError, match=match):
            upgrade_open(FillingDisk(connection), str(earlier))  # type: ignore[arg-type]
    with etq.open(earlier) as warehouse:
        assert warehouse.rows("SELECT schema_version FROM warehouse")[1] == [(SCHEMA_VERSION,)]
