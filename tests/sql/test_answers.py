"""Tables and views `all_…` have the rows of the views that they are named after, for default arguments."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import etq
import etq.lake
from etq import catalog
from etq.database.handles import Capture
from etq.database.rollups import ADVICE, ANSWERS, EFFICIENCY
from etq.errors import EtqError, QueryError
from etq.maintenance.copying import backup
from etq.maintenance.merge import merge
from etq.warehouse.warehouse import Warehouse
from tests.builders import AllocationEvent, delegate_call, dump, execute, kernel, operator_call, run
from tests.conftest import CAPTURES, shared_file
from tests.sampling import whole
from tests.sql.test_op_efficiency import H100
from tests.sql.test_step_efficiency import product
from tests.trace_builders import event, trace

DATASETS = Path(__file__).parents[2] / "datasets"
# The columns of the key of each, as its comment names them.
KEYS = {
    each.name: re.findall(r"Key: ([\w, ]+)\.", each.text)[0].split(", ")
    for each in catalog.public_objects()
    if each.name.startswith("all_")
}
OF_DUMPS = [name for name in KEYS if name not in (ADVICE, EFFICIENCY)]
# Columns that all captures' rows leave out: a family of ops has no instruction, and others are values of single runs.
LEFT_OUT = {"all_op_totals": "instruction_id", "all_inspector_events": "raw, start_ticks"}


def views_and_tables(
    warehouse: Warehouse, names: Sequence[str], tables: Sequence[str] = OF_DUMPS
) -> Iterator[tuple[str, str, list[Any], list[Any]]]:
    """Of each of these captures and tables: its name, the view, the view's rows of it, and those that the table has of
    it. What the capture lacks for a view is an error of the view; then its rows are none.
    """
    lacking = dict(warehouse.rows("SELECT capture, string_agg(views, ', ') FROM missing_needs GROUP BY ALL")[1])
    for name in names:
        assert warehouse.rows("FROM op_totals($capture) WHERE instruction_id IS NOT NULL", capture=name)[1] == []
    for table in tables:
        view = table.removeprefix("all_")
        (_, *columns), stored = warehouse.rows(
            f"SELECT c.name AS capture_name, t.* FROM {table} AS t JOIN captures AS c USING (capture_id)"
            f" ORDER BY {', '.join(f't.{column}' for column in KEYS[table])}"
        )
        own = columns.index("capture_id"), *([columns.index("place")] if "place" in KEYS[table] else [])
        assert own == (0, 1)[: len(own)]
        for name in names:
            rows: list[Any] = []
            if view in (lacking.get(name) or "").split(", "):
                with pytest.raises(QueryError):
                    warehouse.rows(f"FROM {view}($capture)", capture=name)
            else:
                left_out = f" EXCLUDE ({LEFT_OUT[table]})" if table in LEFT_OUT else ""
                found, rows = warehouse.rows(f"SELECT *{left_out} FROM {view}($capture)", capture=name)
                assert columns[len(own) :] == found
            yield name, view, rows, [row[1 + len(own) :] for row in stored if row[0] == name]


def ingest_all(warehouse: Warehouse, files: Sequence[Path]) -> int:
    """Ingest the files that are captures, by their paths, each with the ETRecord beside it; return how many."""
    known = set()
    for file in files:
        try:
            capture = warehouse.ingest(file, name=file.as_posix())
        except EtqError:
            continue
        known.add(capture)
        for record in file.parent.glob(f"{file.stem}.etrecord"):
            try:
                warehouse.link(capture, warehouse.ingest_record(record))
            except EtqError:
                continue
    return len(known)


def assert_equal(warehouse: Warehouse, captures: Sequence[Capture | EtqError] | None = None) -> int:
    """Whether tables and views are equal on these or all captures but traces; returns how many rows they have."""
    number = 0
    query = "SELECT c.name FROM captures AS c WHERE c.format <> 'torch_trace' AND coalesce(c.capture_id IN $keys, true)"
    keys = None if captures is None else [each.capture_id for each in captures if isinstance(each, Capture)]
    for name, view, rows, stored in views_and_tables(
        warehouse, [name for (name,) in warehouse.rows(query, keys=keys)[1]]
    ):
        assert stored == rows, (name, view)
        number += len(rows)
    return number


def bundled(pattern: str) -> list[Path]:
    return sorted({*CAPTURES.glob(pattern), *DATASETS.glob(pattern)})


@pytest.mark.long
def test_captures_of_all_kinds() -> None:
    files = [CAPTURES / f"{name}/{name}.etdp" for name in ("mlp", "cond", "mlp_xnn", "multimethod", "demo_int")]
    files += [CAPTURES / "prof_result/delegate.prof_result.bin", CAPTURES / "mlp/mlp_alloc.etdp"]
    with etq.open() as warehouse:
        assert ingest_all(warehouse, files) == 7
        assert assert_equal(warehouse) > 100
        # One by one, and all at once, which is a query of its own.
        together = warehouse.ingest_many(sorted((CAPTURES / "fleet/mlp").glob("0[0-2].etdp")))
        assert assert_equal(warehouse, together) > 100


@pytest.mark.long
@whole
@pytest.mark.parametrize("part", range(4))
def test_bundled_captures(part: int) -> None:
    files = bundled("**/*.etdp")[part::4] + bundled("**/*.prof_result.bin")[part::4]
    with etq.open() as warehouse:
        assert ingest_all(warehouse, files) > 5
        assert assert_equal(warehouse) > 150


@pytest.mark.long
def test_a_file_that_is_read_has_its_answers(tmp_path: Path) -> None:
    """As a warehouse in a file has them, whether one file is read or two."""
    files = [CAPTURES / f"{name}.etdp" for name in ("mlp/mlp_alloc", "cond/cond")]
    query = """
        SELECT t.* EXCLUDE capture_id FROM {} AS t JOIN captures AS c USING (capture_id) WHERE c.name = 'mlp_alloc'
        ORDER BY ALL
    """
    with etq.open(tmp_path / "w.duckdb") as warehouse, etq.read(files[0]) as one, etq.read(*files) as two:
        warehouse.ingest_many(files)
        for table in (*ANSWERS, *KEYS):
            if table.startswith(("all_module", "all_source", "all_delegate", "all_step")):  # without a record, of dumps
                continue
            rows = warehouse.rows(query.format(table))[1]
            assert rows and one.rows(query.format(table))[1] == two.rows(query.format(table))[1] == rows


@pytest.mark.long
def test_a_published_capture() -> None:
    with etq.open() as warehouse:
        assert ingest_all(warehouse, [shared_file("captures/upstream/tutorial.etdp")]) == 1
        assert assert_equal(warehouse) > 4


@pytest.mark.long
def test_traces_have_no_answers(warehouse: Warehouse) -> None:
    warehouse.ingest(CAPTURES / "torch/conv_infer.pt.trace.json.gz", name="trace")
    for table in (*ANSWERS, *OF_DUMPS):
        if table != "all_inspector_events":
            assert warehouse.rows(f"FROM {table}")[1] == []
    [(_, _, rows, of_all)] = views_and_tables(warehouse, ["trace"], ["all_inspector_events"])
    assert of_all == rows and len(rows) > 10


def test_ops_of_two_runs_by_hand(warehouse: Warehouse) -> None:
    """The kernel takes 16 of 30 ticks of its call, and of 100 and 140 of the executes, in nanoseconds."""
    runs = [run("Execute", kernel("add", 12, 28), operator_call(10, 40), execute(0, end)) for end in (100, 140)]
    warehouse.ingest(dump(*runs), name="run")
    rows = warehouse.rows(
        "SELECT op, calls, total, per_execute, share_percent, unit FROM all_op_totals ORDER BY place"
    )[1]
    assert rows == [
        ("(unattributed)", 2, 0.18, 0.09, 75.0, "us"),
        ("add", 2, 0.032, 0.016, 100 * 32 / 240, "us"),
        ("(framework)", 2, 0.028, 0.014, 100 * 28 / 240, "us"),
    ]
    tax = warehouse.rows("SELECT run_index, execute, kernels, tax FROM all_framework_tax ORDER BY place")[1]
    assert tax == [(0, 0.1, 0.016, 0.084), (1, 0.14, 0.016, 0.124)]


@pytest.mark.long
def test_keys_are_unique(tmp_path: Path) -> None:
    """The key that the comment of each table of answers names is in no two rows, and its columns are never NULL."""
    facts = catalog.named("signature_times")
    keys = {**KEYS, facts.name: re.findall(r"Key: ([\w, ]+)\.", facts.text)[0].split(", ")}
    assert {*keys} >= {*ANSWERS, ADVICE, EFFICIENCY}
    files = [CAPTURES / f"{name}.etdp" for name in ("mlp/mlp_alloc", "mlp_xnn/mlp_xnn", "multimethod/multimethod")]
    with etq.open(tmp_path / "w.duckdb") as warehouse:
        warehouse.ingest_many([*files, CAPTURES / "torch/mlp_train.pt.trace.json.gz"])
        for file in files[1:]:
            warehouse.link(file.stem, file.with_suffix(".etrecord"))
        steps = [event("user_annotation", f"ProfilerStep#{step}", 100 * step, 100 * step + 100) for step in (1, 2)]
        warehouse.ingest(trace(*steps, *product(110, 1, 8, 8, 8), *product(210, 2, 8, 8, 8), **H100), name="rated")
        for table, columns in keys.items():
            key = ", ".join(columns)
            query = f"SELECT count(*), count(DISTINCT ({key})), bool_and(({key}) IS NOT NULL) FROM {table}"
            [(rows, different, is_known)] = warehouse.rows(query)[1]
            assert rows == different > 0 and is_known, table
            if catalog.named(table).kind == "table":
                types = {each.name: str(each.type) for each in catalog.named(table).columns}
                assert all(types[column].endswith("NOT NULL") for column in columns)


def test_memory_of_captures_by_hand(warehouse: Warehouse) -> None:
    """Two runs of two allocators: 100 and 20 bytes, then 30, of `a`; 7 bytes in all of `b`. Others have no rows."""
    first = run("Execute", AllocationEvent(1, 100), AllocationEvent(1, 20), execute(0, 9), allocators=("a", "b"))
    second = run("Execute", AllocationEvent(1, 30), AllocationEvent(2, 7), execute(0, 9), allocators=("a", "b"))
    warehouse.ingest(dump(run("Execute", execute(0, 5))), name="none")
    warehouse.ingest(dump(first, second), name="allocating")
    assert warehouse.rows("SELECT * EXCLUDE capture_id FROM all_memory_totals ORDER BY place")[1] == [
        (1, "a", 2, 3, 150, 100, 120), (2, "b", 2, 1, 7, 7, 7),
    ]  # fmt: skip
    warehouse.prune(0, selectors=["allocating"], keep_rollups=True)
    assert warehouse.rows("SELECT total_bytes FROM all_memory_totals ORDER BY place")[1] == [(150,), (7,)]


@pytest.mark.long
def test_answers_change_with_what_they_are_computed_from(warehouse: Warehouse) -> None:
    """A record names the method, and a time scale the unit."""
    path = CAPTURES / "mlp/mlp.etdp"
    capture = warehouse.ingest(path, name="run")
    question = "SELECT DISTINCT t.method, t.unit FROM all_op_totals AS t"
    [before] = warehouse.rows(question)[1]
    warehouse.link(capture, warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord"))
    [linked] = warehouse.rows(question)[1]
    assert before != linked == ("forward", "us")
    warehouse.ingest(path, time_scale="cycles")
    assert warehouse.rows(question)[1] == [("forward", "cycles")]
    assert assert_equal(warehouse) > 10


@pytest.mark.long
def test_a_linked_file_that_is_read_has_its_answers(tmp_path: Path) -> None:
    """All tables and views of this name, each asked first: in memory, they are computed for the query that names them."""
    file, record = CAPTURES / "mlp_xnn/mlp_xnn.etdp", CAPTURES / "mlp_xnn/mlp_xnn.etrecord"
    with etq.open(tmp_path / "w.duckdb") as warehouse:
        warehouse.ingest(file, etrecord=record)
        for table in KEYS:
            query = f"SELECT t.* EXCLUDE capture_id FROM {table} AS t ORDER BY ALL"
            rows = warehouse.rows(query)[1]
            assert bool(rows) == (table not in ("all_step_efficiency", "all_memory_totals")), table
            with etq.read(file, etrecord=record) as read:
                assert read.rows(query)[1] == rows, table


@pytest.mark.long
def test_linked_captures_of_all_ways_to_store_them(tmp_path: Path) -> None:
    """Linking, linking anew, merging, copying and removing keep the rows right, in a file and in a lake. Pruning keeps
    all rows that need no events.
    """
    paths = [tmp_path / f"{name}.duckdb" for name in ("one", "two", "both", "copy")]
    for path, names in zip(paths, (("mlp", "multimethod"), ("mlp_xnn", "demo_str")), strict=False):
        with etq.open(path) as warehouse:
            assert ingest_all(warehouse, [CAPTURES / f"{name}/{name}.etdp" for name in names]) == len(names)
    merge(paths[:2], paths[2])
    backup(paths[2], paths[3])
    lake = tmp_path / "lake"
    with etq.open(paths[2]) as warehouse:
        etq.lake.export(lake, warehouse)
    counts = [f"SELECT '{table}', count(*), count(DISTINCT capture_id) FROM {table}" for table in OF_DUMPS]
    query = " UNION ALL ".join(counts) + " ORDER BY ALL"
    with etq.open(paths[3]) as warehouse, etq.open(lake, read_only=True) as of_lake:
        expected = warehouse.rows(query)[1]
        assert of_lake.rows(query)[1] == expected
        assert {number for table, _, number in expected if table != "all_memory_totals"} == {4}
        # Those of ingest are the rows of views, as `test_captures_of_all_kinds` shows.
        with etq.open(paths[0], read_only=True) as one, etq.open(paths[1], read_only=True) as two:
            for table in OF_DUMPS:
                named = f"SELECT c.name, t.* EXCLUDE capture_id FROM {table} AS t JOIN captures AS c USING (capture_id)"
                both = Counter(map(repr, one.rows(named)[1] + two.rows(named)[1]))
                assert Counter(map(repr, warehouse.rows(named)[1])) == both, table
                assert Counter(map(repr, of_lake.rows(named)[1])) == both, table
        linked = (CAPTURES / "mlp/mlp.etdp").as_posix()
        before = warehouse.rows("FROM all_module_totals ORDER BY ALL")[1]
        warehouse.link(linked, CAPTURES / "convnet/convnet.etrecord")
        assert warehouse.rows("FROM all_module_totals ORDER BY ALL")[1] != before
        assert assert_equal(warehouse, [warehouse.capture(linked)]) > 30
        warehouse.link(linked, CAPTURES / "mlp/mlp.etrecord")
        assert warehouse.rows("FROM all_module_totals ORDER BY ALL")[1] == before
        kept = {table: warehouse.rows(f"FROM {table} ORDER BY ALL")[1] for table in OF_DUMPS}
        warehouse.prune(0, keep_rollups=True)
        for table, rows in kept.items():
            assert warehouse.rows(f"FROM {table} ORDER BY ALL")[1] == ([] if "inspector" in table else rows), table
        warehouse.remove(linked)
        assert {row[2] for row in warehouse.rows(query)[1] if row[0] == "all_module_totals"} == {3}


@pytest.mark.long
def test_a_key_reads_the_rows_of_its_capture(tmp_path: Path) -> None:
    """Of twenty captures, a question about one reads the stored times of that, not of all."""
    with etq.open(tmp_path / "w.duckdb") as warehouse:
        files = sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))[:20]
        captures = warehouse.ingest_many(files, link_to=[warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord")])
        assert len([each for each in captures if isinstance(each, Capture)]) == len(files)
        for table, stored, column in (
            ("all_source_totals", "signature_times", "own_executes"),
            ("all_module_totals", "signature_times", "own_executes"),
            ("all_delegate_coverage", "signature_times", "own_executes"),
            ("all_inspector_events", "event_ticks", "elapsed_ticks"),
        ):
            [(of_one,)] = warehouse.rows(f"SELECT count(*) FROM {stored} WHERE capture_id = 7")[1]
            read = rows_read(warehouse, f"FROM {table} WHERE capture_id = 7", column)
            assert read and max(read) <= of_one, table


def rows_read(warehouse: Warehouse, query: str, column: str) -> list[int]:
    """How many rows a query's scans yield that read a column of this name."""
    [(_, plan)] = warehouse.rows(f"EXPLAIN (ANALYZE, FORMAT json) {query}")[1]
    operators: list[dict[str, Any]] = json.loads(plan)["operator"]
    found = []
    while operators:
        operator = operators.pop()
        operators += operator.get("children", [])
        if operator["type"] == "TABLE_SCAN" and column in str(operator["extra_info"].get("Projections")):
            found.append(operator["intermediate_rows"])
    return found


def test_events_of_captures_by_hand(warehouse: Warehouse) -> None:
    """A kernel takes 10, 20 and 40 ns: its percentiles lie between, by linear interpolation."""
    runs = [run("Execute", kernel("add", 0, end), execute(0, 50)) for end in (10, 20, 40)]
    warehouse.ingest(dump(*runs), name="run")
    warehouse.ingest(dump(run("Execute", execute(0, 5))), name="other")
    columns = "p10 * 1000, p50 * 1000, p90 * 1000, avg * 1000, min * 1000, max * 1000, unit"
    query = f"SELECT {columns} FROM all_inspector_events WHERE event_name = 'native_call_add.out'"
    [(*numbers, unit)] = warehouse.rows(query)[1]
    assert numbers == pytest.approx([12, 20, 36, 70 / 3, 10, 40]) and unit == "us"
    assert warehouse.rows("SELECT count(*) FROM all_inspector_events")[1] == [(3,)]


def test_a_call_of_a_delegate_is_a_part(warehouse: Warehouse) -> None:
    warehouse.ingest(dump(run("Execute", delegate_call(10, 60, 1), execute(0, 100))), name="run")
    rows = warehouse.rows("SELECT component, instruction_id, total_ticks FROM all_execute_breakdown ORDER BY place")[1]
    assert rows == [("rest", None, 50), ("delegate unaccounted", 1, 50)]
