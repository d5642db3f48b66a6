"""The tables of answers have the rows of the views that they are named after, for default arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import etq
from etq import catalog
from etq.database.handles import Capture
from etq.database.rollups import ANSWERS
from etq.errors import EtqError
from etq.warehouse.warehouse import Warehouse
from tests.builders import AllocationEvent, delegate_call, dump, execute, kernel, operator_call, run
from tests.conftest import CAPTURES, shared_file
from tests.sampling import IS_WHOLE
from tests.sql.test_op_efficiency import H100
from tests.sql.test_step_efficiency import product
from tests.trace_builders import event, trace

DATASETS = Path(__file__).parents[2] / "datasets"


def views_and_tables(warehouse: Warehouse, name: str) -> list[tuple[str, list[Any], list[Any]]]:
    """Of each table of answers: its view, the view's rows of a capture, and those of the table."""
    found = []
    for table in ANSWERS:
        view = table.removeprefix("all_")
        rows_of_view = f"{view}($capture)"
        if view == "op_totals":  # of families, which have no instruction
            assert warehouse.rows(f"FROM {rows_of_view} WHERE instruction_id IS NOT NULL", capture=name)[1] == []
            rows_of_view = f"(SELECT * EXCLUDE (instruction_id) FROM {rows_of_view})"
        columns, rows = warehouse.rows(f"FROM {rows_of_view}", capture=name)
        stored = warehouse.rows(
            f"SELECT t.* EXCLUDE (capture_id, place) FROM {table} AS t"
            " JOIN captures AS c USING (capture_id) WHERE c.name = $name ORDER BY t.place",
            name=name,
        )
        assert stored[0] == columns
        found.append((view, rows, stored[1]))
    return found


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
    for (name,) in warehouse.rows(query, keys=keys)[1]:
        for view, rows, stored in views_and_tables(warehouse, name):
            assert stored == rows, (name, view)
            number += len(rows)
    return number


def bundled(pattern: str) -> list[Path]:
    return sorted({*CAPTURES.glob(pattern), *DATASETS.glob(pattern)})


def test_captures_of_the_fast_tests() -> None:
    files = [CAPTURES / f"{name}/{name}.etdp" for name in ("mlp", "cond", "mlp_xnn", "multimethod", "demo_int")]
    files += [CAPTURES / "prof_result/delegate.prof_result.bin", CAPTURES / "mlp/mlp_alloc.etdp"]
    with etq.open() as warehouse:
        assert ingest_all(warehouse, files) == 7
        assert assert_equal(warehouse) > 100
        # One by one, and all at once, which is a query of its own.
        together = warehouse.ingest_many(sorted((CAPTURES / "fleet/mlp").glob("0[0-2].etdp")))
        assert assert_equal(warehouse, together) > 100


@pytest.mark.long
@pytest.mark.parametrize("part", range(4 if IS_WHOLE else 2))
def test_bundled_captures(part: int) -> None:
    files = bundled("**/*.etdp")[part :: 4 if IS_WHOLE else 32] + bundled("**/*.prof_result.bin")[part::4]
    with etq.open() as warehouse:
        assert ingest_all(warehouse, files) > 5
        assert assert_equal(warehouse) > 150


def test_a_file_that_is_read_has_its_answers(tmp_path: Path) -> None:
    """As a warehouse in a file has them, whether one file is read or two."""
    files = [CAPTURES / f"{name}.etdp" for name in ("mlp/mlp_alloc", "cond/cond")]
    query = """
        SELECT t.* EXCLUDE capture_id FROM {} AS t JOIN captures AS c USING (capture_id) WHERE c.name = 'mlp_alloc'
        ORDER BY ALL
    """
    with etq.open(tmp_path / "w.duckdb") as warehouse, etq.read(files[0]) as one, etq.read(*files) as two:
        warehouse.ingest_many(files)
        for table in (*ANSWERS, "all_advice"):
            rows = warehouse.rows(query.format(table))[1]
            assert rows and one.rows(query.format(table))[1] == two.rows(query.format(table))[1] == rows


def test_a_published_capture() -> None:
    with etq.open() as warehouse:
        assert ingest_all(warehouse, [shared_file("captures/upstream/tutorial.etdp")]) == 1
        assert assert_equal(warehouse) > 4


def test_traces_have_no_answers(warehouse: Warehouse) -> None:
    warehouse.ingest(CAPTURES / "torch/conv_infer.pt.trace.json.gz")
    for table in ANSWERS:
        assert warehouse.rows(f"FROM {table}")[1] == []


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


def test_keys_are_unique(tmp_path: Path) -> None:
    """The key that the comment of each table of answers names is in no two rows, and its columns are never NULL."""
    tables = [table for table in catalog.tables() if table.name.startswith("all_")]
    keys = {table.name: re.findall(r"Key: ([\w, ]+)\.", table.text) for table in tables}
    assert {*keys} == {*ANSWERS, "all_advice", "all_step_efficiency"}
    files = [CAPTURES / f"{name}.etdp" for name in ("mlp/mlp_alloc", "mlp_xnn/mlp_xnn", "multimethod/multimethod")]
    with etq.open(tmp_path / "w.duckdb") as warehouse:
        warehouse.ingest_many([*files, CAPTURES / "torch/mlp_train.pt.trace.json.gz"])
        steps = [event("user_annotation", f"ProfilerStep#{step}", 100 * step, 100 * step + 100) for step in (1, 2)]
        warehouse.ingest(trace(*steps, *product(110, 1, 8, 8, 8), *product(210, 2, 8, 8, 8), **H100), name="rated")
        for table, [key] in keys.items():
            query = f"SELECT count(*), count(DISTINCT ({key})), bool_and(({key}) IS NOT NULL) FROM {table}"
            [(rows, different, is_known)] = warehouse.rows(query)[1]
            assert rows == different > 0 and is_known, table
            assert all(str(each.type).endswith("NOT NULL") for each in catalog.named(table).columns if each.name in key)


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


def test_a_call_of_a_delegate_is_a_part(warehouse: Warehouse) -> None:
    warehouse.ingest(dump(run("Execute", delegate_call(10, 60, 1), execute(0, 100))), name="run")
    rows = warehouse.rows("SELECT component, instruction_id, total_ticks FROM all_execute_breakdown ORDER BY place")[1]
    assert rows == [("rest", None, 50), ("delegate unaccounted", 1, 50)]
