"""What a person finds in Python: a warehouse, its views and results that print themselves; files that are only looked at."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import etq
from etq import catalog
from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.conftest import CAPTURES
from tests.sql.test_trends import capture
from tests.warehouses import empty_warehouse

BUILDS = 6


@pytest.fixture(scope="module")
def lab() -> Iterator[Warehouse]:
    """Six captures of build 1, and six of build 2, whose `addmm` is slower."""
    with empty_warehouse() as warehouse:
        ingest_all(
            warehouse,
            [
                Labelled(
                    f"b{build}-{number}",
                    capture(10 * build + number, {"addmm": 1.5} if build == 2 else None),
                    {"build": str(build)},
                    None,
                )
                for build in (1, 2)
                for number in range(BUILDS)
            ],
        )
        yield warehouse


@pytest.mark.long
def test_compare(lab: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    compared = lab.compare("build=1", "build=2")
    assert compared.ops.fetchall() == lab.compare_ops("build=1", "build=2").fetchall()
    assert compared.totals.columns == lab.compare_captures("build=1", "build=2").columns
    rows = dict(compared.ops.select("op", "verdict").fetchall())
    assert rows["addmm"] == "slower" and compared.verdicts[0].startswith("1 op is slower: addmm @0 +")
    assert str(compared) == "\n".join(compared.verdicts) == repr(compared)
    compared.show(1)
    shown = capsys.readouterr().out
    assert shown.startswith(f"{compared}\n\nIn all rows: ") and shown.count("\naddmm ") == 1
    # A capture is a side, too; options are those of the views.
    one = lab.compare(lab.capture("b1-0"), "b2-0", unit="ns")
    assert {unit for (unit,) in one.ops.select("unit").fetchall()} == {"ns"}
    assert one.findings.columns == ["rule", "detail"]
    with pytest.raises(QueryError, match="compare takes no over; it takes unit, quantile"):
        lab.compare("build=1", "build=2", over="x")
    with pytest.raises(QueryError, match="no capture matches build=9"):
        lab.compare("build=1", "build=9")


FOLDER = CAPTURES / "mlp"


@pytest.fixture(scope="module")
def stored() -> etq.Warehouse:
    warehouse = etq.open()
    warehouse.ingest(FOLDER / "mlp_debug.etdp", debug_buffer=FOLDER / "mlp_debug.bin", etrecord=FOLDER / "mlp.etrecord")
    return warehouse


@pytest.fixture(scope="module")
def file() -> etq.Warehouse:
    return etq.read(FOLDER / "mlp_debug.etdp", debug_buffer=FOLDER / "mlp_debug.bin", etrecord=FOLDER / "mlp.etrecord")


def test_what_links_find_is_there_when_asked(stored: etq.Warehouse, file: etq.Warehouse) -> None:
    """Tables that are filled only when a query names them, in any order of questions; and logged values."""
    tables = ("signature_outputs", "signature_ops", "node_values", "graph_outputs", "op_edges", "record_members")
    for table in (*tables, "logged_values('@latest')"):
        query = f"FROM {table} ORDER BY ALL"
        assert stored.rows(query)[1] == file.rows(query)[1] != [], table


def test_a_view_that_needs_more_than_the_capture(file: etq.Warehouse) -> None:
    found = file.find_total_for_module(module="head")  # type: ignore[call-arg]
    assert found.fetchall() == file.find_total_for_module("@latest", "head").fetchall()
    with pytest.raises(etq.QueryError, match="missing a required argument: 'module'"):
        file.find_total_for_module()  # type: ignore[call-arg]


@pytest.mark.long
def test_tables_and_views_are_attributes(stored: etq.Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    known = {each.name for each in catalog.public_objects() if each.kind != "scalar macro"}
    assert known <= {*dir(stored)} and {"ingest", "sql"} <= {*dir(stored)}
    for table in sorted(known - {"captures"}):
        found = getattr(stored, table)
        assert callable(found) or found.columns == stored.sql(f"FROM {table}").columns, table
    print(stored.captures())
    assert "\nmlp_debug " in capsys.readouterr().out


@pytest.mark.long
def test_several_captures(lab: Warehouse) -> None:
    found = lab.percentiles(["build=1", "b2-0", lab.capture("b1-0")], quantiles=[0.5])
    names = [*(f"b1-{number}" for number in range(BUILDS)), "b2-0"]
    expected = [(name, *row) for name in names for row in lab.percentiles(name, quantiles=[0.5]).fetchall()]
    assert sorted(rows := found.fetchall()) == sorted(expected) and found.columns[0] == "capture"
    assert [*dict.fromkeys(row[0] for row in rows)] == names
    keys = lab.rows("SELECT c.capture_id FROM captures AS c WHERE c.name IN ('b1-0', 'b2-0')")[1]
    assert {row[0] for row in lab.percentiles([key for (key,) in keys]).fetchall()} == {"b1-0", "b2-0"}
    with pytest.raises(QueryError, match="no capture matches b9; "):
        lab.percentiles(["b1-0", "b9"])
    with pytest.raises(QueryError, match="percentiles: no captures; name one or more"):
        lab.percentiles([])


def test_frames_are_joined(stored: etq.Warehouse) -> None:
    pandas = pytest.importorskip("pandas")
    meta = pandas.DataFrame({"name": ["other", "mlp_debug"], "author": ["ada", "max"]})
    query = "SELECT c.name, m.author FROM captures AS c JOIN meta AS m USING (name) WHERE m.author = $author"
    joined = stored.sql(query, meta=meta, author="max")
    assert joined.fetchall() == stored.rows(query, meta=stored.sql("FROM meta", meta=meta), author="max")[1]
    assert joined.fetchall() == [("mlp_debug", "max")]
    with pytest.raises(QueryError, match="Table with name meta does not exist"):
        stored.sql(query, author="max")
    with pytest.raises(QueryError, match="captures: a table or view of etq"):
        stored.sql("FROM captures", captures=meta)


@pytest.mark.long
def test_what_was_read_keeps_nobody_from_writing(tmp_path: Path) -> None:
    """An open reader would keep the database, and its lock, after the warehouse is closed."""
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(FOLDER / "mlp.etdp")
        readers = [getattr(warehouse.event_times("mlp"), name)() for name in ("arrow", "fetch_record_batch")]
        stream = warehouse.event_times("mlp").__arrow_c_stream__()
        rows = iter(warehouse.event_times("mlp").fetchall())
        warehouse.label("mlp", device="a")
    code = "import etq, sys; etq.open(sys.argv[1], wait=0).label('mlp', device='b')"
    subprocess.run([sys.executable, "-c", code, path], check=True)
    expected = len([*rows])
    assert [len(reader.read_all()) for reader in readers] == [expected, expected] and expected > 0 and stream


def test_errors_are_those_of_etq(lab: Warehouse) -> None:
    result = lab.sql("SELECT error('broken: ' || c.name) AS broken FROM captures AS c")
    for read in (result.fetchall, result.arrow, result.to_dicts, result.show):
        with pytest.raises(QueryError, match="^broken: b1-0$"):
            read()
    with pytest.raises(QueryError, match='"name" not found'):
        result.select("name")


def test_it_closes(tmp_path: Path) -> None:
    with etq.read((FOLDER / "mlp.etdp").read_bytes()) as file:
        assert file.only is not None and file.only.format == "etdump" and file.only.name == "bytes"
        file.sql("SET enable_external_access = false").fetchall()  # not for the next one
    assert not file.is_open
    with pytest.raises(etq.FormatError, match="no such file"):
        etq.read(tmp_path / "none.etdp")
