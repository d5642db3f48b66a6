"""`time_tree`: by hand, on every real capture, and against other views and other readers of the same time."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

from etq.warehouse.warehouse import Warehouse
from tests.asserts import DELEGATED, TWO_OPERATORS, assert_error, assert_query
from tests.builders import execute, kernel, run
from tests.conftest import CAPTURES
from tests.sql.test_real_captures import executes


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


def test_modules_stand_in_modules(warehouse: Warehouse) -> None:
    folder = CAPTURES / "transformer"
    warehouse.ingest(folder / "transformer_100runs.etdp", name="t", etrecord=folder / "transformer.etrecord")
    nodes = nodes_of(warehouse, "t")
    check_it_adds_up(nodes)
    [found] = [node for node in nodes if node["module_path"] == "layers.1.attn.qkv" and node["kind"] == "module"]
    assert found["path"] == ["(model)", "layers.1", "attn", "qkv"]
    within = {node["name"] for node in nodes if node["parent_index"] == found["node_index"]}
    assert within == {"aten.addmm.default", "aten.permute_copy.default"}
    assert {node["name"] for node in nodes if node["depth"] == 1} == {"(model)", "(framework)", "(unattributed)"}


def test_methods_are_named_where_known(warehouse: Warehouse) -> None:
    folder = CAPTURES / "multimethod"
    warehouse.ingest(folder / "multimethod.etdp", name="t", etrecord=folder / "multimethod.etrecord")
    names = warehouse.rows("SELECT DISTINCT r.method FROM runs AS r WHERE r.method IS NOT NULL ORDER BY 1")[1]
    nodes = nodes_of(warehouse, "t", by="event")
    check_it_adds_up(nodes)
    assert sorted(node["name"] for node in nodes if node["kind"] == "method") == [name for (name,) in names]
    assert len(names) > 1


def test_the_profiler_before_etdump(warehouse: Warehouse) -> None:
    for name in ("delegate", "two_blocks_interleaved", "no_execute", "execute_of_zero_length"):
        capture = warehouse.ingest(CAPTURES / f"prof_result/{name}.prof_result.bin")
        nodes = nodes_of(warehouse, capture.sha256, unit="ns", runs="all")
        check_it_adds_up(nodes)
        assert (nodes[0]["total_ticks"] if nodes else 0) == executes(warehouse, capture.name)
