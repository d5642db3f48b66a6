"""The tables of ops' and modules' times agree with the events of the capture."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import duckdb
import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.batches import ingest_linked
from tests.builders import ProfileEvent, delegate_call, delegated, dump, execute, framework, kernel, operator_call, run
from tests.conftest import CAPTURES, COPIES
from tests.trace_builders import event, trace, two_steps
from tests.warehouses import empty_warehouse


@pytest.fixture(scope="module")
def few() -> Iterator[Warehouse]:
    """Captures of one method, of several and of a delegate, each linked to its record."""
    with empty_warehouse() as opened:
        folders = (CAPTURES / name for name in ("mlp", "multimethod", "convnet_xnn"))
        dumps = (path for folder in folders for path in sorted(folder.glob("*.etdp")))
        ingest_linked(opened, [path for path in dumps if path.stem not in COPIES])
        yield opened


def test_ops_of_three_runs_by_hand(warehouse: Warehouse) -> None:
    """A delegate that counts cycles itself, in a call that takes 30, 50 and 90, and a kernel that the last run lacks."""
    cycles = ProfileEvent(None, 0, 1, delegate_debug_id_str="mul (cycles)", start_time=0, end_time=900)
    jump = ProfileEvent("JF_CALL", 0, 2, start_time=5, end_time=6)
    add = [operator_call(10, 30), kernel("add", 12, 28)]
    runs = [
        run("Execute", *before, cycles, delegate_call(30, 60 + more, 1), jump, execute(0, 100 + more))
        for more, before in ((0, add), (20, add), (60, []))
    ]
    warehouse.ingest(dump(run("Default", framework("Program::load_method", 0, 5)), *runs), name="run")
    columns = "op_index, kind, family, value_unit, is_additive, runs, calls, total_ticks, p25, p50, p90, outside_p25"
    assert warehouse.rows(f"SELECT {columns} FROM op_times ORDER BY ALL")[1] == [
        (0, "framework", "Method::execute", "ticks", True, 3, 3, 380, 110, 120, 152, 54),
        (1, "kernel", "add", "ticks", True, 2, 2, 32, 16, 16, 16, None),
        (2, "delegate", "mul", "cycles", False, 3, 3, 2700, 900, 900, 900, None),
        (3, "delegate_call", "DELEGATE_CALL", "ticks", True, 3, 3, 170, 40, 50, 82, None),
    ]
    assert warehouse.rows("FROM module_times")[1] == []


@pytest.mark.long
def test_a_module_of_one_op_takes_as_long_as_the_op(few: Warehouse) -> None:
    """And what contains it alone, too; the whole model takes as long as all ops."""
    times = "{0}.runs, {0}.total_ticks, {0}.p25, {0}.p50, {0}.p90"
    rows = few.rows(f"""
        SELECT m.module_path, list(({times.format("o")})), any_value(({times.format("m")}))
        FROM module_times AS m
        JOIN op_times AS o ON o.capture_id = m.capture_id AND o.kind = 'kernel'
            AND (o.module_path = m.module_path OR m.module_path = '' OR starts_with(o.module_path, m.module_path || '.'))
        WHERE m.capture_id = _capture_id('mlp') AND m.phase IS NULL
        GROUP BY m.module_path""")[1]
    alone = [(ops[0], of_module) for _, ops, of_module in rows if len(ops) == 1]
    assert len(alone) > 2 and all(op == of_module for op, of_module in alone)
    assert all(sum(op[1] for op in ops) == of_module[1] for _, ops, of_module in rows)


def test_times_have_the_step_of_their_clock(warehouse: Warehouse) -> None:
    """Of delegates 31.25 us, or whole microseconds in too few events to tell more; of the host none that is seen."""

    def file(*times: int) -> bytes:
        runs = [
            [delegated("op", 5, 5 + each), delegate_call(5, 200_006 + 777 * at), execute(0, 400_009 + 1_013 * at)]
            for at, each in enumerate(times)
        ]
        return dump(*[run("Execute", *events) for events in runs])

    warehouse.ingest_many([file(*(31_250 * count for count in (0, 1, 2, 3, 1, 2, 2, 5))), file(5_000, 9_000), file(0)])
    rows = warehouse.rows("SELECT capture_id, kind, resolution FROM op_times ORDER BY ALL")[1]
    host = ("delegate_call", "framework")
    steps = [31_250, 1_000, 1]
    assert rows == [
        (key, kind, step if kind == "delegate" else 1)
        for key, step in enumerate(steps, 1)
        for kind in ("delegate", *host)
    ]


@pytest.mark.long
def test_a_file_that_is_read_again(warehouse: Warehouse) -> None:
    """With another clock width the times change; the phases of its runs, and its record, stay."""
    path = CAPTURES / "mlp/mlp_wrap32.etdp"
    warehouse.ingest(path, name="run", clock_bits=64, etrecord=CAPTURES / "mlp/mlp.etrecord")
    wide = warehouse.rows("SELECT op_index, phase, runs, total_ticks FROM op_times ORDER BY ALL")[1]
    warehouse.connection.execute("UPDATE runs SET phase = 'decode' WHERE run_index > 1")
    warehouse.ingest(path, clock_bits=32)
    again = warehouse.rows("SELECT op_index, phase, runs, total_ticks FROM op_times ORDER BY ALL")[1]
    assert again != wide
    assert {row[1] for row in again} == {None, "decode"}
    modules = warehouse.rows("SELECT DISTINCT m.phase FROM module_times AS m ORDER BY ALL")[1]
    assert modules == [("decode",), (None,)]


@pytest.mark.long
def test_the_hash_of_ops_and_their_positions(few: Warehouse) -> None:
    """By hand: a hash of the same text, made of the rows of op_times here; and counted row by row."""
    columns, rows = few.rows("FROM op_times AS o WHERE o.phase IS NULL ORDER BY capture_id, op_index, scope")
    captures: dict[int, list[dict[str, Any]]] = defaultdict(list)
    places: dict[Any, int] = defaultdict(int)
    for row in rows:
        op = dict(zip(columns, row, strict=True))
        captures[op["capture_id"]].append(op)
        if op["op_index"] > 0:
            within = (op["capture_id"], op["scope"])
            in_module = (*within, "module", op["module_path"], op["op_type"] or op["family"])
            in_kind = (*within, "kind", op["kind"], op["family"])
            places[in_module] += 1
            places[in_kind] += 1
            assert (op["place_in_module"], op["place_in_kind"]) == (places[in_module], places[in_kind])
    assert max(places.values()) > 2
    expected = {}
    for capture, ops in captures.items():
        scopes = {op["scope"] for op in ops}
        parts = ("kind", "label", "chain_index", "instruction_id")
        names = parts if len(scopes) == 1 else ("scope", *parts)
        text = "\n".join("|".join(str(op[name]) for name in names if op[name] is not None) for op in ops)
        expected[capture] = (scopes.pop() if len(scopes) == 1 else None, hashlib.md5(text.encode()).hexdigest())
    found = few.rows("SELECT capture_id, scope, ops_hash FROM capture_ops")[1]
    assert {capture: (scope, ops_hash) for capture, scope, ops_hash in found} == expected
    assert len(found) > 20 and any(scope is None for _, scope, _ in found)


@pytest.mark.long
def test_what_a_trace_lacks_is_not_searched_for(warehouse: Warehouse, tmp_path: Path) -> None:
    """Planning the search for device times, shapes and modules takes longer than storing a small trace."""
    statements: list[str] = []

    class Recorded:
        sql = warehouse.connection.sql

        def execute(self, statement: str, parameters: object = None) -> duckdb.DuckDBPyConnection:
            statements.append(statement)
            return warehouse.connection.execute(statement, parameters)

    def finders(*events: dict[str, Any]) -> set[str]:
        path = tmp_path / "small.pt.trace.json"
        path.write_bytes(trace(*events))
        key = warehouse.ingest(path).capture_id
        statements.clear()
        etq.database.rollups.fill_rollups(cast("duckdb.DuckDBPyConnection", Recorded()), key)
        return {word.split("(")[0] for statement in statements for word in statement.split() if "_find_" in word}

    ops = {"_find_step_times", "_find_trace_op_times", "_find_trace_ops"}
    assert finders(*two_steps()) == ops | {"_find_device_step_times", "_find_op_shapes"}
    assert finders(event("cpu_op", "aten::relu", 10, 40)) == ops
    assert finders(event("python_function", "nn.Module: Net_0", 10, 40)) == ops | {"_find_trace_module_times"}
