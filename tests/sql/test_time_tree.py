"""`time_tree`: by hand, on every real capture, and against other views and other readers of the same time."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import duckdb
import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.asserts import DELEGATED, TWO_OPERATORS, assert_error, assert_query
from tests.builders import execute, kernel, run
from tests.conftest import CAPTURES
from tests.sampling import thinned
from tests.sql.test_real_captures import NAMES, executes

TRACES = sorted(path.name for path in CAPTURES.glob("torch/*.pt.trace.json.gz"))


def nodes_of(warehouse: Warehouse, capture: str, **given: Any) -> list[dict[str, Any]]:
    arguments = "".join(f', "{name}" := ${name}' for name in given)
    columns, rows = warehouse.rows(f"FROM time_tree($capture{arguments})", capture=capture, **given)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def check_it_adds_up(nodes: list[dict[str, Any]]) -> None:
    """Check a tree: nodes are numbered from the outside in; each total is the self time plus the children's totals."""
    assert [node["node_index"] for node in nodes] == list(range(len(nodes)))
    within: dict[int, int] = defaultdict(int)
    for node in nodes[1:]:
        parent = nodes[node["parent_index"]]
        assert parent["node_index"] < node["node_index"]
        assert node["depth"] == parent["depth"] + 1 == len(node["path"])
        assert node["path"] == [*parent["path"], node["name"]]
        within[node["parent_index"]] += node["total_ticks"]
    for node in nodes:
        assert node["total_ticks"] == node["self_ticks"] + within[node["node_index"]], node["path"]
        assert node["total_ticks"] >= 0 and node["self_ticks"] >= 0
    for before, node in pairwise(nodes):
        # A node's children follow it directly.
        assert node["depth"] <= before["depth"] + 1
    siblings = defaultdict(list)
    for node in nodes:
        siblings[node["parent_index"]].append((node["kind"] == "rest", -node["total_ticks"]))
    assert all(order == sorted(order) for order in siblings.values())


def test_by_event_by_hand() -> None:
    # Of 80 ticks of the execute 40 are the delegate's call (20 and 5 explained), 16 the operator's (10 its kernel's).
    assert_query(
        """SELECT node_index, parent_index, depth, array_to_string(path, '/') AS path, kind, calls, self_time, total,
           share_percent, unit FROM time_tree('test', unit := 'ns')""",
        """
        node_index,parent_index,depth,path,kind,calls,self_time,total,share_percent,unit
        0,,0,,total,0,0.0,80.0,100.0,ns
        1,0,1,Execute,run,0,0.0,80.0,100.0,ns
        2,1,2,Execute/DELEGATE_CALL @0,delegate_call,1,15.0,40.0,50.0,ns
        3,2,3,"Execute/DELEGATE_CALL @0/Convolution (NHWC, F32) IGEMM",delegate,1,20.0,20.0,25.0,ns
        4,2,3,"Execute/DELEGATE_CALL @0/Transpose (ND, X32)",delegate,1,5.0,5.0,6.25,ns
        5,1,2,Execute/mul,kernel,1,10.0,10.0,12.5,ns
        6,1,2,Execute/(unattributed),rest,1,24.0,24.0,30.0,ns
        7,1,2,Execute/(framework),rest,1,6.0,6.0,7.5,ns
        """,
        DELEGATED,
    )


def test_operators_without_kernels_and_several_runs() -> None:
    # Two runs of 60 ticks: 20 the kernel, 5 its OPERATOR_CALL, 10 one without a kernel, 25 uncovered.
    assert_query(
        """SELECT array_to_string(path, '/') AS path, kind, calls, self_ticks, total_ticks, total
           FROM time_tree('test', "by" := 'event', unit := 'us')""",
        """
        path,kind,calls,self_ticks,total_ticks,total
        ,total,0,0,120,0.12
        Execute,run,0,0,120,0.12
        Execute/add,kernel,2,40,40,0.04
        Execute/OPERATOR_CALL,operator_call,2,20,20,0.02
        Execute/(unattributed),rest,2,50,50,0.05
        Execute/(framework),rest,2,10,10,0.01
        """,
        TWO_OPERATORS,
        TWO_OPERATORS,
    )


def test_runs_of_two_names_and_schedules() -> None:
    runs = [
        run("a", kernel("add", start=10, end=20), execute(start=0, end=30)),
        run("b", kernel("add", start=10, end=15), execute(start=0, end=15)),
        run("b", kernel("add", start=10, end=15), execute(start=0, end=115)),
    ]
    query = """SELECT array_to_string(path, '/') AS path, total_ticks FROM time_tree('test'{}) WHERE depth < 2"""
    assert_query(query.format(""), "path,total_ticks\n,160\nb,130\na,30\n", *runs)
    assert_query(query.format(", steps := 'skip_first=1'"), "path,total_ticks\n,115\nb,115\n", *runs)
    # If no run is selected, there is no row with a total of 0.
    assert_query(query.format(", steps := 'skip_first=2'"), "path,total_ticks\n", *runs)


def test_invalid_queries() -> None:
    assert_error("FROM time_tree('test', \"by\" := 'op')", "by must be 'module' or 'event', not op")
    assert_error("FROM time_tree('test', \"by\" := 'module')", "test has no record, so its events have no modules")
    assert_error("FROM time_tree('test', unit := 'cycles')", "test counts ns")
    assert_error("FROM time_tree('tets')", "no capture matches tets; the nearest are test")


@pytest.mark.parametrize("name", thinned(NAMES))
def test_every_capture_adds_up_by_event(all_captures: Warehouse, name: str) -> None:
    nodes = nodes_of(all_captures, name, by="event", unit="ns", runs="all")
    check_it_adds_up(nodes)
    assert (nodes[0]["total_ticks"] if nodes else 0) == executes(all_captures, name)
    # The same events, grouped by another view: each op's self time, wherever the op lies.
    ours: dict[str, int] = defaultdict(int)
    for node in nodes:
        name_of_op = "DELEGATE_CALL" if node["kind"] == "delegate_call" else node["name"]
        ours[name_of_op] += node["self_ticks"]
    theirs: dict[str, int] = defaultdict(int)
    for row in all_captures.op_totals(name, unit="ns", runs="all").fetchall():
        theirs[row[0]] += row[11] if row[9] is not None else 0
    assert {op: ticks for op, ticks in ours.items() if ticks} == {op: ticks for op, ticks in theirs.items() if ticks}


@pytest.mark.parametrize("name", thinned(NAMES, ("convnet_xnn", "demo_int", "transformer", "multimethod_interleave")))
def test_every_capture_with_a_record_adds_up_by_module(linked_captures: Warehouse, name: str) -> None:
    linked = """SELECT 1 FROM captures AS c JOIN records AS r ON r.record_id = c.record_id AND r.is_complete
                WHERE c.name = $name"""
    if not linked_captures.rows(linked, name=name)[1]:
        with pytest.raises((duckdb.Error, etq.QueryError), match="no record|half-written"):
            linked_captures.time_tree(name, by="module").fetchall()
        return
    nodes = nodes_of(linked_captures, name, unit="ns", runs="all")
    check_it_adds_up(nodes)
    assert (nodes[0]["total_ticks"] if nodes else 0) == executes(linked_captures, name)
    query = (
        "SELECT m.method, m.module_path, m.total, m.self_time FROM module_totals($c, unit := 'ns', runs := 'all') AS m"
    )
    modules = {(method, path): (total, own) for method, path, total, own in linked_captures.rows(query, c=name)[1]}
    methods = {method for method, _ in modules}
    seen = {}
    for node in nodes:
        # If several methods ran, each is a level of the tree.
        method = next(iter(methods)) if len(methods) == 1 else (node["path"] or [None])[0]
        if node["kind"] == "module":
            assert node["total"] == modules[method, node["module_path"]][0], node["path"]
            seen[method, node["module_path"]] = node
        elif node["kind"] == "rest":
            assert node["total"] == modules[method, node["name"]][0]
    # A module that is left out took no time.
    assert {key for key, (total, _) in modules.items() if total and not key[1].startswith("(")} <= set(seen)
    for path, node in seen.items():
        own = sum(
            each["total"] for each in nodes if each["parent_index"] == node["node_index"] and each["kind"] != "module"
        )
        assert own == modules[path][1], path


def test_modules_stand_in_modules(linked_captures: Warehouse) -> None:
    nodes = nodes_of(linked_captures, "transformer_100runs")
    [found] = [node for node in nodes if node["module_path"] == "layers.1.attn.qkv" and node["kind"] == "module"]
    assert found["path"] == ["(model)", "layers.1", "attn", "qkv"]
    assert {node["name"] for node in nodes if node["parent_index"] == found["node_index"]} == {
        "aten.addmm.default",
        "aten.permute_copy.default",
    }
    assert {node["name"] for node in nodes if node["depth"] == 1} == {"(model)", "(framework)", "(unattributed)"}


def test_methods_are_named_where_known(linked_captures: Warehouse) -> None:
    names = linked_captures.rows(
        "SELECT DISTINCT r.method FROM runs AS r JOIN captures AS c USING (capture_id) "
        "WHERE c.name LIKE 'multimethod%' AND r.method IS NOT NULL ORDER BY 1"
    )[1]
    capture = next(name for name in NAMES if name.startswith("multimethod"))
    nodes = nodes_of(linked_captures, capture, by="event")
    assert sorted(node["name"] for node in nodes if node["kind"] == "method") == [name for (name,) in names]
    assert len(names) > 1


@pytest.mark.parametrize(
    "name",
    [
        "delegate",
        *(
            pytest.param(one, marks=pytest.mark.long)
            for one in ("two_blocks_interleaved", "no_execute", "execute_of_zero_length")
        ),
    ],
)
def test_the_profiler_before_etdump(warehouse: Warehouse, name: str) -> None:
    capture = warehouse.ingest(CAPTURES / f"prof_result/{name}.prof_result.bin")
    nodes = nodes_of(warehouse, capture.sha256, unit="ns", runs="all")
    check_it_adds_up(nodes)
    assert (nodes[0]["total_ticks"] if nodes else 0) == executes(warehouse, capture.name)


@pytest.mark.parametrize("name", thinned(TRACES, TRACES[:1]))
def test_traces_are_as_their_json_nests(warehouse: Warehouse, name: str) -> None:
    """Intervals of each thread, nested by a stack: total time by path, with `#n` removed from steps."""
    warehouse.ingest(CAPTURES / "torch" / name, name="t")
    nodes = nodes_of(warehouse, "t", unit="ns")
    check_it_adds_up(nodes)
    trace = json.loads(gzip.decompress((CAPTURES / "torch" / name).read_bytes()))
    by_thread = defaultdict(list)
    for event in trace["traceEvents"]:
        if event.get("ph") == "X" and event.get("cat") not in ("Trace", None):
            start = round(event["ts"] * 1000)
            by_thread[event["pid"], event["tid"]].append((start, -round(event["dur"] * 1000), event["name"]))
    roots = 0
    for events in by_thread.values():
        ended = -1
        for start, negative, _ in sorted(events):
            if start >= ended:
                roots -= negative
                ended = start - negative
    assert nodes[0]["total_ticks"] == roots
    counted = sum(len(events) for events in by_thread.values())
    assert sum(node["calls"] for node in nodes) == counted
    by_name: dict[str, int] = defaultdict(int)
    for events in by_thread.values():
        for _, _, label in events:
            by_name[label] += 1
    plain = {node["name"] for node in nodes} & set(by_name)
    assert len(plain) > 5
    for label in plain:
        assert sum(node["calls"] for node in nodes if node["name"] == label) == by_name[label]
