"""The tables of ops' and modules' times agree with the events of the capture."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path
from typing import Any, cast

import duckdb
import numpy as np
import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.builders import ProfileEvent, delegate_call, delegated, dump, execute, framework, kernel, operator_call, run
from tests.conftest import CAPTURES
from tests.sampling import FEW
from tests.sql.test_real_captures import NAMES, executes
from tests.trace_builders import event, trace, two_steps

QUANTILES = (25, 50, 90)


def raw_events(warehouse: Warehouse, name: str) -> list[dict[str, Any]]:
    """The events within executes, with the scope of their run."""
    columns, rows = warehouse.rows(
        """
        SELECT e.*, coalesce(r.method, r.name) AS scope, r.phase
        FROM events AS e
        JOIN captures AS c ON c.capture_id = e.capture_id AND c.name = $name
        JOIN runs AS r ON r.capture_id = e.capture_id AND r.run_index = e.run_index
        WHERE e.execute_index IS NOT NULL AND e.duration_ticks IS NOT NULL
        """,
        name=name,
    )
    return [dict(zip(columns, row, strict=True)) for row in rows]


def expected_ops(events: list[dict[str, Any]], phase: str | None) -> dict[Any, list[int]]:
    """The times of each run by op, computed by the definition in the table's documentation."""
    with_kernel = {
        (e["block_index"], e["chain_index"], e["instruction_id"])
        for e in events
        if e["kind"] in ("kernel", "delegate_call")
    }
    times: dict[Any, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for e in events:
        if phase is not None and e["phase"] != phase:
            continue
        instruction = (e["chain_index"], e["instruction_id"])
        if e["value_unit"] not in ("ticks", "us", "cycles"):
            continue
        if e["kind"] == "framework" and e["name"] in ("Method::execute", "Method::step"):
            times[(e["scope"], "framework")][e["run_index"]] += e["duration_ticks"]
        elif e["kind"] in ("kernel", "delegate", "delegate_call", "user") or (
            e["kind"] == "operator_call" and (e["block_index"], *instruction) not in with_kernel
        ):
            key = (e["scope"], e["kind"], e["label"], *instruction)
            times[key][e["run_index"]] += e["duration_ticks"]
    return {key: list(runs.values()) for key, runs in times.items()}


def check_ops(warehouse: Warehouse, name: str, phase: str | None = None) -> int:
    expected = expected_ops(raw_events(warehouse, name), phase)
    _, rows = warehouse.rows(
        """
        SELECT o.op_index, o.scope, o.kind, o.label, o.chain_index, o.instruction_id, o.runs, o.total_ticks,
            o.p25, o.p50, o.p90, o.resolution
        FROM op_times AS o
        JOIN captures AS c ON c.capture_id = o.capture_id AND c.name = $name
        WHERE o.phase IS NOT DISTINCT FROM $phase
        """,
        name=name,
        phase=phase,
    )
    found = {}
    for index, scope, kind, label, chain, instruction, *numbers in rows:
        assert (index == 0) == (kind == "framework")
        found[(scope, kind) if index == 0 else (scope, kind, label, chain, instruction)] = numbers
    assert len(found) == len(rows) and found.keys() == expected.keys()
    for key, (runs, total, p25, p50, p90, resolution) in found.items():
        times = np.array(expected[key])
        assert (runs, total) == (len(times), times.sum())
        assert [p25, p50, p90] == pytest.approx(np.percentile(times, QUANTILES), rel=1e-12)
        some = times[times > 0]
        halves = [step for step in (1_000_000, 1000) if len(some) and 2 * (some % step == 0).sum() >= len(some)]
        assert resolution == (halves or [1])[0], key
    return len(found)


def expected_modules(warehouse: Warehouse, name: str, phase: str | None) -> dict[Any, list[int]]:
    """The self times of each run's events by module, including nested modules."""
    events = raw_events(warehouse, name)
    _, rows = warehouse.rows(
        """
        SELECT o.signature_index, o.module_path FROM signature_ops AS o
        JOIN captures AS c ON c.capture_id = o.capture_id AND c.name = $name WHERE o.module_path IS NOT NULL
        """,
        name=name,
    )
    modules = dict(rows)
    inner: dict[Any, int] = defaultdict(int)
    for e in events:
        if e["parent_index"] is not None and (e["clock"], e["value_unit"]) == ("host", "ticks"):
            inner[(e["parent_run_index"], e["parent_index"])] += e["duration_ticks"]
    times: dict[Any, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for e in events:
        module = modules.get(e["signature_index"])
        place = (e["run_index"], e["event_index"])
        if module is None or (phase is not None and e["phase"] != phase) or e["value_unit"] != "ticks":
            continue
        if e["kind"] == "operator_call" and place in inner:
            continue
        steps = module.split(".") if module else []
        for path in {".".join(steps[:end]) for end in range(len(steps) + 1)}:
            times[(e["scope"], path)][e["run_index"]] += e["duration_ticks"] - inner[place]
    return {key: list(runs.values()) for key, runs in times.items()}


def check_modules(warehouse: Warehouse, name: str, phase: str | None = None) -> int:
    expected = expected_modules(warehouse, name, phase)
    _, rows = warehouse.rows(
        """
        SELECT m.scope, m.module_path, m.runs, m.total_ticks, m.p25, m.p50, m.p90 FROM module_times AS m
        JOIN captures AS c ON c.capture_id = m.capture_id AND c.name = $name
        WHERE m.phase IS NOT DISTINCT FROM $phase
        """,
        name=name,
        phase=phase,
    )
    found = {(scope, path): numbers for scope, path, *numbers in rows}
    assert len(found) == len(rows) and found.keys() == expected.keys()
    for key, (runs, total, *quantiles) in found.items():
        times = np.array(expected[key])
        assert (runs, total) == (len(times), times.sum())
        assert quantiles == pytest.approx(np.percentile(times, QUANTILES), rel=1e-12)
    return len(found)


@pytest.mark.parametrize("names", [FEW, pytest.param(NAMES[::6], marks=pytest.mark.long)], ids=["few", "more"])
def test_rows_of_real_captures(all_captures: Warehouse, linked_captures: Warehouse, names: list[str]) -> None:
    """With a record, runs of several methods are distinguished, and modules have times."""
    modules = 0
    for name in names:
        count = check_ops(all_captures, name)
        assert check_ops(linked_captures, name) >= count
        assert (count == 0) == (executes(all_captures, name) == 0)
        modules += check_modules(linked_captures, name)
    assert modules > 30
    # Each Method::step names another instruction; the total of a run is theirs together.
    query = "SELECT runs, calls, total_ticks FROM op_times WHERE capture_id = _capture_id('mlp_step') AND op_index = 0"
    [(runs, calls, total)] = all_captures.rows(query)[1]
    assert calls > runs and total == executes(all_captures, "mlp_step")


def test_ops_of_one_run_by_hand(warehouse: Warehouse) -> None:
    """Twice a delegate that counts cycles itself, and a kernel that one run of three lacks."""
    cycles = ProfileEvent(None, 0, 1, delegate_debug_id_str="mul (cycles)", start_time=0, end_time=900)
    jump = ProfileEvent("JF_CALL", 0, 2, start_time=60, end_time=61)
    first = [operator_call(10, 30), kernel("add", 12, 28), cycles, delegate_call(30, 60, 1), jump, execute(0, 100)]
    runs = [run("Execute", *first), run("Execute", *first), run("Execute", *first[2:])]
    warehouse.ingest(dump(run("Default", framework("Program::load_method", 0, 5)), *runs), name="run")
    rows = warehouse.rows(
        "SELECT op_index, kind, family, value_unit, is_additive, runs, calls, total_ticks, p25 FROM op_times ORDER BY ALL"
    )[1]
    assert rows == [
        (0, "framework", "Method::execute", "ticks", True, 3, 3, 300, 100),
        (1, "kernel", "add", "ticks", True, 2, 2, 32, 16),
        (2, "delegate", "mul", "cycles", False, 3, 3, 2700, 900),
        (3, "delegate_call", "DELEGATE_CALL", "ticks", True, 3, 3, 90, 30),
    ]
    assert warehouse.rows("FROM module_times")[1] == []


def test_a_coarse_clock(warehouse: Warehouse) -> None:
    """In `coarse`, half of the times that aren't zero are whole microseconds; in `fine`, fewer than half."""

    def file(*times: int) -> bytes:
        runs = [[delegated("op", 5, 5 + t), delegate_call(5, 5 + t), execute(0, 9_999)] for t in times]
        return dump(*[run("Execute", *events) for events in runs])

    warehouse.ingest(file(0, 0, 1000, 2001), name="coarse")
    warehouse.ingest(file(0, 1000, 2001, 3001), name="fine")
    warehouse.ingest(file(0, 0, 0, 0), name="nothing")
    rows = warehouse.rows("SELECT resolution FROM op_times WHERE kind = 'delegate' ORDER BY capture_id")[1]
    assert rows == [(1000,), (1,), (1,)]


def test_phases_have_rows_of_their_own(warehouse: Warehouse) -> None:
    capture = warehouse.ingest(CAPTURES / "mlp/mlp_100runs.etdp", name="run")
    warehouse.link(capture, warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord"))
    warehouse.connection.execute("UPDATE runs SET phase = CASE WHEN run_index < 30 THEN 'prefill' ELSE 'decode' END")
    etq.database.rollups.fill_rollups(warehouse.connection, capture.capture_id)
    for phase in (None, "prefill", "decode"):
        assert check_ops(warehouse, "run", phase) == 25
        assert check_modules(warehouse, "run", phase) > 10
    assert warehouse.rows("SELECT DISTINCT phase FROM op_times ORDER BY ALL")[1] == [
        ("decode",), ("prefill",), (None,),
    ]  # fmt: skip


def test_a_file_that_is_read_again(warehouse: Warehouse) -> None:
    """With another clock width the times change; the phases of its runs, and its record, stay."""
    path = CAPTURES / "mlp/mlp_wrap32.etdp"
    warehouse.link(
        warehouse.ingest(path, name="run", clock_bits=64), warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord")
    )
    wide = warehouse.rows("SELECT op_index, phase, runs, total_ticks FROM op_times ORDER BY ALL")[1]
    check_ops(warehouse, "run")
    warehouse.connection.execute("UPDATE runs SET phase = 'decode' WHERE run_index > 1")
    warehouse.ingest(path, clock_bits=32)
    again = warehouse.rows("SELECT op_index, phase, runs, total_ticks FROM op_times ORDER BY ALL")[1]
    assert again != wide
    for phase in (None, "decode"):
        assert check_ops(warehouse, "run", phase) > 0 and check_modules(warehouse, "run", phase) > 0


def test_the_hash_of_ops_and_their_positions(linked_captures: Warehouse) -> None:
    """By hand: a hash of the same text, made of the rows of op_times here; and counted row by row."""
    columns, rows = linked_captures.rows(
        "FROM op_times AS o WHERE o.phase IS NULL ORDER BY capture_id, op_index, scope"
    )
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
    found = linked_captures.rows("SELECT capture_id, scope, ops_hash FROM capture_ops")[1]
    assert {capture: (scope, ops_hash) for capture, scope, ops_hash in found} == expected
    assert len(found) > 20 and any(scope is None for _, scope, _ in found)


def test_what_a_trace_lacks_is_not_searched_for(warehouse: Warehouse, tmp_path: Path) -> None:
    """Planning the search for device times, shapes and modules takes longer than storing a small trace."""
    statements: list[str] = []

    class Recorded:
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
